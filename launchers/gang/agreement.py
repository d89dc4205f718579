"""One rank's part in an agreement of all ranks: rank 0 collects their reports and decides."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from launchers.gang.protocol import Message


class Agreement(ABC):
    """A rank's part; the messages of its peers arrive in threads of their own."""

    def __init__(
        self, nodes: int, send: Callable[[Message], None], *, is_leader: bool = True
    ) -> None:
        """Take part."""
        self._nodes, self._send, self._is_leader = nodes, send, is_leader

    @abstractmethod
    def hear(self, rank: int, message: Message) -> None:
        """Handle a peer's message; ignore those of other agreements."""
