"""What is wrong with an export: one finding for each file or field."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One difference between an export and what its statement or its signature says."""

    id: str
    file: str
    """Path in the export."""
    sentence: str

    def document(self) -> dict[str, str]:
        """Return the finding as JSON data."""
        return asdict(self)
