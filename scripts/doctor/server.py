"""Whether an API server answers, and whether it is new enough."""

from __future__ import annotations

import re

from scripts.doctor.finding import Finding, fail, ok, unknown
from scripts.doctor.seen import Seen

SUBJECT = "API server"
OLDEST = (1, 31)
"""The chart's `kubeVersion`: podFailurePolicy and podReplacementPolicy are stable there."""


def check(seen: Seen) -> list[Finding]:
    """The server's version."""
    if not seen.version.found:
        remedy = "mend the kubeconfig or --context; `kubectl version` must answer"
        if seen.version.status in (0, 401):
            return [fail(SUBJECT, seen.version.why, remedy)]
        return [unknown(SUBJECT, seen.version, remedy)]
    text = str(seen.version.content.get("gitVersion", ""))
    match = re.match(r"v(\d+)\.(\d+)", text)
    if match and (int(match[1]), int(match[2])) < OLDEST:
        return [fail(SUBJECT, f"Kubernetes {text}", "use a cluster of Kubernetes 1.31 or newer")]
    return [ok(SUBJECT, f"Kubernetes {text}")]


def answers(seen: Seen) -> bool:
    """Whether there is anything more to ask."""
    return seen.version.found and seen.groups.found
