"""The screen of `megatron-dpo data`."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scripts.data.measure import BIAS

INDENT = 14
"""Columns of a label."""
COPIED = ("", "or with")
"""Labels of lines that are copied, and so not wrapped."""


def show(document: Mapping[str, Any], console: Console) -> None:
    """Print a document of datasets."""
    for each in document["datasets"]:
        console.print(Text(each["file"], style="bold"))
        for label, text in dataset(each):
            _line(console, label, text)
    if document["pairs"]:
        console.print(_lengths(document))
        for label, text in numbers(document):
            _line(console, label, text)
    for text in document["refused"]:
        console.print(Text(f"refused: {text}", style="red"))


def _line(console: Console, label: str, text: str) -> None:
    lines = [text]
    if console.is_terminal and label not in COPIED:
        width = max(console.width - INDENT, 20)
        lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or lines
    for at, line in enumerate(lines):
        begin = Text(f"  {'' if at else label:<{INDENT - 2}}", style="dim")
        console.print(begin + Text(line), soft_wrap=True)


def dataset(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a dataset has, as label and text."""
    rows, read = found["rows"], found["read"]
    part = "" if rows == read else f", {read:,} of them read"
    yield "rows", f"{'more than ' + format(read, ',') if rows is None else format(rows, ',')}{part}"
    yield "columns", ", ".join(found["columns"])
    if found["unread"]:
        yield "not judged", found["unread"]
        return
    yield "read as", found["form"] or "ms-swift's own form"
    yield "pairs", f"{found['kept']:,} kept"
    if found["faults"]:
        yield "but", found["faults"]
    if found["form"] and found["columns_map"]:
        pairs = ", ".join(f"{old}: {new}" for old, new in found["columns_map"].items())
        yield "or with", f"recipe.args.columns: {{{pairs}}}"
    elif found["plugin"]:
        yield "or with", "this file as recipe.args.external_plugins:"
        for line in found["plugin"].splitlines():
            yield "", line


def _lengths(document: Mapping[str, Any]) -> Table:
    table = Table(document["unit"], "median", "p95", "max", box=None, padding=(0, 2))
    for column in table.columns[1:]:
        column.justify = "right"
    for name, *lengths in spreads(document):
        table.add_row(f"  {name}", *lengths)
    return table


def spreads(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield median, 95th percentile and maximum of prompts and answers."""
    for name in ("prompt", "chosen", "rejected"):
        yield name, *(f"{document[name][each]:,}" for each in ("median", "p95", "max"))


def numbers(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what was measured, as label and text."""
    pairs = document["pairs"]
    if document["sampled"] < pairs:
        yield "lengths", f"of {document['sampled']:,} of {pairs:,} pairs"
    if document["no_tokens"]:
        yield "no tokens", document["no_tokens"]
    if document["cut"] is not None:
        yield "too long", f"{document['cut']:.1%} for max_length {document['max_length']:,}"
    yield "template", document["template"]
    yield "duplicates", f"{document['duplicates']:,} pairs occur again"
    repeated = document["repeated_prompts"]
    shared = "; rows held out at random share prompts with training" if repeated else ""
    yield "prompts", f"{repeated:,} pairs repeat a prompt{shared}"
    part = document["shared"]
    gain = f"recipe.promptOnce trains up to {1 / (1 - part):.2f} times as many pairs a second"
    yield "shared", f"{part:.0%} of the {document['unit']} are prompts computed again: {gain}"
    yield (
        "exchanged",
        f"{document['exchanged']:,} pairs also have their answers the other way round",
    )
    yield "near-equal", f"{document['near_equal']:,} pairs ({document['near_equal'] / pairs:.1%})"
    ratio = document["bias"]
    is_biased = not 1 / BIAS <= ratio <= BIAS
    warning = ": a length bias; DPO learns the length" if is_biased else ""
    yield "length", f"chosen answers are {ratio:.2f} times as long as rejected ones{warning}"
    if document["held_out"] is not None:
        yield "held out", f"{document['held_out']:,} of its prompts are trained on too"
