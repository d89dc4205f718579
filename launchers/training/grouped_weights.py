"""The weights of one layer's experts, and their products with the experts' rows.

Rows are sorted by expert, ``splits`` says how many each has; a weight is [out, in]. Products are
those of ``torch._grouped_mm`` where all weights lie side by side, else Transformer Engine's.
"""

from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

import torch
from transformer_engine.pytorch.cpp_extensions import general_grouped_gemm

ALIGNED = 8
"""``torch._grouped_mm`` wants rows of 16 bytes or a multiple: 8 bf16 numbers."""


@lru_cache(maxsize=4)
def _ends(splits: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Return where each expert's rows end; the products of a layer ask for the same."""
    ends = torch.tensor(list(accumulate(splits)), dtype=torch.int32)
    return ends.to(device, non_blocking=True)


def ends(rows: torch.Tensor, splits: list[int]) -> torch.Tensor:
    """Return where each expert's rows end, on their device."""
    return _ends(tuple(splits), rows.device)


def weights(module: Any) -> list[Any]:
    """Return the weights of a layer of experts."""
    return [getattr(module, f"weight{n}", None) for n in range(module.num_gemms)]


def product(rows: torch.Tensor, side: torch.Tensor, splits: list[int]) -> torch.Tensor:
    """Return [tokens, n] of rows, [tokens, m], and all experts' matrices, [experts, m, n]."""
    if not len(rows):  # no token has come to this GPU
        return rows.new_empty(0, side.shape[-1])
    return torch._grouped_mm(rows, side, offs=ends(rows, splits))


class Frozen:
    """Weights that nothing trains: they are moved side by side, once."""

    is_trained = False

    def __init__(self, module: Any) -> None:
        """Take the weights of a module."""
        self.weights = weights(module)

    @cached_property
    def side(self) -> torch.Tensor:
        """Move the weights; before the first pass, when all that loads them has done so."""
        side = torch.stack([weight.data for weight in self.weights])
        for weight, moved in zip(self.weights, side.unbind(), strict=True):
            weight.data = moved
        return side

    def outputs(self, rows: torch.Tensor, splits: list[int]) -> torch.Tensor:
        """Return [tokens, out] of rows, [tokens, in]."""
        return product(rows, self.side.transpose(-2, -1), splits)

    def inputs(self, grads: torch.Tensor, splits: list[int]) -> torch.Tensor:
        """Return the gradients of the rows, [tokens, in], of those of the outputs."""
        return product(grads, self.side, splits)


class Trained:
    """Weights that are trained, each where megatron-core's DDP keeps it."""

    is_trained = True

    def __init__(self, module: Any, owner: Any) -> None:
        """Take the weights of a module that ``owner`` trains."""
        self.weights = weights(module)
        self.unset = [None] * module.num_gemms
        self.owner = owner
        self.groups = [owner.param_to_bucket_group[weight] for weight in self.weights]

    def outputs(self, rows: torch.Tensor, splits: list[int]) -> torch.Tensor:
        """Return [tokens, out] of rows, [tokens, in]."""
        return self._product(rows, splits, self.weights[0].shape[0], "TN")

    def inputs(self, grads: torch.Tensor, splits: list[int]) -> torch.Tensor:
        """Return the gradients of the rows, [tokens, in], of those of the outputs."""
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
        """Add each expert's grads^T rows to its weight's gradient, and say that it is ready.

        Of experts without rows nothing is added: their product is not zero on every GPU
        (pytorch #172439, compute capability 10).
        """
        busy = [number for number, count in enumerate(splits) if count]
        if busy:
            found = torch._grouped_mm(grads.t(), rows, offs=ends(rows, splits))
            buffers = [self.weights[number].main_grad for number in busy]
            # of one type: else there is a kernel for each
            parts = found.to(buffers[0].dtype).unbind()
            torch._foreach_add_(buffers, [parts[number] for number in busy])
        if self.owner.ddp_config.overlap_grad_reduce and self.groups[0].is_last_microbatch:
            for weight, group in zip(self.weights, self.groups, strict=True):
                group.register_grad_ready(weight, self.owner.force_all_reduce)


class Adapter(Trained):
    """Those of an adapter: put side by side anew for each product, since there is little of them.

    With a rank of 8 they have 4 MiB where the layer beside them has 800.
    """

    def outputs(self, rows: torch.Tensor, splits: list[int]) -> torch.Tensor:
        """Return [tokens, out] of rows, [tokens, in]."""
        return product(rows, torch.stack(self.weights).transpose(-2, -1), splits)

    def inputs(self, grads: torch.Tensor, splits: list[int]) -> torch.Tensor:
        """Return the gradients of the rows, [tokens, in], of those of the outputs."""
        return product(grads, torch.stack(self.weights), splits)


def prepared(name: str, module: Any, owner: Any) -> Frozen | Trained | None:
    """Return a layer's weights for products of all experts at once; None where they don't fit.

    Fit are bf16 weights without bias that are all frozen, or all trained by ``owner``, in which the
    module has this name.
    """
    config, own = module.config, weights(module)
    if module.use_bias or config.fp8 or config.fp4 or module.wgrad_store.delay_wgrad_compute():
        return None
    if any(weight is None or weight.dtype != torch.bfloat16 for weight in own):
        return None
    if any(side % ALIGNED for side in own[0].shape):
        return None
    if not any(weight.requires_grad for weight in own):
        return Frozen(module)
    if not all(weight.requires_grad and hasattr(weight, "main_grad") for weight in own):
        return None
    return (Adapter if ".lora_" in name else Trained)(module, owner)
