"""One mistake in the values: the key, what is wrong there, what to write, and a stable id."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A message about one key of the values; the chart prints the same text."""

    id: str
    """Stable name in kebab-case: the wording may change, the id does not."""
    path: str
    """The key, e.g. ``recipe.args.packing``."""
    says: str
    """Cause and remedy."""

    def __str__(self) -> str:
        """Format it as one line.

        >>> str(Refusal(id="flag-empty", path="recipe.args.lr", says="empty; write null"))
        'recipe.args.lr: empty; write null [flag-empty]'
        """
        return f"{self.path}: {self.says} [{self.id}]"
