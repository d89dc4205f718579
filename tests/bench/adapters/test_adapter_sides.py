"""The sides of ``adapters``: what each installs and reads, and what a result says of stacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bench import visit
from tests.bench.adapters import command
from tests.bench.speed import profiles
from tests.bench.speed.profiles import ROOT

ENDED = {"ended": "exited 0", "why": ""}
RUNS = dict.fromkeys(("single", "again", "stacked", "upstream", *command.THEN), ENDED)
FILES: dict[str, dict[str, Any]] = {
    "again": {"tensors": 4, "difference": 0.0},
    "stacked": {"tensors": 4, "difference": 0.0},
}


def apart(**changes: float) -> dict[str, dict[str, float]]:
    """Return differences from ``single``, of which some are changed."""
    usual = {"again": 1e-3, "stacked": 1.2e-3, "converted": 1e-3, "resumed": 1e-3}
    return {name: {"difference": value} for name, value in (usual | changes).items()}


def test_each_side_installs_and_reads_what_its_name_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    words = visit.lines("1gpu")["adapters"][1:]
    options = command.arguments(["t", "r", *words, "--home", str(tmp_path)])
    bench = command.setting(options, ["NVIDIA H200, 580.1"])
    sides = command.sides(options)
    installed = {
        name: side.features(profiles.recipe(side.values(), bench.own_flags))
        for name, side in sides.items()
    }
    assert installed["upstream"] == []
    assert installed["single"] == installed["again"]
    more = set(installed["stacked"]) - set(installed["single"])
    assert more == {"stacked_adapters"}
    assert installed["converted"] == installed["resumed"] == installed["stacked"]
    read = {
        name: Path(str(given["mcore_adapter"])).parts[-3:]
        for name in sides
        if "mcore_adapter" in (given := command.flags(bench, name))
    }
    assert read == {
        "converted": ("single", "out", "checkpoint-3"),
        "resumed": ("stacked", "out", "checkpoint-3"),
    }


@pytest.mark.parametrize(
    ("runs", "found", "files", "said"),
    [
        (RUNS, apart(), FILES, []),
        (RUNS, apart(stacked=1.6e-3), FILES, ["stacked: gradients differ by 1.60e-03"]),
        (RUNS, apart(again=0.0, stacked=5e-7, converted=0.0, resumed=0.0), FILES, []),
        (RUNS, {}, FILES, [f"{name}: gradients" for name in ("stacked", *command.THEN)]),
        (
            RUNS | {"resumed": {"ended": "exited 1", "why": ""}},
            apart(),
            FILES,
            ["resumed: exited 1"],
        ),
        (RUNS, apart(), FILES | {"stacked": {"why": "4 and 3 tensors"}}, ["stacked: exported"]),
    ],
)
def test_stacks_may_differ_as_much_as_two_runs_of_upstreams_form(
    runs: Any, found: Any, files: Any, said: list[str]
) -> None:
    wrong = command.wrong(runs, found, files)
    assert len(wrong) == len(said)
    assert all(each.startswith(start) for each, start in zip(wrong, said, strict=True))
