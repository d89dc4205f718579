"""States of pods that exist and do not run: images, references, volumes, nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scripts.doctor.api import Object
from scripts.observe.cluster import condition
from scripts.observe.view import LAUNCHER, Rank, View, Waiting, unix_time
from scripts.why.words import Condition, Facts, after, clean, lasting, matched, who

PULLS = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ImageInspectError"})
DENIED = r"(?i)denied|unauthorized|401|403|not found|does not exist|manifest unknown"
CREATING = frozenset({"ContainerCreating", "PodInitializing"})
CONFIG = frozenset({"CreateContainerConfigError"})
OTHER = frozenset({"CreateContainerError", "RunContainerError", "StartError", "PreCreateHookError"})
SECRET = r'(?i)secret "(?P<name>[^"]+)" not found'
CONFIG_MAP = r'(?i)configmap "(?P<name>[^"]+)" not found'
KEY = r"couldn't find key (?P<key>\S+) in (?P<name>(?:Secret|ConfigMap) \S+)"
KEY_OF_VOLUME = r"(?P<name>volume \S+).*references non-existent (?:secret|config) key: (?P<key>\S+)"
MOUNT = ("FailedMount", "FailedAttachVolume")
TAINT_MANAGER = "DeletionByTaintManager"


def _containers(view: View, reasons: Iterable[str]) -> list[Waiting]:
    """Return the containers that wait for one of these reasons.

    None of a suspended run: its queue says why it does not run, and its last pods are ending.
    """
    chosen = frozenset(reasons)
    if view.terminal or view.is_suspended:
        return []
    return [each for each in view.waiting if each.reason in chosen]


def _ranks(found: Iterable[Waiting]) -> list[Rank]:
    return list({each.rank.pod: each.rank for each in found}.values())


def _image(is_denied: bool) -> Condition:
    def holds(view: View) -> Facts | None:
        found = _containers(view, PULLS)
        said = next((each.message for each in found if each.reason == "ErrImagePull"), "")
        if found and not said:  # a back-off hides the error, which the event has
            failed = [each for each in view.events("Failed") if "pull" in str(each.get("message"))]
            said = str(failed[0].get("message")) if failed else found[0].message
        if not found or (matched(DENIED, said) is not None) != is_denied:
            return None
        return {"who": who(_ranks(found)), "cause": clean(said)}

    return holds


def _image_name_invalid(view: View) -> Facts | None:
    found = _containers(view, ["InvalidImageName"])
    return {"who": who(_ranks(found)), "cause": clean(found[0].message)} if found else None


def _references(view: View) -> tuple[list[Rank], str]:
    """Return the ranks that lack an object, and the kubelet's message."""
    if found := _containers(view, CONFIG):
        return _ranks(found), found[0].message
    created = _containers(view, CREATING)
    mounts = view.events(*MOUNT)
    return (
        (_ranks(created), str(mounts[0].get("message") or "")) if created and mounts else ([], "")
    )


def _reference(*patterns: str) -> Condition:
    """Return the condition that the kubelet's message contains one of the patterns."""

    def holds(view: View) -> Facts | None:
        ranks, said = _references(view)
        found = next((facts for each in patterns if (facts := matched(each, said))), None)
        return {"who": who(ranks), **found} if ranks and found else None

    return holds


_secret, _config_map = _reference(SECRET), _reference(CONFIG_MAP)
_key = _reference(KEY, KEY_OF_VOLUME)


def _mount_failed(view: View) -> Facts | None:
    ranks, said = _references(view)
    if (
        not ranks
        or _containers(view, CONFIG)
        or any(test(view) for test in (_secret, _config_map, _key))
    ):
        return None
    return {"who": who(ranks), "cause": clean(said)}


def _container_not_started(view: View) -> Facts | None:
    found = _containers(view, OTHER)
    if not found and not any(test(view) for test in (_secret, _config_map, _key)):
        found = _containers(view, CONFIG)
    if not found:
        return None
    first = found[0]
    return {"who": who(_ranks(found)), "reason": first.reason, "cause": clean(first.message)}


def _init_container(view: View) -> Facts | None:
    waits = [each for each in _containers(view, ["PodInitializing"]) if each.container == LAUNCHER]
    pods = {each.rank.pod for each in waits}
    for pod in view.snapshot.pods:
        if pod["metadata"]["name"] not in pods:
            continue
        for each in (pod.get("status") or {}).get("initContainerStatuses") or []:
            state: Object = each.get("state") or {}
            ended: Object = (
                state.get("terminated") or each.get("lastState", {}).get("terminated") or {}
            )
            if "running" in state or ended.get("exitCode"):
                code = f"exit code {ended['exitCode']}" if ended.get("exitCode") else ""
                cause = after(" ".join(filter(None, [code, str(ended.get("message") or "")])))
                return {"who": who(_ranks(waits)), "container": each["name"], "cause": cause}
    return None


def _node_lost(view: View) -> Facts | None:
    """Match a node that does not answer: its pods are not Ready, though their containers were."""
    by_pod = {rank.pod: rank for rank in view.ranks}
    for pod in view.snapshot.pods:
        rank = by_pod.get(pod["metadata"]["name"])
        if rank is None or not rank.node or view.terminal:
            continue
        statuses = (pod.get("status") or {}).get("containerStatuses") or []
        was_ready = any(each.get("ready") for each in statuses)
        is_ready = condition(pod, "Ready").get("status") == "True"
        by_taint = condition(pod, "DisruptionTarget").get("reason") == TAINT_MANAGER
        if (was_ready and not is_ready) or (by_taint and rank.phase in ("Running", "Unknown")):
            return {"who": rank.name, "node": rank.node}
    return None


def _terminating(view: View) -> Facts | None:
    found = [each for each in view.ranks if each.terminating_since is not None]
    if not found or view.terminal or view.is_suspended:
        return None
    asked = [
        when - float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        for pod in view.snapshot.pods
        if (when := unix_time(pod["metadata"].get("deletionTimestamp")))
    ]
    return {"who": who(found), "lasting": lasting(view, min(asked, default=None))}


def _creating(*, pulls: bool) -> Callable[[View], Facts | None]:
    def holds(view: View) -> Facts | None:
        found = _containers(view, CREATING)
        explained = (_secret, _config_map, _key, _mount_failed, _init_container)
        if not found or any(test(view) for test in explained):
            return None
        began = view.events("Pulling")
        is_pulling = bool(began) and len(began) > len(view.events("Pulled"))
        if is_pulling != pulls:
            return None
        when = unix_time(began[0].get("lastTimestamp")) if pulls else None
        return {"who": who(_ranks(found)), "lasting": lasting(view, when)}

    return holds


CONDITIONS: dict[str, Condition] = {
    "image-name-invalid": _image_name_invalid,
    "image-pull-denied": _image(is_denied=True),
    "image-pull": _image(is_denied=False),
    "secret-missing": _secret,
    "config-map-missing": _config_map,
    "key-missing": _key,
    "mount-failed": _mount_failed,
    "container-not-started": _container_not_started,
    "init-container": _init_container,
    "node-lost": _node_lost,
    "terminating": _terminating,
    "pulling": _creating(pulls=True),
    "starting": _creating(pulls=False),
}
