"""`megatron-dpo` through its command line, on the test cluster."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from scripts.helm import ROOT
from tests.e2e import standin
from tests.e2e.merge import merge
from tests.e2e.release import A100, Values
from tests.e2e.space import Space
from tests.e2e.until import PROCESS_PAUSE, until
from tests.scripts.calling import Ended


def megatron_dpo(
    space: Space, *words: str, kubeconfig: Path | None = None, seconds: float = 180
) -> Ended:
    """Run a verb in the test's namespace, by default as the cluster's administrator."""
    done = subprocess.run(
        [sys.executable, "-m", "scripts.cli", *words, "--namespace", space.name],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        cwd=ROOT,
        env=os.environ | {"KUBECONFIG": str(kubeconfig or space.kubectl.kubeconfig)},
    )
    return Ended(code=done.returncode, out=done.stdout, err=done.stderr)


def submit(
    space: Space, run: str, *words: str, over: Values | None = None, verb: str = "submit"
) -> Ended:
    """Submit, or sweep, a held stand-in run with overridden values."""
    file = space.folder / f"{run}.yaml"
    layered = merge(standin.values(hold=True), over or {})
    file.write_text(yaml.safe_dump(layered), encoding="utf-8")
    return megatron_dpo(space, verb, "-f", str(A100), "-f", str(file), "--run", run, *words)


def explained(
    space: Space, run: str, id: str, code: int, *facts: str, kubeconfig: Path | None = None
) -> None:
    """Wait until `why` gives this state as the first, with its facts and its exit code."""
    last: list[Any] = []

    def is_first() -> bool:
        said = megatron_dpo(space, "why", run, "--json", kubeconfig=kubeconfig)
        last[:] = [said.code, said.out or said.err]
        return bool(said.out) and said.document["reasons"][0]["id"] == id

    try:
        until(f"why {run} says {id}", is_first, seconds=60, pause=PROCESS_PAUSE)
    except AssertionError as error:
        raise AssertionError(f"{error}: {last}") from None
    first = json.loads(last[1])["reasons"][0]
    assert last[0] == code, first
    assert first["remedy"]
    for fact in facts:
        assert fact in first["sentence"], first
