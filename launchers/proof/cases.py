"""The differential of each patch: what is trained with it and without it, and what must agree."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Traces = list[dict[str, Any]]
"""Of each rank, as ``trace.train`` makes them."""
ALL = """
dataset={inputs}/pairs.jsonl model={inputs}/dense rlhf_type=dpo model_type=qwen3 tuner_type=full
template=qwen3_nothinking max_length=64 split_dataset_ratio=0 add_version=false check_model=false
dataset_num_proc=1 dataloader_num_workers=0 dataloader_persistent_workers=false rpo_alpha=0.5
dataloader_pin_memory=false save_steps=2 logging_steps=1 load_from_cache_file=false"""
OF_BACKEND = {
    "megatron": """fp16=false bf16=false packing=true packing_length=160 micro_batch_size=1
        global_batch_size=2 num_train_epochs=1 lr=1e-3 ddp_backend=gloo moe_grouped_gemm=false
        use_cpu_initialization=true recompute_granularity=none""",
    "transformers": """torch_dtype=float32 attn_impl=sdpa use_cpu=true report_to=none max_steps=6
        per_device_train_batch_size=2 gradient_accumulation_steps=2 learning_rate=1e-3
        gradient_checkpointing=false""",
}
"""Flags of all cases."""
PAIRS, PACKS = 16, 8
"""Rows of the dataset, and the packs that they make."""
NEAR = 1e-4
"""Difference of two orders of fp32 sums, as a part of the greatest of a tensor."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is run for a patch."""

    backend: str = "megatron"
    flags: str = ""
    upstream: str = ""
    """Other flags of the run without the patch, whose result is the right one."""
    needs: tuple[str, ...] = ()
    """Features that the patch needs; also flags of the run without them hold."""
    ranks: int = 1
    check: Callable[[Traces, Traces], Iterator[str]]


def same(one: Traces, other: Traces, most: float = 0) -> Iterator[str]:
    """Yield what differs: logs, batches, tokens, gradients and what was saved, in any bit."""
    for left, right in zip(one, other, strict=True):
        if not most and left["batches"] != right["batches"]:
            yield "other batches, or tokens of them"
        if not most and len(left["logs"]) != len(right["logs"]):
            yield f"{len(right['logs'])} logged rows instead of {len(left['logs'])}"
        for number, (a, b) in enumerate(zip(left["logs"], right["logs"], strict=False), 1):
            names = [n for n in a if not most or (n in b and ("loss" in n or "rewards" in n))]
            far = [n for n in names if not abs(a[n] - b.get(n, 1e9)) <= most * max(1, abs(a[n]))]
            if far:
                yield f"step {number} logs another {far[0]}: {b.get(far[0])}, not {a[far[0]]}"
                break
        counts = [sum(map(len, each)) for each in of_steps(right)] if right["tokens"] else []
        if not most and counts != right["tokens"]:
            yield f"steps of {counts} tokens are counted as {right['tokens']}"
        yield from differing("gradient", left["steps"], right["steps"], most)
        if not most:
            yield from differing("saved tensor", left["saved"], right["saved"], most)


def near(one: Traces, other: Traces) -> Iterator[str]:
    """Yield what differs by more than the order of sums: losses, and gradients of each step."""
    yield from same(one, other, NEAR)


def of_steps(trace: dict[str, Any]) -> list[list[Any]]:
    """Return the batches of each step."""
    size = len(trace["batches"]) // max(1, len(trace["steps"]))
    return [trace["batches"][n * size :][:size] for n in range(len(trace["steps"]))]


def differing(what: str, one: Any, other: Any, most: float) -> Iterator[str]:
    """Yield the first tensor that differs by more than a part of its greatest value."""
    left, right = dict(_tensors(one)), dict(_tensors(other))
    if not left:
        yield f"no {what} to compare"
    for name, a in left.items():
        b = right.get(name)
        if b is None or (a.shape, a.dtype) != (b.shape, b.dtype):
            yield f"{what} {name} is missing or has another shape"
            return
        if not bool((a == b).all()):  # also of no number
            a, b = a.double(), b.double()
            if (part := float((a - b).abs().max() / a.abs().max().clamp(min=1e-30))) > most:
                yield f"{what} {name} differs by {part:.0e} of its greatest value"
                return


def _tensors(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if hasattr(value, "dtype"):
        yield name, value
    pairs = value.items() if isinstance(value, dict) else ()
    for key, each in enumerate(value) if isinstance(value, list) else pairs:
        yield from _tensors(each, f"{name}/{key}" if name else str(key))


def joint(one: Traces, other: Traces) -> Iterator[str]:
    """Yield what ``same`` does; before the last checkpoint there may be no safetensors."""
    for trace in one if "safetensors_last" in other[0]["calls"] else ():
        for each in list(trace["saved"].values())[:-1]:
            for name in [name for name in each if "safetensors" in name]:
                del each[name]
    yield from same(one, other)
    last: dict[str, Any] = next(reversed(other[0]["saved"].values()), {})
    if not any("safetensors" in name for name in last):
        yield "the last checkpoint has no safetensors"


def packs(one: Traces, other: Traces) -> Iterator[str]:
    """Yield where a step of all ranks has other packs, and what this changes."""
    for number in range(len(one[0]["steps"])):
        steps = [sorted(b for t in each for b in of_steps(t)[number]) for each in (one, other)]
        if steps[0] != steps[1]:
            yield f"step {number + 1} has other packs than upstream's"
            break
    if [t["batches"] for t in one] == [t["batches"] for t in other]:
        yield "nothing is dealt otherwise than by upstream"
    yield from near(*([{**t, "steps": t["saved"]} for t in each] for each in (one, other)))


def windows(one: Traces, other: Traces) -> Iterator[str]:
    """Yield the windows whose gradients are not the mean of their microbatches', with lr 0."""
    singles, begin = one[0]["steps"], 0
    for number, step in enumerate(other[0]["steps"]):
        parts = singles[begin : begin + WINDOW]
        begin += len(parts)
        mean = {name: sum(p[name] for p in parts) / len(parts) for name in parts[0]}
        yield from differing(f"window {number + 1}: gradient", mean, step, NEAR)
    if len(singles) % WINDOW == 0 or begin != len(singles):
        yield "no window has fewer microbatches than the others"


def resumed(one: Traces, other: Traces) -> Iterator[str]:
    """Yield whether a run that resumes in an epoch reads other rows than one without an end."""
    left, right = [list(map(tuple, t[0]["batches"])) for t in (one, other)]
    if not right or left[-len(right) :] != right:
        yield "a resumed epoch has other rows"
    yield from differing("gradient", one[0]["steps"][-1:], other[0]["steps"][-1:], NEAR)


def evaluated(one: Traces, other: Traces) -> Iterator[str]:
    """Yield whether evaluations of one model differ, or do not have upstream's first result."""
    left, right = ([r for r in t[0]["logs"] if "grad_norm" not in r] for t in (one, other))
    if len(right) <= len(left) or not left:
        yield "the run is not evaluated before its first step"
    for row in right:
        if wrong := [n for n in left[0] if abs(row.get(n, 1e9) - left[0][n]) > NEAR]:
            yield f"an evaluation has another {wrong[0]}"
            break


def unreadable(one: Traces, other: Traces) -> Iterator[str]:
    """Yield whether a load of a damaged checkpoint ended well."""
    if other:
        yield "a checkpoint with a damaged shard was loaded without an error"


WINDOW = 3
_UNPACKED = f"packing=false padding_free=true global_batch_size={PAIRS}"
_EXPERTS = """model={inputs}/experts model_type=qwen3_moe moe_aux_loss_coeff=0.1 lr=0
    save_safetensors=false perform_initialization=true"""
_SAME = (
    "startup safetensors_last seal metrics first_step ledger nonfinite stop "
    "one_read device_read grad_check pack_lengths shard_writes early_plots tokens row_forms"
)
_BOTH = ("startup", "seal", "metrics", "first_step", "ledger", "nonfinite", "stop")
CASES: Mapping[str, Case] = {
    **{f"{n}_megatron" if n in _BOTH else n: Case(check=joint) for n in _SAME.split()},
    **{f"{n}_transformers": Case(backend="transformers", check=same) for n in _BOTH},
    "packing": Case(check=packs, ranks=2, flags="global_batch_size=4"),
    "reference": Case(check=near),
    "background_save": Case(check=joint, needs=("seal_megatron",)),
    "tokens+kto": Case(
        backend="transformers",
        check=same,
        flags="rlhf_type=kto dataset={inputs}/kto.jsonl rpo_alpha=",
    ),
    "checked_read": Case(
        check=unreadable, flags="mcore_model={base}/damaged", upstream="mcore_model="
    ),
    "evaluation": Case(
        check=evaluated,
        flags=f"split_dataset_ratio=0.25 eval_steps=2 lr=0 {_UNPACKED} global_batch_size=2",
    ),
    "pair_weights": Case(
        check=near, flags=f"global_batch_size={PACKS}", upstream=_UNPACKED, needs=("packing",)
    ),
    "equal_packs": Case(check=near),
    "counted_head": Case(check=near),
    "filler_mask": Case(check=near, flags=_EXPERTS, needs=("equal_packs",)),
    "rank_order": Case(
        check=near,
        flags=f"{_EXPERTS} moe_token_dispatcher_type=allgather expert_model_parallel_size=2",
        upstream="moe_token_dispatcher_type=alltoall",
        needs=("equal_packs", "filler_mask"),
        ranks=2,
    ),
    "early_counts": Case(
        check=near,
        flags=f"{_EXPERTS} moe_token_dispatcher_type=allgather expert_model_parallel_size=2",
        upstream="moe_token_dispatcher_type=alltoall",
        needs=("equal_packs", "filler_mask", "rank_order"),
        ranks=2,
    ),
    "epoch_order": Case(
        backend="transformers",
        check=resumed,
        flags="save_steps=5 resume_from_checkpoint={base}/out/checkpoint-5",
        upstream="resume_from_checkpoint=",
    ),
    "partial_window": Case(
        backend="transformers",
        check=windows,
        flags=f"learning_rate=0 max_grad_norm=0 max_steps=3 gradient_accumulation_steps={WINDOW}",
        upstream="gradient_accumulation_steps=1 max_steps=8",
    ),
}
"""By feature, and what of it is used. Without flags of their own, cases with the checks ``joint``
and ``same`` are first run together: only if that run differs, each one alone."""


def feature(case: str) -> str:
    """Return the feature of a case.

    >>> feature("tokens+kto")
    'tokens'
    """
    return case.partition("+")[0]


def flags(*texts: str) -> dict[str, str]:
    """Return the flags of texts, of one name the last; an empty value removes it.

    >>> flags("a=1 b=2", "b=3 a=")
    {'b': '3'}
    """
    found = dict(word.split("=", 1) for text in texts for word in text.split())
    return {name: value for name, value in found.items() if value}
