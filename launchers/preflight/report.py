"""Report of one rank's preflight: log lines, a JSON file, the error that ends the run."""

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
from launchers.system.atomic_file import replace


class Report:
    """Collects findings and the time spent."""

    def __init__(self, own: Hello, wanted: Preflight) -> None:
        """Create the report of one rank."""
        self.own, self.wanted = own, wanted
        self.findings: list[Finding] = []
        self.records: list[Record] = []
        self.spent = 0.0
        """Seconds spent on checks, without waiting for the stages of other ranks."""

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add the block's time; name the stage in errors."""
        begin = monotonic()
        try:
            with during("preflight"):
                yield
        finally:
            self.spent += monotonic() - begin

    def settle(self, found: Sequence[Finding], folder: Path | None) -> None:
        """Record findings; raise on a failure.

        Findings of skipped checks are ignored; the report of a failure goes to ``folder``.

        Raises:
            LaunchError: PREFLIGHT or a user code, with all failures.
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
        """Write and log the report of a passed preflight."""
        self.write(folder)
        warnings = sum(finding.state == "warning" for finding in self.findings)
        seconds = round(self.spent, 2)
        logs.info("preflight passed", checks=len(self.findings), warnings=warnings, seconds=seconds)

    def write(self, folder: Path) -> None:
        """Write the file; a write error is only logged, so as not to hide the findings."""
        fields = {
            "rank": self.own.rank,
            "pod": self.own.pod,
            "node": self.own.node,
            "passed": all(finding.state != "failed" for finding in self.findings),
            "seconds": round(self.spent, 3),
            "findings": [finding.row() for finding in self.findings],
            # equal on every rank, one row for each GPU of the gang
            "records": [r.fields() for r in self.records] if self.own.rank == 0 else [],
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps(fields, indent=1) + "\n"
            replace(folder / f"preflight-{self.own.rank}.json", text)
        except OSError as error:
            logs.warning("preflight's report not written", cause=error)
