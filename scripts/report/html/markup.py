"""HTML and SVG in which every text is escaped: only `tag` makes markup of strings."""

import html
import json
from collections.abc import Iterable
from typing import Any

from launchers.logs import printable

VOID = frozenset({"br", "hr", "line", "link", "meta", "path", "rect", "circle", "stop", "use"})
"""Elements written without an end tag, or closed at once in SVG."""


class Html(str):
    """Text that is markup already. Made by `tag`, `join` and `data` alone."""

    __slots__ = ()


Child = Html | str | float | None | Iterable["Child"]


def join(*children: Child) -> Html:
    """Return the children as markup; strings are escaped, None is left out.

    >>> join("a < b", None, [tag("b", "c")])
    'a &lt; b<b>c</b>'
    """
    parts: list[str] = []
    for child in children:
        if isinstance(child, Html):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(html.escape(printable(child), quote=False))
        elif isinstance(child, int | float):
            parts.append(str(child))
        elif child is not None:
            parts.extend(join(each) for each in child)
    return Html("".join(parts))


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    """Return an element; ``class_`` is ``class``, ``aria_label`` is ``aria-label``.

    >>> tag("a", "x & y", href='"quoted"', hidden=True, id=None)
    '<a href="&quot;quoted&quot;" hidden>x &amp; y</a>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        return Html(f"<{name}{written}/>")
    return Html(f"<{name}{written}>{join(*children)}</{name}>")


def _attribute(name: str, value: str | float | bool | None) -> str:
    name = name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    return f' {name}="{html.escape(printable(str(value)), quote=True)}"'


def data(identity: str, value: Any) -> Html:
    r"""Return JSON for the page's script, in an element that is never run.

    >>> data("x", {"a": "</script>"})
    '<script type="application/json" id="x">{"a":"\\u003c/script\\u003e"}</script>'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    name = html.escape(identity, quote=True)
    return Html(f'<script type="application/json" id="{name}">{text}</script>')
