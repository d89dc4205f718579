"""The console of the command."""

from __future__ import annotations

from rich.console import Console


def terminal() -> Console:
    """Return the console; brackets in values are printed as they are, not read as markup."""
    return Console(markup=False, emoji=False)
