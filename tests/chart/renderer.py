"""Helm's own engine in one process for many values, with what an API server would say.

A `helm template` costs 160 ms of a processor; the program of tests/e2e/tools/renderer calls the
same functions of the pinned Helm on a chart that it has parsed. `make test-renderer` compares both.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import IO, Any

from scripts.helm import ROOT

PROGRAM = ROOT / ".tools" / "cluster" / "bin" / "renderer"


def encoded(document: object) -> str:
    """Return a document as JSON that Go's YAML parser reads too.

    It has no surrogate pairs, control characters or line breaks that only YAML 1.1 knows.

    >>> print(encoded("\x7f\U0001f60d"))
    "\\u007f😍"
    """
    text = json.dumps(document, ensure_ascii=False)
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda m: f"\\u{ord(m[0]):04x}", text
    )


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Output of Helm, or its refusal."""

    text: str
    """The manifests as written."""
    stderr: str
    """Everything that Helm prints there."""
    objects: list[dict[str, Any]]
    """The manifests, read strictly; none if there are no schemas."""
    refusal: str
    """Helm's error; empty if it renders."""
    broken: tuple[str, ...]
    """Go panics, text that is no YAML, objects that the API's schemas refuse."""


@dataclass(frozen=True, kw_only=True)
class Renderer:
    """A running program; threads wait for each other."""

    questions: IO[str]
    answers: IO[str]
    turn: Lock = field(default_factory=Lock)

    def ask(
        self,
        values: Mapping[str, Any] | str,
        chart: Path,
        name: str = "run",
        *,
        is_upgrade: bool = False,
    ) -> Answer:
        """Render a chart.

        Args:
            values: or their text.
            chart: its folder.
            name: of the release.
            is_upgrade: as of ``--is-upgrade``.
        """
        text = values if isinstance(values, str) else encoded(values)
        question = {"name": name, "chart": str(chart), "values": text, "isUpgrade": is_upgrade}
        with self.turn:
            self.questions.write(json.dumps(question) + "\n")
            self.questions.flush()
            line = self.answers.readline()
        if not line:
            raise AssertionError(f"the renderer died of {text}")
        answer = json.loads(line)
        return Answer(
            text=answer["text"],
            stderr=answer["stderr"],
            objects=answer["objects"] or [],
            refusal=answer["refusal"],
            broken=tuple(answer["broken"] or ()),
        )


@contextmanager
def start(kubernetes: str, schemas: Path | None = None) -> Iterator[Renderer]:
    """Run the program for a version of Kubernetes.

    Args:
        kubernetes: the version, as of ``--kube-version``.
        schemas: a folder of ``<Kind>.json``, if objects are to be checked.
    """
    command = [str(PROGRAM), kubernetes, *([str(schemas)] if schemas else [])]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield Renderer(questions=process.stdin, answers=process.stdout)
        finally:
            process.stdin.close()
            process.wait(timeout=30)
