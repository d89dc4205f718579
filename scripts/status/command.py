"""`megatron-dpo status`: print one run, once or periodically (`--watch`)."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console

from scripts.doctor.api import NODES, Api
from scripts.observe.command import Target, notes, observe, print_json
from scripts.observe.source import Reading
from scripts.observe.view import View
from scripts.status.screen import show
from scripts.status.summary import Status, summarise
from scripts.why.command import EXITS
from scripts.why.reasons import Kind

SCHEMA = 1
"""Version of the JSON; rises when a field is removed or changes its meaning."""
WATCH_SECONDS = 5.0
TOPOLOGY = re.compile(r"kueue\.x-k8s\.io/podset-(required|preferred)-topology")


def run(target: Target, console: Console, *, as_data: bool = False, watch: bool = False) -> int:
    """Print the status of a run; return the exit code of its state.

    Args:
        target: the run.
        console: where to print.
        as_data: print one JSON document.
        watch: print again every `WATCH_SECONDS`, until the run has ended or Ctrl-C.
    """
    api = target.reach()
    while True:
        # Without a terminal to clear, a watch is a series of reports; a reader pod for each of
        # them would be many.
        view, reading = observe(target, api, reader=not watch)
        status = summarise(view, topology(api, view))
        if watch and console.is_terminal:
            console.clear()
        if as_data:
            print_json(console, document(status, view, reading))
        else:
            show(status, console, reading.how, notes(view, reading))
        if not watch or view.terminal or not (view.jobset or status.state is Kind.RUNNING):
            return int(EXITS[status.state])
        time.sleep(WATCH_SECONDS)


def document(status: Status, view: View, reading: Reading) -> Mapping[str, Any]:
    """Return the status as JSON data; names and units are those of `summary.Status`."""
    return {
        "schema": SCHEMA,
        **asdict(status),
        "workspace": reading.how,
        "notes": notes(view, reading),
    }


def topology(api: Api, view: View) -> dict[str, str]:
    """Return each node's value of the run's topology key; empty where nodes may not be read."""
    metadata = view.gang_pod.get("metadata") or {}
    found = metadata.get("annotations") or {}
    keys = [value for name, value in found.items() if TOPOLOGY.fullmatch(name)]
    used = {rank.node for rank in view.ranks if rank.node}
    if not keys or not used:
        return {}
    names = {}
    for name in sorted(used):
        answer = api.get(NODES.path("", name))
        if not answer.found:
            return {}
        labels = answer.content["metadata"].get("labels") or {}
        names[name] = str(labels.get(keys[0]) or "")
    return names
