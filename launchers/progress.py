"""``progress.json``: where a run is, for whoever looks at the workspace. Written by rank 0."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launchers.checkpoint import replace
from launchers.settings import STAGES


@dataclass(kw_only=True)
class Progress:
    """The file's content; every change rewrites it whole."""

    path: Path
    run: str
    state: str = "running"
    """``running``, ``succeeded`` or ``failed``."""
    stage: str = ""
    attempt: int = 0
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Per stage: ``state`` (running, done, up to date, skipped, failed), ``why``, ``seconds``."""
    started: float = field(default_factory=time.time)

    def begin(self, stage: str) -> None:
        """Note that a stage begins."""
        self.stage = stage
        self.stages[stage] = {"state": "running", "why": "", "seconds": 0.0}
        self._clock = time.monotonic()
        self.write()

    def end(self, state: str, why: str = "") -> None:
        """Note how the current stage ended."""
        seconds = round(time.monotonic() - self._clock, 3)
        self.stages[self.stage] = {"state": state, "why": why, "seconds": seconds}
        self.write()

    def finish(self, state: str, why: str = "") -> None:
        """Note how the run ended; a stage under way ended with it."""
        self.state = state
        if self.stages.get(self.stage, {}).get("state") == "running":
            self.end("failed" if state == "failed" else "done", why)
        self.write()

    def write(self) -> None:
        """Write the file, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fields = {
            "run": self.run,
            "state": self.state,
            "stage": self.stage,
            "attempt": self.attempt,
            "stages": {s: self.stages[s] for s in STAGES if s in self.stages},
            "started": round(self.started, 3),
            "updated": round(time.time(), 3),
        }
        replace(self.path, json.dumps(fields, indent=1) + "\n")
