"""Options, exit codes and readers that the verbs about a run share."""

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from scripts.doctor.api import Api, connect, unconnected
from scripts.observe.ahead import Ahead
from scripts.observe.changes import changes, config_map_name
from scripts.observe.cluster import gather, with_config_map
from scripts.observe.source import Reading, read_files
from scripts.observe.view import View
from scripts.observe.ways import Source
from scripts.problem import UnknownState

SKEW_SECONDS = 60.0
"""Difference of two clocks that is worth a note."""


class Exit(IntEnum):
    """Exit codes of the verbs about a run; an unexpected failure of the command is 1, too."""

    OK = 0
    """The run is done, or runs."""
    FAILED = 1
    """It failed, is failing, or does not exist."""
    USAGE = 2
    WAITING = 3
    UNKNOWN = 4
    """The state is unknown: the cluster does not answer, or a permission is missing."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """The run, the cluster, and how its workspace is read."""

    run: str
    namespace: str | None = None
    """None: the context's."""
    context: str | None = None
    """None: the kubeconfig's current one."""
    workspace: Path | None = None
    """Folder where the workspace is mounted here; None for nowhere."""
    source: Source = Source.AUTO

    def connect(self) -> Api:
        """Return the cluster; no request is sent.

        Raises:
            UnknownState: the kubeconfig selects none.
        """
        return connect(self.context, self.namespace)

    def reach(self) -> Api:
        """Return the cluster, or an API without answers where the kubeconfig selects none."""
        try:
            return self.connect()
        except UnknownState as problem:
            return unconnected(self.context, self.namespace, str(problem))


def observe(
    target: Target, api: Api, *, queue: bool = True, reader: bool = True, ahead: Ahead | None = None
) -> tuple[View, Reading]:
    """Read a run: its objects, then its files.

    ``queue`` reads what explains waiting, ``ahead`` the ends of the runs that hold the quota.
    """
    view = View(gather(api, target.run, queue=queue))
    if "list clusterqueues" in view.snapshot.answers:
        ahead = ahead or Ahead(workspace=target.workspace, source=target.source)
        view = View(ahead.add(api, view.snapshot))
    reading = read_files(api, view, target.workspace, target.source, reader=reader)
    if view.gang and reading.files and reading.files.progress.get("digest"):
        view = View(with_config_map(api, view.snapshot, config_map_name(target.run)))
    return View(view.snapshot, reading.files), reading


def place(namespace: str, context: str, preposition: str = "") -> str:
    """Return where a run is looked for.

    >>> place("team", "here", "in "), place("team", "")
    ('in namespace team of here', 'without a cluster')
    """
    is_known = namespace and context
    return f"{preposition}namespace {namespace} of {context}" if is_known else "without a cluster"


def notes(view: View, reading: Reading) -> list[str]:
    """Return what limits the report: missing permissions, changes, torn files, clocks."""
    found = [f"you lack the permission: {each}" for each in view.snapshot.missing_permissions]
    found += changes(view)
    found += reading.notes
    if reading.files is not None:
        found += [f"{each} is torn; the rest is shown" for each in reading.files.torn]
        found += reading.files.problems
        skew = reading.files.now - view.now
        if abs(skew) > SKEW_SECONDS:
            found.append(f"the clock of the pods is {skew:+.0f} s off the API server's")
    return [*found, *own_clock(view)]


def own_clock(view: View) -> list[str]:
    """Return how far this machine's clock is off the server's, if that is worth a note."""
    skew = view.snapshot.skew
    said = f"this machine's clock is {skew:+.0f} s off the API server's"
    return [said] if abs(skew) > SKEW_SECONDS else []
