"""Preference pairs from the docstrings of Python's standard library, which needs no download.

prompt: a question about the named function or class; chosen: the docstring's first paragraph as
written; rejected: the same words shuffled. A model that prefers chosen has learned word order,
which a bag of words does not have. No module has both training pairs and held-out pairs.
"""

import ast
import hashlib
import json
import random
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

# Tests, installed packages, and applications that some distributions leave out.
SKIPPED_FOLDERS = frozenset(
    {"__pycache__", "site-packages", "dist-packages", "test", "tests", "_bundled"}
    | {"idlelib", "lib2to3", "turtledemo"}
)
MIN_WORDS = 5
MAX_WORDS = 60
HELD_OUT_SHARE = 10
"""One top-level module in this many is held out."""

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One preference pair; `module` is the top-level module, the unit of the held-out split."""

    module: str
    name: str
    prompt: str
    chosen: str
    rejected: str


def source_files(folder: Path) -> list[Path]:
    """Return the Python files under `folder`, without tests and installed packages, sorted."""
    files = (path.relative_to(folder) for path in folder.rglob("*.py"))
    kept = (path for path in files if not SKIPPED_FOLDERS & set(path.parts))
    return [folder / path for path in sorted(kept, key=lambda path: path.as_posix())]


def first_paragraph(docstring: str) -> str:
    r"""Return the text before the first blank line, on one line.

    >>> first_paragraph("Return the\n   sum.\n\nMore text.")
    'Return the sum.'
    """
    return " ".join(re.split(r"\n\s*\n", docstring.strip(), maxsplit=1)[0].split())


def shuffled(text: str, seed: str) -> str | None:
    """Return the words of `text` in another order, by seed; None if all words are equal.

    >>> sorted(shuffled("return the sum", "1").split())
    ['return', 'sum', 'the']
    >>> shuffled("no no no", "1") is None
    True
    """
    words = text.split()
    if len(set(words)) < 2:
        return None
    order = random.Random(seed)
    mixed = words.copy()
    while mixed == words:
        order.shuffle(mixed)
    return " ".join(mixed)


def definitions(tree: ast.Module, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield (dotted name, docstring) of each documented function and class, outermost first."""

    def walk(node: ast.AST, path: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _Definition):
                name = f"{path}.{child.name}"
                docstring = ast.get_docstring(child)
                if docstring:
                    yield name, docstring
                yield from walk(child, name)
            elif not isinstance(child, ast.expr):
                yield from walk(child, path)

    return walk(tree, prefix)


def pairs_of(source: str, module: str) -> Iterator[Pair]:
    """Yield the pairs of a source file; `module` is its dotted name."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # templates that are not Python
        return
    for name, docstring in definitions(tree, module):
        chosen = first_paragraph(docstring)
        rejected = shuffled(chosen, name)
        if rejected and MIN_WORDS <= len(chosen.split()) <= MAX_WORDS:
            yield Pair(
                module=module.partition(".")[0],
                name=name,
                prompt=f"What does {name} do?",
                chosen=chosen,
                rejected=rejected,
            )


def module_name(path: Path, folder: Path) -> str:
    """Return the dotted name of the module in a file.

    >>> module_name(Path("/lib/json/__init__.py"), Path("/lib"))
    'json'
    """
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def collect(folder: Path | None = None) -> list[Pair]:
    """Return the pairs of the standard library or of `folder`, each chosen text once, sorted."""
    root = folder or Path(sysconfig.get_path("stdlib"))
    found: dict[str, Pair] = {}
    for path in source_files(root):
        source = path.read_text(encoding="utf-8", errors="replace")
        for pair in pairs_of(source, module_name(path, root)):
            # A text that two modules share would leak from training into the held-out pairs.
            found.setdefault(pair.chosen.lower(), pair)
    return list(found.values())


def is_held_out(module: str) -> bool:
    """Return whether a top-level module is held out; decided by a digest of its name."""
    digest = hashlib.sha256(module.encode()).digest()
    return int.from_bytes(digest[:4]) % HELD_OUT_SHARE == 0


def split(pairs: list[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Return (training pairs, held-out pairs); no module is in both."""
    return (
        [pair for pair in pairs if not is_held_out(pair.module)],
        [pair for pair in pairs if is_held_out(pair.module)],
    )


def write_jsonl(pairs: list[Pair], path: Path) -> None:
    """Write pairs as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = "".join(json.dumps(asdict(pair), ensure_ascii=False) + "\n" for pair in pairs)
    path.write_text(rows, encoding="utf-8")


def read_jsonl(path: Path) -> list[Pair]:
    """Read a file written by `write_jsonl`."""
    return [Pair(**json.loads(row)) for row in path.read_text(encoding="utf-8").splitlines()]
