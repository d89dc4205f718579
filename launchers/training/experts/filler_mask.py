"""Keep the filler of packs out of the router's balancing loss and of the experts' counts.

ms-swift 4.4.1 pads a packed microbatch to a multiple that tensor parallelism or 8-bit products
need, ``packs/equal_packs.py`` to the packs' capacity. The filler counts in no loss, but
megatron-core's router balances it as if it were text: its balancing losses, z-loss, expert bias and
counts of tokens include it. Routing itself does not change: filler still passes the experts, so
that all shapes stay.

megatron-core 0.18.0 has a ``padding_mask`` for this, which mcore-bridge 1.6.0 sets only where
there is an attention mask, so not for packs (``gpt_model.py: forward``). Here each layer gets it
with ``packed_seq_params``, which also reach a layer that is computed again and those that
``recompute_method: block`` does not; mcore-bridge drops its own ``padding_mask`` there
(``transformer_block.py: _checkpointed_forward``). With context parallelism ms-swift also pads each
text to a multiple of twice its ranks, and fills up with texts of such a length
(``swift/template/base.py``); upstream's own function then gives each rank its part of the mask. It
is not known with ``overlap_moe_expert_parallel_comm``, whose schedule does not call the layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from mcore_bridge.model.modules import TransformerLayer
from megatron.core import mpu
from megatron.core.transformer.moe import router
from megatron.core.transformer.moe.moe_layer import MoELayer
from swift.megatron.trainers import utils as batching
from swift.megatron.trainers.base import BaseMegatronTrainer

KEY = "filler_mask"
"""Attribute of ``packed_seq_params``: bool [1, tokens of this rank], true for filler."""
_prepare = BaseMegatronTrainer._prepare_batch
_forward = TransformerLayer.forward
_balance = router.switch_load_balancing_loss_func


def prepare_batch(self: Any, data: Any, vp_stage: Any = None) -> Any:
    """Prepare a microbatch as upstream does, and note which of its tokens are filler."""
    texts = data.get("seq_lens")
    batch = _prepare(self, data, vp_stage)
    packed = batch.get("packed_seq_params")
    if packed is not None and texts:
        if self.args.context_parallel_size == 1:
            positions = batch["position_ids"]
            found = mask(sum(texts), positions.shape[-1], positions.device)
        else:
            # loss_scale: a key whose tensors upstream always splits
            whole = {"loss_scale": padded(texts, packed.cu_seqlens_q), "packed_seq_params": packed}
            found = batching.get_batch_on_this_cp_rank(self.args, whole)["loss_scale"]
        setattr(packed, KEY, _own(found, self.config))
    return batch


def mask(real: int, tokens: int, device: Any) -> torch.Tensor:
    """Return the mask of a pack, bool [1, tokens]: upstream puts filler behind all texts."""
    return (torch.arange(tokens, device=device) >= real)[None]


def padded(texts: Sequence[int], begins: torch.Tensor) -> torch.Tensor:
    """Return the mask of a pack whose texts are padded, each by itself, and followed by filler.

    Args:
        texts: lengths of the texts, without padding.
        begins: the first token of each text and of each piece of filler, then the number of all.

    >>> padded([3, 1], torch.tensor([0, 4, 8, 12])).int().tolist()
    [[0, 0, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1]]
    """
    sizes = begins.diff()
    real = torch.zeros_like(sizes)
    real[: len(texts)] = torch.tensor(texts, dtype=sizes.dtype, device=sizes.device)
    tokens = torch.arange(int(begins[-1]), device=begins.device)
    return (tokens >= (begins[:-1] + real).repeat_interleave(sizes))[None]


def _own(found: torch.Tensor, config: Any) -> torch.Tensor:
    """Return the part of the tokens that this rank of sequence parallelism has."""
    size = config.tensor_model_parallel_size
    if not config.sequence_parallel or size == 1:
        return found
    return found.chunk(size, dim=1)[mpu.get_tensor_model_parallel_rank()].contiguous()


def forward(self: Any, *given: Any, **named: Any) -> Any:
    """Run a layer as upstream does; one with experts gets the mask of its microbatch."""
    found = getattr(named.get("packed_seq_params"), KEY, None)
    if found is not None and isinstance(self.mlp, MoELayer) and named.get("padding_mask") is None:
        named["padding_mask"] = found
    return _forward(self, *given, **named)


def balance(*given: Any, **named: Any) -> Any:
    """Return upstream's balancing loss; with a mask by its own formula instead of the fused kernel.

    With a mask the number of tokens is a float on the GPU. The kernel of Transformer Engine 2.12 to
    2.16 takes an int, for which the host would have to wait in every layer, and that of 2.20 an
    int64 (``transformer_engine/pytorch/router.py: FusedAuxLoss``).
    """
    if isinstance(named.get("total_num_tokens"), torch.Tensor):
        named["fused"] = False
    return _balance(*given, **named)


def install() -> None:
    """Replace the trainer's preparation of a batch, a layer's pass, and the balancing loss."""
    BaseMegatronTrainer._prepare_batch = prepare_batch
    TransformerLayer.forward = forward
    router.switch_load_balancing_loss_func = balance
