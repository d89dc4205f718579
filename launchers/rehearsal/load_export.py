"""Read an export back: names, shapes and values of its tensors, and the model where it is small.

``python3 -m launchers.rehearsal.load_export EXPORT MODEL RESULT [PROBE BASE]`` runs in a process of
its own and writes a ``measured.Loaded`` as JSON. It compares names and shapes with those of the
model that training began from, reads every tensor, looks for values that are not finite, and loads
and runs the model with transformers. With the trainer's log-probabilities (``evaluation/probe.py``)
it compares them, on free GPUs or on CPU.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

from launchers.config.env import is_one
from launchers.exits import LaunchError
from launchers.hub.client import disk_failure_from_text
from launchers.hub.fetch import INDEX
from launchers.rehearsal import early_read
from launchers.rehearsal.early_read import WEIGHTS, Noted
from launchers.rehearsal.export_settings import document, other_settings, unended, unserved
from launchers.rehearsal.measured import Loaded
from launchers.storage.manifest import READERS, Identity, identity
from launchers.storage.seal_check import header, lost
from launchers.system import lookup
from launchers.system.host_memory import available
from launchers.system.threads import each
from launchers.units import GIB

VARIABLE = "DPO_EXPORT_TEST"
"""Set by the user in ``extraEnv``: one of ``CHOICES``."""
CHOICES = ("none", "compare")
RUN_BYTES = 4 << 30
"""Larger models are not loaded as a whole: rank 0's host memory still holds page cache and shared
memory of the training, and one forward pass on CPUs would take minutes."""
LISTED = 5
"""Number of names in a message."""
TIED = "lm_head.weight"
"""Transformers leaves it out, and ms-swift may write it, where it is the embedding."""
ADAPTER_CONFIG = "adapter_config.json"
SIDES = ("chosen", "rejected")
PART = 1024
ROOM = 1.25
"""Memory for a model, over the size of its weights."""
SECONDS = 300.0
"""Time for the comparison; 64 pairs of 48 layers take longer on CPU alone."""
BOUND = 1e-4
"""Bound of the mean difference in nats a token, where training computes in float32."""
NARROW_BOUND = 5e-3
"""The same in bf16 or fp16. Texts of one model differed by up to 8.7e-4 between two implementations
of attention, and by up to 7.2e-4 between layouts (``tests/bench/notes/agreement.md``, whose bound
is 2e-3 for one program); positions off by one gave 1.1e-2."""
CHAT = [
    {"role": "user", "content": "1 + 1?"},
    {"role": "assistant", "content": "2"},
    {"role": "user", "content": "Why? \u00bfPor qu\u00e9?"},
]


def chosen(env: Mapping[str, str], backend: str) -> str:
    """Return whether an export is compared; in a rehearsal with Megatron on request.

    There it takes 70 s for 48 layers on 2 H200 (``tests/bench/notes/restarts.md``).

    >>> chosen({}, "megatron"), chosen({"DPO_REHEARSE": "1"}, "megatron")
    ('compare', 'none')
    >>> chosen({VARIABLE: "compare", "DPO_REHEARSE": "1"}, "megatron")
    'compare'
    """
    is_left_out = backend == "megatron" and is_one(env, "DPO_REHEARSE")
    return env.get(VARIABLE) or ("none" if is_left_out else "compare")


Shapes = Mapping[str, tuple[int, ...]]
Files = Mapping[str, Shapes]
Probe = Mapping[str, Any]


def read_shapes(folder: Path) -> Files:
    """Return the shapes of the tensors of each file, from the headers of a folder's safetensors.

    Raises:
        ValueError: a file is not of that format.
    """
    found = {}
    for path in lookup.matching(folder, WEIGHTS):
        size = path.stat().st_size
        read = header(path, size)
        if not 0 < read.size <= size:
            raise ValueError(f"{path.name} is not a safetensors file")
        found[path.name] = {name: tuple(entry["shape"]) for name, entry in read.tensors.items()}
    return found


def _together(files: Files) -> Shapes:
    return dict(chain.from_iterable(held.items() for held in files.values()))


def compare(export: Shapes, model: Shapes) -> list[str]:
    """Return what differs between the tensors of an export and of the model it was trained from.

    >>> compare({"a": (2, 3)}, {"a": (2, 3), "lm_head.weight": (9, 3)})
    []
    >>> compare({"a": (2, 3)}, {"a": (3, 2), "b": (1,)})
    ['1 of 2 tensors are missing: b', '1 tensors have another shape: a']
    """
    missing = sorted(model.keys() - export.keys() - {TIED})
    added = sorted(export.keys() - model.keys() - {TIED})
    other = sorted(name for name in export.keys() & model.keys() if export[name] != model[name])
    texts = {
        f"{len(missing)} of {len(model)} tensors are missing": missing,
        f"{len(added)} tensors are not in the model": added,
        f"{len(other)} tensors have another shape": other,
    }
    return [f"{text}: {_listed(names)}" for text, names in texts.items() if names]


def misplaced(folder: Path, files: Files) -> list[str]:
    """Return a problem if the index is not that of the files: servers read one or the other."""
    places = {(name, file) for file, held in files.items() for name in held}
    index = document(folder / INDEX).get("weight_map", {})
    other = sorted({name for name, _ in places ^ {*index.items()}})
    if not other or (not index and len(files) == 1):
        return []
    return [f"{INDEX} names another file, or none, for {len(other)} tensors: {_listed(other)}"]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def load(
    export: Path, model: Path, probes: Sequence[Path] = (), noted: Noted = early_read.NOTHING
) -> Loaded:
    """Read an export back.

    ``probes`` are the trainer's log-probabilities at this step, and before the first one; ``noted``
    is what was read before.
    """
    began = time.monotonic()
    probe, base = ([document(path) for path in probes] + [{}, {}])[:2]
    is_adapter = lookup.exists(export / ADAPTER_CONFIG)
    files = read_shapes(export)
    shapes, problems = _together(files), list[str]()
    if not is_adapter:
        before = _together(read_shapes(model))
        problems += compare(shapes, before) if before else []  # none in a model of .bin files
        problems += misplaced(export, files) + unended(export, model)
        problems += other_settings(export, model)
    if not shapes:
        problems.append("the export has no tensors")
    problems += not_finite(export, noted.not_finite) + zeros(export)
    config = document(export / "config.json")
    named = config.get("dtype") or config.get("torch_dtype")
    if probe and named not in (None, probe["weights"]):
        problems.append(f"config.json says {named}, but {probe['weights']} weights were trained")
    size = _size(export)
    found = Loaded(tensors=len(shapes), bytes=size, problems=tuple(problems))
    if is_adapter:  # a server loads it into the model
        size += _size(model)
    place = _place(size, bool(probe))
    if not problems and place and (probe or not is_adapter):
        found = run(found, export, place, probe, base)
        if not is_adapter and (other := unserved(found.model, export, model)):
            found = replace(found, problems=(*found.problems, other))
    elif probe and not problems:
        why = f"{size / GIB:.3g} GiB fit neither into the free GPU memory nor into the host's"
        found = replace(found, not_compared=why)
    return replace(found, seconds=round(time.monotonic() - began, 3))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in lookup.matching(folder, WEIGHTS))


def _place(size: int, compares: bool) -> str:
    """Return where a model of a size fits: ``auto``, the GPUs, ``cpu``, or empty."""
    if compares:
        import torch

        free = [torch.cuda.mem_get_info(n)[0] for n in range(torch.cuda.device_count())]
        if sum(free) > ROOM * size + len(free) * GIB:
            return "auto"
    return "cpu" if size <= RUN_BYTES or (compares and available() > ROOM * size) else ""


def zeros(folder: Path) -> list[str]:
    """Return the files with zeros or a hole where a storage has lost what was written."""
    paths = lookup.matching(folder, WEIGHTS)
    found = [(path.name, lost(path, header(path, path.stat().st_size))) for path in paths]
    return [f"{name} {wrong}" for name, wrong in found if wrong]


def not_finite(folder: Path, known: Mapping[Identity, list[str]]) -> list[str]:
    """Read every tensor; return a problem if any holds NaN or Inf. ``known`` files were read."""
    files = {path: known.get(identity(path)) for path in lookup.matching(folder, WEIGHTS)}
    if unread := [path for path, names in files.items() if names is None]:
        found = each(early_read.not_finite, unread, READERS)
        files |= dict(zip(unread, found, strict=True))
    wrong = [name for names in files.values() for name in names or ()]
    return [f"{len(wrong)} tensors hold NaN or Inf: {_listed(wrong)}"] if wrong else []


def run(found: Loaded, export: Path, place: str, probe: Probe, base: Probe) -> Loaded:
    """Load the model with transformers, and compare it with the trainer's or run a few tokens."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    problems = []
    if not lookup.exists(export / ADAPTER_CONFIG):
        tokenizer = AutoTokenizer.from_pretrained(export)
        problems = _tokenizer_problems(tokenizer, probe.get("tokenizer"))
    spread = {"device_map": "auto"} if place == "auto" else {}
    model, info = AutoModelForCausalLM.from_pretrained(
        export, dtype="auto", output_loading_info=True, **spread
    )
    problems += [
        f"transformers reports {kind}: {_listed(sorted(map(str, info[kind])))}"
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")
        if info.get(kind)
    ]
    compared: dict[str, Any] = {}
    with torch.no_grad():
        if probe:
            compared = compare_pairs(model, probe, base)
        elif not torch.isfinite(model(input_ids=torch.arange(8).unsqueeze(0)).logits).all():
            problems.append("the exported model's logits are not finite")
    if compared and not compared["difference"] <= compared["bound"]:  # NaN is a problem, too
        problems.append(
            f"the log-probabilities of {compared['pairs']} pairs differ from the trainer's by "
            f"{compared['difference']:.3g} nats a token; the bound is {compared['bound']}"
        )
    name = type(model).__name__
    return replace(found, model=name, problems=tuple(problems), compared=compared)


def describe(tokenizer: Any, texts: Sequence[str]) -> dict[str, Any]:
    """Return what a tokenizer makes of texts and of a conversation, to compare it with another."""
    chat = None
    if getattr(tokenizer, "chat_template", None):
        chat = tokenizer.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True)
    ids = [tokenizer.encode(text) for text in texts]
    return {"texts": list(texts), "ids": ids, "chat": chat, "end": tokenizer.eos_token}


def _tokenizer_problems(tokenizer: Any, wanted: Mapping[str, Any] | None) -> list[str]:
    if wanted is None:
        return []
    found = describe(tokenizer, wanted["texts"])
    names = {"ids": "encoding of texts", "chat": "chat template", "end": "end token"}
    return [
        f"the exported tokenizer's {name} differs from the trainer's"
        for key, name in names.items()
        if found[key] != wanted[key]
    ]


def compare_pairs(model: Any, probe: Probe, base: Probe) -> dict[str, Any]:
    """Return how far a model's log-probabilities are from the trainer's, in nats a token.

    The mean over the answers' tokens; ``worst`` is that of one answer. The pairs that are computed
    within ``SECONDS`` count.
    """
    stop, worst, total, tokens, pairs = time.monotonic() + SECONDS, 0.0, 0.0, 0, 0
    for pair in probe["pairs"]:
        for side, trained in zip(SIDES, pair["sums"], strict=True):
            value, count = log_probability(model, pair[f"{side}_input_ids"], pair[f"{side}_labels"])
            difference = abs(value - trained)
            total, tokens = total + difference, tokens + count
            worst = max(worst, difference / max(count, 1))
        pairs += 1
        if time.monotonic() > stop:
            break
    is_narrow = probe["narrow"] or probe["weights"] != "float32"
    found = {"pairs": pairs, "held_out": probe["held_out"], "difference": total / max(tokens, 1)}
    found |= {"worst": worst, "bound": NARROW_BOUND if is_narrow else BOUND}
    return found | preferences([each["sums"] for each in probe["pairs"]], base)


def preferences(tuned: Sequence[Sequence[float]], base: Probe) -> dict[str, Any]:
    """Return the shares of pairs whose chosen answer is likelier, and the change of the margin.

    >>> preferences([[-1.0, -5.0]], {"pairs": [{"sums": [-2.0, -2.0]}]})
    {'tuned_accuracy': 1.0, 'base_accuracy': 0.0, 'margin': 4.0}
    """
    found = {"tuned_accuracy": sum(c > r for c, r in tuned) / len(tuned)}
    before = [each["sums"] for each in base.get("pairs", ())]
    if len(before) != len(tuned):
        return found
    change = sum(c - r - c0 + r0 for (c, r), (c0, r0) in zip(tuned, before, strict=True))
    found["base_accuracy"] = sum(c > r for c, r in before) / len(before)
    return {**found, "margin": change / len(tuned)}


def log_probability(model: Any, ids: list[int], labels: list[int]) -> tuple[float, int]:
    """Return the summed log-probability of a text's labels in nats, and their number."""
    import torch

    at = [n for n, label in enumerate(labels) if n and label != -100]
    if not at:
        return 0.0, 0
    device = model.get_input_embeddings().weight.device
    logits = model(input_ids=torch.tensor([ids], device=device), use_cache=False).logits[0]
    value = 0.0
    for start in range(0, len(at), PART):  # in float32 a part at a time
        part = at[start : start + PART]
        wanted = torch.tensor([labels[n] for n in part], device=logits.device)
        losses = torch.nn.functional.cross_entropy(
            logits[[n - 1 for n in part]].float(), wanted, reduction="none"
        )
        value -= float(losses.double().sum())
    return value, len(at)


def _is_unread(error: Exception) -> bool:
    """Return whether the storage gave no answer, which says nothing about the export.

    safetensors and transformers keep only the text of its error.
    """
    is_absent = isinstance(error, lookup.ABSENT)
    is_systems = isinstance(error, OSError) and error.errno is not None and not is_absent
    by_text = disk_failure_from_text(str(error)) is not None
    return isinstance(error, LaunchError) or is_systems or by_text


def main(argv: list[str]) -> int:
    """Write the result, also of an export that can't be read; return the exit code."""
    export, model, result, *probes = map(Path, argv)
    try:
        found = load(export, model, probes, early_read.noted(result.parent))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        is_full = isinstance(error, MemoryError) or "OutOfMemory" in text
        is_open = is_full or _is_unread(error)
        found = Loaded(not_compared=text) if is_open else Loaded(problems=(text,))
    result.write_text(json.dumps(asdict(found)) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
