"""Helm's own engine in one process for many values, with what an API server would say.

A `helm template` costs 160 ms of a processor; the program of tests/e2e/tools/renderer calls the
same functions of the pinned Helm on a chart that it has parsed. `make test-renderer` compares both.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from scripts.helm import ROOT
from scripts.values.judge import encoded

PROGRAM = ROOT / ".tools" / "cluster" / "bin" / "renderer"


@dataclass(frozen=True, kw_only=True)
class Answer:
    text: str
    """The manifests as written."""
    notes: str
    """What ``helm install`` prints after them."""
    stderr: str
    """Everything that Helm prints there."""
    objects: list[dict[str, Any]]
    """The manifests, read strictly; none if there are no schemas."""
    refusal: str
    """Helm's error; empty if it renders."""
    broken: tuple[str, ...]
    """Go panics, text that is no YAML, objects that the API's schemas refuse."""


class Renderer:
    """The program, which one thread asks at a time.

    It is started again where it has ended: some tests kill all descendants of their process.
    """

    def __init__(self, kubernetes: str, schemas: Path | None = None) -> None:
        """Set the program's arguments.

        Objects are checked with a folder of ``<Kind>.json``.
        """
        self._command = [str(PROGRAM), kubernetes, *([str(schemas)] if schemas else [])]
        self._process: subprocess.Popen[str] | None = None
        self._turn = Lock()

    def ask(
        self,
        values: Mapping[str, Any] | str,
        chart: Path,
        name: str = "run",
        *,
        is_upgrade: bool = False,
        skip_schema: bool = False,
        over: Sequence[str] = (),
        sets: Sequence[str] = (),
    ) -> Answer:
        """Render a chart.

        ``over`` are texts of further values files; the others are as Helm's flags.
        """
        text = values if isinstance(values, str) else encoded(values)
        options: dict[str, Any] = {"isUpgrade": is_upgrade, "skipSchema": skip_schema}
        options |= {"over": [*over], "sets": [*sets]}
        question = {"name": name, "chart": str(chart), "values": text, **options}
        with self._turn:
            line = self._line(json.dumps(question)) or self._line(json.dumps(question))
        if not line:
            raise AssertionError(f"the renderer died of {text}")
        answer = json.loads(line)
        return Answer(
            text=answer["text"],
            notes=answer.get("notes", ""),
            stderr=answer["stderr"],
            objects=answer["objects"] or [],
            refusal=answer["refusal"],
            broken=tuple(answer["broken"] or ()),
        )

    def _line(self, question: str) -> str:
        """Return the answer; nothing if the program has ended, which is then started again."""
        if self._process is None:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self._process = subprocess.Popen(self._command, text=True, **pipes)
        assert self._process.stdin is not None and self._process.stdout is not None
        line = ""
        try:
            self._process.stdin.write(question + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            return ""
        finally:
            if not line:  # ended, or a test's time is over and the answer would be the next one's
                self.close()
        return line

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(timeout=30)
            for pipe in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):
                    assert pipe is not None
                    pipe.close()


@contextmanager
def start(kubernetes: str, schemas: Path | None = None) -> Iterator[Renderer]:
    with closing(Renderer(kubernetes, schemas)) as renderer:
        yield renderer
