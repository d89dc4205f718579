"""`megatron-dpo plan --fix`: try each remedy on copies, show the difference, ask, write."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import typer
import yaml
from rich.console import Console
from rich.text import Text

from scripts.fix.change import MEMORY, Act, Change, Choice, Remedy, with_layouts
from scripts.fix.files import Files
from scripts.fix.text import NotEdited, read
from scripts.fix.words import remedies
from scripts.plan.command import Request, layouts, refusals
from scripts.terminal import print_json

VERSION = 1
"""Version of the JSON; rises when a field is removed or changes its meaning."""
Answer = Callable[[Remedy], Choice | None]
"""Chooses the changes of a remedy; None leaves the refusal."""
Plan = Callable[[Files], Sequence[str]]
"""Returns the refusals of values files."""
NOT_REMOVED = "the refusal stays with it"


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """What remedies make of values files; nothing is written yet."""

    before: Files
    after: Files
    applied: Sequence[tuple[Remedy, Choice]]
    rejected: Sequence[tuple[Remedy, str]]
    """Remedies that were not applied, and why."""
    left: Sequence[str]
    """Refusals of the files as they are now."""


def run(request: Request, console: Console, *, yes: bool = False) -> int:
    """Fix a release's values files.

    Args:
        request: the files, and what a plan needs to judge them.
        console: for questions and the difference.
        yes: True asks nothing: remedies that need no answer are applied and written.

    Returns:
        0 if nothing is refused any more, 1 otherwise.

    Raises:
        Problem: no file is given, a file has changed since, or a question is not possible.
    """
    found = fixed(request, sure if yes else _asking(console))
    is_data = request.as_json
    if not is_data:
        _show(console, found)
    changed = found.after.texts != found.before.texts
    written = changed and (yes or _confirmed(is_data))
    files = found.after.write(found.before) if written else []
    left = found.left if written or not changed else refusals(request)
    if is_data:
        print_json(console, document(found, [str(file) for file in files], left))
    else:
        console.print(f"written: {', '.join(map(str, files))}" if files else "nothing was written")
    return 1 if left else 0


def fixed(request: Request, answer: Answer) -> Fixed:
    """Return what remedies make of a request's files; see ``apply``."""

    def plan(files: Files) -> Sequence[str]:
        with files.copied() as copies:
            said = refusals(replace(request, files=copies))
            names = list(zip(map(str, copies), map(str, files.texts), strict=True))
        for copy, name in names:
            said = [line.replace(copy, name) for line in said]
        return said

    def offer(one: Remedy, files: Files) -> Remedy:
        if one.id not in MEMORY:
            return one
        with files.copied() as copies:
            return with_layouts(one, layouts(replace(request, files=copies)))

    return apply(Files.read(request.files, request.sets), plan, answer, offer)


def apply(
    files: Files,
    plan: Plan,
    answer: Answer,
    offer: Callable[[Remedy, Files], Remedy] = lambda one, _: one,
) -> Fixed:
    """Apply one remedy after the other, each only if its refusal is gone then.

    Args:
        files: as they are.
        plan: judges files.
        answer: chooses the changes of each remedy.
        offer: adds choices that the words of a refusal do not have.
    """
    before, lines = files, plan(files)
    applied: list[tuple[Remedy, Choice]] = []
    rejected: list[tuple[Remedy, str]] = []
    seen: set[str] = set()
    while todo := [each for each in remedies(lines) if each.line not in seen]:
        one = offer(todo[0], files)
        seen.add(one.line)
        choice = answer(one)
        if choice is None:
            continue
        try:
            made = changed(files, choice)
        except NotEdited as error:
            rejected.append((one, str(error)))
            continue
        said = plan(made)
        if why := objection(one, choice, lines, said):
            rejected.append((one, why))
            continue
        files, lines = made, said
        applied.append((one, choice))
    return Fixed(before=before, after=files, applied=applied, rejected=rejected, left=lines)


def changed(files: Files, choice: Choice) -> Files:
    """Return the files after changes.

    Raises:
        NotEdited: one of them is not possible.
    """
    for change in choice:
        files = files.changed(change)
    return files


def objection(one: Remedy, choice: Choice, old: Sequence[str], new: Sequence[str]) -> str:
    """Return why a remedy is not right for these files; empty if it is.

    Its refusal has to be gone, and a new value must not be refused for another reason. A value that
    keeps its meaning, or only its place changes, may be: the next remedy is for that.
    """
    before, after = ([each.key for each in remedies(lines)] for lines in (old, new))
    if after.count(one.key) >= before.count(one.key):
        return NOT_REMOVED
    values = [c for c in choice if c.act in (Act.SET, Act.REPLACE)]
    written = {change.path for change in values if not one.is_sure}
    for each in remedies(new):
        if each.key not in before and each.path in written:
            return f"it would be refused then: {each.line}"
    return ""


def sure(one: Remedy) -> Choice | None:
    """Return the changes of a remedy that keeps the user's meaning; None for another."""
    return one.choices[0] if one.is_sure else None


def document(found: Fixed, files: Sequence[str], left: Sequence[str]) -> dict[str, Any]:
    """Return what was fixed as JSON data."""

    def of(one: Remedy) -> dict[str, Any]:
        return {"id": one.id, "path": one.path}

    return {
        "version": VERSION,
        "accepted": not left,
        "files": list(files),
        "difference": found.after.difference(found.before),
        "applied": [
            {**of(one), "changes": [c.document() for c in choice]} for one, choice in found.applied
        ],
        "rejected": [{**of(one), "why": why} for one, why in found.rejected],
        "refusals": list(left),
        "fixes": [each.document() for each in remedies(left)],
    }


def words(choice: Choice) -> str:
    """Return a choice in words.

    >>> words((Change(act=Act.SET, path="nodes", value=2), Change(act=Act.REMOVE, path="a")))
    'set nodes: 2 and remove a'
    """
    return " and ".join(map(_words, choice))


def _words(change: Change) -> str:
    if change.act in (Act.SET, Act.REPLACE):
        text = yaml.safe_dump(change.value, default_flow_style=True, width=10_000)
        return f"set {change.path}: {text.removesuffix('...' + chr(10)).strip()}"
    if change.act is Act.MOVE:
        return f"write {change.value} in place of {change.path}"
    said = {Act.ASK: "give another value of", Act.QUOTE: "quote"}.get(change.act, "remove")
    return f"{said} {change.path}"


def _show(console: Console, found: Fixed) -> None:
    for one, why in found.rejected:
        console.print(f"not applied: {one.path} [{one.id}]: {why}", markup=False, highlight=False)
    for line in found.after.difference(found.before).splitlines():
        style = {"+": "green", "-": "red"}.get(line[:1], "")
        console.print(Text(line, style=style), soft_wrap=True)
    if found.left:
        console.print(f"refusals that stay: {len(found.left)}")
        for line in found.left:
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def _confirmed(is_data: bool) -> bool:
    from scripts.run_verbs import asking

    return asking(yes=False, as_json=is_data)("Write these changes?")


def _asking(console: Console) -> Answer:
    """Return the questions of a terminal; without one only sure remedies are tried."""
    import os

    def answer(one: Remedy) -> Choice | None:
        if one.is_sure:
            return one.choices[0]
        if not os.isatty(0):
            return None
        console.print(one.line, markup=False, highlight=False, soft_wrap=True)
        for number, choice in enumerate(one.choices, 1):
            console.print(f"  {number}  {words(choice)}", markup=False, highlight=False)
        chosen = typer.prompt("Which? (0 leaves it)", default=0, type=int)
        return _given(one.choices[chosen - 1]) if 0 < chosen <= len(one.choices) else None

    return answer


def _given(choice: Choice) -> Choice | None:
    """Return a choice with the values that the user gives; None without one."""
    made = []
    for change in choice:
        if change.act is Act.ASK:
            text = typer.prompt(f"{change.path} ({change.value})", default="", show_default=False)
            try:
                value = read(text)
            except NotEdited:
                value = text
            if value is None:
                return None
            change = Change(act=Act.REPLACE, path=change.path, value=value)
        made.append(change)
    return tuple(made)
