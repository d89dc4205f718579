"""Digests of upstream's functions, read from the installed files without importing a package.

The source of a function is the text of its lines in the file, decorators included: the same for
every version of Python, and the same before and after another patch has replaced the function.
"""

import ast
import hashlib
import importlib.util
from collections.abc import Iterator
from functools import lru_cache
from importlib import metadata
from pathlib import Path

_SAME = {
    "transformer-engine": (
        "transformer-engine-cu13",
        "transformer-engine-cu12",
        "transformer-engine-torch",
    )
}
"""Other names under which a distribution is installed."""


def digest(module: str, name: str) -> str:
    """Return the SHA-256 of a function's or class's source; empty if it is not installed.

    ``name`` is qualified in the module, e.g. ``Trainer.step``.

    >>> digest("no_such_package.module", "f"), len(digest("inspect", "getsource"))
    ('', 64)
    """
    path = file_of(module)
    return "" if path is None else digests(path).get(name, "")


def file_of(module: str) -> Path | None:
    """Return the file of a module by its full name; None if it is not installed."""
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # a module that was made by hand
        return None
    if spec is None:
        return None
    if not rest:
        return Path(spec.origin) if spec.origin else None
    for folder in spec.submodule_search_locations or ():
        path = Path(folder).joinpath(*rest)
        for found in (path.with_suffix(".py"), path / "__init__.py"):
            if found.is_file():
                return found
    return None


@lru_cache(maxsize=64)
def digests(path: Path) -> dict[str, str]:
    """Return the SHA-256 of every function and class of a file, by qualified name."""
    text = path.read_text(encoding="utf-8")
    try:
        tree = ast.parse(text)
    except SyntaxError:  # of a newer Python: no source that was read
        return {}
    return dict(_found(tree, "", text.splitlines(keepends=True)))


def _found(node: ast.AST, prefix: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _found(child, prefix, lines)
            continue
        first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
        source = "".join(lines[first - 1 : child.end_lineno])
        yield prefix + child.name, hashlib.sha256(source.encode()).hexdigest()
        if isinstance(child, ast.ClassDef):
            yield from _found(child, f"{prefix}{child.name}.", lines)


def version(package: str) -> str:
    """Return the installed version of a distribution; empty if there is none.

    >>> version("no-such-package")
    ''
    """
    for name in (package, *_SAME.get(package, ())):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""
