"""Python API of `megatron-dpo`: a run as an object, the documents of ``--json`` as its answers.

>>> from megatron_dpo import Run
>>> Run("dpo-42", files=["values/a100-2node.yaml"]).name
'dpo-42'
"""

from megatron_dpo.documents import Data, Fixed, Line, Plan, Report, Status, Submission, Why
from megatron_dpo.run import Run
from scripts.problem import Problem

__all__ = [
    "Data",
    "Fixed",
    "Line",
    "Plan",
    "Problem",
    "Report",
    "Run",
    "Status",
    "Submission",
    "Why",
]
