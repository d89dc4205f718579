"""What the user may do here."""

from __future__ import annotations

from scripts.doctor.finding import Finding, fail, ok, unknown, warn
from scripts.doctor.right import Right
from scripts.doctor.seen import Seen


def check(seen: Seen) -> list[Finding]:
    """One line for each right that is missing, one if all are there."""
    found = [each for each in (_right(right, seen) for right in seen.rights) if each]
    return found or [ok("permissions", f"all {len(seen.rights)} that a run needs")]


def _right(right: Right, seen: Seen) -> Finding | None:
    answer = seen.rights[right]
    subject = f"permission {right.words}"
    if not answer.found:
        return unknown(subject, answer)
    if (answer.content.get("status") or {}).get("allowed"):
        return None
    found = f"missing in namespace {seen.namespace}, for {right.purpose}"
    remedy = "ask the administrator for a Role with it"
    return fail(subject, found, remedy) if right.needed else warn(subject, found, remedy)
