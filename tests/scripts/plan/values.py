"""Values of the shipped file, rendered by the real Helm once."""

from functools import cache
from pathlib import Path

from launchers.plan import plan as planning
from launchers.plan.plan import Plan
from scripts.helm import ROOT, template
from scripts.plan.command import Request, job_of
from scripts.plan.submission import Submission, read_submission

A100 = ROOT / "values" / "a100-2node.yaml"


@cache
def rendered(*sets: str, file: Path = A100, run: str = "dpo-42") -> Submission:
    return read_submission(template(run, [file], sets))


def request(**fields: object) -> Request:
    return Request(**{"run": "dpo-42", "gpu": "a100-80g", **fields})  # type: ignore[arg-type]


def planned(*sets: str, **fields: object) -> tuple[Submission, Plan]:
    found = rendered(*sets)
    return found, planning.build(job_of(found, request(**fields)))
