"""Read an export back: names, shapes and values of its tensors, and the model where it is small.

``python3 -m launchers.rehearsal.load_export EXPORT MODEL RESULT`` runs in a process of its own,
without a GPU, and writes a ``measured.Loaded`` as JSON. It compares names and shapes with those of
the model that training began from, reads every tensor, looks for values that are not finite, and
loads and runs the model with transformers if its weights take at most ``RUN_BYTES``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from launchers.rehearsal.measured import Loaded
from launchers.storage.seal_check import header

RUN_BYTES = 4 << 30
"""Larger models are not loaded as a whole: rank 0's host memory still holds page cache and shared
memory of the training, and one forward pass on CPUs would take minutes."""
LISTED = 5
"""Number of names in a message."""
TIED = "lm_head.weight"
"""Transformers leaves it out, and ms-swift may write it, where it is the embedding."""
ADAPTER_CONFIG = "adapter_config.json"

Shapes = Mapping[str, tuple[int, ...]]


def read_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all tensors, from the headers of a folder's safetensors.

    Raises:
        ValueError: a file is not of that format.
    """
    found: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        size = path.stat().st_size
        read = header(path, size)
        if not 0 < read.size <= size:
            raise ValueError(f"{path.name} is not a safetensors file")
        found |= {name: tuple(entry["shape"]) for name, entry in read.tensors.items()}
    return found


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


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def load(export: Path, model: Path) -> Loaded:
    """Read an export back.

    Args:
        export: the folder of the export; that of an adapter alone has no model to compare with.
        model: the model in Hugging Face format that training began from.
    """
    began = time.monotonic()
    is_adapter = (export / ADAPTER_CONFIG).exists()
    shapes = read_shapes(export)
    problems = [] if is_adapter else compare(shapes, read_shapes(model))
    if not shapes:
        problems.append("the export has no tensors")
    problems += not_finite(export)
    size = sum(path.stat().st_size for path in export.glob("*.safetensors"))
    found = Loaded(tensors=len(shapes), bytes=size, problems=tuple(problems))
    if not problems and not is_adapter and size <= RUN_BYTES:
        found = run(found, export)
    return replace(found, seconds=round(time.monotonic() - began, 3))


def not_finite(folder: Path) -> Iterable[str]:
    """Read every tensor; return a problem if any holds NaN or Inf."""
    import torch
    from safetensors import safe_open

    wrong = []
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in list(file.keys()):  # safe_open is not a mapping
                tensor = file.get_tensor(name)
                # a sum needs no second tensor of the same size, as isfinite would
                if tensor.is_floating_point() and not torch.isfinite(
                    tensor.sum(dtype=torch.float64)
                ):
                    wrong.append(name)
    return [f"{len(wrong)} tensors hold NaN or Inf: {_listed(wrong)}"] if wrong else []


def run(found: Loaded, export: Path) -> Loaded:
    """Load the model with transformers and run it on a few tokens."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    AutoTokenizer.from_pretrained(export)
    model, info = AutoModelForCausalLM.from_pretrained(
        export, dtype="auto", output_loading_info=True
    )
    problems = [
        f"transformers reports {kind}: {_listed(sorted(map(str, info[kind])))}"
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")
        if info.get(kind)
    ]
    with torch.no_grad():
        logits = model(input_ids=torch.arange(8).unsqueeze(0)).logits
    if not torch.isfinite(logits).all():
        problems.append("the exported model's logits are not finite")
    return replace(found, model=type(model).__name__, problems=tuple(problems))


def main(argv: list[str]) -> int:
    """Write the result, also of an export that can't be read; return the exit code."""
    export, model, result = map(Path, argv)
    try:
        found = load(export, model)
    except Exception as error:
        found = Loaded(problems=(f"{type(error).__name__}: {error}",))
    result.write_text(json.dumps(asdict(found)) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
