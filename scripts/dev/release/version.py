"""The version of chart and launcher: one number, and the files that hold it."""

import re
from pathlib import Path

import yaml

from scripts.dev.release import changelog
from scripts.problem import Problem

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-rc\.(\d+))?")
"""SemVer 2.0.0; of its pre-releases those that Python's versions (PEP 440) have as well."""
_PLACES = (
    ("chart/Chart.yaml", r"^version: (\S+)$"),
    ("pyproject.toml", r'^version = "(\S+)"$'),
    ("tests/chart/golden/*.yaml", r"^ *helm.sh/chart: megatron-dpo-(\S+)$"),
    ("tests/refusals/golden/wordings.yaml", r"the image has launcher (\S+), but the chart needs"),
)
"""Files, and the pattern of the version in a line of them."""
_PLACEHOLDER = re.compile(r"^(?! *#).*(?:\bexample\.com\b|\b0{8}).*$", re.MULTILINE)


def placeholders(root: Path) -> list[str]:
    """Return the lines of Chart.yaml and artifacthub-repo.yml that a publisher has to fill in."""
    files = [root / "chart" / name for name in ("Chart.yaml", "artifacthub-repo.yml")]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    return [line.strip() for line in _PLACEHOLDER.findall(text)]


def parse(text: str) -> tuple[int, int, int, float]:
    """Return a version as numbers that compare as SemVer orders versions.

    Raises:
        Problem: the text is not a version of this project.

    >>> parse("0.2.0-rc.1") < parse("0.2.0-rc.2") < parse("0.2.0") < parse("0.10.0")
    True
    """
    match = _VERSION.fullmatch(text)
    if match is None:
        raise Problem(f"{text!r} is not a version; write x.y.z, or x.y.z-rc.n for a pre-release")
    major, minor, patch, candidate = match.groups()
    return int(major), int(minor), int(patch), float(candidate or "inf")


def current(root: Path) -> str:
    """Return the chart's version."""
    chart = yaml.safe_load((root / "chart" / "Chart.yaml").read_text(encoding="utf-8"))
    return str(chart["version"])


def places(root: Path, version: str, date: str) -> dict[Path, str]:
    """Return the files that another version changes, with their new text.

    Raises:
        Problem: the version is not above the last, or CHANGELOG.md has nothing for it.
    """
    before = current(root)
    if parse(version) < parse(before):
        raise Problem(f"{version} is below {before} of chart/Chart.yaml; choose a higher version")
    found = {
        path: _replaced(path.read_text(encoding="utf-8"), pattern, version)
        for glob, pattern in _PLACES
        for path in sorted(root.glob(glob))
    }
    log, chart = root / "CHANGELOG.md", root / "chart" / "Chart.yaml"
    found[log] = changelog.released(log.read_text(encoding="utf-8"), version, date)
    found[chart] = _annotated(found[chart], found[log], version)
    return {path: text for path, text in found.items() if text != path.read_text(encoding="utf-8")}


def _replaced(text: str, pattern: str, version: str) -> str:
    def line(match: re.Match[str]) -> str:
        start, end = match.span(1)
        return text[match.start() : start] + version + text[end : match.end()]

    return re.sub(pattern, line, text, flags=re.MULTILINE)


def _annotated(chart: str, log: str, version: str) -> str:
    """Return Chart.yaml with Artifact Hub's annotations of a version.

    https://artifacthub.io/docs/topics/annotations/helm/
    """
    section = changelog.section(log, version)
    assert section is not None, version
    entries = [{"kind": c.kind.lower(), "description": c.text} for c in section.changes]
    listed = yaml.safe_dump(entries, sort_keys=False, width=130).rstrip()
    block = "".join(f"    {line}\n" for line in listed.splitlines())
    chart = re.sub(
        r"^(  artifacthub.io/changes: \|\n)(?: {4}.*\n)*",
        lambda match: match[1] + block,
        chart,
        flags=re.MULTILINE,
    )
    is_candidate = str("-" in version).lower()
    return re.sub(r'(  artifacthub.io/prerelease: )"\w+"', rf'\1"{is_candidate}"', chart)
