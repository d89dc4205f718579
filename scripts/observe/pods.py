"""Run a command of the launcher where the workspace is mounted: in a run's pod or a reader pod.

A reader pod gets the launcher as the run's pods do, from the run's image or ConfigMaps.
"""

import json
import re
import secrets
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from urllib3.exceptions import HTTPError

from launchers.config.workspace import Workspace
from scripts.doctor.api import PODS, Api, Object, OpenApiException
from scripts.observe.view import LAUNCHER, Rank, View
from scripts.problem import Problem

EXEC_SECONDS = 20.0
"""Limit of a program in a pod of the run."""
READER_SECONDS = 60
"""Lifetime of a reader pod; its image is on a node already, or the read is given up."""
CHANGE_SECONDS = 600
"""The same where files are removed: a checkpoint has thousands of them, on slow storage."""
POLL_SECONDS = 0.3
CHANNELS = {"output": 1, "errors": 2, "status": 3}
"""Streams of exec (`v4.channel.k8s.io`)."""
PYTHON = ("python3", "-m", "launchers")
"""Starts the launcher in the working folder of its container, as the pod itself does."""
UNKNOWN = "command-unknown"
"""Id with which a launcher refuses a command that it does not have (`launchers/command.py`)."""
VOLUME, PACKAGE, ARCHIVES = "workspace", "package", "launchers"
"""Names of the volumes (charts/library: pod/_volumes.tpl): the workspace, the folder into which the
pods unpack the launcher, and its ConfigMaps. Where the image brings it, there is no `package`."""
SEARCHED = ("PATH", "PYTHONPATH")
"""Variables by which Python and its packages are found, where `extraEnv` sets them."""
USER = ("runAsUser", "runAsGroup", "runAsNonRoot")
GANGS = (
    *("securityContext", "imagePullSecrets", "serviceAccountName", "schedulerName"),
    *("nodeSelector", "affinity", "tolerations"),
)
"""Fields of the gang's container and of its pod that a reader pod has too."""
RUN_FOLDER = "DPO_WORKSPACE"
"""Variable of the launcher with the folder of the workspace in the pod."""


class OldLauncher(Problem):
    """The run's launcher is older than the command that reads its files."""


def folder_in_pod(view: View) -> str:
    """Return the folder of the workspace in the run's pods.

    Raises:
        Problem: the JobSet is not of this chart.
    """
    if folder := view.variables.get(RUN_FOLDER, {}).get("value"):
        return str(folder)
    raise Problem(f"the JobSet {view.run} does not say where its workspace is ({RUN_FOLDER})")


def home_in_pod(view: View) -> str:
    """Return the run's folder in its pods.

    Raises:
        Problem: the JobSet is not of this chart.
    """
    return str(Workspace(root=Path(folder_in_pod(view)), run=view.run).home)


def running_pod(view: View) -> str:
    """Return a pod of the gang in which a program can run, the lowest rank's; empty for none."""
    return next((rank.pod for rank in view.ranks if is_open(rank)), "")


def is_open(rank: Rank) -> bool:
    """Return whether a program can run in a rank's pod."""
    return rank.phase == "Running" and rank.exit_code is None and rank.started_at is not None


def run_in_pod(
    api: Api, view: View, pod: str, words: Sequence[str], seconds: float = EXEC_SECONDS
) -> bytes:
    """Run a command of the launcher in a pod of the run, and return its output.

    Raises:
        Problem: it is refused, fails, or takes longer than the limit.
        OldLauncher: the launcher has no such command.
    """
    try:
        return execute(api, pod, [*PYTHON, *words], seconds)
    except OldLauncher:
        raise _old_launcher(view) from None


def _old_launcher(view: View) -> OldLauncher:
    labels = (view.jobset.get("metadata") or {}).get("labels") or {}
    return OldLauncher(
        f"run {view.run} has the launcher of {labels.get('helm.sh/chart') or 'another version'}, "
        "which has no such command: its files are not read through its pods; give the folder where "
        "the workspace is mounted by --workspace, or use the megatron-dpo of that version"
    )


def execute(api: Api, pod: str, command: Sequence[str], seconds: float = EXEC_SECONDS) -> bytes:
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
        if UNKNOWN.encode() in read["output"]:
            raise OldLauncher(_line(cause))
        said = _line(cause)
        if "No module named" in said and "launchers" in said:
            said = f"it has not unpacked its launcher yet; ask again in a second ({said})"
        raise Problem(f"exec in pod {pod} failed: {said}")
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
    try:
        status: Object = dict(json.loads(read["status"]))
    except (ValueError, TypeError):
        return "the connection ended within its status"
    if status.get("status") == "Success":
        return None
    return read["errors"].decode(errors="replace").strip() or str(status.get("message") or status)


def _line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1][:300]


def reader_pod(
    view: View, words: Sequence[str], name: str, *, changes_files: bool = False
) -> Object:
    """Return a pod that mounts the workspace and runs a command of the launcher.

    It has the gang's image and user, and gets the launcher as the gang does. It requests no GPU,
    has no token and no label that Kueue or JobSet would act on, and Kubernetes ends it after its
    time limit. The workspace is mounted read-only unless files are changed. It goes where the gang
    may go: only there the volume can be mounted for sure, and all nodes may have the GPU's taint.

    Raises:
        Problem: the workspace is an emptyDir, which ends with its pod.
    """
    spec: Object = view.gang_pod.get("spec") or {}
    held = {each["name"]: each for each in spec.get("volumes") or []}
    if "emptyDir" in held.get(VOLUME, {"emptyDir": {}}):
        raise Problem(f"the workspace of {view.run} is not a volume that another pod can mount")
    launcher = next(each for each in spec["containers"] if each["name"] == LAUNCHER)
    needed = (VOLUME, ARCHIVES, PACKAGE) if PACKAGE in held else (VOLUME,)
    mounts = [e for name in needed for e in launcher["volumeMounts"] if e["name"] == name]
    held_mounts = [
        {**each, "readOnly": True} if each["name"] == VOLUME and not changes_files else each
        for each in mounts
    ]
    container = _reader(launcher, words)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/component": "reader"}},
        "spec": {
            **{field: spec[field] for field in GANGS if field in spec},
            "restartPolicy": "Never",
            "activeDeadlineSeconds": lifetime(changes_files),
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [{**container, "volumeMounts": held_mounts}],
            "volumes": [held[name] for name in needed],
        },
    }


def _reader(launcher: Object, words: Sequence[str]) -> Object:
    """Return the container of a reader pod, without its mounts."""
    searched = [each for each in launcher.get("env") or [] if each["name"] in SEARCHED]
    own = launcher.get("securityContext") or {}
    return {
        "name": "reader",
        "image": launcher["image"],
        "imagePullPolicy": "IfNotPresent",
        # Kubernetes expands $(NAME) and $$ here, unlike in exec.
        "command": [*_start(launcher), *(each.replace("$", "$$") for each in words)],
        "workingDir": launcher.get("workingDir", "/opt"),
        **({"env": searched} if searched else {}),
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"cpu": "1", "memory": "256Mi"},
        },
        "securityContext": {
            **{name: own[name] for name in USER if name in own},
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }


def _start(launcher: Object) -> list[str]:
    """Return how the launcher's container starts the launcher, without the launcher's command.

    A shell that first prepares the fabric's libraries is left out: a reader has no such volumes.
    """
    *start, last = launcher["command"]
    if start[:1] != ["bash"]:
        return [*start]
    program = re.search("exec python3 -c '(.*)'", last, re.DOTALL)
    return ["python3", "-c", textwrap.dedent(program[1])] if program else [*PYTHON]


def lifetime(changes_files: bool) -> int:
    """Return the seconds after which Kubernetes ends a reader pod."""
    return CHANGE_SECONDS if changes_files else READER_SECONDS


def read_by_pod(
    api: Api, view: View, words: Sequence[str], *, changes_files: bool = False
) -> tuple[str, str]:
    """Run a command of the launcher in a reader pod, remove that; return its name and output.

    Raises:
        Problem: it is refused, fails, or does not end in time.
        OldLauncher: the launcher has no such command.
    """
    name = f"{view.run}-reader-{secrets.token_hex(3)}"
    content = reader_pod(view, words, name, changes_files=changes_files)
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
        if UNKNOWN in (text or ""):
            raise _old_launcher(view)
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
