"""Sources of the demo's run, created once: a code repository, a model, pairs."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from launchers.config.workspace import Below
from launchers.rules.table import SWIFT
from scripts.demo import pairs
from scripts.helm import ROOT
from scripts.problem import Problem, output_of

PLUGIN = Path(__file__).with_name("docstring_pairs.py")
VALUES = ROOT / "values" / "demo-cpu.yaml"
# A fixed author and date, so that the same plugin always gives the same commit.
AUTHOR = {
    "GIT_AUTHOR_NAME": "demo", "GIT_AUTHOR_EMAIL": "demo@localhost",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_NAME": "demo",
    "GIT_COMMITTER_EMAIL": "demo@localhost", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Paths of the sources below one folder."""

    root: Path
    swift: str = SWIFT
    """The release of ms-swift that trains."""

    code = Below("root", "code")
    """Git repository with the dataset plugin."""
    model = Below("root", "model")
    """Folder of model and tokenizer in Hugging Face format."""
    pairs = Below("root", "pairs.jsonl")
    """Training pairs."""
    held_out = Below("root", "heldout.jsonl")
    """Held-out pairs, which the run does not read."""
    values = Below("root", "sources.yaml")
    """Values file with the paths above."""
    key = Below("root", "key")
    """File, written last, with the digest of the inputs of all sources."""


def current_key(swift: str) -> str:
    """Return the digest of the inputs: code, values, versions of Python and of ms-swift."""
    digest = hashlib.sha256(f"{sys.version} {swift}".encode())
    for file in [VALUES, *sorted(Path(__file__).parent.glob("*.py"))]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def is_current(sources: Sources) -> bool:
    """Return whether the sources are complete and made from the current inputs."""
    key = sources.key
    return key.exists() and key.read_text(encoding="utf-8") == current_key(sources.swift)


def make_pairs(sources: Sources) -> tuple[int, int]:
    """Write both files of pairs; return the number of training and of held-out pairs."""
    train, held_out = pairs.split(pairs.collect())
    pairs.write_jsonl(train, sources.pairs)
    pairs.write_jsonl(held_out, sources.held_out)
    return len(train), len(held_out)


def make_model(sources: Sources, python: Path) -> str:
    """Create tokenizer and weights in the training environment; return the parameter count."""
    return in_training(python, "scripts.demo.model", [str(sources.pairs), str(sources.model)])


def make_code(sources: Sources) -> str:
    """Create a git repository with the plugin; return its commit."""
    shutil.rmtree(sources.code, ignore_errors=True)
    sources.code.mkdir(parents=True)
    shutil.copy(PLUGIN, sources.code)
    _git(sources.code, "init", "--quiet", "--initial-branch", "main")
    _git(sources.code, "add", PLUGIN.name)
    _git(sources.code, "commit", "--quiet", "--message", "Read the docstring pairs")
    return _git(sources.code, "rev-parse", "HEAD").strip()


def write_values(sources: Sources, commit: str) -> None:
    """Write the values file with the paths of the sources."""
    fields = {
        "code": {"url": f"file://{sources.code}", "ref": commit},
        "recipe": {
            "model": f"file://{sources.model}",
            "dataset": [f"file://{sources.pairs}"],
            "swiftVersion": sources.swift,
        },
        "image": {"tag": f"swift{sources.swift}"},  # not used: the pods are local processes
    }
    sources.values.write_text(yaml.safe_dump(fields), encoding="utf-8")


def seal(sources: Sources) -> None:
    """Mark the sources as complete."""
    sources.key.write_text(current_key(sources.swift), encoding="utf-8")


def in_training(python: Path, module: str, arguments: Sequence[str]) -> str:
    """Run a module of this package in the training environment; return its output.

    Raises:
        Problem: it failed; the message has the end of its stderr.
    """
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    command = [str(python), "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Problem(f"{module} failed in {python}:\n{done.stderr[-2000:]}")
    return done.stdout.strip()


def _git(folder: Path, *words: str) -> str:
    env = {"PATH": os.environ.get("PATH", os.defpath), **AUTHOR}
    return output_of(["git", *words], f"git {words[0]} failed: ", cwd=folder, env=env)
