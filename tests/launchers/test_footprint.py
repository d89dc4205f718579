"""What a run writes to the workspace."""

from __future__ import annotations

import pytest

from launchers import footprint
from launchers.exits import LaunchError
from tests.launchers.recipes import SHAPE, recipe


def test_an_exact_checkpoint_holds_weights_twice_and_the_optimizer() -> None:
    files = footprint.of(recipe(save_total_limit=2, save_steps=25), SHAPE, convert=False)
    assert files.checkpoint == 16 * SHAPE.parameters
    assert (files.every, files.kept, files.is_exact) == (25, 2, True)
    # while the third is written the first is still there
    assert files.needed == files.model + 3 * files.checkpoint


def test_a_checkpoint_without_optimizer_is_the_weights() -> None:
    files = footprint.of(recipe(no_save_optim=True), SHAPE, convert=True)
    assert files.checkpoint == files.model == files.converted == 2 * SHAPE.parameters
    assert not files.is_exact


def test_without_a_limit_nobody_can_say_how_much_is_needed() -> None:
    assert footprint.of(recipe(), SHAPE, convert=False).needed is None


def test_steps_are_ms_swifts_default_and_unknown_by_epoch() -> None:
    assert footprint.of(recipe(), SHAPE, convert=False).every == 500
    assert footprint.of(recipe(save_strategy="epoch"), SHAPE, convert=False).every is None


def test_a_word_for_a_number_names_its_flag() -> None:
    with pytest.raises(LaunchError, match=r"recipe\.args\.save_steps"):
        footprint.of(recipe(save_steps="often"), SHAPE, convert=False)
