"""Compute logits and losses of a pack's counted tokens only.

A prompt, a text's last token and filler have no label, so that no loss reads their logits, but
ms-swift 4.4.1 computes those of all tokens: 0.6 MFLOP and 300 KB a token and pass with Qwen3's
vocabulary, as much as four of its layers. Here the model's head gets the rows with labels, and the
losses of the others are zero, which is what Transformer Engine returns for them. A row's logits
depend on no other row, in a step and in the pass over the reference alike, so that the first loss
stays ln 2; the gradient of rows without labels is zero either way.

Not with a part of the sequence on each rank (context or sequence parallelism) nor with heads for
later tokens (MTP), which need all rows.
"""

from __future__ import annotations

from typing import Any

import torch
from mcore_bridge.model.gpt_model import GPTModel
from swift.megatron.trainers.base import BaseMegatronTrainer

from launchers.training.packs.pack_lengths import sent

KEY = "counted_tokens"
"""Attribute of ``packed_seq_params``: int64 [rows], the tokens whose losses are computed."""
STEP = 512
"""Rows to whose multiple their number is rounded up: few shapes, and full tiles of the product."""
_prepare = BaseMegatronTrainer._prepare_batch
_postprocess = GPTModel._postprocess


def prepare_batch(self: Any, data: Any, vp_stage: Any = None) -> Any:
    """Prepare a microbatch as upstream does, and note which of its tokens have a label."""
    labels, args = data.get("labels"), self.args
    batch = _prepare(self, data, vp_stage)
    packed = batch.get("packed_seq_params")
    is_split = args.context_parallel_size > 1 or args.sequence_parallel
    if packed is not None and labels is not None and len(labels) == 1 and not is_split:
        found = counted(labels[0].roll(-1))  # as upstream: a token is asked for the next one
        setattr(packed, KEY, sent(found, batch["position_ids"].device))
    return batch


def counted(labels: torch.Tensor) -> torch.Tensor:
    """Return the places of the tokens with a label, and of others up to a multiple of ``STEP``.

    >>> counted(torch.tensor([-100, 5, 6, -100])).tolist()
    [0, 1, 2, 3]
    """
    is_counted = labels != -100
    own, others = is_counted.nonzero()[:, 0], (~is_counted).nonzero()[:, 0]
    size = -(-max(1, len(own)) // STEP) * STEP
    return torch.cat([own, others[: size - len(own)]]).sort().values


class Rows(torch.autograd.Function):  # type: ignore[misc]
    """Some rows, each once; their gradients are copied where ``index_select``'s own adds them."""

    @staticmethod
    def forward(ctx: Any, whole: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Return the rows of ``whole``, ``[tokens, ...]``, at these places."""
        ctx.tokens = whole.shape[0]
        ctx.save_for_backward(places)
        return whole.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return the gradient of all rows."""
        [places], [grad] = ctx.saved_tensors, grads
        whole = grad.new_zeros(ctx.tokens, *grad.shape[1:])
        return whole.index_copy_(0, places, grad), None


def postprocess(self: Any, *, hidden_states: Any, labels: Any, **named: Any) -> Any:
    """Return each token's loss, ``[1, tokens]``: upstream's for counted ones, zero for others."""
    places = getattr(named.get("packed_seq_params"), KEY, None)
    if places is None or labels is None or not self.post_process or self.mtp_process:
        return _postprocess(self, hidden_states=hidden_states, labels=labels, **named)
    rows, some = Rows.apply(hidden_states, places), labels.index_select(1, places)
    losses = _postprocess(self, hidden_states=rows, labels=some, **named)
    return losses.new_zeros(labels.shape).index_copy(1, places, losses)


def install() -> None:
    """Replace the trainer's preparation of a batch, and the model's head."""
    BaseMegatronTrainer._prepare_batch = prepare_batch
    GPTModel._postprocess = postprocess
