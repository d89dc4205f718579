"""Judge the first optimizer step of DPO: the policy still is the reference, so its loss is known.

Equal weights and kernels give equal log-probabilities, so each pair's margin is 0. A run that began
otherwise would train on against a wrong reference without an error. The formulas are those of
ms-swift 4.4.1 ``swift/rlhf_trainers/dpo_trainer.py: dpo_loss``.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from launchers.exits import Exit, LaunchError

MARGIN = 1e-3
"""Bound of the mean margin. On GPUs it was 0 to 8 digits where the step ran the kernels of the
reference, 1.2e-4 and 2.9e-4 where it ran others, and 4.8e-3 where a rank's place changed the sums
of experts, with a loss of 0.690888 (``tests/bench/notes/speed.md``)."""
SECOND_ORDER = 2.0
"""Factor by which the loss may differ more than a mean margin of ``MARGIN`` explains: margins that
vary between pairs change the loss even if their mean is 0. For sigmoid the bound is 1e-3, which
margins of 0.06 rms around 0 reach."""
CLEARLY_LESS = 0.1
"""Part by which one side's log-probability must be below the other's to be named as the wrong one:
weights that were not read, or read into other places, make every text less likely."""

_DROPOUTS = (
    "attention_dropout", "hidden_dropout", "attention_probs_dropout_prob", "hidden_dropout_prob",
    "dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "moe_input_jitter_eps", "moe_jitter_eps",
    "router_jitter_noise", "input_jitter_noise",
)  # fmt: skip
"""Names of dropout rates, and of a router's noise, in configurations of megatron-core and
transformers. An adapter's own dropout is not one of them: it changes nothing while the adapter is
zero."""

Reference = Literal["adapter", "second adapter", "model", "pass", "store"]
"""Source of the reference's log-probabilities: the model without its adapter, the model with a
copy of the adapter that training continues, a second model, a pass of this process before the
first step, or a store of an earlier start."""
Side = Literal["policy", "reference", "policy or reference"]


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The loss that a trainer computes, from its arguments."""

    beta: float
    types: tuple[str, ...] = ("sigmoid",)
    weights: tuple[float, ...] = ()
    """Of the types; none stands for 1 each."""
    smoothing: float = 0.0
    rpo_alpha: float = 0.0
    """Weight of ``FirstStep.nll``."""
    aux_coefficient: float = 0.0
    """Weight of ``FirstStep.aux``."""

    @property
    def scale(self) -> float:
        """Return the sum of the weights: rewards are multiplied by it."""
        return sum(self.weights) if self.weights else float(len(self.types))


@dataclass(frozen=True, kw_only=True)
class FirstStep:
    """Values that the trainer logs for the first step, as means over its microbatches; in nats."""

    loss: float
    margin: float
    """Of the rewards, which are beta times the logarithm of the ratio."""
    chosen: float
    """The policy's log-probability of a chosen text."""
    rejected: float
    chosen_reward: float
    rejected_reward: float
    nll: float = 0.0
    aux: float = 0.0


@dataclass(frozen=True)
class Known:
    """A loss where policy and reference are equal."""

    value: float
    slope: float
    """By how much a mean margin changes it, per unit."""


def _smoothed(beta: float, smoothing: float) -> Known:
    return Known(math.log(2), 0.5)  # its slope is (1 - 2e) / 2, the curvature that of e = 0


def _exo(beta: float, smoothing: float) -> Known:
    e = smoothing or 1e-3  # as dpo_loss sets it
    slope = 0.25 * abs(math.log(e) - math.log(1 - e))
    return Known(-math.log(2) - 0.5 * (math.log(e) + math.log(1 - e)), slope)


KNOWN: dict[str, Callable[[float, float], Known]] = {
    "sigmoid": _smoothed,
    "robust": lambda _, e: Known(math.log(2), 0.5 / (1 - 2 * e)),
    "aot": _smoothed,  # sorting keeps the mean of the differences
    "aot_unpaired": _smoothed,
    "exo_pair": _exo,
    "hinge": lambda _, __: Known(1.0, 1.0),
    "ipo": lambda beta, _: Known(1 / (4 * beta**2), 1 / beta**2),
    "bco_pair": lambda _, __: Known(2 * math.log(2), 0.5),  # the running mean is 0, too
    "sppo_hard": lambda beta, _: Known(1 / (2 * beta**2), 1 / beta**2),
    "nca_pair": lambda _, __: Known(2 * math.log(2), 0.25),
    "apo_zero": lambda _, __: Known(1.0, 0.25),
}
"""By loss type: its value for a beta and a label smoothing. The others are judged by the margin:
``discopop`` depends on ``discopop_tau``, ``apo_down`` on more than the margin, ``sft`` on none."""


def has_dropout(config: object) -> bool:
    """Return whether a model draws random numbers in training, but not as a reference.

    >>> from types import SimpleNamespace
    >>> has_dropout(SimpleNamespace(attention_dropout=0.1)), has_dropout(SimpleNamespace(dropout=0))
    (True, False)
    >>> has_dropout(SimpleNamespace(router_jitter_noise=0.01))
    True
    """
    return any(getattr(config, name, None) for name in _DROPOUTS)


def first_step(logged: Mapping[str, float]) -> FirstStep:
    """Return the first step from numbers under ms-swift's names."""
    return FirstStep(
        loss=logged["loss"],
        margin=logged["rewards/margins"],
        chosen=logged["logps/chosen"],
        rejected=logged["logps/rejected"],
        chosen_reward=logged["rewards/chosen"],
        rejected_reward=logged["rewards/rejected"],
        nll=logged.get("nll_loss", 0.0),
        aux=logged.get("aux_loss", 0.0),
    )


def known(loss: Loss) -> Known | None:
    """Return the loss without its other terms at equal policy and reference; None if unknown.

    >>> round(known(Loss(beta=0.1)).value, 6), known(Loss(beta=0.1, types=("sft",)))
    (0.693147, None)
    """
    if any(each not in KNOWN for each in loss.types):
        return None
    weights = loss.weights or (1.0,) * len(loss.types)
    parts = [KNOWN[each](loss.beta, loss.smoothing) for each in loss.types]
    return Known(
        sum(w * part.value for w, part in zip(weights, parts, strict=True)),
        sum(abs(w) * part.slope for w, part in zip(weights, parts, strict=True)),
    )


def judge(step: FirstStep, loss: Loss, reference: Reference) -> LaunchError | None:
    """Return the error that ends a run whose policy is not its reference; None if it is.

    Values that are not finite are refused elsewhere.
    """
    margin = step.margin / (loss.scale or 1.0)
    found = step.loss - loss.rpo_alpha * step.nll - loss.aux_coefficient * step.aux
    expected = known(loss)
    bound = SECOND_ORDER * MARGIN * expected.slope if expected else math.inf
    moved_loss = abs(found - expected.value) if expected else 0.0
    if not (abs(margin) >= MARGIN or moved_loss > bound):  # NaN is judged elsewhere
        return None
    at_equal = f" (at equal ones {expected.value:.6f} within {bound:.1g})" if expected else ""
    before = _reference(step, loss)
    side = moved(step, loss, reference)
    return LaunchError(
        Exit.CONFIG,
        f"the {side} moved before the first step: mean margin {margin:.4g} (at equal ones 0 within "
        f"{MARGIN:g}), loss without other terms {found:.6f}{at_equal}; log-probabilities of chosen "
        f"and rejected: policy {step.chosen:.2f} and {step.rejected:.2f}, reference "
        f"{before[0]:.2f} and {before[1]:.2f}; {_WHY[reference]}",
        f"{_REMEDY[reference]}; if that is intended, set recipe.checkFirstStep: false",
        id="first-step-reference",
    )


def moved(step: FirstStep, loss: Loss, reference: Reference) -> Side:
    """Return the side that is not as intended, as far as the step shows it."""
    if reference == "store":
        return "reference"
    if reference in ("adapter", "pass"):
        return "policy"
    pairs = list(zip((step.chosen, step.rejected), _reference(step, loss), strict=True))
    if all(b < a - CLEARLY_LESS * abs(a) for a, b in pairs):
        return "reference"
    if all(a < b - CLEARLY_LESS * abs(b) for a, b in pairs):
        return "policy"
    return "policy or reference"


def _reference(step: FirstStep, loss: Loss) -> tuple[float, float]:
    """Return the reference's log-probabilities: a reward is beta (policy - reference)."""
    unit = loss.beta * loss.scale
    if not unit:
        return math.nan, math.nan
    return step.chosen - step.chosen_reward / unit, step.rejected - step.rejected_reward / unit


_WHY: dict[Reference, str] = {
    "adapter": "the reference is the same model without its adapter, which must begin at zero",
    "second adapter": "the reference is the same model with an adapter from the policy's files",
    "model": "the reference is a second model, read from the same files as the policy",
    "pass": "the policy itself gave the reference's before its first step, in this start",
    "store": "the reference's were stored by an earlier start, maybe with other kernels",
}
_REMEDY: dict[Reference, str] = {
    "adapter": "remove what initialises the adapter, such as a plugin",
    "second adapter": "check plugins that change the model, and the adapter's files",
    "model": "check plugins that change the model, and the model's files",
    "pass": "check plugins that change the model, or set recipe.reference: online",
    "store": "remove the folder reference/ of the workspace, or set recipe.reference: online",
}
