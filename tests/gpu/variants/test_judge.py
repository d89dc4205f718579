"""Problems that the comparison of variants reports, and their sentences."""

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.gpu.variants import judge


def good() -> dict[str, Any]:
    pairs = {f"p{n}": [400, 500, -1200.0 - n, -1500.0, -1200.0 - n, -1500.0] for n in range(4)}
    log = [{"loss": math.log(2), "grad_norm": 2.0}, {"loss": 0.69}]
    rows = {"wanted": 80, "chosen": 80, "computed": 80}
    return {"exit": 0, "seconds": 40.0, "pairs": pairs, "log": log, "experts": rows}


def move(run: dict[str, Any], at: int, nats: float, *also: int) -> None:
    for each in (at, *also):
        run["pairs"]["p2"][each] += nats


WRONG: list[tuple[str, Callable[[dict[str, Any]], object], list[str]]] = [
    ("policy", lambda r: move(r, 2, 0.9, 4), ["per_token 2.25e-03 is over", "ref"]),
    (
        "reference",
        lambda r: move(r, 5, -1.1),
        ["reference_per_token 2.20e-03 is over", "from what"],
    ),
    ("no number", lambda r: move(r, 2, math.nan), ["per_token nan is over", "is nan from what"]),
    ("a pair less", lambda r: r["pairs"].pop("p1"), ["its first step had 3 of the 4 pairs"]),
    (
        "the loss",
        lambda r: r["log"][0].update(loss=0.6935),
        ["0.693500 is not ln 2", "is 3.53e-04"],
    ),
    ("one step", lambda r: r["log"].pop(), ["it logged 1 of 2 steps"]),
    ("a dropped row", lambda r: r["experts"].update(computed=79), ["and worked on 79 rows"]),
    ("a chosen few", lambda r: r["experts"].update(chosen=70), ["were given 70"]),
    ("no counts", lambda r: r.update(experts={}), ["should get None"]),
    ("an exit", lambda r: r.update(exit=1, why="exited"), ["by itself: exited, exit 1"]),
]


@pytest.mark.parametrize(("what", "corrupt", "wrong"), WRONG, ids=[each[0] for each in WRONG])
def test_each_difference_is_reported(
    what: str, corrupt: Callable[[dict[str, Any]], object], wrong: list[str]
) -> None:
    runs = {"base": good(), "other": good()}
    assert judge.judge(runs, "base", 4, 0.1)["passed"]
    corrupt(runs["other"])
    found = judge.judge(runs, "base", 4, 0.1)
    assert not found["passed"] and found["variants"]["base"]["wrong"] == []
    said = found["variants"]["other"]["wrong"]
    assert len(said) == len(wrong), said
    assert all(part in sentence for part, sentence in zip(wrong, said, strict=True)), said
    assert "other: " + said[0] in judge.table(found["variants"], runs)


def test_a_difference_under_the_bound_passes_and_is_reported() -> None:
    runs = {"base": good(), "other": good()}
    move(runs["other"], 2, 0.4)
    move(runs["other"], 4, 0.4)
    found = judge.judge(runs, "base", 4, 0.1)
    assert found["passed"]
    other = found["variants"]["other"]
    assert other["per_token"] == pytest.approx(1e-3) and other["sum"] == pytest.approx(0.4)
    assert other["rms"] == pytest.approx(1e-3 / math.sqrt(8))


def test_kernels_of_its_own_excuse_a_loss_that_its_pairs_make_and_no_other() -> None:
    run = good()
    move(run, 2, 0.2)  # of one pair of four: beta / 2 * 0.2 / 4
    run["log"][0]["loss"] = math.log(2) - 0.05 * 0.2 / 4
    runs = {"base": good(), "other": run | {"own_kernels": "as it says"}}
    found = judge.judge(runs, "base", 4, 0.1)
    assert found["passed"], found["variants"]["other"]["wrong"]
    assert "other: the first loss is not judged: as it says" in judge.table(found["variants"], runs)
    without = {**runs, "other": {**run, "own_kernels": ""}}
    assert not judge.judge(without, "base", 4, 0.1)["passed"]
    wild = copy.deepcopy(runs)
    wild["other"]["log"][0]["loss"] = 0.7
    assert not judge.judge(wild, "base", 4, 0.1)["passed"]


def test_without_a_base_nothing_passes() -> None:
    dead = {"exit": 1, "why": "exited", "seconds": 9.0, "pairs": {}, "log": [], "experts": {}}
    found = judge.judge({"base": dead, "other": good()}, "base", 4, 0.1)
    assert not found["passed"]
    assert "base has nothing to be compared with" in found["variants"]["other"]["wrong"]
    assert "nan" in judge.table(found["variants"], {"base": dead, "other": good()})
