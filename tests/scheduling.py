"""Distribution of the tests over workers: parts of files, those of the longest files first."""

import json
import re
from collections import OrderedDict
from functools import cache
from typing import Any
from zlib import crc32

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from scripts.helm import ROOT
from tests import durations

SHARED = re.compile(
    r'scope="(module|session)"|@(functools\.)?(lru_)?cache\b|predictions\(|\boracle: Oracle'
)
"""What the tests of a file share: with it, one worker takes them all."""
PARTS = 8
"""Parts of the other files."""
TRAINS = re.compile(r"\bneeds_(training|oracle)\b")
"""What files of real trainings have; most of these have no budget."""
TRAINING_SECONDS = 30


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """A worker takes the next part when it has finished one."""

    workqueue: Any

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if _shares(file) else f"{file} {crc32(nodeid.encode()) % PARTS}"

    def _assign_work_unit(self, node: Any) -> None:
        """Begin with what takes long: at the end other workers would wait for it."""
        if not any(self.assigned_work.values()):  # the first one
            budgets = json.loads(durations.FILE.read_text(encoding="utf-8"))
            parts = self.workqueue.items()
            longest = sorted(parts, key=lambda each: -_seconds(each[0].partition(" ")[0], budgets))
            self.workqueue = OrderedDict(longest)
        super()._assign_work_unit(node)


def _shares(file: str) -> bool:
    return bool(SHARED.search(_text(file)))


def _seconds(file: str, budgets: dict[str, int]) -> int:
    """Return the seconds of a processor that a file of tests takes, guessed without a budget."""
    return budgets.get(file) or (TRAINING_SECONDS if TRAINS.search(_text(file)) else 0)


@cache
def _text(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")
