"""Distribution of the tests over workers: parts of files, the largest first."""

import re
from functools import cache
from zlib import crc32

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from scripts.helm import ROOT

SHARED = re.compile(
    r'scope="(module|session)"|@(functools\.)?(lru_)?cache\b|predictions\(|\boracle: Oracle'
)
"""What the tests of a file share: with it, one worker takes them all."""
PARTS = 8
"""Parts of the other files."""


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """A worker takes the next part when it has finished one."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if _shares(file) else f"{file} {crc32(nodeid.encode()) % PARTS}"


@cache
def _shares(file: str) -> bool:
    return bool(SHARED.search((ROOT / file).read_text(encoding="utf-8")))
