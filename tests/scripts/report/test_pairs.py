"""What the report says of the pair ledger."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from scripts.report import Format, command, facts, reading

EPOCH: dict[str, Any] = {"epoch": 1, "steps": [1, 3], "once": 40, "not_trained": 0}
EPOCH |= {"again": {"count": 0, "pairs": []}, "margins": {"5": -0.25, "50": 0.5}}
EPOCH["below_zero"] = 0.125
WORST = {"pair": 7, "file": "<pairs>.jsonl", "row": 8, "margin": -1.5, "margins": {"1": -1.5}}
SUMMARY: dict[str, Any] = {"pairs": 40, "first_step": 1, "last_step": 3, "epochs": [EPOCH]}
SUMMARY |= {"missing_steps": {"count": 0, "steps": []}, "worst": [WORST]}


def test_the_report_shows_proof_margins_and_the_worst_pairs(tmp_path: Path) -> None:
    home = tmp_path / "runs" / "one"
    (home / "pairs").mkdir(parents=True)
    (home / "progress.json").write_text("{}")
    (home / "pairs" / "summary.json").write_text(json.dumps(SUMMARY))
    run = reading.read(reading.find("one", tmp_path))
    proof = "40 pairs, steps 1 to 3: each exactly once in each epoch"
    page, text, document = (command.render([run], each) for each in get_args(Format))
    assert proof in page and "below 0: 12.5%" in page and "&lt;pairs&gt;.jsonl" in page
    assert proof in text
    assert json.loads(document)["runs"][0]["ledger"] == SUMMARY
    assert list(facts.worst_pairs(run)) == [("<pairs>.jsonl", "8", "-1.5", "-1.5")]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"missing_steps": {"count": 2, "steps": [2, 3]}}, "NOT PROVEN: 2 steps are missing"),
        ({"first_step": 5}, "NOT PROVEN: the steps before were not recorded"),
        (
            {"epochs": [{**EPOCH, "again": {"count": 1, "pairs": [{"file": "a", "row": 3}]}}]},
            "epoch 1: 1 more than once: a:3",
        ),
        ({"epochs": [{**EPOCH, "not_trained": 2}]}, "not trained in epoch 1: 2"),
        ({"epochs": 3}, ""),
    ],
)
def test_what_is_not_proven_is_said(change: dict[str, Any], said: str) -> None:
    found = facts.proof(SUMMARY | change)
    assert said in found and bool(found) is bool(said)
    assert "each exactly once" not in found
