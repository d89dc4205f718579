"""`make field`: the verdict on each case next to the right one, with each release of ms-swift."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from scripts.demo import sources
from scripts.demo.sources import Sources
from scripts.helm import ROOT
from tests.field.cases import CASES
from tests.launchers.training_environment import STACKS, Stack


def verdicts(python: Path, home: Path) -> list[Any]:
    """Return for each case the launcher's verdict, whether ms-swift's rows agree, and these."""
    made = Sources(root=home)
    sources.make_pairs(made)
    sources.make_model(made, python)
    (home / "cases").mkdir()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    env |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(home), "MODELSCOPE_CACHE": str(home / "cache")}
    words = ["-m", "tests.field.probe", str(home / "model"), str(home / "cases")]
    done = subprocess.run(
        [str(python), *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("FIELD ")]
    if done.returncode or not found:
        raise AssertionError((done.stdout + done.stderr)[-3000:])
    verdict: list[Any] = json.loads(found[-1].removeprefix("FIELD "))
    return verdict


def is_right(expected: str, verdict: str) -> bool:
    """Return whether a verdict is the right one; of a reader the beginning of its name counts."""
    return verdict == expected or (" by " in expected and verdict.startswith(expected))


def main() -> int:
    """Print the table; 1 if a verdict is wrong or differs from ms-swift."""
    console, wrong = Console(), 0
    for release, stack in STACKS.items():
        wrong += _show(release, stack, console)
    return 1 if wrong else 0


def _show(release: str, stack: Stack, console: Console) -> int:
    if not stack.python.exists():
        console.print(f"ms-swift {release} is not installed: run `make setup`")
        return 0
    with tempfile.TemporaryDirectory() as home:
        found = verdicts(stack.python, Path(home))
    table = Table("case", "rows", "verdict", "right", "", title=f"ms-swift {release}")
    wrong = 0
    for case, (verdict, agrees, made) in zip(CASES, found, strict=True):
        right = case.expected(release)
        is_good = is_right(right, verdict) and agrees
        wrong += not is_good
        sign = "ok" if is_good else f"WRONG {'' if agrees else made}"
        table.add_row(case.id, case.what, verdict, right, sign)
    console.print(table)
    console.print(f"{len(CASES) - wrong} of {len(CASES)} right")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
