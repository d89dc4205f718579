"""``python -m scripts.dev.release VERSION``: all of a release that needs no network."""

import argparse
import datetime
import hashlib
import json
import sys
from pathlib import Path

from launchers.version import of_wheel, sources
from scripts.dev.release import changelog, launcher_image, package, provenance, sbom, version
from scripts.helm import ROOT
from scripts.problem import Problem, output_of

WORKFLOW = """\
nothing was pushed; .github/workflows/release.yaml does that for the tag v{version}:
  1. builds these files again, and ends unless the tag has nothing left to set
  2. pushes the chart to ghcr.io/OWNER/charts/megatron-dpo:{version}, with its provenance file
  3. pushes the launcher, which pods mount as a volume, to ghcr.io/OWNER/megatron-dpo-launchers
  4. builds and pushes scripts/image as ghcr.io/OWNER/megatron-dpo:{version}, with its SBOM
  5. signs chart and images by digest (cosign, keyless), attests their SLSA provenance
  6. makes the GitHub release with these files and the section of CHANGELOG.md"""


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument("version", help="x.y.z, or x.y.z-rc.n")
    parser.add_argument("--sign", metavar="KEY", help="sign the package with this key of GnuPG")
    parser.add_argument(
        "--publish", action="store_true", help="refuse placeholders and files that are not set"
    )
    given = parser.parse_args()
    try:
        release(given.version.removeprefix("v"), given.sign, publish=given.publish)
    except Problem as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0


def release(wanted: str, key: str | None, *, publish: bool, root: Path = ROOT) -> None:
    """Check the checkout, set the version, build ``dist/`` and print what follows.

    Without ``key`` it is unsigned; to ``publish`` version and placeholders must be set.

    Raises:
        Problem: the checkout is not ready for this release.
    """
    version.parse(wanted)
    _refuse_changes(root)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    changed = version.places(root, wanted, today)
    names = sorted(str(path.relative_to(root)) for path in changed)
    unfilled = "; ".join(version.placeholders(root))
    if publish and changed:
        raise Problem(
            f"{', '.join(names)} differ from what {wanted} needs; run `make release "
            f"VERSION={wanted}` and commit before the tag"
        )
    if publish and unfilled:
        raise Problem(f"chart/ has placeholders, fill them in: {unfilled}")
    for path, text in changed.items():
        path.write_text(text, encoding="utf-8")
    for path in _built(root, wanted, key):
        print(f"{_sha256(path)}  {path.relative_to(root)}")
    if names:
        print(f"set {wanted} in: {', '.join(names)}")
        print(f'next: git commit --all --message "Release {wanted}"')
    if unfilled:
        print(f"to fill in before a tag: {unfilled}")
    print(f'then: git tag --annotate v{wanted} --message "Release {wanted}", and push the tag')
    print(WORKFLOW.format(version=wanted))


def _refuse_changes(root: Path) -> None:
    if changed := output_of(["git", "status", "--porcelain"], "git status: ", cwd=root):
        listed = ", ".join(line[3:] for line in changed.splitlines()[:5])
        raise Problem(f"the working tree has changes: {listed}; commit or stash them")


def _built(root: Path, wanted: str, key: str | None) -> list[Path]:
    """Build all files of a release; return their paths, the list of digests last."""
    dist = root / "dist"
    section = changelog.section((root / "CHANGELOG.md").read_text(encoding="utf-8"), wanted)
    assert section is not None, wanted
    layout, digest = launcher_image.archived(sources(root / "launchers"), wanted)
    chart = package.build(dist, root, digest)
    image = dist / f"megatron-dpo-launchers-{wanted}.oci.tar"
    image.write_bytes(layout)
    bill = dist / f"megatron-dpo-{wanted}.spdx.json"
    text = json.dumps(sbom.document(chart.read_bytes(), section.date), indent=1)
    bill.write_text(f"{text}\n", encoding="utf-8")
    schema = dist / f"megatron-dpo-{wanted}.schema.json"  # for editors of values outside
    schema.write_bytes((root / "chart" / "values.schema.json").read_bytes())
    files = [chart, image, wheel(root), bill, schema]
    if key:
        files.append(provenance.sign(chart, key))
    sums = dist / "SHA256SUMS"
    lines = [f"{_sha256(path)}  {path.name}\n" for path in files]
    sums.write_text("".join(lines), encoding="ascii")
    (dist / "notes.md").write_text(f"{section.body}\n", encoding="utf-8")
    return [*files, sums]


def wheel(root: Path) -> Path:
    """Build the wheel in ``dist/``; return its path.

    Raises:
        Problem: uv cannot build it.
    """
    uv = ROOT / ".tools" / "uv" / "bin" / "uv"
    command = [str(uv), "build", "--quiet", "--wheel", "--out-dir", "dist"]
    output_of(command, "uv build: ", cwd=root)
    number = of_wheel(version.current(root))
    return root / "dist" / f"megatron_dpo-{number}-py3-none-any.whl"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
