"""Clean Kubernetes objects and values files: no content of Secrets, no environment of the user."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

LEFT_OUT = "[left out]"
_OWN = re.compile(
    r"(?:DPO|SKIP|NCCL|CUDA|NVIDIA|NVTE|PYTORCH|TORCH|TORCHINDUCTOR|OMP|UCX|GLOO|PYTHON|MASTER|"
    r"WORLD|LOCAL|JOB|NODE|NPROC|HF_HUB|HF_HOME|HF_ENDPOINT|MODELSCOPE_CACHE)_?\w*|NNODES|RANK|PATH|LD_LIBRARY_PATH"
)
"""Variables whose values explain a run; the value of any other one may be anything."""
_ENVIRONMENTS = frozenset({"env", "extraEnv", "environment"})
_DROPPED = frozenset(
    {"binaryData", "managedFields", "kubectl.kubernetes.io/last-applied-configuration"}
)


def clean(value: Any, kind: str = "") -> Any:
    """Return JSON data of objects or values without what may be secret.

    ``kind``: the key under which it stands.

    >>> clean({"env": [{"name": "A", "value": "x"}, {"name": "NCCL_DEBUG", "value": "INFO"}]})
    {'env': [{'name': 'A', 'value': '[left out]'}, {'name': 'NCCL_DEBUG', 'value': 'INFO'}]}
    """
    if isinstance(value, Mapping):
        if value.get("kind") == "Secret":
            return _secret(value)
        if kind in _ENVIRONMENTS:
            return {name: _of_variable(str(name), inside) for name, inside in value.items()}
        return {
            name: LEFT_OUT if name in _DROPPED else clean(inside, str(name))
            for name, inside in value.items()
        }
    if isinstance(value, list):
        if kind in _ENVIRONMENTS:
            return [_entry(each) for each in value]
        return [clean(each, "") for each in value]
    return value


def secrets(value: Any, kind: str = "") -> Iterator[str]:
    """Yield the values that `clean` removes, so that they are removed from logs, too."""
    if isinstance(value, Mapping):
        if value.get("kind") == "Secret":
            yield from _contents(value)
        for name, inside in value.items():
            if kind in _ENVIRONMENTS and isinstance(inside, str) and not _OWN.fullmatch(str(name)):
                yield inside
            else:
                yield from secrets(inside, str(name))
    elif isinstance(value, list):
        for each in value:
            if kind in _ENVIRONMENTS and isinstance(each, Mapping):
                yield from secrets({each.get("name"): each.get("value")}, kind)
            else:
                yield from secrets(each, "")


def _entry(each: Any) -> Any:
    if not isinstance(each, Mapping) or "value" not in each:
        return each
    return {**each, "value": _of_variable(str(each.get("name")), each["value"])}


def _of_variable(name: str, value: Any) -> Any:
    """Return a variable's value if it explains a run; a reference to a Secret holds none."""
    if isinstance(value, Mapping) and "value" not in value:
        return value
    return value if _OWN.fullmatch(name) else LEFT_OUT


def _secret(value: Mapping[str, Any]) -> dict[str, Any]:
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    keys = sorted(
        str(key)
        for part in ("data", "stringData")
        if isinstance(inside := value.get(part), Mapping)
        for key in inside
    )
    return {"kind": "Secret", "metadata": {"name": name}, "keys": keys, "data": LEFT_OUT}


def _contents(secret: Mapping[str, Any]) -> Iterator[str]:
    for part in ("data", "stringData"):
        inside = secret.get(part)
        for content in inside.values() if isinstance(inside, Mapping) else ():
            if not isinstance(content, str):
                continue
            yield content
            try:
                yield base64.b64decode(content, validate=True).decode().strip()
            except (binascii.Error, UnicodeDecodeError):
                continue
