"""Keep the adapters of a layer's experts as one parameter for each product.

mcore-bridge makes one weight for each expert (``tuners/lora.py``): Qwen3-30B-A3B with
``all-linear`` has 24,576 of them. Each is a tensor for the optimizer, a hook for DDP, and an entry
of the checkpoint, which is read at 1.7 ms an entry. Here they are stacked after upstream has
initialised each, so that values and random states are upstream's: [experts, r, in] and
[experts, out, r]. A checkpoint has the stack under upstream's key and global shape, of which
upstream writes each expert as a part; the optimizer's state is in ``expert_state.py``.
``weight0`` and so on are views, by which mcore-bridge merges, reads and exports.

Frozen experts and their adapter are one autograd function. A scaling that is a power of two
(32 / 8) multiplies gradients of r columns or of weights instead of all gradients: the same bits, as
such a factor moves exponents alone. The product with B and the sum with the layer's output
are one kernel (``adapter_sum``), for the adapters of attention as well.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch
from mcore_bridge.tuners.lora import LoraParallelLinear
from megatron.core import parallel_state
from megatron.core.dist_checkpointing import ShardedTensor
from megatron.core.extensions.transformer_engine import (
    TEGroupedLinear,
    TELayerNormColumnParallelLinear,
    TELinear,
)
from torch import nn

from launchers import logs
from launchers.config.gpu_models import GROUPED_KERNELS
from launchers.training.experts import adapter_switch, expert_state, remade_rows
from launchers.training.experts.adapter_sum import add
from launchers.training.experts.grouped_weights import (
    ALIGNED,
    Frozen,
    ends,
    product,
    weight_gradients,
    weights,
)
from launchers.training.experts.remade_rows import Again

_update, _forward = LoraParallelLinear.update_layer, LoraParallelLinear.forward
_sharded = LoraParallelLinear.sharded_state_dict


class Grouped(torch.autograd.Function):  # type: ignore[misc]
    """The products of rows with a stack."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, stack: torch.Tensor, splits: list[int]) -> Any:
        """Return [tokens, out] of rows, [tokens, in], which are sorted by expert."""
        ctx.save_for_backward(rows, stack)
        ctx.splits = splits
        return product(rows, stack.transpose(-2, -1), splits)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """Return the gradients of rows and stack."""
        (rows, stack), grad, needed = ctx.saved_tensors, grads[0].contiguous(), ctx.needs_input_grad
        below = product(grad, stack, ctx.splits) if needed[0] else None
        own = weight_gradients(rows, grad, ctx.splits) if needed[1] else None
        return below, own, None


class Adapted(torch.autograd.Function):  # type: ignore[misc]
    """The outputs of frozen experts with their adapters."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        dropped: torch.Tensor | None,
        a: torch.Tensor,
        b: torch.Tensor,
        frozen: Frozen,
        splits: list[int],
        scaling: float,
        again: Again | None,
    ) -> torch.Tensor:
        """Return [tokens, out].

        Args:
            ctx: autograd's context.
            rows: [tokens, in], sorted by expert.
            dropped: the rows after dropout; None if there is none.
            a: [experts, r, in].
            b: [experts, out, r].
            frozen: the layer's own weights.
            splits: number of rows of each expert.
            scaling: of the adapter's output.
            again: makes the rows again; None if they are kept.
        """
        seen = rows if dropped is None else dropped
        ctx.inner, ctx.outer = factors(scaling)
        low = product(seen, a.transpose(-2, -1), splits)
        ctx.again = again if dropped is None else None
        ctx.save_for_backward(low, a, b, *([] if ctx.again else [seen]))
        ctx.frozen, ctx.splits, ctx.is_dropped = frozen, splits, dropped is not None
        out = frozen.outputs(rows, splits)
        return add(out, out, low, b.transpose(-2, -1), ends(rows, splits), scaling)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """Return the gradients of the rows, the rows after dropout, and both stacks."""
        low, a, b, *seen = ctx.saved_tensors
        grad, splits, needed = grads[0].contiguous(), ctx.splits, ctx.needs_input_grad
        scaled = _times(grad, ctx.outer)
        of_b = _times(weight_gradients(low, scaled, splits), ctx.inner) if needed[3] else None
        below = _times(product(scaled, b, splits), ctx.inner)
        of_a, again = None, remade_rows.take(ctx)
        if needed[2]:
            of_a = weight_gradients(again() if again else seen[0], below, splits)
        of_rows = ctx.frozen.inputs(grad, splits) if needed[0] else None
        of_dropped = None
        if ctx.is_dropped:
            of_dropped = product(below, a, splits) if needed[1] else None
        elif of_rows is not None:
            add(of_rows, of_rows, below, a, ends(grad, splits))
        return of_rows, of_dropped, of_a, of_b, None, None, None, None


class Sum(torch.autograd.Function):  # type: ignore[misc]
    """The outputs of a layer outside of the experts, such as attention's, with its adapter."""

    @staticmethod
    def forward(
        ctx: Any, outputs: torch.Tensor, low: torch.Tensor, b: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        """Return the sum, [sequence, batch, out]; low is [sequence, batch, r], and b [out, r]."""
        ctx.inner, ctx.outer = factors(scaling)
        rows, low = outputs.flatten(0, -2).contiguous(), low.flatten(0, -2)
        ctx.save_for_backward(low, b)
        found, own = rows.new_empty(outputs.shape), ends(rows, [len(rows)])
        add(found.flatten(0, -2), rows, low, b.t()[None], own, scaling)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """Return the gradients of the outputs, of low and of b."""
        low, b = ctx.saved_tensors
        scaled = _times(grads[0].flatten(0, -2), ctx.outer)
        below = _times(scaled @ b, ctx.inner) if ctx.needs_input_grad[1] else None
        of_low = None if below is None else below.view(*grads[0].shape[:-1], -1)
        of_b = _times(scaled.t() @ low, ctx.inner) if ctx.needs_input_grad[2] else None
        return grads[0], of_low, of_b, None


def factors(scaling: float) -> tuple[float, float]:
    """Return by what gradients of r columns and of B are multiplied, and by what those of outputs.

    >>> factors(4.0), factors(3.0)
    ((4.0, 1.0), (1.0, 3.0))
    """
    is_power = scaling > 0 and math.frexp(scaling)[0] == 0.5
    return (scaling, 1.0) if is_power else (1.0, scaling)


def _times(rows: torch.Tensor, factor: float) -> torch.Tensor:
    return rows if factor == 1.0 else rows * factor


class Stacked:
    """What replaces a ``TEGroupedLinear`` with a weight for each expert."""

    def __getattr__(self, name: str) -> Any:
        """Return a view of one expert's weight by upstream's name for it."""
        if name.startswith("weight") and name[6:].isdigit():
            return self.weight.data[int(name[6:])]
        return super().__getattr__(name)  # type: ignore[misc]

    def forward(self, rows: torch.Tensor, splits: list[int]) -> tuple[torch.Tensor, None]:
        """Return the products of all experts, and no bias."""
        return Grouped.apply(rows, self.weight, splits), None

    def sharded_state_dict(
        self, prefix: str = "", sharded_offsets: Any = (), metadata: Any = None
    ) -> dict[str, Any]:
        """Return the stack as one part of the tensor that upstream's parts make up."""
        axis, size = len(sharded_offsets), parallel_state.get_expert_model_parallel_world_size()
        offset = (axis, parallel_state.get_expert_model_parallel_rank(), size)
        name = f"{prefix}weight"
        return {
            name: ShardedTensor.from_rank_offsets(
                name,
                self.weight,
                *sharded_offsets,
                offset,
                replica_id=(0, 0, parallel_state.get_expert_data_parallel_rank()),
                prepend_axis_num=axis,
            )
        }


@cache
def _stacked(kind: Any) -> Any:
    return type(f"Stacked{kind.__name__}", (Stacked, kind), {})


def why_not(module: Any) -> str:
    """Return why a layer's weights cannot be one stack; empty if they can."""
    config = module.config
    if module.use_bias:
        return "a bias"
    if not config.bf16 or config.fp8 or config.fp4:
        return "weights that are not bf16"
    if module.wgrad_store.delay_wgrad_compute():
        return "gradients of weights that are computed later"
    if getattr(module.weight0, "is_gtp_weight_remat", False):
        return "weights that megatron-core shards"
    if any(side % ALIGNED for side in module.weight0.shape):
        return f"sizes that are no multiples of {ALIGNED}"
    return ""


def stack(module: Any) -> None:
    """Make a layer's weights one parameter."""
    own = [module._parameters.pop(f"weight{n}") for n in range(module.num_gemms)]
    weight = nn.Parameter(torch.stack([each.data for each in own]), own[0].requires_grad)
    vars(weight).update(vars(own[0]))
    nn.Module.register_parameter(module, "weight", weight)
    module.single_grouped_weight = True  # for the hooks that read a state
    kind: Any = type(module)
    module.__class__ = _stacked(kind)


def update_layer(self: Any, adapter_name: str, *given: Any, **named: Any) -> None:
    """Add an adapter as upstream does, then stack it."""
    _update(self, adapter_name, *given, **named)
    for module in (self.lora_A[adapter_name], self.lora_B[adapter_name]):
        if not isinstance(module, TEGroupedLinear):
            continue
        if reason := why_not(module):
            _warn(reason)
            continue
        expert_state.mark(weights(module), expert_state.STACKED)
        if expert_state.STACKED in expert_state.MADE:
            stack(module)


@cache
def _warn(reason: str) -> None:
    logs.warning("adapters of experts are not stacked", reason=reason)


def forward(self: Any, x: torch.Tensor, *given: Any, **named: Any) -> Any:
    """Return a layer's outputs: with one adapter, those of experts or of attention as one sum."""
    names = [name for name in self.active_adapters if name in self.lora_A]
    if self.disable_adapters or self.merged or len(names) != 1:
        return _forward(self, x, *given, **named)
    a, b, base = self.lora_A[names[0]], self.lora_B[names[0]], self.base_layer
    frozen, scaling = vars(base).get("one_product"), self.scaling[names[0]]
    dropout = self.lora_dropout[names[0]]
    if isinstance(frozen, Frozen) and isinstance(a, Stacked) and isinstance(b, Stacked):
        _gather(a)
        _gather(b)
        dropped = None if isinstance(dropout, nn.Identity) else dropout(x)
        splits = (*given, *named.values())[0]
        given = x, dropped, a.weight, b.weight, frozen, splits, scaling, remade_rows.again(x)
        return Adapted.apply(*given), None
    if not (expert_state.STACKED in expert_state.MADE and is_plain(base, b)) or given or named:
        return _forward(self, x, *given, **named)
    if isinstance(base, TELayerNormColumnParallelLinear):
        base.return_layernorm_output = True
        (outputs, x), bias = base(x)
    else:
        outputs, bias = base(x)
    low, _ = a(dropout(x))
    _gather(b)
    return Sum.apply(outputs, low, b.weight, scaling), bias


def is_plain(base: Any, b: Any) -> bool:
    """Return whether a layer has bf16 products that no other GPU has a part of."""
    config, kinds = b.config, (TELayerNormColumnParallelLinear, TELinear)
    return (
        isinstance(base, kinds)
        and isinstance(b, TELinear)
        and config.tensor_model_parallel_size == 1
        and not (b.use_bias or config.fp8 or config.fp4)
        and b.weight.dtype == torch.bfloat16
    )


def _gather(module: Any) -> None:
    """Run the hooks of megatron-core's DDP, which wait for weights that are gathered."""
    for hook in module._forward_pre_hooks.values():
        hook(module, ())


def sharded_state_dict(
    self: Any, prefix: str = "", sharded_offsets: Any = (), metadata: Any = None
) -> Any:
    """Return a layer's part of a checkpoint; one of stacks has adapters alone.

    Upstream makes the entries of frozen experts, too, and drops them.
    """
    is_stacked = (metadata or {}).get(expert_state.STACKED)
    if not is_stacked or not isinstance(self.base_layer, TEGroupedLinear):
        return _sharded(self, prefix, sharded_offsets, metadata)
    found: dict[str, Any] = {}
    for side in ("lora_A", "lora_B"):
        for name, module in getattr(self, side).items():
            own = f"{prefix}{side}.{name}."
            found |= module.sharded_state_dict(own, sharded_offsets, metadata)
    return {name: each for name, each in found.items() if "_extra_state" not in name}


def install() -> None:
    """Stack adapters on GPUs that have the kernel; elsewhere only read checkpoints with stacks."""
    has_kernels = torch.cuda.get_device_capability()[0] in GROUPED_KERNELS
    if not has_kernels:
        _warn("a GPU without grouped kernels")
    LoraParallelLinear.update_layer = update_layer
    LoraParallelLinear.forward = forward
    LoraParallelLinear.sharded_state_dict = sharded_state_dict
    adapter_switch.install()
    expert_state.install(expert_state.STACKED, is_made=has_kernels)
