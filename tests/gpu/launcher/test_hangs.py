"""The checks of the injected hangs, and that the plugin has the faults that they expect."""

from __future__ import annotations

import ast
import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.bench_visit import command, lines
from tests.gpu.launcher import hangs

WHY = "rank 1 is stopped"


def left(folder: Path, name: str) -> None:
    """Write what an attempt leaves."""
    folder.mkdir(parents=True)
    (folder / "fault.json").write_text(json.dumps({"name": name, "rank": 1, "time": 100.0}))
    if name == "slow":
        return
    culprit = {"kind": name, "ranks": [1], "node": 1, "why": WHY}
    rank: dict[str, Any] = {"rank": 1, "groups": [], "frames": ["a", "b"]}
    found = {"time": 118.0, "seconds": 11.0, "limit": 10.0, "phase": "step", "culprit": culprit}
    (folder / "hang.json").write_text(
        json.dumps({**found, "ranks": [rank], "files": ["flight-recorder/rank_1"]})
    )
    for node, code in (("0", 1), ("1", 81)):
        end = {"rank": int(node), "code": code, "class": "hang", "cause": WHY}
        (folder / f"termination-{node}.json").write_text(json.dumps(end))


def test_what_an_attempt_leaves_is_read(tmp_path: Path) -> None:
    left(tmp_path / "1", "stop")
    seen = hangs.attempt(tmp_path / "1")
    assert (seen["seconds"], seen["culprit"]["ranks"]) == (18.0, [1])
    assert seen["ends"]["1"] == [81, "hang", WHY]


def test_each_thing_that_must_hold_is_looked_at(tmp_path: Path) -> None:
    for number, name in enumerate(hangs.FAULTS, start=1):
        left(tmp_path / str(number), name)
    seen = {n: hangs.attempt(tmp_path / str(i)) for i, n in enumerate(hangs.FAULTS, start=1)}
    good: dict[str, Any] = {"exit": 0, "last_step": hangs.STEPS, "attempts": seen}
    assert hangs.complaints(good, 2) == []
    for name, key, value, says in (
        ("stop", "rank", None, "not injected"),
        ("stop", "culprit", None, "no hang was found"),
        ("skip", "seconds", 61.0, "found after 61.0 s"),
        ("skip", "files", [], "no dump"),
        ("save", "ends", {"0": [81], "1": [81]}, "ended with"),
        ("save", "culprit", {"ranks": [0], "why": "x"}, "were named, not 1"),
        ("slow", "culprit", {"ranks": [1], "why": "x"}, "counts as a hang"),
    ):
        bad = copy.deepcopy(good)
        bad["attempts"][name][key] = value
        assert any(says in each for each in hangs.complaints(bad, 2)), (name, key)
    assert hangs.complaints({**good, "exit": 1}, 2)


def test_the_plugin_has_these_faults() -> None:
    tree = ast.parse(hangs.PLUGIN.read_text(encoding="utf-8"))
    [value] = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FAULTS"
    ]
    faults = ast.literal_eval(value)
    assert [faults[number][0] for number in sorted(faults)] == list(hangs.FAULTS)


def test_the_run_of_a_visit_sets_floors_and_the_plugin() -> None:
    words = lines("2gpu")["hangs"]
    [launch] = hangs.launches(hangs.arguments(command("2gpu", "hangs", "t", "r", words)))
    assert launch.args["callbacks"] == ["hang_fault"]
    changed = [each["restarts"] for each in launch.layers() if "restarts" in each]
    assert {"hang": {"floors": {"step": 10}}} in changed and (
        launch.nodes,
        launch.gpus_per_node,
    ) == (2, 1)


def test_an_odd_number_of_gpus_is_refused() -> None:
    with pytest.raises(ValueError, match="even"):
        hangs.launches(hangs.arguments(["t", "r", "--gpus", "1", "--profile", "a.yaml"]))
