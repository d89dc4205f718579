"""`python -m tests.refusals.fixes [SUBJECT ...]`: what each refusal's own remedy makes of its case.

A wrong fix is one that changes more than its words say, or that is applied without a question and
does not keep the user's values.
"""

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from scripts.fix.change import Act, Change, Choice, Remedy
from scripts.fix.command import changed, objection
from scripts.fix.files import Files
from scripts.fix.text import NotEdited, read
from scripts.fix.words import remedies
from tests.chart import judged
from tests.chart.helm import CHART, merged, walk
from tests.refusals import planned
from tests.refusals.cases import BEFORE, FOLDER, Case, load

FILE = Path("values.yaml")
ALONE, CHOSEN, GIVEN, LEFT = "applied alone", "a choice", "a value", "not by the values"
OUTCOMES = (ALONE, CHOSEN, GIVEN, LEFT)
SWITCH = {"true": "1", "yes": "1", "on": "1", "false": "0", "no": "0", "off": "0"}
FIXED = 0.95
"""Share of the cases that one fix has to free of their refusal."""
EXAMPLE = re.compile(
    r"(?:such as|e\.g\.|from|at most|at least|of|with) (\[.*?\]|\{.*?\}|[^\s,;]+)(?=[,; ]|$)"
)
"""What a user may write by the words alone."""

KINDS = {
    "quantity": "96Gi",
    "unit": "96Gi",
    "path": "/data/a",
    "whole number": "1",
    "number": "0.5",
    "port": "21000",
    "true or false": "true",
    "list": "[]",
    "map": "{}",
}
"""A value of the kind that a word of a remedy names."""
ANY = ("a", "a.example.com/b", "{}", "[]", "2")


@dataclass(frozen=True, kw_only=True)
class Result:
    case: Case
    outcome: str
    """One of ``OUTCOMES``."""
    wrong: str = ""
    """What it changed and its words do not say; empty if nothing."""
    why: str = ""
    """Why no choice frees the case of its refusal."""


@cache
def answers() -> Mapping[str, Any]:
    """Return the values that users give where the words ask for one: by case, or by path."""
    text = (FOLDER / "golden" / "answers.yml").read_text(encoding="utf-8")
    found: Mapping[str, Any] = yaml.safe_load(text)
    return found


def refused(case: Case, files: Files, folder: Path, is_planned: bool) -> Sequence[str]:
    values = yaml.safe_load(files.texts[FILE])
    return planned.refusals(values, case.gpu, folder) if is_planned else judged.lines(values)


def fix(case: Case, folder: Path) -> Result:
    """Try the choices of a case's own remedy until one frees it of its refusal."""
    files = Files(texts={FILE: yaml.safe_dump(merged(case.values), sort_keys=False)})
    lines = refused(case, files, folder, is_planned=False)
    if is_planned := not _own(case, lines):
        lines = refused(case, files, folder, is_planned)
    if not (own := _own(case, lines)):
        return Result(case=case, outcome=LEFT, why="its words hold no change")
    one, why = own[0], []
    for choice in one.choices:
        asks = any(change.act is Act.ASK for change in choice)
        for given in _answered(case, choice):
            try:
                made = changed(files, given)
            except NotEdited as error:
                why.append(f"{_said(given)}: {error}")
                continue
            reason = objection(one, given, lines, refused(case, made, folder, is_planned))
            if not reason:
                outcome = ALONE if one.is_sure else GIVEN if asks else CHOSEN
                return Result(case=case, outcome=outcome, wrong=wrong(one, given, files, made))
            why.append(f"{_said(given)}: {reason}")
    return Result(case=case, outcome=LEFT, why=" | ".join(why))


def _own(case: Case, lines: Iterable[str]) -> list[Remedy]:
    return [each for each in remedies(list(lines)) if each.key == (case.id, case.path)]


def _answered(case: Case, choice: Choice) -> Iterator[Choice]:
    """Yield the choice with values that a user may give, the likely ones first."""
    if all(change.act is not Act.ASK for change in choice):
        yield choice
        return
    several = [_values(case, change) for change in choice]
    for number in range(max(map(len, several))):
        yield tuple(
            change
            if change.act is not Act.ASK
            else Change(act=Act.REPLACE, path=change.path, value=each[min(number, len(each) - 1)])
            for change, each in zip(choice, several, strict=True)
        )


def _values(case: Case, change: Change) -> list[Any]:
    """Return what a user may answer: what a file says, examples in the words, the chart's value."""
    path = re.sub(r"\[\d+\]", "", change.path)
    for key in (case.name, change.path, path, path.rpartition(".")[2], case.id):
        if key in answers():
            return [answers()[key]]
    words = str(change.value)
    found = [read(each) for each in EXAMPLE.findall(words)[:2]]
    found += [default] if (default := _default(path)) is not None else []
    more = [*(text for sign, text in KINDS.items() if sign in words), *ANY]
    return [*found, *(yaml.safe_load(each) for each in more)][:6]


@cache
def _defaults() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return found


def _default(path: str) -> Any:
    below: Any = _defaults()
    for key in path.split("."):
        below = below.get(key) if isinstance(below, dict) else None
    return below


def _said(choice: Choice) -> str:
    return " + ".join(f"{c.act.value} {c.path} {str(c.value)[:40]}" for c in choice)


def wrong(one: Remedy, choice: Choice, old: Files, new: Files) -> str:
    """Return what a fix changed otherwise than its words say."""
    before, after = (dict(_flat(yaml.safe_load(each.texts[FILE]))) for each in (old, new))
    paths = [_plain(path) for c in choice for path in (c.path, *([c.value] * (c.act is Act.MOVE)))]
    # the items behind a removed one move up
    paths += [_plain(c.path).rpartition(".")[0] for c in choice if re.search(r"\[\d+\]$", c.path)]
    differ = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
    more = [path for path in differ if not _within(_plain(path), paths)]
    if more:
        return f"changes {', '.join(more)} too"
    if one.is_sure and Counter(map(_form, before.values())) != Counter(map(_form, after.values())):
        return f"changes a value: {before} {after}"
    return ""


def _within(path: str, paths: Sequence[str]) -> bool:
    return any(path == each or path.startswith(f"{each}.") for each in paths)


def _flat(values: Any) -> Iterator[tuple[str, Any]]:
    for path, value in walk(values):
        if not isinstance(value, dict | list):
            yield path, value


def _plain(path: Any) -> str:
    return re.sub(r'[\[\]"]', ".", str(path)).replace("..", ".").rstrip(".")


def _form(value: Any) -> str:
    """Return a value without its form: type, case, blanks, the words of a switch."""
    text = re.sub(r"\s", "", str(value)).lower().removeprefix("cap_")
    text = SWITCH.get(text, text)
    return str(int(text, 8)) if re.fullmatch("0[0-7]+", text) else text


def all_of(cases: Sequence[Case]) -> list[Result]:
    with tempfile.TemporaryDirectory() as folder:
        return [fix(case, Path(folder)) for case in cases]


def table(results: Sequence[Result]) -> Table:
    """Return the number of cases of each outcome, by who refuses them."""
    made = Table("refused by", *OUTCOMES, "wrong", title="Remedies applied to wrong configurations")
    for where in (*BEFORE, "all"):
        of = [each for each in results if where in (each.case.where, "all")]
        counts = Counter(each.outcome for each in of)
        wrong = sum(bool(each.wrong) for each in of)
        made.add_row(where, *(str(counts[name]) for name in OUTCOMES), str(wrong))
    return made


def main(subjects: Sequence[str]) -> int:
    """Print the table and what is left; 1 below the bounds."""
    cases = [c for c in load() if c.where in BEFORE and (not subjects or c.subject in subjects)]
    results = all_of(cases)
    console = Console()
    console.print(table(results))
    for each in results:
        if each.wrong or each.outcome == LEFT:
            text = f"{each.case.name} [{each.case.id}]: {each.wrong or each.why}"
            console.print(text, markup=False, highlight=False, soft_wrap=True)
    share = sum(each.outcome != LEFT for each in results) / max(1, len(results))
    console.print(f"fixed: {share:.1%} (wanted: {FIXED:.0%})")
    return 1 if share < FIXED or any(each.wrong for each in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
