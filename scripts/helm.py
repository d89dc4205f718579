"""Find Helm, and render the chart with it."""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from scripts import archive
from scripts.problem import Problem

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "chart"
OLDEST = (3, 17)
NOISE = re.compile(r"^level=ERROR|^Use --debug flag")
"""Lines of Helm's output that are dropped: errors that it also prints, and references to its own
--debug."""
INSTALL = "run `make setup` in the checkout, or install Helm >= 3.17"


def parse_version(text: str) -> tuple[int, int] | None:
    """Return (major, minor) of the output of `helm version --template {{.Version}}`.

    >>> parse_version("v4.3.1"), parse_version("bad")
    ((4, 3), None)
    """
    match = re.match(r"v?(\d+)\.(\d+)\.", text.strip())
    return (int(match[1]), int(match[2])) if match else None


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
    version = parse_version(text)
    if version is None or version < OLDEST:
        raise Problem(f"{found} is version {text.strip() or 'unknown'}; {INSTALL}")
    return found


@functools.cache
def _version(helm: Path) -> str:
    command = [str(helm), "version", "--template", "{{.Version}}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def template(release: str, files: Sequence[Path], sets: Sequence[str] = ()) -> str:
    """Return the manifest that `helm install RELEASE chart -f ... --set ...` would send, as YAML.

    Raises:
        Problem: the chart refuses the values; the message is the chart's own.
    """
    with contextlib.suppress(OSError):  # a read-only checkout: the chart says what is missing
        archive.build(ROOT)
    command = [str(find_helm()), "template"]
    for file in files:
        if not file.is_file():
            raise Problem(f"{file} is not a file; give the path of a values file")
        command += ["--values", str(file)]
    for assignment in sets:
        command += ["--set", assignment]
    # After -- a release named --help is refused as a name, not read as an option.
    command += ["--", release, str(CHART)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (line for line in done.stderr.splitlines() if not NOISE.search(line))
        raise Problem("the chart refuses these values:\n" + "\n".join(lines).strip())
    return done.stdout
