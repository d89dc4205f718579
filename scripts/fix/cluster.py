"""`megatron-dpo why --fix`: run the command that a remedy names, where rights allow."""

import contextlib
import json
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from scripts.observe.command import Exit, Target, observe
from scripts.problem import Problem, output_of
from scripts.terminal import SCHEMA, print_json, terminal
from scripts.why.reasons import Reason, explain

CHANGING = {
    "create": "create", "patch": "patch", "taint": "patch", "label": "patch", "uncordon": "patch",
    "delete": "delete",
}  # fmt: skip
"""Verbs of kubectl that change objects, with the verb of the API that they need."""
OWN = ("resume", "rerun", "stop")
"""Verbs of this command that change a run."""
STDIN = "<<<"
"""Of a shell: the next word is the program's input."""
Ask = Callable[[str], bool]


@dataclass(frozen=True)
class Command:
    """A command that changes the cluster."""

    text: str
    """As a shell reads it."""

    @property
    def argv(self) -> tuple[str, ...]:
        """Return its words without its input."""
        words = shlex.split(self.text)
        return tuple(words[: words.index(STDIN)] if STDIN in words else words)

    @property
    def stdin(self) -> str | None:
        """Return its input; None without one."""
        words = shlex.split(self.text)
        return words[words.index(STDIN) + 1] if STDIN in words else None

    @property
    def right(self) -> tuple[str, ...]:
        """Return what ``kubectl auth can-i`` is asked; empty for a verb of this command.

        >>> Command("kubectl taint nodes n1 k=v:NoExecute").right
        ('patch', 'nodes')
        """
        program, verb, *rest = self.argv
        if program != "kubectl":
            return ()
        kind = "nodes" if verb == "uncordon" else rest[0]
        if self.stdin:
            kind = str(json.loads(self.stdin)["kind"]).lower()
        where = [
            word
            for name, value in zip(rest, [*rest[1:], ""], strict=True)
            if name in ("-n", "--namespace", "--context")
            for word in (name, value)
        ]
        return (CHANGING[verb], kind, *where)


@dataclass(frozen=True)
class Repair:
    """The commands of a state's remedy that change the cluster, one after the other."""

    reason: Reason
    commands: tuple[Command, ...]

    @property
    def text(self) -> str:
        """Return the commands as a shell reads them."""
        return " && ".join(each.text for each in self.commands)


def repair_of(reasons: Sequence[Reason]) -> Repair | None:
    """Return the repair of the first reason that has one."""
    for reason in reasons:
        found = tuple(map(Command, reason.commands))
        changing = tuple(each for each in found if each.argv[1] in ({*CHANGING} | {*OWN}))
        if changing:
            return Repair(reason, changing)
    return None


def fix(target: Target, confirm: Callable[[Repair], bool], *, yes: bool = False) -> str | None:
    """Run the commands of a run's remedy, where rights allow.

    Args:
        target: the run.
        confirm: shown the commands, returns whether they are run.
        yes: True if nobody is asked; a remedy that a person has to judge is refused then.

    Returns:
        What the commands printed; None if they were not confirmed.

    Raises:
        Problem: no remedy is a command, a right is missing, the state has changed since, or a
            command failed.
    """
    one = _seen(target)
    if yes and not one.reason.sure:
        raise Problem(
            f"{one.reason.remedy} A person has to judge that; leave --yes out [{one.reason.id}]"
        )
    for each in one.commands:
        _allowed(each)
    if not confirm(one):
        return None
    again: Repair | None = None
    with contextlib.suppress(Problem):  # no remedy is a command by now
        again = _seen(target)
    if again is None or again.commands != one.commands:
        raise Problem("the state has changed since; nothing was run; see `megatron-dpo why` again")
    return execute(one.commands, target)


def run(
    target: Target, console: Console, ask: Ask, *, yes: bool = False, as_data: bool = False
) -> int:
    """Show the commands of a run's remedy, ask, run them; ``as_data`` prints one JSON document."""
    shown: list[Repair] = []

    def confirm(one: Repair) -> bool:
        shown.append(one)
        said = (one.reason.sentence, f"-> {one.reason.remedy}", f"runs: {one.text}")
        for line in () if as_data else said:
            console.print(line, soft_wrap=True, markup=False, highlight=False)
        return ask("Run it?")

    said = fix(target, confirm, yes=yes)
    if said is None:
        console.print("nothing was changed")
        return int(Exit.FAILED)
    if as_data:
        print_json(console, {"schema": SCHEMA, "run": target.run, **document(shown[0])})
    else:
        console.print(said, markup=False, highlight=False)
    return int(Exit.OK)


def document(one: Repair) -> dict[str, Any]:
    """Return a repair as JSON data."""
    return {"id": one.reason.id, "command": shlex.split(one.text)}


def _seen(target: Target) -> Repair:
    view, _ = observe(target, target.connect(), reader=False)
    reasons = explain(view)
    if found := repair_of(reasons):
        return found
    raise Problem(f"no remedy of this run is a command: {reasons[0].sentence} {reasons[0].remedy}")


def _kubectl() -> str:
    if found := shutil.which("kubectl"):
        return found
    raise Problem("no kubectl on PATH; install it, or run the command where it is")


def _allowed(one: Command) -> None:
    """Raise a Problem where the user may not run a command."""
    if not one.right:
        return
    command = [_kubectl(), "auth", "can-i", *one.right]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout or done.stderr).strip()
        raise Problem(
            f"you lack the permission: {' '.join(one.right[:2])} ({said}); nothing was changed: "
            f"give `{one.text}` to the administrator"
        )


def execute(commands: Sequence[Command], target: Target) -> str:
    """Run commands one after the other; return what they printed.

    Raises:
        Problem: one failed; it says which ones have been run and which are left.
    """
    said: list[str] = []
    for number, each in enumerate(commands):
        try:
            said.append(_execute(each, target))
        except Problem as problem:
            done, left = (
                " && ".join(each.text for each in some) or "nothing"
                for some in (commands[:number], commands[number:])
            )
            raise Problem(f"{problem}; run before it: {done}; left to run: {left}") from None
    return "\n".join(said)


def _execute(one: Command, target: Target) -> str:
    if one.argv[0] == "megatron-dpo":
        from scripts.control import command as control

        console = terminal()
        change: Callable[..., int] = getattr(control, one.argv[1])
        with console.capture() as said:
            change(target, console, lambda _: True)
        return said.get().strip()
    command = [_kubectl(), *one.argv[1:]]
    return output_of(command, f"{one.text} failed: ", given=one.stdin).strip()
