"""One field case: rows, and the right verdict on them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from launchers.upstream.versions import parse_version

KEPT = "kept"
"""All rows are trained on, both sides with an answer and one prompt."""


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    what: str
    right: str
    """``kept``, ``kept by NAME`` of a built-in reader, ``warned ID`` or ``refused ID``."""
    write: Callable[[Path], Sequence[Path]]
    """Writes it into an empty folder; returns what ``recipe.dataset`` names."""
    columns: dict[str, str] = field(default_factory=dict)
    right_later: str = ""
    """The same from ms-swift 4.5.3 on, where it differs."""
    right_latest: str = ""
    """The same from 4.6.0 on."""
    args: dict[str, str] = field(default_factory=dict)

    def expected(self, release: str) -> str:
        """Return the right verdict with a release of ms-swift."""
        found = parse_version(release)
        if self.right_latest and found >= parse_version("4.6.0"):
            return self.right_latest
        is_later = found >= parse_version("4.5.3")
        return self.right_later if is_later and self.right_later else self.right


Table = Mapping[tuple[str, str, str], Callable[[Path], Sequence[Path]]]
"""Id, what it is and the right verdict of a case, to what writes it."""


def cases(table: Table) -> tuple[Case, ...]:
    return tuple(
        Case(id=id, what=what, right=right, write=write)
        for (id, what, right), write in table.items()
    )


WHOLE = "kept by whole conversations"
TEXTS = "kept by prompt and answers as texts"
ANSWERS = "kept by conversation and answers"
