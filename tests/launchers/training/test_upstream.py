"""Another version of ms-swift is told at once, with the one to use."""

from __future__ import annotations

import traceback

import pytest

from launchers.exits import Exit, LaunchError
from launchers.system.failures import verdict
from launchers.training.upstream import require, require_parameters


def test_a_missing_name_ends_as_an_error_of_the_configuration() -> None:
    with pytest.raises(
        LaunchError, match=r"str has no jion in this image; use .*4\.4\.1"
    ) as refusal:
        require(str, "join", "jion")
    assert refusal.value.code == Exit.CONFIG
    told = verdict("".join(traceback.format_exception(refusal.value)), started=False)
    assert told is not None and told.code == Exit.CONFIG


class Trainer:
    """Upstream's, of a version that is not known."""

    def loss_func(self, labels: int, scale: int) -> None:
        """Take one parameter more."""


def test_other_parameters_end_the_same_way_with_what_may_be_written_instead() -> None:
    require_parameters(Trainer.loss_func, "self", "labels", "scale")
    with pytest.raises(
        LaunchError, match=r"Trainer\.loss_func takes self, labels, scale"
    ) as refusal:
        require_parameters(
            Trainer.loss_func, "self", "labels", otherwise="write recipe.reference: online"
        )
    assert str(refusal.value).endswith("1.6.0, or write recipe.reference: online")
    told = verdict("".join(traceback.format_exception(refusal.value)), started=False)
    assert told is not None and told.code == Exit.CONFIG
