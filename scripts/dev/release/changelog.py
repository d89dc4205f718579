"""CHANGELOG.md, as keepachangelog.com 1.1.0 defines it. Pure."""

import re
from dataclasses import dataclass

from scripts.problem import Problem

KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
"""Headings of a section; in small letters the kinds of Artifact Hub's `artifacthub.io/changes`."""
UNRELEASED = "Unreleased"
_SECTION = re.compile(r"^## \[([^\]\n]+)\](?: - (\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)


@dataclass(frozen=True)
class Change:
    """One entry."""

    kind: str
    """One of ``KINDS``."""
    text: str


@dataclass(frozen=True)
class Section:
    """The changes of one version."""

    name: str
    date: str
    """Year-month-day; empty for what is not released."""
    body: str
    """The text below the heading."""

    @property
    def changes(self) -> tuple[Change, ...]:
        """Return the entries.

        Raises:
            Problem: a heading or a line that Keep a Changelog does not know.
        """
        found: list[Change] = []
        kind = ""
        for line in filter(None, self.body.splitlines()):
            if line.startswith("### ") and line[4:] in KINDS:
                kind = line[4:]
            elif line.startswith("- ") and kind:
                found.append(Change(kind, line[2:].strip()))
            elif line.startswith("  ") and found and found[-1].kind == kind:
                found[-1] = Change(kind, f"{found[-1].text} {line.strip()}")
            else:
                raise Problem(
                    f"CHANGELOG.md: [{self.name}] has the line {line!r}; write `- ` entries below "
                    f"one of the headings {', '.join(f'### {each}' for each in KINDS)}"
                )
        return tuple(found)


def sections(text: str) -> tuple[Section, ...]:
    r"""Return the sections in the file's order.

    >>> [s.name for s in sections("# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-11-23\n")]
    ['Unreleased', '0.1.0']
    """
    found = list(_SECTION.finditer(text))
    ends = [each.start() for each in found[1:]] + [len(text)]
    return tuple(
        Section(match[1], match[2] or "", text[match.end() : end].strip())
        for match, end in zip(found, ends, strict=True)
    )


def section(text: str, name: str) -> Section | None:
    """Return a section by its name; None if there is none."""
    return next((each for each in sections(text) if each.name == name), None)


def released(text: str, version: str, date: str) -> str:
    """Return the text with the unreleased changes as a version's; unchanged if it has a section.

    Raises:
        Problem: there is nothing to release, or the version is released already.
    """
    pending = section(text, UNRELEASED)
    if section(text, version) is not None:
        if pending is not None and pending.changes:
            raise Problem(
                f"CHANGELOG.md: [{version}] has a section, and [{UNRELEASED}] has changes that "
                "came after it; choose a higher version"
            )
        return text
    if pending is None or not pending.changes:
        raise Problem(
            f"CHANGELOG.md: neither a section [{version}] nor an entry under [{UNRELEASED}]; write "
            f"what {version} changes for users under ## [{UNRELEASED}]"
        )
    heading = f"## [{UNRELEASED}]"
    return text.replace(heading, f"{heading}\n\n## [{version}] - {date}", 1)
