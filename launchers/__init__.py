"""The program in the training pods: stages, rendezvous and supervision of one run.

Run it as ``python3 -m launchers run``. It needs the standard library, PyYAML and what the
training image provides, each imported only where it is used.
"""

from pathlib import Path

PACKAGE = Path(__file__).parent
"""Folder of this package; its parent is on ``PYTHONPATH`` of the training processes."""
