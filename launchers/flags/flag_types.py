"""Types of flags' values from ms-swift's annotations: a switch, a number or a choice.

ms-swift parses its command line with transformers' ``hf_argparser.py``, which refuses the rest
with exit code 2, on every GPU of the gang.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from launchers.config.flag_value import Value, as_text, switch
from launchers.refusal import Refusal

Enums = Mapping[str, tuple[str, ...]]
"""Values of enumerations by the name of their class."""
_SIZE = re.compile(r"[1-9][0-9]{0,5}")
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,14})")
NUMBER = re.compile(r"[-+]?([0-9]{1,30}[.]?[0-9]{0,30}|[.][0-9]{1,30})([eE][-+]?[0-9]{1,2})?")

TypeName = Literal["switch", "whole", "number", "choice"]
_NAMES: dict[str, TypeName] = {"bool": "switch", "int": "whole", "float": "number"}
_WRONG: dict[TypeName, str] = {
    "switch": "is neither true nor false; use true or false",
    "whole": "is not a whole number; use digits only",
    "number": "is not a number; use e.g. 0.1 or 5e-6",
}


def is_size(text: str) -> bool:
    """Return whether a text is a whole number from 1 to 999999, without signs and zeros."""
    return _SIZE.fullmatch(text) is not None


def is_whole(text: str) -> bool:
    """Return whether a text is a whole number."""
    return WHOLE.fullmatch(text) is not None


def is_number(text: str) -> bool:
    """Return whether a text is a number.

    >>> [t for t in ("5e-6", "1.", ".5", "nan", "1e999", "") if is_number(t)]
    ['5e-6', '1.', '.5']
    """
    return NUMBER.fullmatch(text) is not None


@dataclass(frozen=True, kw_only=True)
class FlagType:
    """Type of one flag's value."""

    type: TypeName
    choices: tuple[str, ...] = ()

    def wrong(self, text: str) -> str:
        """Return what is wrong with a text, or nothing.

        >>> FlagType(type="choice", choices=("adam", "sgd")).wrong("Adam")
        'is unknown; use one of adam, sgd'
        """
        if self.type == "choice":
            known = f"is unknown; use one of {', '.join(self.choices)}"
            return "" if text in self.choices else known
        fits = {
            "switch": switch(text) is not None,
            "whole": is_whole(text),
            "number": is_number(text),
        }[self.type]
        return "" if fits else _WRONG[self.type]


def check_values(args: Mapping[str, Value], types: Mapping[str, FlagType]) -> list[Refusal]:
    """Return a message for each flag that its parser would not take.

    >>> str(check_values({"packing": "maybe"}, {"packing": FlagType(type="switch")})[0])
    'recipe.args.packing: "maybe" is neither true nor false; use true or false [flag-switch]'
    """
    given = [(name, as_text(args[name]), types[name]) for name in sorted(args.keys() & types)]
    return [
        Refusal(id=f"flag-{kind.type}", path=f"recipe.args.{name}", says=f'"{text}" {wrong}')
        for name, text, kind in given
        if text and (wrong := kind.wrong(text))
    ]


def type_of(annotation: ast.expr, enums: Enums) -> FlagType | None:
    """Read an annotation; None where it says nothing that can be checked.

    An enumeration is parsed by its values, also with ``str`` (``_parse_dataclass_field``).

    >>> def read(text): return type_of(ast.parse(text, mode="eval").body, {"Kind": ("c", "d")})
    >>> read("Optional[Literal['a', 'b']]")
    FlagType(type='choice', choices=('a', 'b'))
    >>> read("int | None")
    FlagType(type='whole', choices=())
    >>> read("Union[dict, str, None]")
    >>> read("Union[torch.dtype, str, None]").choices, read("Kind | str").choices
    (('bfloat16', 'float16', 'float32'), ('c', 'd'))
    """
    members = [member for member in _members(annotation) if ast.unparse(member) != "None"]
    if {ast.unparse(member) for member in members} == {"torch.dtype", "str"}:
        return FlagType(type="choice", choices=("bfloat16", "float16", "float32"))
    classes = [name for name in map(ast.unparse, members) if name != "str"]
    if len(classes) == 1 and classes[0] in enums:
        return FlagType(type="choice", choices=enums[classes[0]])
    if len(members) != 1:
        return None
    if isinstance(members[0], ast.Subscript) and _name(members[0].value) == "Literal":
        inside = members[0].slice
        words = inside.elts if isinstance(inside, ast.Tuple) else [inside]
        return FlagType(type="choice", choices=tuple(str(ast.literal_eval(word)) for word in words))
    name = _NAMES.get(ast.unparse(members[0]))
    return None if name is None else FlagType(type=name)


def _members(node: ast.expr) -> list[ast.expr]:
    """Return the members of ``Optional[X]``, ``Union[X, Y]`` and ``X | Y``."""
    if isinstance(node, ast.BinOp):
        return [*_members(node.left), *_members(node.right)]
    if isinstance(node, ast.Subscript) and _name(node.value) in ("Optional", "Union"):
        inside = node.slice
        members = inside.elts if isinstance(inside, ast.Tuple) else [inside]
        return [found for member in members for found in _members(member)]
    return [node]


def _name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]
