"""Compute the prompt of a pair once: its rejected text attends to the keys of the chosen one's.

The feature of ``recipe.promptOnce``, after the idea of arXiv 2410.20305. ms-swift computes a pair's
prompt in both texts; here the rejected text of a pack begins with the prompt's last token
(``prompt_layout.py``). Its positions continue those of the prompt, and its keys and values are the
prompt's, gathered from the chosen text, then its own. Tokens, labels, log-probabilities and
gradients are those of two whole texts, up to rounding; the loss does not know of it. What differs:
the router's balancing loss and the experts' counts have each token once.

- Rows are packed by what is computed of them: the column ``lengths`` is shortened before ms-swift
  packs (``swift/pipelines/train/sft.py``).
- Attention has more keys than queries: Transformer Engine's ``padding_causal_bottom_right``, which
  cuDNN from 9.6 and flash-attn have for packs.
- megatron-core rotates a packed text by its token's distance from the text's first token. Here the
  frequencies of each token are those of its position, and the pack is described to the rotation as
  one text (``cu_seqlens_q_padded``, which attention itself does not get).
"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from mcore_bridge.model.gpt_model import GPTModel
from megatron.core.extensions.transformer_engine import TEDotProductAttention
from megatron.core.transformer.attention import SelfAttention
from swift.megatron.trainers.base import BaseMegatronTrainer
from swift.pipelines.train.sft import SwiftSft
from swift.utils import get_logger

from launchers.exits import Exit, LaunchError
from launchers.reference.pairs import SHARED, rows_of
from launchers.training.packs.pack_lengths import bound
from launchers.training.packs.prompt_layout import layout, shared, without_shared
from launchers.training.tokens.cache import unfit as unfit_for_cache

KEY = "prompt_once"
"""Key of a batch, and attribute of ``packed_seq_params``."""
BOTTOM_RIGHT = SimpleNamespace(name="padding_causal_bottom_right")
"""Mask of Transformer Engine: a text's last token attends to all of its keys. megatron-core's
``AttnMaskType`` has no such value; only the name is read."""
_OTHERWISE = "set recipe.promptOnce: false"
_encode = SwiftSft._encode_dataset
_collator = BaseMegatronTrainer._get_data_collator
_prepare = BaseMegatronTrainer._prepare_batch
_rotary = GPTModel._get_rotary_pos_emb
_attend = TEDotProductAttention.forward
_logger = get_logger()


def encode_dataset(self: Any, *given: Any, **named: Any) -> Any:
    """Return upstream's rows with their shared tokens, and with lengths that leave these out.

    Raises:
        LaunchError: CONFIG, or IO where the workspace may answer later: the rows are not
            tokenised, so that their lengths cannot be known before they are packed.
    """
    made = _encode(self, *given, **named)
    if not getattr(self, "has_tokens", False):
        reason = unfit_for_cache(self.args, self.template)
        raise LaunchError(
            Exit.CONFIG if reason else Exit.IO,
            "recipe.promptOnce needs rows that are tokenised before training; they are not: "
            + (reason or "the log says why (tokens are not kept)"),
            f"correct this, or {_OTHERWISE}",
            id="prompt-once-tokens",
        )
    return [None if rows is None else _shortened(rows) for rows in made]


def _shortened(rows: Any) -> Any:
    """Return the rows with shorter lengths, and log the share of the tokens that is left out."""
    cuts, lengths = shared(rows), list(rows["lengths"])
    shorter = [[one, other - cut] for (one, other), cut in zip(lengths, cuts, strict=True)]
    share = sum(cuts) / max(1, sum(map(sum, lengths)))
    _logger.info("prompts are computed once: %.1f %% of the tokens are left out", 100 * share)
    rows = rows.remove_columns("lengths").add_column("lengths", shorter)
    return rows.add_column(SHARED, cuts)


class Collator:
    """A collator that leaves the shared tokens of rejected texts out of a microbatch."""

    def __init__(self, inner: Any) -> None:
        """Wrap the collator that makes microbatches of whole texts."""
        self.inner = inner

    def __call__(self, batch: list[Any]) -> dict[str, Any]:
        """Collate a microbatch and say where attention finds the keys of each text."""
        rows: list[Any] = [*rows_of(batch)]
        cuts = [row.get(SHARED, 0) for row in rows]
        made: dict[str, Any] = self.inner([[without_shared(row) for row in rows]])
        places = made["position_ids"]
        sizes = np.diff(np.append(np.flatnonzero(places[0].numpy() == 0), places.shape[1]))
        before = np.zeros_like(sizes)
        before[len(rows) : 2 * len(rows)] = cuts
        found = layout(sizes, cuts)
        found |= {name: torch.from_numpy(each) for name, each in found.items() if name != "longest"}
        found["whole"] = torch.tensor([0, places.shape[1]], dtype=torch.int32)
        # by these ms-swift finds where the texts begin
        made["text_position_ids"] = places
        made["position_ids"] = places + torch.from_numpy(np.repeat(before, sizes))
        return {**made, KEY: found, SHARED: cuts}


def get_data_collator(self: Any) -> Collator:
    """Return upstream's collator, with the prompts once.

    Raises:
        LaunchError: CONFIG, attention of this model cannot do it.
    """
    if reason := unfit(self.args, self.unwrapped_models):
        raise LaunchError(
            Exit.CONFIG,
            f"recipe.promptOnce does not support {reason}",
            _OTHERWISE,
            id="prompt-once-model",
        )
    return Collator(_collator(self))


def unfit(args: Any, models: list[Any]) -> str:
    """Return what in the built model has no attention with more keys than queries, or ""."""
    config = models[0].config
    found = {
        "context parallelism": config.context_parallel_size > 1,
        "several modalities": getattr(args.megatron_model_meta, "is_multimodal", False),
        "multi-token prediction": bool(getattr(config, "mtp_num_layers", None)),
        "a window of attention": getattr(config, "window_size", None) is not None,
        f"positions by {config.position_embedding_type}": config.position_embedding_type != "rope",
        "overlap_moe_expert_parallel_comm": getattr(
            config, "overlap_moe_expert_parallel_comm", False
        ),
        "softmax with a sink": getattr(config, "softmax_type", "vanilla") != "vanilla",
    }
    for model in models:
        found |= {
            f"positions of {type(model).__name__}": type(model)._get_rotary_pos_emb
            is not get_rotary_pos_emb
        }
        for layer in model.decoder.layers:
            own = layer.self_attention
            inner = type(getattr(own, "core_attention", None))
            name = f"{type(own).__name__} with {inner.__name__}"
            found[name] = type(own) is not SelfAttention or inner is not TEDotProductAttention
    return next((what for what, holds in found.items() if holds), "")


def prepare_batch(self: Any, data: Any, vp_stage: Any = None) -> Any:
    """Prepare a microbatch as upstream does, and note where attention finds the keys."""
    data.pop(SHARED, None)
    batch = _prepare(self, data, vp_stage)
    if (found := batch.pop(KEY, None)) is not None:
        packed = batch["packed_seq_params"]
        packed.max_seqlen_q, packed.max_seqlen_kv = map(bound, found["longest"])
        setattr(packed, KEY, (replace(packed, cu_seqlens_kv=found["ends"]), found))
        packed.cu_seqlens_q_padded = packed.cu_seqlens_kv_padded = found["whole"]
    return batch


def get_rotary_pos_emb(
    self: Any, decoder_input: Any, position_ids: Any, packed_seq_params: Any, *given: Any, **kw: Any
) -> Any:
    """Return the frequencies of each token of a pack for the fused rotation, [tokens, 1, 1, dim].

    mcore-bridge gives them to the other rotation by position (``gpt_model.py: forward``).
    """
    found, *others = _rotary(self, decoder_input, position_ids, packed_seq_params, *given, **kw)
    if self.config.apply_rope_fusion and hasattr(packed_seq_params, KEY):
        found = found[position_ids[0]]
    return (found, *others)


class Gathered(torch.autograd.Function):  # type: ignore[misc]
    """Keys or values of all texts, those of shared tokens once for each text.

    Backward adds at most two gradients a token, so that their order does not matter, as it would
    with the atomic sums of ``index_select``'s own.
    """

    @staticmethod
    def forward(ctx: Any, own: Any, where: dict[str, Any]) -> Any:
        """Gather [tokens, heads, dim] to [keys, heads, dim]."""
        ctx.where = where
        return own.index_select(0, where["keys"])

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, None]:
        """Add the gradients of copies to those of their tokens."""
        where = ctx.where
        made = gradient.index_select(0, where["own"])
        added = made.index_select(0, where["sources"])
        added += gradient.index_select(0, where["copies"])
        return made.index_copy_(0, where["sources"], added), None


def attend(
    self: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    attn_mask_type: Any = None,
    *given: Any,
    packed_seq_params: Any = None,
    **named: Any,
) -> Any:
    """Run upstream's attention; a rejected text has the keys of its prompt, too."""
    if (found := getattr(packed_seq_params, KEY, None)) is not None:
        packed_seq_params, where = found
        key, value = Gathered.apply(key, where), Gathered.apply(value, where)
        attn_mask_type = BOTTOM_RIGHT
    named["packed_seq_params"] = packed_seq_params
    return _attend(self, query, key, value, attention_mask, attn_mask_type, *given, **named)


def install() -> None:
    """Replace the rows' lengths, the collator, the batch's preparation, positions and attention."""
    SwiftSft._encode_dataset = encode_dataset
    BaseMegatronTrainer._get_data_collator = get_data_collator
    BaseMegatronTrainer._prepare_batch = prepare_batch
    GPTModel._get_rotary_pos_emb = get_rotary_pos_emb
    TEDotProductAttention.forward = attend
