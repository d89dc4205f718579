"""Candidates of a search: layouts, dispatchers, recomputation and optimizers.

Layouts are generated so that megatron-core's divisions have no remainder. Whether one is legal is
decided by ``launchers/rules/table.py``; a test checks every layout generated here against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from launchers.flags import equal_packs
from launchers.plan.layout import Layout
from launchers.plan.model_config import ModelConfig
from launchers.plan.training_job import Training
from launchers.rules.model import divisors

Fields = Mapping[str, Any]

PARTS = (0.25, 0.5, 0.75)
"""Shares of a stage's layers to recompute, when not all are recomputed."""
_FP32 = {"exp_avg_dtype": "fp32", "exp_avg_sq_dtype": "fp32", "main_grads_dtype": "fp32"}
_BF16 = {"precision_aware": True, "exp_avg_dtype": "bf16", "exp_avg_sq_dtype": "bf16"}
OPTIMIZERS: tuple[tuple[str, Fields], ...] = (
    ("fp32", {"precision_aware": False, **_FP32, "optimizer_offload": 0.0}),
    ("bf16 moments", {**_FP32, **_BF16, "optimizer_offload": 0.0}),
    ("bf16 + grads", {**_BF16, "main_grads_dtype": "bf16", "optimizer_offload": 0.0}),
    ("on the host", {**_FP32, "precision_aware": True, "optimizer_offload": 1.0}),
)
"""Name and fields, from the most exact to the smallest."""
ALTERNATIVES = ("alltoall", equal_packs.NAME)
"""Dispatchers that need no other package; the second supports neither pipeline stages nor context
parallelism."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to train: layout, dispatcher, recomputation, and the optimizers to try."""

    layout: Layout
    dispatcher: str
    recompute: tuple[Fields, ...]
    """Choices of ``recompute``: this way's own first, then those that need less memory."""
    on_host: bool = False

    @property
    def optimizers(self) -> tuple[tuple[str, Fields], ...]:
        """Return the ``OPTIMIZERS`` on the host or on the GPU, the most exact first."""
        return OPTIMIZERS[-1:] if self.on_host else OPTIMIZERS[:-1]

    @property
    def order(self) -> tuple[int, ...]:
        """Return the sort key between two ways of the same speed: the simpler first."""
        sizes = self.layout
        groups = (sizes.tp, sizes.cp, sizes.etp, sizes.pp, sizes.ep)
        gathers = self.dispatcher == equal_packs.NAME
        return (int(self.on_host), *groups, int(gathers), -len(self.recompute))

    def training(self, base: Training, optimizer: Fields) -> Training:
        """Return the training job of this way."""
        fields = {**self.recompute[0], **optimizer, "dispatcher": self.dispatcher}
        return on(base, self.layout, fields)

    def smaller(self) -> list[Way]:
        """Return the next ways, which need less GPU memory and are never faster.

        Adam on the host is slower than any on the GPU: it is tried when none of those fits.
        """
        if self.on_host:
            return []
        ways = [replace(self, on_host=True)]
        if self.recompute[1:]:
            ways.append(replace(self, recompute=self.recompute[1:]))
        return ways


def recompute(layers: int, stages: int) -> tuple[Fields, ...]:
    """Return the choices of recomputation as fields of ``Training``, fastest first.

    >>> [each.get("recompute_num_layers") for each in recompute(layers=48, stages=2)]
    [None, None, 6, 12, 18, 1]
    """
    stage = -(-layers // stages)
    block = {"recompute": "full", "recompute_method": "block"}
    return (
        {"recompute": "none", "recompute_method": ""},
        {"recompute": "selective", "recompute_method": "", "recompute_modules": ("core_attn",)},
        *({**block, "recompute_num_layers": ceil(part * stage)} for part in PARTS),
        {"recompute": "full", "recompute_method": "uniform", "recompute_num_layers": 1},
    )


def dispatchers(model: ModelConfig, training: Training, layout: Layout) -> tuple[str, ...]:
    """Return the dispatchers to try on a layout; the job's own where experts are not distributed.

    Whether packs can be gathered is decided by the rules.
    """
    if not model.is_moe or training.dispatcher not in ALTERNATIVES:
        return (training.dispatcher,)
    if layout.pp * layout.cp > 1:
        return ALTERNATIVES[:1]
    return ALTERNATIVES if layout.ep * layout.etp > 1 else (training.dispatcher,)


def layouts(
    model: ModelConfig, training: Training, *, nodes: int, gpus_per_node: int
) -> list[Layout]:
    """Return every layout that divides the model, the batch and the number of GPUs.

    Virtual and uneven pipelines are left out. Source: megatron-core ``parallel_state.py`` and
    ``transformer_config.py``; the batch: ms-swift ``_init_distributed``.
    """
    world = nodes * gpus_per_node
    tensor = [t for t in divisors(world) if _heads(model, t)]
    stages = [p for p in divisors(world) if model.layers % p == 0]
    found = []
    for tp in tensor:
        for pp in stages:
            for cp in divisors(world // (tp * pp)) if world % (tp * pp) == 0 else ():
                plain = Layout(nodes=nodes, gpus_per_node=gpus_per_node, tp=tp, pp=pp, cp=cp)
                layout = replace(plain, nvlink=training.layout.nvlink)
                if training.global_batch_size % (training.micro_batch_size * layout.dp) == 0:
                    found += list(_experts(model, layout))
    return found


def _experts(model: ModelConfig, layout: Layout) -> Iterator[Layout]:
    if not model.is_moe:
        yield layout
        return
    left = layout.world // layout.pp
    for ep in divisors(left):
        for etp in divisors(left // ep):
            if model.experts % ep == 0 and model.expert_ffn % etp == 0:
                yield replace(layout, ep=ep, etp=etp)


def _heads(model: ModelConfig, tp: int) -> bool:
    groups = model.kv_heads
    return model.heads % tp == 0 and (groups % tp == 0 or tp % groups == 0)


def on(training: Training, layout: Layout, fields: Fields) -> Training:
    """Return the training job on another layout, with other fields."""
    return replace(training, layout=layout, sequence_parallel=layout.tp > 1, **fields)
