"""Variables of ``extraEnv`` and ``network.env`` whose reader would refuse or misread the value."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from launchers.refusal import Refusal

Values = Mapping[str, Any]
_READERS = {
    "NCCL_": "NCCL reads",
    "TORCH_NCCL_": "torch reads",
    "NVTE_": "Transformer Engine reads",
    "CUDA_DEVICE_MAX_CONNECTIONS": "Megatron reads",
}
YES, NO = ("true", "yes", "on"), ("false", "no", "off")
_WORDS = re.compile(
    "TORCH_NCCL_(AVOID_RECORD_STREAMS|BLOCKING_WAIT|CUDA_EVENT_CACHE|DESYNC_DEBUG|DUMP_ON_TIMEOUT|"
    "ENABLE_MONITORING|ENABLE_TIMING|EXTRA_DUMP_ON_EXEC|HIGH_PRIORITY|"
    "LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN|NAN_CHECK|PROPAGATE_ERROR|RETHROW_CUDA_ERRORS|"
    "USE_TENSOR_REGISTER_ALLOCATOR_HOOK)"
)
"""Variables of torch that take true, false, yes and no (``getCvarBool``)."""
_LIBRARIES = re.compile("(NCCL|TORCH_NCCL|NVTE|GLOO|UCX|FI|CUDA)_")
_LISTS = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA", "UCX_NET_DEVICES")
"""Lists of devices, which no blank divides."""
BLANK = re.compile("[\x85\xa0\u1680\u2000-\u200f\u2028\u2029\u202f\u205f\u2060\u3000]")
"""Blanks and invisible characters beyond ASCII."""


def text(value: object) -> str:
    """Return a scalar as the chart prints it.

    >>> text(1e6), text(5e-6), text(True), text("a")
    ('1000000', '5e-06', 'true', 'a')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        return str(int(value))
    return str(value)


def refusals(values: Values, network: Values) -> Iterator[Refusal]:
    """Yield the variables; ``network`` is what ``fabric`` returns for the values."""
    for level, env in (("extraEnv", values["extraEnv"]), ("network.env", values["network"]["env"])):
        for name, value in env.items():
            if value is not None and not isinstance(value, Mapping):
                yield from _variable(f"{level}.{name}", name, text(value), network)
                if name.endswith("_IFNAME") or name == "NCCL_IB_HCA":
                    is_alone = values["nodes"] == 1
                    yield from _devices(f"{level}.{name}", text(value), is_alone=is_alone)


def _variable(path: str, name: str, value: str, network: Values) -> Iterator[Refusal]:
    reader = next((reads for start, reads in _READERS.items() if name.startswith(start)), "")
    low = value.lower()
    is_word = _WORDS.fullmatch(name) and low in ("true", "false", "yes", "no")
    if reader and low in (*YES, *NO) and not is_word:
        says = f'{value} is not a number, and {reader} 0 and 1; set {path}: "{int(low in YES)}"'
        yield Refusal(id="env-boolean", path=path, says=says)
    elif _LIBRARIES.match(name) and BLANK.search(value):
        says = "holds a blank or an invisible character beyond ASCII; write it again"
        yield Refusal(id="env-blank", path=path, says=says)
    elif name in _LISTS and re.search(r"\s", value):
        says = f"{json.dumps(value)} holds a blank, which its reader takes for a part of a name; "
        yield Refusal(id="env-list-blank", path=path, says=says + _list(value))
    elif name == "LD_LIBRARY_PATH" and value:
        own = (folder.removesuffix("/") for folder in value.split(":") if folder)
        plain = (each if re.fullmatch("(/[A-Za-z0-9._-]+)+", each) else "FOLDER" for each in own)
        folders = ", ".join(dict.fromkeys((*network["libraryPath"], *plain))) or "FOLDER"
        says = (
            f"{value} replaces the image's, in which CUDA and its libraries may be found; remove "
            f"it and set network.libraryPath: [{folders}], whose folders come before the image's"
        )
        yield Refusal(id="env-library-path", path=path, says=says)


def _devices(path: str, value: str, *, is_alone: bool) -> Iterator[Refusal]:
    """Yield a list of devices that matches none: NCCL has ^ and = before it, gloo names alone."""
    names = value.lstrip("^=")
    marks = value.removesuffix(names)
    if path.endswith("GLOO_SOCKET_IFNAME") and marks:
        says = f"{json.dumps(value)} begins with {marks}, and gloo reads names of interfaces alone"
        use = names if "^" not in marks else "NAME"
    elif marks not in ("", "^", "=", "^="):
        says = f"{json.dumps(value)} begins with {marks}, and NCCL reads ^, = or ^="
        use = ("^" if "^" in marks else "") + "=" + names
    elif names == "lo" and "^" not in marks and not is_alone:
        says, use = f"{value} reaches no other pod", "eth0"
    else:
        return
    yield Refusal(id="env-list-form", path=path, says=f'{says}; use "{use}"')


def _list(value: str) -> str:
    r"""Return the remedy of a list: ^ and = before it apply to all, and no comma follows them.

    >>> _list("^ eth0, eth1"), _list(" \t")
    ('use "^eth0,eth1"', 'remove it')
    """
    found = re.match(r"[\^=\s,]*", value)
    prefix = found[0] if found else ""
    names = re.sub(r"[\s,]+", ",", value.removeprefix(prefix).strip())
    marks = re.sub(r"[\s,]", "", prefix)
    return f'use "{marks}{names}"' if names else "remove it"
