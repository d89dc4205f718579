"""Flags that a rehearsal changes, the node whose process it kills, and files that it removes."""

from typing import Any

import pytest

from launchers.config.rank import place_of
from launchers.config.recipe import Backend, Recipe
from launchers.exits import LaunchError
from launchers.rehearsal.rehearsal import KILL_VARIABLE, Rehearsal, is_continued

STEPS = {"train_iters": "4", "save_steps": "2", "eval_steps": "4", "logging_steps": "1"}


def changed(backend: Backend = "megatron", **args: Any) -> dict[str, Any]:
    """The flags of a rehearsal of a recipe with these flags."""
    given = Recipe(backend=backend, task="rlhf", model="m", dataset=("d",), args=args)
    found = Rehearsal().recipe(given)
    assert found.digest != given.digest
    return found.args


def test_a_rehearsal_trains_saves_and_evaluates_by_steps() -> None:
    assert changed(num_train_epochs="2", lr="1e-6") == {"lr": "1e-6", **STEPS}
    given = {"num_train_epochs": "2", "save_strategy": "epoch", "eval_strategy": "no"}
    found = changed("transformers", **given)
    assert found["max_steps"] == "4" and "train_iters" not in found
    assert (found["save_strategy"], found["eval_strategy"]) == ("steps", "no")
    # the best model is evaluated wherever it is saved
    assert changed("transformers", load_best_model_at_end="true")["eval_steps"] == "2"


def test_a_warm_up_longer_than_the_rehearsal_stays_shorter_than_the_decay() -> None:
    assert changed(lr_warmup_iters="100")["lr_decay_iters"] == "104"
    assert changed(lr_warmup_iters="100", lr_decay_iters="900")["lr_decay_iters"] == "900"
    assert "lr_decay_iters" not in changed(lr_warmup_fraction="0.05")
    with pytest.raises(LaunchError):
        changed(lr_warmup_iters="ten")


def test_only_the_last_node_kills_a_process() -> None:
    def place(rank: int) -> dict[str, str]:
        env = {"NNODES": "3", "NODE_RANK": str(rank), "MASTER_ADDR": "a"}
        return Rehearsal().environment(place_of(env))

    assert [place(rank) for rank in range(3)] == [{}, {}, {KILL_VARIABLE: "4"}]


@pytest.mark.parametrize(
    ("before", "continues"),
    [
        ({}, False),
        ({"digest": "d", "state": "running", "code": 0}, True),
        ({"digest": "d", "state": "failed", "code": 75}, True),
        ({"digest": "other", "state": "failed", "code": 1}, False),
        ({"digest": "d", "state": "succeeded", "code": 0}, False),
        ({"digest": "d", "state": "failed", "code": 93}, False),
    ],
)
def test_a_start_continues_a_rehearsal_that_is_not_over(
    before: dict[str, Any], continues: bool
) -> None:
    assert is_continued(before, "d") == continues
