"""A few of the injected hangs of ``make hangs``, and what its outcomes count as."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from launchers.exits import Exit
from tests.hang.__main__ import NOTICED_SECONDS, chosen, keeps_bounds
from tests.hang.cases import KINDS, MORE, Case
from tests.hang.gang import Outcome, run
from tests.launchers.training_environment import needs_training

RESULTS = Path(__file__).with_name("results") / "hangs.json"


@needs_training
@pytest.mark.parametrize("kind", ["stop", "skip", "loader", "save"])
def test_a_hang_ends_the_gang_and_names_the_rank(kind: str, tmp_path: Path) -> None:
    case = Case.of(3, kind)
    outcome = run(tmp_path, case)
    assert outcome.verdict == "right", outcome.log
    assert outcome.seconds is not None and outcome.seconds <= 60
    attempt = tmp_path / "workspace" / "runs" / "r" / "attempts" / "1"
    hang = json.loads((attempt / "hang.json").read_text())
    assert hang["version"] == 1 and [each["rank"] for each in hang["ranks"]] == [0, 1, 2, 3]
    others = [each for each in hang["ranks"] if each["rank"] != case.rank]
    assert all("distributed_c10d.py" in each["frames"][0] for each in others)
    files = [f"stacks-{rank // 2}-{rank % 2}.txt" for rank in range(4)]
    assert hang["files"] == files  # a stopped rank has only the head of its file
    ends = {n: json.loads((attempt / f"termination-{n}.json").read_text()) for n in (0, 1)}
    assert ends[case.node]["class"] == "hang" and ends[case.node]["code"] == Exit.HANG
    assert ends[case.node]["cause"] in ends[1 - case.node]["cause"]


@needs_training
def test_a_hang_in_the_first_step_waits_for_no_limit_of_the_start(tmp_path: Path) -> None:
    outcome = run(tmp_path, Case.of(3, "first"))
    assert outcome.verdict == "right", outcome.log
    assert "in phase first_step" in outcome.cause
    assert outcome.seconds is not None and outcome.seconds <= 60  # and 120 is that of the start


@needs_training
@pytest.mark.parametrize("rank", [0, 3])
def test_a_write_in_the_background_that_blocks_ends_the_gang_before_the_next_save(
    rank: int, tmp_path: Path
) -> None:
    case = replace(Case.of(3, "write"), rank=rank)
    outcome = run(tmp_path, case)
    assert outcome.verdict == "right", outcome.log
    assert outcome.seconds is not None and outcome.seconds <= 60
    assert outcome.culprit is not None and outcome.culprit["kind"] == "write"


def outcome(kind: str, **change: object) -> Outcome:
    case = replace(Case.of(3, kind), rank=1)
    culprit = {"kind": kind, "ranks": [1], "node": 0, "why": ""}
    right = Outcome(case=case, codes=[81, 1], seconds=6.0, culprit=culprit, cause="hang")
    return replace(right, **change)  # type: ignore[arg-type]


def test_only_the_injected_rank_and_its_exit_codes_are_right() -> None:
    assert outcome("stop").verdict == "right"
    assert outcome("stop", codes=[1, 81]).verdict == "wrong"
    assert outcome("stop", culprit={"ranks": [0], "kind": "x"}).verdict == "wrong"
    assert outcome("stop", culprit={"ranks": [0, 1], "kind": "x"}).verdict == "wrong"
    assert outcome("stop", culprit={"ranks": [], "kind": "unknown"}).verdict == "unknown"
    assert outcome("stop", culprit=None).verdict == "missed"
    assert outcome("none").verdict == "wrong"
    assert outcome("none", culprit=None, codes=[0, 0]).verdict == "right"
    assert outcome("launcher", cause="rank 0 ended: no message for 55 s").verdict == "right"
    assert outcome("launcher", cause="rank 1 ended: no message for 55 s").verdict == "missed"


def test_five_wrong_ones_of_a_hundred_are_too_many_with_a_sixth() -> None:
    right, wrong = [outcome("stop")] * 95, [outcome("stop", culprit=None)] * 5
    assert keeps_bounds([*right, *wrong])
    assert not keeps_bounds([*right[1:], *wrong, *wrong[:1]])
    assert not keeps_bounds([*right, outcome("stop", seconds=61.0)])
    assert not keeps_bounds([*right, outcome("none")])


def test_the_recorded_result_keeps_the_bounds() -> None:
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    hangs = [row for row in rows if row["kind"] not in MORE]
    assert len(hangs) == 100
    assert [Case.of(row["seed"]).kind for row in hangs] == [row["kind"] for row in hangs]
    assert sum(row["verdict"] == "right" for row in hangs) >= 95
    more = Counter((row["kind"], row["verdict"]) for row in rows if row["kind"] in MORE)
    assert more == {(kind, "right"): 10 for kind in MORE}
    again = json.loads(RESULTS.with_name("hangs-launcher.json").read_text(encoding="utf-8"))
    assert {(row["kind"], row["verdict"]) for row in again} == {("launcher", "right")}
    others = [row for row in rows if row["kind"] != "launcher"]
    assert max(row["seconds"] or 0 for row in (*others, *again)) <= NOTICED_SECONDS


def test_a_hundred_seeds_have_all_faults() -> None:
    cases = chosen(100, 0)
    assert {case.kind for case in cases} == set(KINDS)
    assert sum(case.kind not in MORE for case in cases) == 100
    assert len({case.text() for case in cases}) == len(cases)


def test_each_seed_has_each_kind_that_is_asked_for() -> None:
    cases = chosen(3, 7, ["write", "first"])
    wanted = [(seed, kind) for seed in (7, 8, 9) for kind in ("write", "first")]
    assert [(case.seed, case.kind) for case in cases] == wanted
    assert {case.step for case in cases if case.kind == "first"} == {1}
