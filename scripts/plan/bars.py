"""Bars that show the used share of a memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from launchers.plan.memory import Memory

COLOURS = {
    "weights": "blue", "gradients": "cyan", "reference": "bright_blue", "optimizer": "magenta",
    "activations": "green", "logits": "yellow", "buffers": "bright_magenta",
    "overhead": "bright_black",
}  # fmt: skip
FULL, EMPTY, OVER = "█", "░", "▓"


def items_of(memory: Memory) -> dict[str, float]:
    """Return the parts of a GPU's memory, in GiB."""
    return {name: getattr(memory, name) for name in COLOURS}


def itemised(items: Mapping[str, float], capacity: float, width: int) -> Text:
    """Return a bar of coloured parts; the part beyond the capacity is red.

    >>> itemised({"weights": 2.0, "optimizer": 1.0}, 6.0, 12).plain
    '██████░░░░░░'
    >>> itemised({"weights": 9.0}, 6.0, 12).plain
    '████████▓▓▓▓'
    """
    total = sum(items.values())
    scale = width / max(total, capacity)
    bar, done = Text(), 0.0
    for name, size in items.items():
        bar.append(FULL * (round((done + size) * scale) - round(done * scale)), COLOURS.get(name))
        done += size
    if total <= capacity:
        bar.append(EMPTY * (width - len(bar)), "bright_black")
        return bar
    fitting = round(capacity * scale)
    return bar[:fitting] + Text(OVER * (width - fitting), "red")


def plain(used: float, capacity: float, width: int) -> Text:
    """Return a bar of one colour: green, yellow above 90 %, red above 100 %.

    >>> plain(3.0, 6.0, 10).plain
    '█████░░░░░'
    """
    share = used / capacity
    colour = "red" if share > 1 else "yellow" if share > 0.9 else "green"
    filled = min(width, round(share * width))
    return Text.assemble((FULL * filled, colour), (EMPTY * (width - filled), "bright_black"))


def legend(items: Mapping[str, float], width: int) -> Iterator[Text]:
    """Yield the parts and their GiB in the bar's colours; a part is never split between lines.

    >>> [line.plain for line in legend({"weights": 3.7, "logits": 4.6, "buffers": 0.01}, 20)]
    ['■ weights 3.7', '■ logits 4.6']
    """
    line = Text()
    for name, size in items.items():
        if size < 0.05:
            continue
        part = Text.assemble(("■ ", COLOURS.get(name, "white")), f"{name} {size:.1f}")
        if line and len(line) + 2 + len(part) > width:
            yield line
            line = Text()
        line = line + "  " + part if line else part
    yield line
