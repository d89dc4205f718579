"""Modules import in one order of layers, and packages stay small enough to read."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchers import PACKAGE

LAYERS = (
    ("root",),
    ("config",),
    ("system",),
    ("storage",),
    ("hang", "standby"),
    ("gang", "plan", "flags", "upstream"),
    ("rules",),
    ("metrics",),
    ("progress",),
    ("preflight",),
    ("hub",),
    ("inputs",),
    ("rehearsal",),
    ("stages",),
    ("state",),
    ("run",),
)
"""Lowest first; packages of one layer do not import each other."""
TRAINING = "training"
"""The layer of what runs in ms-swift's processes."""
PLACED = {
    **dict.fromkeys(("evaluation", "proof", "reference", "stop"), TRAINING),
    **dict.fromkeys(("hang.heartbeat", "standby.agent", "standby.worker"), TRAINING),
    "hang.settings": "config",
    "hang.agreement": "gang",
    "stop.agreement": "gang",
    "stop.hold": "run",
    "evaluation.evaluations": "metrics",
    "evaluation.benchmarks": "stages",
    "hang.watch": "stages",
    "stop.watch": "stages",
}
"""Packages and modules of features with parts in several layers: the layer of each part."""
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}
ENTRIES = ("launchers.command", "launchers.__main__")
"""Root modules that import every layer."""
LARGEST = 13
"""Maximum number of modules of a package, without ``__init__``."""
LONGEST = 400
"""Maximum number of lines of a module."""
TREES = (PACKAGE, PACKAGE.parent / "scripts")
TESTS = PACKAGE.parent / "tests"


def test_no_module_imports_a_higher_layer() -> None:
    wrong = [
        f"{importer} imports {imported}"
        for importer, imported in imports()
        if not is_allowed(layer(importer), layer(imported))
    ]
    assert wrong == []


def test_the_rule_itself_distinguishes_up_from_down() -> None:
    assert is_allowed("run", "config") and is_allowed("training", "flags")
    assert not is_allowed("config", "run")
    assert not is_allowed("plan", "flags")
    assert not is_allowed("rules", "training")
    assert not is_allowed("training", "stages")


def test_every_placed_part_exists() -> None:
    names = {name.removeprefix("launchers.") for name in modules()}
    assert set(PLACED) <= names | {name.partition(".")[0] for name in names}


def test_every_package_has_a_layer() -> None:
    assert {layer(name) for name in modules()} - {TRAINING} == set(LEVEL)


def test_the_readme_has_the_order() -> None:
    order = " < ".join(" | ".join(f"`{each}`" for each in layer) for layer in LAYERS[1:])
    assert order in " ".join((PACKAGE / "README.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_no_package_has_too_many_modules(tree: Path) -> None:
    sizes = Counter(path.parent for path in tree.rglob("*.py") if path.name != "__init__.py")
    assert len(sizes) > 10
    assert [str(folder) for folder, size in sizes.items() if size > LARGEST] == []


@pytest.mark.parametrize("tree", (*TREES, TESTS), ids=lambda tree: tree.name)
def test_no_module_is_too_long(tree: Path) -> None:
    lines = {
        path.relative_to(tree.parent).as_posix(): path.read_text(encoding="utf-8").count("\n")
        for path in tree.rglob("*.py")
    }
    assert {name for name, count in lines.items() if count > LONGEST} == set()


def test_no_package_is_a_folder_around_one_module() -> None:
    single = [
        str(init.parent.relative_to(PACKAGE))
        for init in PACKAGE.rglob("*/__init__.py")
        if len(list(init.parent.rglob("*.py"))) == 2
    ]
    assert single == []


def is_allowed(importer: str, imported: str) -> bool:
    """Return whether a module of one layer may import from another."""
    if importer == imported:
        return True
    if importer == TRAINING:
        return imported not in ("stages", "run")
    return imported != TRAINING and LEVEL[imported] < LEVEL[importer]


def layer(module: str) -> str:
    """Return the layer of a module: that of its package unless it is placed elsewhere.

    >>> layer("launchers.exits"), layer("launchers.training.packs.dealing")
    ('root', 'training')
    >>> layer("launchers.hang.silence"), layer("launchers.hang.watch")
    ('hang', 'stages')
    """
    parts = module.split(".")[1:]
    if len(parts) == 1:
        return "root"
    return PLACED.get(".".join(parts), PLACED.get(parts[0], parts[0]))


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    }


def imports() -> Iterator[tuple[str, str]]:
    """Yield importer and imported module, wherever in the file the import stands."""
    known = modules()
    for importer, path in known.items():
        if importer in ENTRIES:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("launchers."):
                full = [f"{node.module}.{alias.name}" for alias in node.names]
                yield from ((importer, n if n in known else str(node.module)) for n in full)
            elif isinstance(node, ast.ImportFrom) and node.module == "launchers":
                full = [f"launchers.{alias.name}" for alias in node.names]
                yield from ((importer, name) for name in full if name in known)
