"""Helm's own engine in one process for many values, with what an API server would say.

A `helm template` costs 130 ms, most of it the start; the program of tests/e2e/tools/renderer calls
the same functions of the pinned Helm and answers in a tenth of that. A test compares both.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.chart.helm import KUBERNETES, ROOT, Document

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
    objects: list[Document]
    """The same, read strictly."""
    refusal: str
    """Helm's message; empty if it renders."""
    broken: tuple[str, ...]
    """Go panics, text that is no YAML, objects that the API's schemas refuse."""


@dataclass(frozen=True, kw_only=True)
class Renderer:
    """A running program; one question at a time."""

    questions: IO[str]
    answers: IO[str]

    def ask(self, values: Mapping[str, Any], chart: Path, name: str = "run") -> Answer:
        """Render a chart."""
        question = {"name": name, "chart": str(chart), "values": values}
        self.questions.write(encoded(question) + "\n")
        self.questions.flush()
        line = self.answers.readline()
        if not line:
            raise AssertionError(f"the renderer died of {json.dumps(values)}")
        answer = json.loads(line)
        return Answer(
            text=answer["text"],
            objects=answer["objects"] or [],
            refusal=answer["refusal"],
            broken=tuple(answer["broken"] or ()),
        )


@contextmanager
def start(schemas: Path) -> Iterator[Renderer]:
    """Run the program with a folder of schemas, ``<Kind>.json``."""
    command = [str(PROGRAM), KUBERNETES, str(schemas)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield Renderer(questions=process.stdin, answers=process.stdout)
        finally:
            process.stdin.close()
            process.wait(timeout=30)
