"""`megatron-dpo status`: print one run, once or periodically (`--watch`)."""

import re
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from rich.console import Console

from scripts import prices
from scripts.doctor.api import NODES, Api
from scripts.observe import spent
from scripts.observe.command import Target, notes, observe
from scripts.observe.concurrent import call_each
from scripts.observe.view import View
from scripts.observe.watch import Look, Watch
from scripts.plan.units import time_text
from scripts.start.view import start
from scripts.status.screen import show
from scripts.status.summary import Status, summarise
from scripts.terminal import SCHEMA, print_json
from scripts.why.command import EXITS
from scripts.why.reasons import Kind

WATCH_SECONDS = 5.0
TOPOLOGY = re.compile(r"kueue\.x-k8s\.io/podset-(required|preferred)-topology")


def run(target: Target, console: Console, *, as_data: bool = False, watch: bool = False) -> int:
    """Print the status of a run; return the exit code of its state."""
    if watch:
        return _watch(target, console, as_data=as_data)
    status, look, said = seen(target)
    _print(status, look, said, console, as_data=as_data)
    return int(EXITS[status.state])


def seen(target: Target) -> tuple[Status, Look, list[str]]:
    """Return a run's status, what it was read from, and notes; the arguments of `document`."""
    api = target.reach()
    view, reading = observe(target, api)
    look = Look(view=view, reading=reading)
    return _status(view, topology(api, view)), look, notes(view, reading)


def _watch(target: Target, console: Console, *, as_data: bool) -> int:
    """Print the status periodically; while no answer comes, the last one with its age.

    Without a terminal to clear this is a series of reports; a reader pod for each of them would be
    many. It ends with the run, or where no later answer is possible: it is gone, the user lacks the
    permission, or the context is gone.
    """
    watch = Watch(target=target, interval=WATCH_SECONDS)
    domains: Mapping[str, str] = {}
    while True:
        look = watch.look()
        view = look.view
        domains = domains if look.lost else topology(watch.api, view)
        status = _status(view, domains)
        said = [*stale_notes(look, watch.wait), *notes(view, look.reading)]
        if console.is_terminal:
            console.clear()
        _print(status, look, said, console, as_data=as_data)
        may_change = look.lost or view.jobset or status.state is Kind.RUNNING
        if view.terminal or not may_change:
            return int(EXITS[status.state])
        time.sleep(watch.wait)


def _status(view: View, domains: Mapping[str, str]) -> Status:
    status = summarise(view, domains)
    return replace(status, start=start(view, status.reason))


def _print(status: Status, look: Look, said: list[str], console: Console, *, as_data: bool) -> None:
    if as_data:
        print_json(console, document(status, look, said))
    else:
        show(status, console, look.reading.how, said, prices.read())


def document(status: Status, look: Look, said: list[str]) -> Mapping[str, Any]:
    """Return the status as JSON data; names and units are those of `summary.Status`."""
    fields = asdict(status)
    for name in ("spent", "gpu_model"):
        del fields[name]
    return {
        "schema": SCHEMA,
        **fields,
        "cost": spent.document(status.spent, prices.read(), status.gpu_model),
        "stale_seconds": look.stale_seconds,
        "workspace": look.reading.how,
        "notes": said,
    }


def stale_notes(look: Look, wait: float) -> list[str]:
    """Return what a state without a newer answer says about itself."""
    if not look.lost:
        return []
    age = f"; this state is {time_text(look.stale_seconds)} old" if look.stale_seconds else ""
    again = f"the next attempt is in {time_text(wait)}"
    return [f"no newer answer of the API server ({look.lost}){age}; {again}"]


def topology(api: Api, view: View) -> dict[str, str]:
    """Return each node's value of the run's topology key; empty where nodes may not be read."""
    metadata = view.gang_pod.get("metadata") or {}
    noted = metadata.get("annotations") or {}
    keys = [value for name, value in noted.items() if TOPOLOGY.fullmatch(name)]
    used = {rank.node for rank in view.ranks if rank.node}
    if not keys or not used:
        return {}
    nodes = call_each(lambda name: api.get(NODES.path("", name)), sorted(used))
    if not all(each.found for each in nodes):
        return {}
    found = [each.content["metadata"] for each in nodes]
    return {each["name"]: str((each.get("labels") or {}).get(keys[0]) or "") for each in found}
