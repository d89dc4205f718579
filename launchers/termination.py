"""The termination message: one line of JSON, shown by ``kubectl describe pod``."""

import json
from dataclasses import dataclass
from pathlib import Path

from launchers import logs
from launchers.exits import CLASSES, Exit, FailureClass, LaunchError

MAX_BYTES = 4096
"""The kubelet truncates a longer termination message."""


@dataclass(frozen=True, kw_only=True)
class Termination:
    """The content of a termination message: why a launcher ended."""

    code: Exit
    stage: str
    rank: int | None
    cause: str
    remedy: str
    id: str
    """Stable name of the error; several, joined by commas, where several messages were found."""
    step: int | None = None
    failure_class: FailureClass | None = None
    """By default that of ``code``."""

    def line(self) -> str:
        """Return the message, shortened to fit ``MAX_BYTES``.

        >>> end = Termination(code=Exit.IO, stage="x", rank=0, cause="c", remedy="r", id="i")
        >>> print(end.line())  # doctest: +ELLIPSIS
        {"code": 74, "class": "storage", "stage": "x", "rank": 0, "step": null, "cause": "c", ...
        """
        fields = {
            "code": int(self.code),
            "class": str(self.failure_class or CLASSES[self.code]),
            "stage": self.stage,
            "rank": self.rank,
            "step": self.step,
            "cause": cut(self.cause, 1200),
            "remedy": cut(self.remedy, 600),
            "id": cut(self.id, 200),
        }
        return json.dumps(fields, ensure_ascii=False)


def cut(text: str, size: int) -> str:
    """Return one line of at most ``size`` bytes; JSON at most doubles it (quotes, backslashes).

    >>> cut("a  b c", 4)
    'a b '
    """
    return " ".join(logs.printable(text).split()).encode()[:size].decode(errors="ignore")


def from_error(
    error: LaunchError, *, stage: str, rank: int | None, step: int | None = None
) -> Termination:
    """Build the message of an expected failure."""
    return Termination(
        code=error.code,
        stage=stage,
        rank=rank,
        step=step,
        cause=error.cause,
        remedy=error.remedy,
        id=error.id,
        failure_class=error.failure_class,
    )


def write(path: Path | None, termination: Termination) -> None:
    """Write the message to the file that the kubelet reads; an error is only logged."""
    if path is None:
        return
    try:
        path.write_text(termination.line() + "\n", encoding="utf-8")
    except OSError as error:
        logs.warning("termination message not written", path=path, error=error)
