"""Stubs of packages that only GPU hosts have, for programs of the training environment."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from launchers.upstream.patches import ACCEPT
from launchers.upstream.table import PATCHES
from scripts.helm import ROOT
from scripts.local.runner import training_python

ACCEPTED = {ACCEPT: ",".join(patch.name for patch in PATCHES)}
"""Environment in which patches are installed on stubs, too."""
CALLBACKS = {
    "swift/megatron/callbacks/base.py": """
class MegatronCallback:
    def __init__(self, trainer):
        self.trainer, self.args, self.state = trainer, trainer.args, trainer.state
""",
    "swift/megatron/callbacks/mapping.py": "megatron_callbacks_map = {}",
    "swift/megatron/trainers/base.py": """
class BaseMegatronTrainer:
    def save_checkpoint(self):
        self.save()
""",
}
"""ms-swift's base class of Megatron callbacks, its table of them, and its trainer's save."""


def lay(folder: Path, files: Mapping[str, str]) -> None:
    """Write stub modules as packages that precede installed ones on the path."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for above in path.relative_to(folder).parents[:-1]:
            (folder / above / "__init__.py").touch()


def run(
    folder: Path, program: str, files: Mapping[str, str] | None = None, *, torch: bool = True
) -> str:
    """Run a program with stubs and the launcher on its path; return its output."""
    lay(folder, files or {})
    python = str(training_python(ROOT)) if torch else sys.executable
    env = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}", "CUDA_VISIBLE_DEVICES": ""} | ACCEPTED
    done = subprocess.run(
        [python, "-c", program], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
