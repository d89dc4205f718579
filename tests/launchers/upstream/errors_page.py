"""The page of ``errors.yaml``: ``python -m tests.launchers.upstream.errors_page`` writes it.

What a refusal says is taken from the golden wordings of tests/refusals, or is in its test.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from launchers.yaml_file import read_yaml
from scripts.helm import ROOT

FILE = Path(__file__).with_name("errors.yaml")
PAGE = Path(__file__).with_name("ERRORS.md")
WORDINGS = ROOT / "tests" / "refusals" / "golden" / "wordings.yaml"
HEAD = """\
# What is known to be wrong, before and after

Generated from [errors.yaml](errors.yaml) by `python -m tests.launchers.upstream.errors_page`; a
test compares both, and verifies that patches, ids of refusals and tests exist. Commands are
shortened: `python` is that of `.tools/train`, with `.tools/oracle` on its path where Megatron runs.
Output is quoted as it was printed on CPU on 2026-11-25, numbers rounded. A commit with `^` is the
one before the refusal existed. Paths of tests begin in [tests/](../../).
"""
PARTS = {"upstream": "Read in upstream", "issue": "Of the launcher, closed by issue 17"}


def entries() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_yaml(FILE)
    return found


def wordings() -> dict[str, str]:
    found: dict[str, str] = read_yaml(WORDINGS)
    return found


def render(rows: Sequence[dict[str, Any]], said: dict[str, str]) -> str:

    lines = [HEAD]
    for part, title in PARTS.items():
        lines += [f"## {title}", "| what | before | after |", "|---|---|---|"]
        for row in rows:
            if row.get("part", "upstream") == part:
                cells = (_what(row), _before(row), _after(row, said))
                lines.append(f"| {' | '.join(_cell(each) for each in cells)} |")
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _cell(parts: Iterator[str]) -> str:
    return "<br>".join(each.replace("|", "\\|").replace("\n", " ") for each in parts)


def _what(row: dict[str, Any]) -> Iterator[str]:
    yield row["entry"]
    if "releases" in row:
        yield f"ms-swift {', '.join(row['releases'])} only"


def _before(row: dict[str, Any]) -> Iterator[str]:
    seen = row.get("seen", {})
    if seen:
        yield f"{seen['run']}:"
        yield _quote(seen["before"])
    if "before" in row:
        yield f"`{row['before']}`"
    if "why" in row:
        yield row["why"] if seen else f"not run: {row['why']}"


def _after(row: dict[str, Any], said: dict[str, str]) -> Iterator[str]:
    after = row.get("after", {})
    if patches := after.get("patch"):
        yield f"patched: {', '.join(patches)}"
    if "after" in row.get("seen", {}):
        yield _quote(row["seen"]["after"])
    for id in after.get("refused", ()):
        yield f"refused: {_quote(said.get(id, f'[{id}]'))}"
    for id in after.get("warned", ()):
        yield f"warned: `[{id}]`"
    for name in after.get("tests", ()):
        yield f"`{name}`"
    if "open" in row:
        yield f"open: {row['open']}"


def _quote(text: str) -> str:
    return f"`{text}`"


if __name__ == "__main__":
    PAGE.write_text(render(entries(), wordings()), encoding="utf-8")
    print(PAGE)
