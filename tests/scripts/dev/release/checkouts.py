"""Checkouts of this repository in which a release can be made."""

import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

from scripts.helm import ROOT

TOOLS = ("bin/helm", "uv/bin/uv")
FILLED = {"example.com": "dpo.test", "0" * 40: "1" * 40, str(uuid.UUID(int=0)): str(uuid.uuid4())}
"""Placeholders and what a publisher could have written."""
WHO = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"} | {
    f"GIT_{role}_{field}": text
    for role in ("AUTHOR", "COMMITTER")
    for field, text in (("NAME", "tester"), ("EMAIL", "tester@dpo.test"))
}


def git(folder: Path, *arguments: str) -> str:
    env = {**os.environ, **WHO}
    done = subprocess.run(["git", *arguments], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")


def made(folder: Path, *, filled: bool) -> Path:
    """Make a repository of this checkout's files as they are now, with one commit."""
    names = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    for name in filter(None, names.split("\0")):
        # What the release reads; tests/bench alone has megabytes of results.
        if name.startswith("tests/") and "/golden/" not in name or not (ROOT / name).is_file():
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    for name in ("Chart.yaml", "artifacthub-repo.yml") if filled else ():
        text = (folder / "chart" / name).read_text(encoding="utf-8")
        for old, new in FILLED.items():
            text = text.replace(old, new)
        (folder / "chart" / name).write_text(text, encoding="utf-8")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    commit(folder)
    return with_tools(folder)


def clone(origin: Path, folder: Path) -> Path:
    git(folder.parent, "clone", "--quiet", str(origin), folder.name)
    return with_tools(folder)


def with_tools(folder: Path) -> Path:
    """Link the tools of this checkout into another one; git ignores them."""
    for name in TOOLS:
        link = folder / ".tools" / name
        link.parent.mkdir(parents=True)
        link.symlink_to(ROOT / ".tools" / name)
    return folder


def release(
    folder: Path, *arguments: str, umask: int = 0o022, **env: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scripts.dev.release", *arguments]
    how: Any = {"env": {**os.environ, **WHO, "PYTHONDONTWRITEBYTECODE": "1", **env}}
    return subprocess.run(command, cwd=folder, umask=umask, capture_output=True, text=True, **how)
