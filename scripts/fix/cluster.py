"""`megatron-dpo why --fix`: run the command that a remedy names, where rights allow."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console

from scripts.observe.command import Exit, Target, observe, print_json
from scripts.problem import Problem
from scripts.why.reasons import Reason, explain

SCHEMA = 1
"""Version of the JSON; rises when a field is removed or changes its meaning."""
CHANGING = {
    "patch": "patch",
    "taint": "patch",
    "label": "patch",
    "uncordon": "patch",
    "delete": "delete",
}
"""Verbs of kubectl that change objects, with the verb of the API that they need."""
OWN = ("resume", "rerun", "stop")
"""Verbs of this command that change a run."""
_CONDITION = re.compile(r"(?:If|Correct|Ask|See|Let|Raise|The administrator)\b")
"""Beginnings of remedies that a person has to judge first."""
Ask = Callable[[str], bool]


@dataclass(frozen=True, kw_only=True)
class Repair:
    """A command that changes the cluster."""

    reason: Reason
    argv: tuple[str, ...]

    @property
    def right(self) -> tuple[str, ...]:
        """Return what ``kubectl auth can-i`` is asked; empty for a verb of this command.

        >>> from scripts.why.reasons import Kind
        >>> reason = Reason(id="x", kind=Kind.FAILING, sentence="", remedy="")
        >>> Repair(reason=reason, argv=("kubectl", "taint", "nodes", "n1", "k=v:NoExecute")).right
        ('patch', 'nodes')
        """
        program, verb, *rest = self.argv
        if program != "kubectl":
            return ()
        kind = "nodes" if verb == "uncordon" else rest[0]
        where = [
            word
            for name, value in zip(rest, [*rest[1:], ""], strict=True)
            if name in ("-n", "--namespace", "--context")
            for word in (name, value)
        ]
        return (CHANGING[verb], kind, *where)


def repairs(reasons: Sequence[Reason]) -> list[Repair]:
    """Return the commands of the first reason that has some which change the cluster."""
    for reason in reasons:
        found = [Repair(reason=reason, argv=tuple(shlex.split(each))) for each in reason.commands]
        changing = [each for each in found if each.argv[1] in ({*CHANGING} | {*OWN})]
        if changing:
            return changing
    return []


def run(
    target: Target, console: Console, ask: Ask, *, yes: bool = False, as_data: bool = False
) -> int:
    """Show the command of a run's remedy, ask, run it.

    Args:
        target: the run.
        console: for the reason and the command.
        ask: the question before it.
        yes: True if nobody is asked; a remedy that a person has to judge is refused then.
        as_data: print one JSON document.

    Raises:
        Problem: no remedy is a command, a right is missing, the state has changed since, or the
            command failed.
    """
    found = _seen(target)
    one = found[0]
    if yes and _CONDITION.match(one.reason.remedy):
        raise Problem(
            f"{one.reason.remedy} A person has to judge that; leave --yes out [{one.reason.id}]"
        )
    if not as_data:
        console.print(one.reason.sentence, soft_wrap=True, markup=False, highlight=False)
        console.print(f"-> {one.reason.remedy}", soft_wrap=True, markup=False, highlight=False)
        console.print(f"runs: {shlex.join(one.argv)}", soft_wrap=True, markup=False)
    _allowed(one)
    if not ask("Run it?"):
        console.print("nothing was changed")
        return int(Exit.FAILED)
    if [each.argv for each in _seen(target)[:1]] != [one.argv]:
        raise Problem("the state has changed since; nothing was run; see `megatron-dpo why` again")
    _execute(one, target, console)
    if as_data:
        print_json(
            console,
            {"schema": SCHEMA, "run": target.run, "id": one.reason.id, "command": list(one.argv)},
        )
    return int(Exit.OK)


def _seen(target: Target) -> list[Repair]:
    view, _ = observe(target, target.connect(), reader=False)
    reasons = explain(view)
    if found := repairs(reasons):
        return found
    raise Problem(f"no remedy of this run is a command: {reasons[0].sentence} {reasons[0].remedy}")


def _kubectl() -> str:
    if found := shutil.which("kubectl"):
        return found
    raise Problem("no kubectl on PATH; install it, or run the command where it is")


def _allowed(one: Repair) -> None:
    """Raise a Problem where the user may not run a command."""
    if not one.right:
        return
    command = [_kubectl(), "auth", "can-i", *one.right]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout or done.stderr).strip()
        raise Problem(
            f"you lack the permission: {' '.join(one.right[:2])} ({said}); nothing was changed: "
            f"give `{shlex.join(one.argv)}` to the administrator"
        )


def _execute(one: Repair, target: Target, console: Console) -> None:
    if one.argv[0] == "megatron-dpo":
        from scripts.control import command as control

        change: Callable[..., int] = getattr(control, one.argv[1])
        change(target, console, lambda _: True)
        return
    command = [_kubectl(), *one.argv[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Problem(f"{shlex.join(one.argv)} failed: {done.stderr.strip()}")
    console.print(done.stdout.strip(), markup=False, highlight=False)
