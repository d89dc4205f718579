"""Arithmetic of the parallel sizes, which needs no model: checked before GPUs are reserved.

The chart checks the same rules from a data file that ``scripts/flags.py`` writes from ``RULES``;
a test compares both sides word for word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

_TP, _PP, _CP = (f"{kind}_parallel_size" for kind in ("tensor_model", "pipeline_model", "context"))
_EP, _ETP = "expert_model_parallel_size", "expert_tensor_parallel_size"
DENSE = (_TP, _PP, _CP)
"""Their product is one model replica: megatron-core ``parallel_state.py``."""
EXPERT = (_ETP, _EP, _PP)
"""Their product must divide the processes too; TP and CP are not in it."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A total that must be a multiple of a product."""

    total: str
    """``world``, the processes of the gang, or the name of a flag."""
    factors: tuple[str, ...]
    """Flags whose product divides the total."""
    replica: tuple[str, ...] = ()
    """Flags whose product is one replica: the number of replicas is a factor too."""


RULES: dict[str, tuple[Rule, ...]] = {
    "megatron": (
        Rule(total="world", factors=DENSE),
        Rule(total="world", factors=EXPERT),
        Rule(total="global_batch_size", factors=("micro_batch_size",), replica=DENSE),
    ),
    "transformers": (),
}
"""Backend to its rules; the last is ``swift/megatron/arguments/megatron_args.py``."""


def flags_of(rules: Sequence[Rule]) -> list[str]:
    """Return the flags that rules read, sorted."""
    names = {name for r in rules for name in (r.total, *r.factors, *r.replica)}
    return sorted(names - {"world"})


def check(sizes: Mapping[str, str], rules: Sequence[Rule], *, nodes: int, gpus: int) -> list[str]:
    """Return a message for each rule that the sizes break.

    Args:
        sizes: flag to its value as text; every flag of the rules, defaults included.
        rules: of the backend.
        nodes: pods of the gang.
        gpus: processes of each pod.

    >>> check({"tensor_model_parallel_size": "3"},
    ...       [Rule(total="world", factors=("tensor_model_parallel_size",))], nodes=1, gpus=8)
    ['recipe.args: 8 processes (nodes 1 x gpusPerNode 8) are not a multiple of \
tensor_model_parallel_size 3 = 3; change the sizes, nodes or gpusPerNode']
    """
    wrong = [name for name in flags_of(rules) if not _is_size(sizes[name])]
    if wrong:
        return [
            f'recipe.args.{name}: "{sizes[name]}" is no size; write a whole number from 1 to 999999'
            for name in wrong
        ]
    numbers = {name: int(sizes[name]) for name in flags_of(rules)}
    messages = (_broken(rule, numbers, nodes, gpus) for rule in rules)
    return [message for message in messages if message]


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdecimal() and not text.startswith("0") and len(text) < 7


def _broken(rule: Rule, numbers: Mapping[str, int], nodes: int, gpus: int) -> str:
    """Return what is wrong, or an empty text; a replica that does not fit is another rule's."""
    world = nodes * gpus
    spelt = " x ".join(f"{name} {numbers[name]}" for name in rule.factors)
    divisor = prod(numbers[name] for name in rule.factors)
    if rule.total == "world":
        if world % divisor == 0:
            return ""
        return (
            f"recipe.args: {world} processes (nodes {nodes} x gpusPerNode {gpus}) "
            f"are not a multiple of {spelt} = {divisor}; change the sizes, nodes or gpusPerNode"
        )
    size = prod(numbers[name] for name in rule.replica)
    divisor *= world // size
    if world % size or numbers[rule.total] % divisor == 0:
        return ""
    return (
        f"recipe.args.{rule.total}: {numbers[rule.total]} is not a multiple of {spelt} x "
        f"{world // size} replicas = {divisor}; write a multiple of {divisor}"
    )
