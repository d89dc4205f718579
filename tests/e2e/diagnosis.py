"""Diagnosis of a failed test: objects, events, descriptions, logs of its namespace."""

import subprocess

from tests.e2e.kubectl import Kubectl

OVERVIEW = "jobsets,workloads.kueue.x-k8s.io,jobs,pods,persistentvolumeclaims"
LOOKS: tuple[tuple[str, ...], ...] = (
    ("get", OVERVIEW, "--output=wide"),
    ("get", "events", "--sort-by=.lastTimestamp"),
    ("describe", "jobsets,workloads.kueue.x-k8s.io,pods"),
)
LINES = 120
"""Last lines kept of each output."""


def report(kubectl: Kubectl) -> str:
    """Return the state of a namespace as text, with an error message for each failed command."""
    parts = [_look(kubectl, *words) for words in LOOKS]
    names = _answer(kubectl, "get", "pods", "--output=name").split()
    parts += [_look(kubectl, "logs", name, "--all-containers", "--tail=60") for name in names[:8]]
    return "\n".join(parts)


def _look(kubectl: Kubectl, *words: str) -> str:
    lines = _answer(kubectl, *words).splitlines()
    return "\n".join([f"$ kubectl {' '.join(words)}", *lines[-LINES:], ""])


def _answer(kubectl: Kubectl, *words: str) -> str:
    try:
        done = subprocess.run(
            kubectl.argv(*words), capture_output=True, text=True, check=False, timeout=30
        )
    except subprocess.TimeoutExpired:
        return "no answer in 30 s"
    return done.stdout + done.stderr
