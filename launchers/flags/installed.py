"""Flags of the installed ms-swift, read from its source.

ms-swift's Megatron arguments cannot be imported without a GPU stack (transformer_engine), and
importing the others costs seconds, so the dataclasses are read with ``ast``, never imported.
"""

import ast
import importlib.util
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from launchers import suggestion
from launchers.flags.flag_types import Enums, FlagType, type_of
from launchers.flags.renames import LAUNCHERS
from launchers.refusal import Refusal

Default = str | int | float | bool | None
"""A flag's default; None also stands for a default that is not a literal."""

ENTRIES: dict[str, dict[str, str]] = {
    "megatron": {
        "rlhf": "MegatronRLHFArguments",
        "sft": "MegatronSftArguments",
        "pt": "MegatronPretrainArguments",
    },
    "transformers": {"rlhf": "RLHFArguments", "sft": "SftArguments", "pt": "PretrainArguments"},
}
"""Backend and task to the dataclass that ms-swift parses the command line into."""

_PREFERENCES = "RLHFMegatronArgumentsMixin"
"""Class of the flags of preference training, which ms-swift's Megatron arguments of every task
inherit: SFT ignores them, or changes its loss (``rlhf_type`` ends ``calculate_per_token_loss``)."""
_OF_ALL_TASKS = frozenset({"loss_type"})
"""Flags of that class that other tasks read: embeddings and rerankers have losses too."""
_SOURCES = {"swift": "**/*.py", "transformers": "training_args*.py"}
_ENUMERATIONS = "trainer_utils.py"
"""File of transformers with its enumerations. Those of ``training_args.py`` are not read: names of
optimizers change with its releases, and an image may have another one."""
_NOT_FLAGS = frozenset({"object", "ABC", "Generic", "Protocol"})


@dataclass(frozen=True, kw_only=True)
class Flag:
    """One flag as its source declares it."""

    default: Default
    type: FlagType | None
    is_text: bool = False
    """Whether it is a text; one that may be None is set by its class, as ``eval_strategy`` is."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """One class as its source declares it."""

    package: str
    bases: tuple[tuple[str, str], ...]
    """(package it comes from, name there)."""
    fields: dict[str, Flag]


Classes = dict[tuple[str, str], Definition]
"""(package, class name) to its definition."""


def installed() -> dict[str, Path]:
    """Locate the installed packages that declare flags, without importing them.

    Packages that are not installed are left out.
    """
    found = {name: importlib.util.find_spec(name) for name in _SOURCES}
    return {
        name: Path(spec.submodule_search_locations[0])
        for name, spec in found.items()
        if spec is not None and spec.submodule_search_locations
    }


def read(packages: Mapping[str, Path]) -> Classes:
    """Read all classes that may declare flags.

    ``packages``: ``swift`` and ``transformers`` to their folders.
    """
    classes: Classes = {}
    for package, folder in packages.items():
        enums = _enums(folder / _ENUMERATIONS)
        for file in sorted(folder.glob(_SOURCES[package])):
            text = file.read_text(encoding="utf-8")
            if "@dataclass" in text and "Arguments" in text:
                for name, definition in _classes(package, ast.parse(text), enums):
                    classes.setdefault((package, name), definition)
    return classes


def flags(classes: Classes, entry: str) -> dict[str, Default]:
    """Collect the flags of one dataclass of ms-swift, inherited ones included.

    Raises:
        LookupError: the class, or one that it inherits from, was not found.
    """
    return {name: flag.default for name, flag in _collect(classes, entry).items()}


def types(classes: Classes, entry: str) -> dict[str, FlagType]:
    """Return the type of each annotated flag; the arguments are those of ``flags``."""
    found = _collect(classes, entry)
    return {name: flag.type for name, flag in found.items() if flag.type is not None}


def _collect(classes: Classes, entry: str) -> dict[str, Flag]:
    made: dict[tuple[str, str], type] = {}
    found: dict[str, Flag] = {}
    # Python's own linearisation decides which declaration wins, as for the real dataclasses.
    for cls in reversed(_mirror(classes, ("swift", entry), made).__mro__):
        declared: dict[str, Flag] = vars(cls).get("declared", {})
        is_foreign = cls.__name__ == _PREFERENCES and entry != ENTRIES["megatron"]["rlhf"]
        kept = declared.keys() & _OF_ALL_TASKS if is_foreign else declared
        found.update({name: _inherited(declared[name], found.get(name)) for name in kept})
    return found


def _inherited(flag: Flag, of_base: Flag | None) -> Flag:
    """Return a flag with its base's choices if it is a text: the base's ``__post_init__`` reads it.

    So ms-swift declares ``lr_scheduler_type`` of transformers.
    """
    if flag.is_text and of_base and of_base.type and of_base.type.choices:
        return replace(flag, type=of_base.type)
    return flag


def _mirror(classes: Classes, key: tuple[str, str], made: dict[tuple[str, str], type]) -> type:
    """Build an empty class with the same ancestors."""
    if key not in made:
        if key not in classes:
            raise LookupError(f"no class {key[1]} in package {key[0]}: is it the pinned ms-swift?")
        definition = classes[key]
        bases = tuple(_mirror(classes, base, made) for base in definition.bases)
        made[key] = type(key[1], bases, {"declared": definition.fields})
    return made[key]


def _enums(file: Path) -> Enums:
    """Return the values of each enumeration of texts in a file; none if there is no such file."""
    if not file.is_file():
        return {}
    return {
        node.name: tuple(
            item.value.value
            for item in node.body
            if isinstance(item, ast.Assign)
            and isinstance(item.value, ast.Constant)
            and isinstance(item.value.value, str)
        )
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and "ExplicitEnum" in map(ast.unparse, node.bases)
    }


def _classes(package: str, module: ast.Module, enums: Enums) -> Iterator[tuple[str, Definition]]:
    """Yield the classes of one module; imported names are traced to their package."""
    names: dict[str, tuple[str, str]] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            root = package if node.level else (node.module or "").partition(".")[0]
            names |= {a.asname or a.name: (root, a.name) for a in node.names}
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            named = (ast.unparse(base).rpartition(".")[2] for base in node.bases)
            bases = tuple(names.get(n, (package, n)) for n in named if n not in _NOT_FLAGS)
            yield node.name, Definition(package=package, bases=bases, fields=_fields(node, enums))


def _fields(node: ast.ClassDef, enums: Enums) -> dict[str, Flag]:
    """Return the fields that ``@dataclass`` makes of a class body."""
    if not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return {}
    found: dict[str, Flag] = {}
    for item in node.body:
        if not isinstance(item, ast.AnnAssign) or not isinstance(item.target, ast.Name):
            continue
        options = _options(item.value)
        annotation = ast.unparse(item.annotation)
        if "ClassVar" not in annotation and options.get("init") is not False:
            found[item.target.id] = Flag(
                default=options.get("default"),
                type=type_of(item.annotation, enums),
                is_text=annotation == "str",
            )
    return found


def _options(value: ast.expr | None) -> dict[str, Default]:
    """Return a field's ``default`` and ``init``, where they are literals."""
    if not isinstance(value, ast.Call):
        return {"default": _literal(value)}
    return {k.arg: _literal(k.value) for k in value.keywords if k.arg in ("default", "init")}


def _literal(node: ast.expr | None) -> Default:
    try:
        value = None if node is None else ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, str | int | float | bool) else None


def check_flags(
    args: Collection[str],
    known: Collection[str],
    renamed: Mapping[str, str],
    elsewhere: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> list[Refusal]:
    """Return a message for each flag that ms-swift does not have.

    >>> str(check_flags(["save_step", "lr"], {"save_steps", "lr"}, {})[0])
    'recipe.args.save_step: ms-swift has no such flag; the nearest is save_steps [flag-unknown]'
    """
    messages = []
    for name in sorted(args):
        if name in known:
            continue
        if name in renamed:
            says = f"ms-swift 4 has no such flag; {renamed[name]}"
            messages.append(Refusal(id="flag-renamed", path=f"recipe.args.{name}", says=says))
            continue
        says = f"ms-swift has no such flag{_advice(name, known, renamed, elsewhere)}"
        messages.append(Refusal(id="flag-unknown", path=f"recipe.args.{name}", says=says))
    return messages


def _advice(
    name: str,
    known: Collection[str],
    renamed: Mapping[str, str],
    elsewhere: Mapping[str, Collection[str]],
) -> str:
    """Return what was probably meant; nothing if no name is near, since a guess would mislead."""
    for backend, flags in elsewhere.items():
        if name in flags:
            return f"; it is a flag of recipe.backend {backend}"
    near = suggestion.nearest(name, {*known, *renamed})
    if near is None:
        return ""
    if near in LAUNCHERS:
        return f"; if you mean {near}: the launcher sets it"
    if near in known:
        return f"; the nearest is {near}"
    return f"; if you mean {near}: {renamed[near]}"
