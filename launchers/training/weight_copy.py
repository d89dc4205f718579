"""Whether a model's freshly read weights may be copied instead of being read again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PARAMETERS = ("self", "mg_models", "hf_model_dir", "peft_format", "adapter_name", "converter")
"""Of ``GPTBridge.load_weights`` (mcore-bridge 1.6.0 ``bridge/gpt_bridge.py``)."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """What must agree for a copy to equal a second read."""

    shape: tuple[int, ...]
    dtype: str
    is_plain: bool
    """False for a quantized tensor: its bytes are no numbers of their own."""


def unlike(source: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> str:
    """Say why ``target`` can't be a copy of ``source``; empty where it can.

    A wider type in the target would keep digits of the file that the source has lost.

    >>> a = {"w": Tensor(shape=(2,), dtype="bf16", is_plain=True)}
    >>> unlike(a, a), unlike(a, {**a, "b": a["w"]})
    ('', 'b is only in one of them')
    """
    only = sorted(source.keys() ^ target.keys())
    if only:
        return f"{only[0]} is only in one of them"
    for name, tensor in target.items():
        if tensor != source[name]:
            return f"{name} is {tensor}, not {source[name]}"
        if not tensor.is_plain:
            return f"{name} is quantized"
    return ""
