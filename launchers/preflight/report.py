"""The report of one rank's preflight: what was found, in the log, in a file, as the run's end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from launchers import logs
from launchers.config.preflight import Preflight
from launchers.exits import during
from launchers.gang.protocol import Hello
from launchers.preflight.finding import Finding, failure
from launchers.preflight.measurements import Record
from launchers.storage.checkpoint import replace


class Report:
    """Findings as they come."""

    def __init__(self, own: Hello, wanted: Preflight) -> None:
        """Note whose it is, and which checks count."""
        self.own, self.wanted = own, wanted
        self.findings: list[Finding] = []
        self.records: list[Record] = []
        self.spent = 0.0
        """Seconds of checking; waiting for other ranks' stages is not counted."""

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time, and name the stage in what is raised."""
        begin = monotonic()
        try:
            with during("preflight"):
                yield
        finally:
            self.spent += monotonic() - begin

    def settle(self, found: Sequence[Finding], folder: Path | None) -> None:
        """Keep what was found, and end the run on a failure.

        Args:
            found: of checks that may have been skipped: those do not count.
            folder: where a failure is written.

        Raises:
            LaunchError: PREFLIGHT or a user code, with all that failed.
        """
        counted = [finding for finding in found if self.wanted.wants(finding.check)]
        self.findings += counted
        for finding in counted:
            if finding.state in ("warning", "failed"):
                logs.warning("preflight", **finding.row())
        error = failure(counted, self.own.name)
        if error is not None:
            if folder is not None:
                self.write(folder)
            raise error

    def passed(self, folder: Path) -> None:
        """Write and log the report of a preflight that let the run go on."""
        self.write(folder)
        warnings = sum(finding.state == "warning" for finding in self.findings)
        seconds = round(self.spent, 2)
        logs.info("preflight passed", checks=len(self.findings), warnings=warnings, seconds=seconds)

    def write(self, folder: Path) -> None:
        """Write the file; that it cannot be written must not hide what it says."""
        fields = {
            "rank": self.own.rank,
            "pod": self.own.pod,
            "node": self.own.node,
            "passed": all(finding.state != "failed" for finding in self.findings),
            "seconds": round(self.spent, 3),
            "findings": [finding.row() for finding in self.findings],
            # the same on every rank, and one row for each GPU of the gang
            "records": [r.fields() for r in self.records] if self.own.rank == 0 else [],
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps(fields, indent=1) + "\n"
            replace(folder / f"preflight-{self.own.rank}.json", text)
        except OSError as error:
            logs.warning("preflight's report not written", cause=error)
