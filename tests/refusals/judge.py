"""Judge a case by Helm, ``plan`` and the launcher: the one that refuses it, and the id.

What Helm refuses by the schema, it refuses in its own words; id and path are those that the values'
judge (``scripts/values``) prints of both the schema and the templates.
"""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from launchers.exits import USER, Exit
from tests.chart import helm, judged
from tests.chart.helm import BY_SCHEMA, Document, merged, template
from tests.refusals import planned, pod, printed
from tests.refusals.cases import Case
from tests.refusals.printed import Refused

LIMIT = 15.0
"""Seconds from the pod's start in which the launcher must refuse."""
AT_ONCE = 2
"""Processes side by side: public CI has few cores."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    case: Case
    where: str
    """As in ``cases.Where``, or ``nobody``."""
    refusals: tuple[Refused, ...]
    text: str
    """All that was printed."""
    seconds: float
    code: int
    """Exit code of what refused."""

    @property
    def mistakes(self) -> list[str]:
        """Return what differs from what the case says; empty if it is refused as it should be."""
        wanted, found = self.case, []
        ids = sorted(each.id for each in self.refusals)
        if self.where != wanted.where:
            found.append(f"refused by {self.where}, not by {wanted.where}")
        if (wanted.id, wanted.path) not in [(each.id, each.path) for each in self.refusals]:
            seen = ", ".join(f"{each.id} at {each.path!r}" for each in self.refusals)
            found.append(f"no refusal {wanted.id} at {wanted.path!r}, but {seen or 'none'}")
        elif ids != sorted((wanted.id, *wanted.also)):
            found.append(f"refusals {ids}, not {wanted.id} and {wanted.also}")
        if wanted.code is not None and self.code != wanted.code:
            found.append(f"exit code {self.code}, not {int(wanted.code)}")
        if self.where == "launcher" and self.code not in USER:
            found.append(f"exit code {self.code} is no user's error: Kubernetes would restart it")
        if self.where == "launcher" and self.seconds > LIMIT:
            found.append(f"took {self.seconds:.1f} s of {LIMIT:.0f}")
        return found


def judge(case: Case, folder: Path) -> Verdict:
    """Give a case to one gate after the other.

    Args:
        case: what to refuse.
        folder: an empty folder for the launcher's workspace.
    """
    begin = time.monotonic()
    values = merged(pod.placed(case, folder) if case.where == "launcher" else case.values)
    try:
        manifests = template(values)
    except helm.Refused as refused:
        return _refused_by_helm(case, values, str(refused), begin)
    if case.where != "launcher":
        lines = planned.refusals(values, case.gpu, folder)
        return Verdict(
            case=case,
            where="plan" if lines else "nobody",
            refusals=printed.by_plan(lines),
            text="\n".join(lines),
            seconds=time.monotonic() - begin,
            code=int(bool(lines)),
        )
    end = pod.run(case, manifests, folder)
    return Verdict(
        case=case,
        where="nobody" if end.code in (Exit.OK, None) else "launcher",
        refusals=printed.by_launcher(end.termination, folder),
        text=end.text,
        seconds=end.seconds,
        code=-1 if end.code is None else end.code,
    )


def _refused_by_helm(case: Case, values: Document, text: str, begin: float) -> Verdict:
    own, spent = printed.by_helm(text), time.monotonic() - begin
    where = "chart" if own else "schema" if BY_SCHEMA in text else "helm"
    lines = judged.lines(values)
    found = printed.by_plan(lines)
    # of what the templates refuse, Helm alone prints the same
    assert set(own) <= set(found), (own, found)
    text = "\n".join((text, *lines))
    return Verdict(case=case, where=where, refusals=found, text=text, seconds=spent, code=1)


def all_of(cases: Iterable[Case], folder: Path) -> Iterator[Verdict]:
    """Judge cases side by side, in their order."""

    def one(numbered: tuple[int, Case]) -> Verdict:
        number, case = numbered
        own = folder / str(number)
        own.mkdir(parents=True)
        return judge(case, own)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(one, enumerate(cases))
