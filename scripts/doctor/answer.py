"""What the API server said to one question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer; a refusal is an answer too."""

    status: int
    """HTTP status; 0 if no server answered."""
    content: Object = field(default_factory=dict)
    """The object, the list, or the Status that says why not."""
    warnings: Sequence[str] = ()
    """What the server warned of."""

    @property
    def found(self) -> bool:
        """Whether it is there, or was accepted."""
        return 200 <= self.status < 300

    @property
    def absent(self) -> bool:
        """Whether it is known not to be there."""
        return self.status == 404

    @property
    def items(self) -> list[Object]:
        """The objects of a list."""
        found: list[Object] = self.content.get("items") or []
        return found

    @property
    def why(self) -> str:
        """Why it was not found, on one line."""
        text = str(self.content.get("message") or f"the API server answered {self.status}")
        return " ".join(text.split())


def named(answer: Answer, name: str) -> Answer:
    """One object out of the answer to a list; the list's own refusal if it was refused.

    >>> named(Answer(status=200, content={"items": []}), "x").absent
    True
    """
    if not answer.found:
        return answer
    for item in answer.items:
        if item["metadata"]["name"] == name:
            return Answer(status=200, content=item)
    return Answer(status=404, content={"message": f"{name} does not exist"})
