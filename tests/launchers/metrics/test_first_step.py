"""The first step of DPO is judged by its margin and by the loss that equal models have."""

import math
from dataclasses import replace

import pytest

from launchers.exits import Exit
from launchers.metrics import first_step
from launchers.metrics.first_step import FirstStep, Loss, Reference, judge, known, moved

LN2 = math.log(2)
LOGS = {"chosen": -314.0, "rejected": -250.0, "chosen_reward": 0.0, "rejected_reward": 0.0}
EQUAL = FirstStep(loss=LN2, margin=0.0, **LOGS)
DPO = Loss(beta=0.1)


@pytest.mark.parametrize(
    ("margin", "loss", "accepted"),
    [  # mean margins and losses of first steps in tests/bench/results, bench-*
        (0.0, 0.6931471824645996, True),
        (0.00012427, 0.69309592, True),  # 8 layers: other kernels than the reference's pass
        (-0.00028559, 0.69333398, True),  # 24 layers: a store made by another dispatcher
        (0.00478133, 0.69088846, False),  # 48 layers: sums that depend on a rank's place
        (0.00563077, 0.69043458, False),  # 48 layers: the store of such a run
    ],
)
def test_measured_first_steps(margin: float, loss: float, accepted: bool) -> None:
    step = replace(EQUAL, margin=margin, loss=loss)
    assert (judge(step, DPO, "store") is None) == accepted


@pytest.mark.parametrize("loss", [LN2 + 1.1e-3, LN2 - 1.1e-3])
def test_a_loss_off_by_more_than_the_bound_ends_the_run_even_at_margin_0(loss: float) -> None:
    error = judge(replace(EQUAL, loss=loss), DPO, "pass")
    assert error is not None and (error.id, error.code) == ("first-step-reference", Exit.CONFIG)
    assert "recipe.checkFirstStep: false" in error.remedy


def test_a_mean_margin_below_its_bound_is_accepted_in_both_directions() -> None:
    for sign in (1, -1):
        bound = sign * first_step.MARGIN
        just, over = (replace(EQUAL, margin=share * bound) for share in (0.99, 1))
        assert judge(just, DPO, "model") is None
        assert judge(over, DPO, "model") is not None


def test_the_weighted_nll_and_balancing_terms_are_no_part_of_the_known_loss() -> None:
    step = replace(EQUAL, loss=LN2 + 0.5 * 2.0 + 0.001 * 1.1, nll=2.0, aux=1.1)
    loss = Loss(beta=0.1, rpo_alpha=0.5, aux_coefficient=0.001)
    assert judge(step, loss, "model") is None
    assert judge(step, DPO, "model") is not None


def test_label_smoothing_does_not_change_the_loss_at_margin_0() -> None:
    for smoothing in (0.0, 0.1, 0.49):
        found = known(Loss(beta=0.1, smoothing=smoothing))
        assert found is not None and found.value == LN2
        assert judge(EQUAL, Loss(beta=0.3, smoothing=smoothing), "model") is None


def test_several_types_are_weighted_and_their_rewards_summed() -> None:
    loss = Loss(beta=0.1, types=("sigmoid", "hinge"), weights=(0.5, 2.0))
    value = 0.5 * LN2 + 2.0
    assert judge(replace(EQUAL, loss=value), loss, "model") is None
    assert judge(replace(EQUAL, loss=value, margin=2.4e-3), loss, "model") is None  # of 2.5 rewards
    assert judge(replace(EQUAL, loss=value, margin=2.6e-3), loss, "model") is not None
    assert judge(replace(EQUAL, loss=LN2), loss, "model") is not None


def test_a_type_without_a_known_loss_is_judged_by_its_margin_alone() -> None:
    for types in (("sft",), ("discopop",), ("apo_down",), ("sigmoid", "sft")):
        loss = Loss(beta=0.1, types=types)
        assert known(loss) is None
        assert judge(replace(EQUAL, loss=7.0), loss, "model") is None
        assert judge(replace(EQUAL, loss=7.0, margin=0.01), loss, "model") is not None


def test_a_loss_that_is_not_finite_is_left_to_the_check_of_gradients() -> None:
    step = replace(EQUAL, loss=math.nan, margin=math.nan)
    assert judge(step, DPO, "model") is None


@pytest.mark.parametrize(
    ("source", "chosen", "rejected", "side"),
    [
        ("store", -320.0, -250.0, "reference"),
        ("pass", -320.0, -250.0, "policy"),
        ("adapter", -320.0, -250.0, "policy"),
        ("model", -900.0, -700.0, "reference"),  # weights that were not read
        ("model", -100.0, -90.0, "policy"),
        ("model", -315.0, -240.0, "policy or reference"),
        ("model", -900.0, -249.0, "policy or reference"),
    ],
)
def test_the_side_that_moved(source: Reference, chosen: float, rejected: float, side: str) -> None:
    """Of a policy whose reference gives these numbers for equal texts."""
    one, other = DPO.beta * (EQUAL.chosen - chosen), DPO.beta * (EQUAL.rejected - rejected)
    step = replace(EQUAL, margin=one - other, chosen_reward=one, rejected_reward=other, loss=0.5)
    assert moved(step, DPO, source) == side
    error = judge(step, DPO, source)
    assert error is not None and error.cause.startswith(f"the {side} moved")
    assert f"reference {chosen:.2f} and {rejected:.2f}" in error.cause


def test_numbers_are_read_by_the_trainers_names() -> None:
    names = ("loss", "rewards/margins", "logps/chosen", "logps/rejected", "rewards/chosen")
    logged = dict(zip(names, range(5), strict=True)) | {"rewards/rejected": 5.0, "nll_loss": 6.0}
    found = first_step.first_step(logged)
    assert (found.loss, found.margin, found.chosen, found.rejected) == (0, 1, 2, 3)
    assert (found.chosen_reward, found.rejected_reward, found.nll, found.aux) == (4, 5, 6, 0)


def test_each_known_type_has_a_value_and_a_slope() -> None:
    for kind in first_step.KNOWN:
        found = known(Loss(beta=0.2, types=(kind,)))
        assert found is not None and found.slope > 0
