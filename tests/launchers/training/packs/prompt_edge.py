"""Prompts once and twice give the same numbers; two CPU ranks, run by the training Python.

Collator, model, attention's positions, experts over both ranks, schedule, gradients' buffers,
trainer and loss are the real ones. Only the kernels stand in: attention computes each text by
itself from ``cu_seqlens_q`` and ``cu_seqlens_kv``, with the mask that it is named, and the fused
rotation the positions of its description (``transformer_engine/pytorch/attention/rope.py``).
Each thing that holds is printed by rank 0.
"""

import importlib
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from tests.launchers.training import dpo_step, edge, megatron_on_cpu
from tests.launchers.training.edge import shown
from tests.launchers.training.packs.gather_packs import Batches, furthest, template

CLOSE = 1e-7
"""The most that log-probabilities may differ by, in nats, and gradients as a part of the greatest
of their tensor: the model is in fp64, megatron-core's cross entropy in fp32."""
PAIRS: tuple[tuple[str, int, int, int], ...] = (
    ("usual", 7, 5, 8),
    ("prompt of one token", 1, 6, 3),
    ("long prompt", 40, 2, 1),
    ("equal rows", 6, -4, -4),
    ("no rejected answer", 5, 4, 0),
    ("no chosen answer", 9, 0, 3),
    ("nothing in common", 0, 5, 6),
    ("answers begin alike", 4, -3, 5),
)
"""Tokens of the prompt and of both answers; with a minus the answer begins with fixed tokens."""


def text(chance: Any, prompt: list[int], answer: int) -> dict[str, Any]:
    """Return a text of a pair; the prompt, or else the first token, has no label."""
    fixed = list(range(1, 1 - answer)) if answer < 0 else []
    drawn = torch.randint(1, megatron_on_cpu.WORDS, (max(answer, 0),), generator=chance).tolist()
    tokens = prompt + fixed + drawn
    bare = max(len(prompt), 1)
    labels = [-100] * bare + tokens[bare:]
    return {"input_ids": tokens, "labels": labels, "length": len(tokens)}


def pack(seed: int) -> list[dict[str, Any]]:
    chance = torch.Generator().manual_seed(seed)
    rows = []
    for at in torch.randperm(len(PAIRS), generator=chance).tolist():
        _, size, *answers = PAIRS[at]
        asked = torch.randint(1, megatron_on_cpu.WORDS, (size,), generator=chance).tolist()
        both = [text(chance, asked, answer) for answer in answers]
        parts = zip(("chosen", "rejected"), both, strict=True)
        rows.append({f"{part}_{k}": v for part, each in parts for k, v in each.items()})
    return rows


def batches(rows: list[list[dict[str, Any]]], once: bool) -> Batches:
    """Collate packs, with filler behind their texts and the reference's numbers."""
    collate: Any = partial(template().data_collator, padding_to=16)
    if once:
        whole = importlib.import_module("datasets").Dataset
        for each in rows:
            cuts = layouts.shared(whole.from_list(each))
            for row, cut in zip(each, cuts, strict=True):
                row[pairs.SHARED] = cut
        collate = feature.Collator(collate)
    made = []
    for each in rows:
        numbers = torch.arange(2.0 * len(each)).view(2, -1) - 50
        made.append({**collate([each]), own.KEY: numbers})
    return made


def bottom_right(
    self: Any, q: Any, k: Any, v: Any, mask: Any, kind: Any, *_: Any, **named: Any
) -> Any:
    """Attend as Transformer Engine describes its masks of packs."""
    packed = named["packed_seq_params"]
    assert packed.cu_seqlens_q_padded is None
    is_right = kind.name == "padding_causal_bottom_right"
    queries, keys = packed.cu_seqlens_q.tolist(), packed.cu_seqlens_kv.tolist()
    assert is_right or (kind.name in ("causal", "padding_causal") and queries == keys)
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    found = []
    for a, b, c, d in zip(queries, queries[1:], keys, keys[1:], strict=False):
        assert b - a <= packed.max_seqlen_q and d - c <= packed.max_seqlen_kv
        allowed = torch.ones(b - a, d - c, dtype=torch.bool).tril(d - c - (b - a))
        parts = [t.transpose(0, 1)[None] for t in (q[a:b], k[c:d], v[c:d])]
        seen = torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=allowed)
        found.append(seen[0].transpose(0, 1).reshape(b - a, -1))
    return torch.cat(found)


def fused(t: Any, cu_seqlens: Any, freqs: Any, **_: Any) -> Any:
    """Rotate a packed tensor by the distance from the first token of its text."""
    begins, ends = cu_seqlens[:-1], cu_seqlens[1:]
    places = torch.cat([torch.arange(int(b - a)) for a, b in zip(begins, ends, strict=True)])
    of_token = freqs[places].squeeze(1).squeeze(1).unsqueeze(1)
    half = torch.cat([-t.chunk(2, -1)[1], t.chunk(2, -1)[0]], -1)
    return t * of_token.cos().to(t.dtype) + half * of_token.sin().to(t.dtype)


def init(self: Any, config: Any = None, layer_number: int = 0, **_: Any) -> None:
    """Build the attention without Transformer Engine."""
    torch.nn.Module.__init__(self)


def step(made: Batches, *, is_fused: bool) -> tuple[Any, Any]:
    """Run a step; return the log-probability of each label, and the gradients."""
    model = megatron_on_cpu.build(
        **{"bf16": False, "params_dtype": torch.float64, "moe_router_dtype": "fp64"},
        moe_aux_loss_coeff=0.0,  # it counts a shared token once
    )
    model.config.apply_rope_fusion = is_fused
    meta = SimpleNamespace(is_multimodal=False)
    mine = dpo_step.trainer(model, dpo_step.buffered(model), megatron_model_meta=meta)
    mine._all_reduce_metric = lambda metric: metric
    found: list[Any] = []
    inner = mine.loss_func

    def loss_func(output: Any, *, labels: Any, **named: Any) -> Any:
        found.append(-output[labels != -100].detach())
        return inner(output, labels=labels, **named)

    mine.loss_func = loss_func
    dpo_step.forward_backward(mine, made, 256)
    fit = feature.unfit(mine.args, [model])
    assert not fit, fit
    return found, {name: weight.main_grad for name, weight in model.named_parameters()}


def apart(one: Any, other: Any) -> tuple[float, float]:
    assert [each.shape for each in one[0]] == [each.shape for each in other[0]]
    both = zip(one[0], other[0], strict=True)
    return max(float((a - b).abs().max()) for a, b in both), furthest(one[1], other[1])


def datasets() -> None:
    """Shorten the lengths of tokenised rows; refuse rows without tokens, and another model."""
    found = importlib.import_module("datasets").Dataset.from_list(pack(1))
    both = zip(found["chosen_length"], found["rejected_length"], strict=True)
    whole = found.add_column("lengths", [[*each] for each in both])
    feature._encode = lambda self: [whole, None]
    made, absent = feature.encode_dataset(SimpleNamespace(has_tokens=True))
    of_row = zip(whole["lengths"], made["lengths"], made[pairs.SHARED], strict=True)
    right = [new == [one, two - cut] and new[1] > 0 for (one, two), new, cut in of_row]
    shown("rows have shorter lengths", all(right) and any(made[pairs.SHARED]) and absent is None)
    args = SimpleNamespace(dataset=[], val_dataset=[], streaming=True)
    feature.unfit_for_cache = lambda *_: "streaming"
    streaming = SimpleNamespace(args=args, template=None)
    refused("prompt-once-tokens", lambda: feature.encode_dataset(streaming))
    model = megatron_on_cpu.build(bf16=False, params_dtype=torch.float64, mtp_num_layers=None)
    model.decoder.layers[1].self_attention.core_attention = torch.nn.Identity()
    args = SimpleNamespace(megatron_model_meta=SimpleNamespace(is_multimodal=False))
    mine = SimpleNamespace(args=args, unwrapped_models=[model])
    refused("prompt-once-model", lambda: feature.get_data_collator(mine))


def refused(id: str, call: Any) -> None:
    try:
        call()
    except exits.LaunchError as error:
        right = (error.id, error.code) == (id, exits.Exit.CONFIG)
        shown(f"refused {id}", right, error.cause)


def main() -> None:
    """Compare a step of prompts once with one of whole texts; break it once."""
    rows = [pack(20 + dist.get_rank() * 2 + n) for n in range(2)]
    twice, once = batches(rows, False), batches(rows, True)
    tokens = [sum(sum(each["seq_lens"]) for each in made) for made in (twice, once)]
    shown("tokens", tokens[1] < tokens[0], tokens)
    for is_fused in (False, True):
        usual, other = (step(made, is_fused=is_fused) for made in (twice, once))
        found = apart(usual, other)
        shown(f"fused {is_fused}: equal but for", max(found) < CLOSE, found)
    moved = [{**each, "position_ids": each["text_position_ids"]} for each in once]
    wrong = apart(step(twice, is_fused=True), step(moved, is_fused=True))
    shown("control: with other positions they differ", min(wrong) > 1e-4, wrong)
    sort: Any = lambda kept: kept | {"keys": kept["keys"].sort().values}  # noqa: E731
    keys = [{**each, feature.KEY: sort(each[feature.KEY])} for each in once]
    wrong = apart(step(twice, is_fused=True), step(keys, is_fused=True))
    shown("control: with other keys they differ", min(wrong) > 1e-4, wrong)


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    megatron_on_cpu.join()
    engine: Any = importlib.import_module("megatron.core.extensions.transformer_engine")
    engine.TEDotProductAttention.__init__ = init
    engine.TEDotProductAttention.forward = bottom_right
    megatron_on_cpu.Attention = engine.TEDotProductAttention  # type: ignore[misc]
    vars(importlib.import_module("megatron.core.models.common.embeddings.rope_utils"))[
        "fused_apply_rotary_pos_emb_thd"
    ] = fused
    own: Any = importlib.import_module("launchers.reference.trainer")
    pairs: Any = importlib.import_module("launchers.reference.pairs")
    loading: Any = importlib.import_module("launchers.training.loading")
    loading.install("reference")
    feature: Any = importlib.import_module("launchers.training.packs.prompt_once")
    layouts: Any = importlib.import_module("launchers.training.packs.prompt_layout")
    exits: Any = importlib.import_module("launchers.exits")
    feature.install()
    datasets()
    main()
    edge.end()
