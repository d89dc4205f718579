"""Who refuses a case: it is given to Helm, to ``plan`` and to the launcher, as a user's run is."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from launchers.exits import USER, Exit
from tests.chart.helm import Refused, merged, template
from tests.refusals import planned, pod
from tests.refusals.cases import Case

LIMIT = 15.0
"""Seconds from the pod's start in which the launcher must refuse."""
AT_ONCE = 2
"""Processes side by side: public CI has few cores."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Who refused, in which words, and how long it took."""

    case: Case
    where: str
    """As in ``cases.Where``, or ``nobody``."""
    text: str
    seconds: float
    code: int
    """Exit code of what refused."""

    @property
    def mistakes(self) -> list[str]:
        """Return what differs from what the case says; empty if it is refused as it should be."""
        wanted, found = self.case, []
        if self.where != wanted.where:
            found.append(f"refused by {self.where}, not by {wanted.where}")
        if wanted.message not in self.text:
            found.append(f"{wanted.message!r} is not said")
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
    except Refused as refused:
        where = "chart" if "the values cannot work" in str(refused) else "schema"
        spent = time.monotonic() - begin
        return Verdict(case=case, where=where, text=str(refused), seconds=spent, code=1)
    if case.where != "launcher":
        found = planned.refusals(values, case.gpu, folder)
        where, spent = "plan" if found else "nobody", time.monotonic() - begin
        text = "\n".join(found)
        return Verdict(case=case, where=where, text=text, seconds=spent, code=int(bool(found)))
    end = pod.run(case, manifests, folder)
    where = "nobody" if end.code in (Exit.OK, None) else "launcher"
    code = -1 if end.code is None else end.code
    return Verdict(case=case, where=where, text=end.text, seconds=end.seconds, code=code)


def all_of(cases: Iterable[Case], folder: Path) -> Iterator[Verdict]:
    """Judge cases side by side, in their order."""

    def one(numbered: tuple[int, Case]) -> Verdict:
        number, case = numbered
        own = folder / str(number)
        own.mkdir(parents=True)
        return judge(case, own)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(one, enumerate(cases))
