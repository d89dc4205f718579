"""The weights of one layer's experts, and their products with the experts' rows.

Rows are sorted by expert and ``splits`` holds the number of rows of each; a weight is [out, in].
Products use ``torch._grouped_mm`` if all weights follow each other in memory, otherwise
Transformer Engine's grouped GEMM.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

import torch
from transformer_engine.pytorch.cpp_extensions import general_grouped_gemm

ALIGNED = 8
"""Elements to whose multiple ``torch._grouped_mm`` needs rows: 16 bytes are 8 bf16 numbers."""


@lru_cache(maxsize=4)
def _ends(splits: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Return where each expert's rows end; cached, as all products of a layer need the same."""
    ends = torch.tensor(list(accumulate(splits)), dtype=torch.int32)
    return ends.to(device, non_blocking=True)


def ends(rows: torch.Tensor, splits: list[int]) -> torch.Tensor:
    """Return where each expert's rows end, int32 [experts], on the rows' device."""
    return _ends(tuple(splits), rows.device)


def weights(module: Any) -> list[Any]:
    """Return the weights of a layer of experts; None for each if they are one stack."""
    return [module._parameters.get(f"weight{n}") for n in range(module.num_gemms)]


def product(rows: torch.Tensor, side: torch.Tensor, splits: list[int]) -> torch.Tensor:
    """Return [tokens, n] of rows, [tokens, m], and all experts' matrices, [experts, m, n]."""
    if not len(rows):  # no token was routed to this GPU
        return rows.new_empty(0, side.shape[-1])
    return torch._grouped_mm(rows, side, offs=ends(rows, splits))


def weight_gradients(rows: torch.Tensor, grads: torch.Tensor, splits: list[int]) -> torch.Tensor:
    """Return each expert's grads^T rows, [experts, out, in]; zeros for one without rows.

    Without rows the product is not zero on every GPU (pytorch #172439, compute capability 10).
    """
    if not len(rows):
        return rows.new_zeros(len(splits), grads.shape[-1], rows.shape[-1])
    found = torch._grouped_mm(grads.t(), rows, offs=ends(rows, splits))
    for number, count in enumerate(splits):
        if not count:
            found[number].zero_()
    return found


def stack(parts: list[torch.Tensor]) -> torch.Tensor | None:
    """Return equal tensors that follow each other in memory as one view; None if they do not."""
    first = parts[0]
    if len({each.untyped_storage().data_ptr() for each in parts}) > 1:
        return None
    begin, size = first.storage_offset(), first.numel()
    if any(each.storage_offset() != begin + n * size for n, each in enumerate(parts)):
        return None
    return first.as_strided((len(parts), *first.shape), (size, *first.stride()))


class Weights:
    """The weights of a layer's experts and their products with rows."""

    is_trained = False
    side: Any
    """All as one tensor, [experts, out, in]; None if they do not follow each other in memory."""

    def __init__(self, module: Any) -> None:
        """Take the weights of a module."""
        self.weights = weights(module)

    def outputs(self, rows: torch.Tensor, splits: list[int]) -> torch.Tensor:
        """Return [tokens, out] of rows, [tokens, in]."""
        return product(rows, self.side.transpose(-2, -1), splits)

    def inputs(self, grads: torch.Tensor, splits: list[int]) -> torch.Tensor:
        """Return the gradients of the rows, [tokens, in], of those of the outputs."""
        return product(grads, self.side, splits)


class Frozen(Weights):
    """Frozen weights: they are moved into one contiguous tensor, once."""

    @cached_property
    def side(self) -> torch.Tensor:
        """Move the weights into one tensor, [experts, out, in]; runs in the first pass."""
        side = torch.stack([weight.data for weight in self.weights])
        for weight, moved in zip(self.weights, side.unbind(), strict=True):
            weight.data = moved
        return side


class Trained(Weights):
    """Trained weights, each in megatron-core's DDP buffer."""

    is_trained = True

    def __init__(self, module: Any, owner: Any) -> None:
        """Take the weights of a module that ``owner`` trains."""
        super().__init__(module)
        self.unset = [None] * module.num_gemms
        self.owner = owner
        self.groups = [owner.param_to_bucket_group[weight] for weight in self.weights]
        self.side = stack([weight.data for weight in self.weights])
        self.gradients = stack([weight.main_grad for weight in self.weights])

    def outputs(self, rows: torch.Tensor, splits: list[int]) -> torch.Tensor:
        """Return [tokens, out] of rows, [tokens, in]."""
        if self.side is not None:
            return super().outputs(rows, splits)
        return self._product(rows, splits, self.weights[0].shape[0], "TN")

    def inputs(self, grads: torch.Tensor, splits: list[int]) -> torch.Tensor:
        """Return the gradients of the rows, [tokens, in], of those of the outputs."""
        if self.side is not None:
            return super().inputs(grads, splits)
        return self._product(grads, splits, self.weights[0].shape[1], "NN")

    def _product(
        self, rows: torch.Tensor, splits: list[int], width: int, layout: str
    ) -> torch.Tensor:
        out = rows.new_empty(rows.shape[0], width)
        general_grouped_gemm(
            self.weights,
            torch.split(rows, splits),
            [out],
            self.unset,
            rows.dtype,
            layout=layout,
            m_splits=splits,
            grad=layout == "NN",
            single_output=True,
        )
        return out

    def accumulate(self, rows: torch.Tensor, grads: torch.Tensor, splits: list[int]) -> None:
        """Add each expert's grads^T rows to its weight's gradient and notify DDP.

        With apex, ``gradient_accumulation_fusion`` adds the fp32 products of the layers that stay
        upstream's; here each is rounded to bf16 before it is added, and autograd does not see the
        weights, so that nothing is added twice.
        """
        found = weight_gradients(rows, grads, splits)
        if self.gradients is not None:
            self.gradients.add_(found)
        else:
            buffers = [weight.main_grad for weight in self.weights]
            # of one type: otherwise there is a kernel for each
            torch._foreach_add_(buffers, found.to(buffers[0].dtype).unbind())
        if self.owner.ddp_config.overlap_grad_reduce and self.groups[0].is_last_microbatch:
            for weight, group in zip(self.weights, self.groups, strict=True):
                group.register_grad_ready(weight, self.owner.force_all_reduce)


def prepared(module: Any, owner: Any) -> Weights | None:
    """Return a layer's weights for grouped products; None if the kernels do not support them.

    Supported are bf16 weights without bias that are either all frozen or all trained by ``owner``,
    a DDP model.
    """
    config, own = module.config, weights(module)
    if module.use_bias or config.fp8 or config.fp4 or module.wgrad_store.delay_wgrad_compute():
        return None
    if any(weight is None or weight.dtype != torch.bfloat16 for weight in own):
        return None
    if any(getattr(weight, "is_gtp_weight_remat", False) for weight in own):
        return None  # megatron-core 0.19 shards these weights and reduces their gradients itself
    if any(side % ALIGNED for side in own[0].shape):
        return None
    if not any(weight.requires_grad for weight in own):
        return Frozen(module)
    if not all(weight.requires_grad and hasattr(weight, "main_grad") for weight in own):
        return None
    return Trained(module, owner)
