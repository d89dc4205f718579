"""Tables in Markdown, and blocks between markers of a text."""

from collections.abc import Sequence

from scripts.problem import Problem


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with one line of heads."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filled(text: str, blocks: dict[str, str]) -> str:
    r"""Put each block between its markers.

    >>> filled("a\n<!-- x -->\nold\n<!-- end x -->\nb", {"x": "new"})
    'a\n<!-- x -->\nnew\n<!-- end x -->\nb'

    Raises:
        Problem: a marker is missing.
    """
    for name, block in blocks.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
        before, found, rest = text.partition(begin)
        _, also, after = rest.partition(end)
        if not found or not also:
            raise Problem(f"values/FIGURES.md has no lines {begin.strip()} and {end}")
        text = f"{before}{begin}{block}\n{end}{after}"
    return text
