"""Text from outside reaches a terminal through one function."""

import ast
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

import scripts
from scripts.logs.lines import Format
from scripts.terminal import Terminal

EVIL = "row \x1b]0;t\x07\x1b[2J\x1b[1;1H\x1b]52;c;cm0=\x07 \x9b2J \u202eDE\u2066 \x7f\b\0 end"
HARMFUL = "\x1b\x07\x9b\x7f\x08\x00\u202e\u2066"
"""Characters of which no one may be printed."""


def table() -> Table:
    found = Table.grid()
    found.add_column(overflow="fold")
    found.add_row(EVIL)
    found.add_row(Table(title=EVIL))
    return found


@pytest.mark.parametrize("shown", [EVIL, Text(EVIL, style="dim"), Group(table(), EVIL)])
@pytest.mark.parametrize("soft_wrap", [True, False])
def test_the_console_prints_no_control_character(shown: RenderableType, soft_wrap: bool) -> None:
    file = io.StringIO()
    console = Terminal(
        markup=False, emoji=False, file=file, width=40, force_terminal=True, no_color=True
    )
    console.print(shown, soft_wrap=soft_wrap, highlight=False)
    text = file.getvalue().replace("\x1b[2m", "").replace("\x1b[0m", "")
    text = text.replace("\x1b[3m", "")  # the style of a title, and the other of the Text
    assert not set(HARMFUL) & set(text) and "row" in text and "end" in text


def test_styles_of_the_command_stay() -> None:
    file = io.StringIO()
    console = Terminal(file=file, force_terminal=True, color_system="standard")
    console.print(Text("failed", style="red"))
    assert file.getvalue() == "\x1b[31mfailed\x1b[0m\n"


def test_logs_are_printed_without_control_characters() -> None:
    lines = [EVIL, "\x1b[32mgreen\x1b[0m", "\t1 %\r 50 %\r100 %", ""]
    text = Format(rank=0).apply(lines)
    assert not set(HARMFUL + "\r") & set(text)
    shown = [f"rank 0 | {each}" for each in ("green", "\t1 %", " 50 %", "100 %", "")]
    assert text.splitlines()[1:] == shown


PROGRAMS = {"archive.py", "demo/model.py", "demo/score.py"}
"""Programs whose output another program reads, or that print numbers of their own."""
SAFE = {"dumps", "printable"}
"""Functions whose result holds no control character."""


def prints(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that write to a terminal without the console of ``terminal.py``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        is_safe = node.args and isinstance(node.args[0], ast.Call)
        if is_safe and ast.unparse(node.args[0].func).rpartition(".")[2] in SAFE:  # type: ignore[attr-defined]
            continue
        if name in ("Console", "rich.print", "typer.echo", "click.echo", "print") or (
            name.startswith(("sys.stdout.", "sys.stderr.")) and name.endswith("write")
        ):
            yield node


def test_no_other_way_leads_to_the_terminal() -> None:
    root = Path(scripts.__file__).parent
    found = [
        f"{file.relative_to(root)}:{call.lineno} {ast.unparse(call)}"
        for file in sorted(root.rglob("*.py"))
        if not file.is_relative_to(root / "dev")
        and file.relative_to(root).as_posix() not in PROGRAMS
        for call in prints(ast.parse(file.read_text(encoding="utf-8")))
    ]
    # The lines of logs are printable already (Format.apply).
    assert [each.partition(" ")[2] for each in found] == ["sys.stdout.write(text)"]
