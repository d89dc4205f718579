"""The installed sources that messages were taken from."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".tools"
CHECKED = (
    "swift/arguments",
    "swift/dataset",
    "swift/megatron",
    "swift/pipelines/train",
    "swift/template/base.py",
    "swift/trainers",
    "mcore_bridge",
    "megatron/core/optimizer",
    "megatron/core/transformer",
    "megatron/core/parallel_state.py",
    "megatron/core/distributed",
    "megatron/core/model_parallel_config.py",
)
"""Code that a DPO run executes before its first step."""
_CONTINUED = re.compile(r"['\"]\s*\n\s*[rf]*['\"]")
"""The border between two string literals of one message."""


def folders() -> list[Path]:
    """Return the folders of installed packages; empty if they are not installed."""
    return [*TOOLS.glob("train/lib/python3*/site-packages"), *TOOLS.glob("oracle"), ROOT]


def find(source: str) -> Path | None:
    return next((each / source for each in folders() if (each / source).exists()), None)


def cuda_errors() -> set[str]:
    """Return the texts of ``cudaGetErrorString`` and other words of CUDA's runtime library."""
    libraries = [each for folder in folders() for each in folder.glob("nvidia/*/lib/libcudart.so*")]
    texts = re.findall(rb"(?<=\0)[a-z][\w ,/()'-]{7,}(?=\0)", libraries[0].read_bytes())
    return {text.decode() for text in texts if b" " in text}


def longest_common(message: str, path: Path) -> int:
    """Return the length of the longest part of a message that a source contains."""
    text = _CONTINUED.sub("", path.read_text(encoding="utf-8"))
    best = 0
    for begin in range(len(message)):
        while begin + best < len(message) and message[begin : begin + best + 1] in text:
            best += 1
    return best


def raised() -> Iterator[tuple[str, str]]:
    """Yield type and text of each exception and assertion in ``CHECKED``."""
    for source in CHECKED:
        found = find(source)
        files = [] if found is None else [found] if found.is_file() else sorted(found.rglob("*.py"))
        for file in files:
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Assert):
                    yield "AssertionError", _text(node.msg)
                elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                    kind = node.exc.func
                    if isinstance(kind, ast.Name):
                        yield kind.id, _text(node.exc.args[0] if node.exc.args else None)


def _text(node: ast.AST | None) -> str:
    """Return a message with a number for each value in it."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value) for value in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return "" if node is None else "7"
