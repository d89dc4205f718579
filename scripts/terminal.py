"""The console of the command: the only way by which text from outside reaches a terminal."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from launchers.logs import printable

SCHEMA = 1
"""Field `schema` of the documents that `--json` prints (`documents.yaml`); it rises when a field is
removed or changes its meaning."""


class Terminal(Console):
    """A console that prints no control character of a text, wherever the text is nested.

    Logs, messages of Kubernetes and of training code may hold any: some change what the terminal
    shows, its title or the clipboard.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Yield the parts of what is printed; cells of tables, too, come through here."""
        for part in super().render(renderable, options):
            # without a mark: rich has counted no column for them, and would cut the end of a cell
            text = part.text if part.control else printable(part.text, "")
            yield part if text == part.text else Segment(text, part.style)


def terminal(*, stderr: bool = False, soft_wrap: bool = False, quiet: bool = False) -> Console:
    """Return the console; brackets in values are printed as they are, not read as markup."""
    return Terminal(markup=False, emoji=False, stderr=stderr, soft_wrap=soft_wrap, quiet=quiet)


def plain_table(*names: str) -> Table:
    """Return a table without lines; the last column takes what is left of the width."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def print_json(console: Console, content: Mapping[str, Any]) -> None:
    """Print one JSON document as it is."""
    console.print(json.dumps(content, indent=2), soft_wrap=True, highlight=False, markup=False)
