"""Find Helm, and render the chart with it."""

import contextlib
import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from launchers.upstream.versions import parse_version
from scripts import archive
from scripts.problem import Problem, output_of
from scripts.values import text

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "chart"
OLDEST = (3, 17)
NOISE = re.compile(r"^level=ERROR|^Use --debug flag")
"""Lines of Helm's output that are dropped: errors that it also prints, and references to its own
--debug."""
INSTALL = "run `make setup` in the checkout, or install Helm >= 3.17"


def find_helm() -> Path:
    """Return the checkout's own Helm, or the one on PATH.

    Raises:
        Problem: there is none, or it is older than 3.17.
    """
    own = ROOT / ".tools" / "bin" / "helm"
    found = own if own.exists() else Path(shutil.which("helm") or "")
    if not found.name:
        raise Problem(f"no helm on PATH; {INSTALL}")
    text = _version(found)
    if parse_version(text.strip().removeprefix("v")) < OLDEST:
        raise Problem(f"{found} is version {text.strip() or 'unknown'}; {INSTALL}")
    return found


@functools.cache
def _version(helm: Path) -> str:
    command = [str(helm), "version", "--template", "{{.Version}}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def options(files: Sequence[Path], sets: Sequence[str]) -> list[str]:
    """Return the options of Helm that give values files and assignments."""
    values = [word for file in files for word in ("--values", str(file))]
    return values + [word for each in sets for word in ("--set", each)]


def run_helm(command: Sequence[str]) -> str:
    """Run a command of Helm, and return what it prints.

    Raises:
        Problem: it failed.
    """
    return output_of(command, f"helm {command[1]} failed:\n")


def template(release: str, files: Sequence[Path], sets: Sequence[str] = ()) -> str:
    """Return the manifest that `helm install RELEASE chart -f ... --set ...` would send, as YAML.

    Raises:
        Problem: the chart refuses the values; the message has a line for each mistake.
    """
    with contextlib.suppress(OSError):  # a read-only checkout: the chart says what is missing
        archive.build(ROOT)
    for file in files:
        if not file.is_file():
            raise Problem(f"{file} is not a file; give the path of a values file")
    release_of = Release(helm=find_helm(), name=release, files=files, sets=sets)
    done = release_of.render(CHART)
    found = [f"- {line}" for file in files for line in _of_text(file)]
    found += _mistakes(release_of, done)
    if found:
        raise Problem("the chart refuses these values:\n" + "\n".join(found))
    return done.stdout


def _of_text(file: Path) -> list[str]:
    return text.mistakes(file.read_text(encoding="utf-8", errors="replace"), str(file))


@dataclass(frozen=True, kw_only=True)
class Release:
    """Helm with the name, the values files and the assignments of one release."""

    helm: Path
    name: str
    files: Sequence[Path]
    sets: Sequence[str]

    def render(self, chart: Path) -> subprocess.CompletedProcess[str]:
        """Render a chart with the release's values."""
        return self._call(chart, *options(self.files, self.sets))

    def merged(self, chart: Path) -> str:
        """Return what another chart renders with the user's values; empty if Helm refuses them."""
        return self.render(chart).stdout

    def rendered(self, values: str) -> tuple[str, str]:
        """Render the chart with other values, without the schema: manifests, or a refusal."""
        more = ("--skip-schema-validation", "--values", "-")
        done = self._call(CHART, *more, given=values)
        return ("", done.stderr) if done.returncode else (done.stdout, "")

    def _call(self, chart: Path, *more: str, given: str = "") -> subprocess.CompletedProcess[str]:
        # After -- a release named --help is refused as a name, not read as an option.
        command = [str(self.helm), "template", *more, "--", self.name, str(chart)]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=False)


def _mistakes(release: Release, done: subprocess.CompletedProcess[str]) -> Sequence[str]:
    """Return all mistakes of a release's values; Helm's own words where the judge finds none."""
    from scripts.values import judge  # which reads manifests, and imports jsonschema for 0.1 s

    manifests = "" if done.returncode else done.stdout
    with tempfile.TemporaryDirectory() as folder:
        found = judge.lines(release, judge.printer(Path(folder)), manifests)
    if found or manifests:
        return [f"- {line}" for line in found]
    own = "\n".join(line for line in done.stderr.splitlines() if not NOISE.search(line))
    return [own.strip()]
