"""The proposals to upstream: each patch applies to the releases that its section names."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launchers.upstream.releases import ROOTS, needs_releases

PAGES = sorted(Path(__file__).with_name("proposals").glob("*-*.md"))
APPLIES = re.compile(r"^Applies to: (\S+) (.+)$", re.M)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
HUNK = re.compile(r"^@@ .* @@\n", re.M)
LONGEST_PAGE, LONGEST_SCRIPT = 200, 40
"""Lines that a page and a reproduction may have."""


def hunks(diff: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each file of a unified diff with the text that each of its hunks replaces."""
    for part in re.split(r"^--- a/", diff, flags=re.M)[1:]:
        head, *bodies = HUNK.split(part)
        replaced = [
            "".join(line[1:] or "\n" for line in body.splitlines(keepends=True) if line[0] != "+")
            for body in bodies
        ]
        yield head.split("\n")[0], replaced


def applies(diff: str, root: Path) -> bool:
    """Return whether each hunk replaces a text that its file has once, after that of the last."""
    for name, replaced in hunks(diff):
        source = (root / name).read_text(encoding="utf-8") if (root / name).exists() else ""
        found = [source.find(text) for text in replaced]
        if -1 in found or found != sorted(found) or any(source.count(t) != 1 for t in replaced):
            return False
    return True


@needs_releases
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_patch_applies_to_the_releases_that_are_named_and_to_no_other(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST_PAGE
    proposals = [part for part in re.split(r"^## ", text, flags=re.M) if APPLIES.search(part)]
    assert proposals
    for proposal in proposals:
        package, versions = APPLIES.findall(proposal)[0]
        blocks = dict(FENCE.findall(proposal))
        compile(blocks["python"], proposal.split("\n")[0], "exec")
        assert len(blocks["python"].splitlines()) <= LONGEST_SCRIPT
        fit = [
            version
            for name, version, root in ROOTS
            if name == package and applies(blocks["diff"], root)
        ]
        assert ", ".join(fit) == versions, proposal.split("\n")[0]
