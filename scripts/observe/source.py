"""Choose how the files of a run are read: mounted here, in a pod of the run, in a reader pod.

In a pod the program `collect.py` runs as `python3 -c`; it travels compressed in the command, since
proxies refuse long addresses.
"""

from __future__ import annotations

import base64
import inspect
import json
import secrets
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import ModuleType

from urllib3.exceptions import HTTPError

from scripts.doctor.api import PODS, Api, Object, OpenApiException
from scripts.observe import collect
from scripts.observe.cluster import is_true
from scripts.observe.view import LAUNCHER, View
from scripts.observe.workspace import RunFiles, parse_run, read_run
from scripts.problem import Problem, WrongUse

EXEC_SECONDS = 20.0
"""Limit of a program in a pod of the run."""
READER_SECONDS = 60
"""Lifetime of a reader pod; its image is on a node already, or the read is given up."""
CHANGE_SECONDS = 600
"""The same where files are removed: a checkpoint has thousands of them, on slow storage."""
POLL_SECONDS = 0.3
CHANNELS = {"output": 1, "errors": 2, "status": 3}
"""Streams of exec (`v4.channel.k8s.io`)."""
PYTHON = ("python3", "-I", "-c")
"""Starts a program in a pod: isolated, as a module of the image or of PYTHONPATH may hide json."""
_CARRY = """
import sys, types
for name, source in {!r}.items():
    words = name.split(".")
    for end in range(1, len(words) + 1):
        part = ".".join(words[:end])
        sys.modules[part] = module = sys.modules.get(part) or types.ModuleType(part)
        if end > 1:
            setattr(sys.modules[".".join(words[:end - 1])], words[end - 1], module)
    exec(source, vars(module))
"""
"""Makes modules of the project importable where it is not installed, or in another version."""
VOLUME = "workspace"
"""Name of the workspace's volume (chart/templates/pod/_volumes.tpl)."""
RUN_FOLDER = "DPO_WORKSPACE"
"""Variable of the launcher with the folder of the workspace in the pod."""


class Source(StrEnum):
    """Way to read the workspace."""

    AUTO = "auto"
    MOUNT = "mount"
    EXEC = "exec"
    POD = "pod"
    API = "api"
    """Not at all."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The files of a run, or why they were not read."""

    files: RunFiles | None
    how: str
    """In words, such as `exec in pod dpo-node-0-0-x7k2p`."""
    notes: tuple[str, ...] = ()
    """Ways that were tried before, and why each failed."""


def read_files(
    api: Api, view: View, mounted: Path | None, source: Source = Source.AUTO, *, reader: bool = True
) -> Reading:
    """Read a run's files in the first way that works.

    Args:
        api: the cluster.
        view: the run without files.
        mounted: folder where the workspace is mounted on this machine; None for nowhere.
        source: the only way to try; AUTO for all.
        reader: a reader pod may be created.

    Raises:
        Problem: the mounted path is not a folder, or the chosen way does not work.
    """
    if mounted is not None and source in (Source.AUTO, Source.MOUNT):
        files = read_run(mounted, view.run)
        is_absent = not files.exists and not files.problems
        has_none = is_absent and (may_have_files(view) or not view.is_answered)
        known = f"; its runs: {', '.join(files.known[:10])}" if files.known else ""
        absent = (f"{mounted} has no runs/{view.run}; is it the workspace of this run?{known}",)
        how = f"mounted at {mounted}"
        return Reading(files=files, how=how, notes=absent if has_none else ())
    if source is Source.MOUNT:
        raise WrongUse("no folder given; use --workspace with the folder of the workspace")
    notes: list[str] = []
    pod = running_pod(view) if view.gang else ""
    if source is Source.EXEC and view.gang and not pod:
        notes.append(f"no pod of {view.run} runs")
    if source in (Source.AUTO, Source.EXEC) and pod:
        try:
            content = run_in_pod(api, pod, program(collect, *_words(view)))
            return Reading(files=_parse(content.decode()), how=f"exec in pod {pod}")
        except Problem as problem:
            notes.append(str(problem))
    is_useful = reader and may_have_files(view)
    if (source is Source.AUTO and is_useful) or (source is Source.POD and view.gang):
        try:
            name, text = read_by_pod(api, view, program(collect, *_words(view)))
            how = f"reader pod {name}, removed again"
            return Reading(files=_parse(text), how=how, notes=tuple(notes))
        except Problem as problem:
            notes.append(str(problem))
    if notes and source not in (Source.AUTO, Source.API):
        raise Problem("; ".join(notes))
    how = "not read; what follows is from the API alone" if view.is_answered else "not read"
    return Reading(files=None, how=how, notes=tuple(notes))


def may_have_files(view: View) -> bool:
    """Return whether the run has had pods."""
    was_evicted = is_true(view.workload, "Evicted")
    return bool(view.gang) and bool(view.ranks or view.restarts[0] or view.terminal or was_evicted)


def program(module: ModuleType, *words: str) -> list[str]:
    """Return the command that runs a module in a pod.

    It imports of the project the modules in its `CARRIED` only; they go with it.
    """
    carried = {each.__name__: inspect.getsource(each) for each in getattr(module, "CARRIED", ())}
    parts = [*([_CARRY.format(carried)] if carried else []), inspect.getsource(module)]
    packed = [base64.b85encode(zlib.compress(part.encode(), 9)).decode() for part in parts]
    runs = "".join(f";exec(zlib.decompress(base64.b85decode({p!r})),globals())" for p in packed)
    return [*PYTHON, f"import base64,zlib{runs}", *words]


def folder_in_pod(view: View) -> str:
    """Return the folder of the workspace in the run's pods.

    Raises:
        Problem: the JobSet is not of this chart.
    """
    for container in (view.gang_pod.get("spec") or {}).get("containers") or []:
        for each in container.get("env") or []:
            if each["name"] == RUN_FOLDER and each.get("value"):
                return str(each["value"])
    raise Problem(f"the JobSet {view.run} does not say where its workspace is ({RUN_FOLDER})")


def _words(view: View) -> tuple[str, str]:
    return folder_in_pod(view), view.run


def _parse(text: str) -> RunFiles:
    try:
        return parse_run(json.loads(text))
    except ValueError:
        raise Problem(f"the pod printed no document: {text[:200]!r}") from None


def running_pod(view: View) -> str:
    """Return a pod of the gang in which a program can run, the lowest rank's; empty for none."""
    for rank in view.ranks:
        if rank.phase == "Running" and rank.exit_code is None and rank.started_at is not None:
            return rank.pod
    return ""


def run_in_pod(api: Api, pod: str, command: Sequence[str], seconds: float = EXEC_SECONDS) -> bytes:
    """Run a command in the launcher's container, and return its output.

    Raises:
        Problem: it is refused, fails, or takes longer than the limit.
    """
    import websocket  # most readings need no exec

    websocket.setdefaulttimeout(EXEC_SECONDS)  # the client sets none, also not to connect
    try:
        running = api.open_exec(pod, LAUNCHER, command)
        limit = time.monotonic() + seconds
        while running.is_open() and time.monotonic() < limit:
            try:
                running.update(timeout=1)
            except websocket.WebSocketConnectionClosedException:
                break  # some proxies end the connection without a closing frame
        # `returncode` and the text of a channel fail for a status without an exit code, and for a
        # character that two frames share.
        read = {name: running.read_channel(number) for name, number in CHANNELS.items()}
        running.close()
    except (OpenApiException, HTTPError, websocket.WebSocketException, OSError) as error:
        raise Problem(
            f"exec in pod {pod} (get and create pods/exec) failed: {_refusal(error)}"
        ) from None
    if (cause := _failure(read, seconds)) is not None:
        raise Problem(f"exec in pod {pod} failed: {_line(cause)}")
    output: bytes = read["output"]
    return output


def _refusal(error: Exception) -> str:
    """Return the API server's message about a refused connection, otherwise the error's text."""
    # The client raises its own exception while it handles the one that has the answer.
    body = getattr(error.__context__, "resp_body", None)
    try:
        return str(json.loads(body or "")["message"])
    except (TypeError, ValueError, KeyError):
        return _line(str(getattr(error, "reason", None) or error))


def _failure(read: Mapping[str, bytes], seconds: float) -> str | None:
    """Return why a command in a pod failed; None if it succeeded."""
    if not read["status"]:
        return f"no end within {seconds:.0f} s, or the connection was lost"
    status: Object = json.loads(read["status"])
    if status.get("status") == "Success":
        return None
    return read["errors"].decode(errors="replace").strip() or str(status.get("message") or status)


def _line(text: str) -> str:
    """Return the last line of a message."""
    return (text.strip().splitlines() or ["no message"])[-1][:300]


def reader_pod(
    view: View, command: Sequence[str], name: str, *, changes_files: bool = False
) -> Object:
    """Return a pod that mounts the workspace and runs a command, with the gang's image and user.

    It requests no GPU, has no token and no label that Kueue or JobSet would act on, and Kubernetes
    ends it after its time limit. The workspace is mounted read-only unless files are changed. It
    goes where the gang may go: only there the volume can be mounted for sure, and all nodes may
    have the GPU's taint.

    Raises:
        Problem: the workspace is an emptyDir, which ends with its pod.
    """
    spec: Object = view.gang_pod.get("spec") or {}
    volumes = [each for each in spec.get("volumes") or [] if each["name"] == VOLUME]
    if not volumes or "emptyDir" in volumes[0]:
        raise Problem(f"the workspace of {view.run} is not a volume that another pod can mount")
    launcher = next(each for each in spec["containers"] if each["name"] == LAUNCHER)
    mounts = [each for each in launcher["volumeMounts"] if each["name"] == VOLUME]
    same = (
        *("securityContext", "imagePullSecrets", "serviceAccountName", "schedulerName"),
        *("nodeSelector", "affinity", "tolerations"),
    )
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    small = {"cpu": "100m", "memory": "256Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/component": "reader"}},
        "spec": {
            **{field: spec[field] for field in same if field in spec},
            "restartPolicy": "Never",
            "activeDeadlineSeconds": lifetime(changes_files),
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [
                {
                    "name": "reader",
                    "image": launcher["image"],
                    "imagePullPolicy": "IfNotPresent",
                    # Kubernetes expands $(NAME) and $$ here, unlike in exec.
                    "command": [each.replace("$", "$$") for each in command],
                    "resources": {"requests": small, "limits": small},
                    "securityContext": security,
                    "volumeMounts": [
                        each if changes_files else {**each, "readOnly": True} for each in mounts
                    ],
                }
            ],
            "volumes": volumes,
        },
    }


def lifetime(changes_files: bool) -> int:
    """Return the seconds after which Kubernetes ends a reader pod."""
    return CHANGE_SECONDS if changes_files else READER_SECONDS


def read_by_pod(
    api: Api, view: View, command: Sequence[str], *, changes_files: bool = False
) -> tuple[str, str]:
    """Create a reader pod, wait for its end, remove it; return its name and output.

    Raises:
        Problem: it is refused, fails, or does not end in time.
    """
    name = f"{view.run}-reader-{secrets.token_hex(3)}"
    content = reader_pod(view, command, name, changes_files=changes_files)
    path = PODS.path(api.namespace, name)
    made = api.create(PODS.path(api.namespace), content, dry=False)
    if not made.found:
        raise Problem(f"a reader pod was refused: {made.why}")
    try:
        status = _await(api, path, lifetime(changes_files))
        text = api.text(f"{path}/log", container="reader")
    finally:
        api.delete(path, gracePeriodSeconds="0")
    if status.get("phase") != "Succeeded":
        seconds = lifetime(changes_files)
        why = _line(text) if text else f"after {seconds} s it is {_obstacle(status)}"
        raise Problem(f"reader pod {name} did not end its work on the workspace: {why}")
    if text is None:
        raise Problem(f"the log of reader pod {name} (get pods/log) was refused")
    return name, text


def _await(api: Api, path: str, seconds: float) -> Object:
    """Return the status of a pod at its end, or after a time."""
    limit = time.monotonic() + seconds
    status: Object = {}
    while time.monotonic() < limit:
        found = api.get(path)
        status = found.content.get("status") or {} if found.found else status
        if status.get("phase") in ("Succeeded", "Failed") or found.absent:
            break
        time.sleep(POLL_SECONDS)
    return status


def _obstacle(status: Object) -> str:
    """Return the phase of a pod that has not ended, and what keeps it from running.

    >>> _obstacle({"phase": "Pending", "conditions": [{"message": "0/3 nodes are available."}]})
    'Pending: 0/3 nodes are available.'
    """
    containers = status.get("containerStatuses") or []
    waiting = [(each.get("state") or {}).get("waiting") or {} for each in containers]
    said = [each.get("message") or each.get("reason") for each in waiting]
    said += [each.get("message") for each in status.get("conditions") or []]
    cause = next((": " + " ".join(each.split()) for each in said if each), "")
    return f"{status.get('phase') or 'Pending'}{cause}"
