"""States of pods that exist and do not run: images, references, volumes, nodes."""

from collections.abc import Callable, Iterable, Mapping

from scripts.doctor.api import Object
from scripts.observe.cluster import condition, event_time
from scripts.observe.view import LAUNCHER, Rank, View, Waiting, unix_time
from scripts.why.words import (
    Condition,
    Facts,
    Template,
    after,
    clean,
    compact,
    lasting,
    matched,
    who,
)

PULLS = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ImageInspectError"})
PULLS |= {"RegistryUnavailable", "SignatureValidationFailed"}
DENIED = (
    r"(?i)denied|unauthorized|\b40[13]\b|no basic auth|does not exist|manifest unknown"
    r"|^(?!.*(?:content digest|create snap)).*not found"
)
CREATING = frozenset({"ContainerCreating", "PodInitializing"})
CONFIG = frozenset({"CreateContainerConfigError"})
KNOWN = PULLS | CREATING | CONFIG | {"InvalidImageName"}
"""Reasons with states of their own."""
SECRET = r'(?i)secret "(?P<name>[^"]+)" not found'
CONFIG_MAP = r'(?i)configmap "(?P<name>[^"]+)" not found'
KEY = r"couldn't find key (?P<key>\S+) in (?P<name>(?:Secret|ConfigMap) \S+)"
KEY_OF_VOLUME = r"(?P<name>volume \S+).*references non-existent (?:secret|config) key: (?P<key>\S+)"
ADDED = {"Secret": "stringData", "ConfigMap": "data"}
"""Field of an object to which a key is added as text."""
ADDS = Template(": `kubectl patch {kind} {object} -n {namespace} -p {patch}`")
PULL_SECRETS = r"image pull secrets \((?P<name>[^),\s]+)"
Named = Callable[[View, Mapping[str, str]], Facts]
SANDBOX = ("FailedCreatePodSandBox", "FailedPrepareDynamicResources", "NetworkNotReady")
MOUNT = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
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


def _pull_secret_missing(view: View) -> Facts | None:
    """Match a Secret that the kubelet has missed since it last pulled."""
    found, missed = _containers(view, PULLS), view.events("FailedToRetrieveImagePullSecret")
    pulled = view.events("Pulling")
    named = matched(PULL_SECRETS, str(missed[0].get("message"))) if missed else None
    if not found or named is None or (pulled and event_time(missed[0]) < event_time(pulled[0])):
        return None
    return {"who": who(_ranks(found)), **named}


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


def _reference(named: Named, *patterns: str) -> Condition:
    """Return the condition that the kubelet's message contains one of the patterns.

    ``named`` returns what the remedy needs to know of the object that is named.
    """

    def holds(view: View) -> Facts | None:
        ranks, said = _references(view)
        found = next((facts for each in patterns if (facts := matched(each, said))), None)
        return {"who": who(ranks), **found, **named(view, found)} if ranks and found else None

    return holds


def _key_of(view: View, found: Mapping[str, str]) -> Facts:
    """Return the first key of an object that the launcher's environment names."""
    containers = view.gang_pod.get("spec", {}).get("containers") or []
    sources = [
        ref
        for container in containers
        for each in container.get("env") or []
        for ref in (each.get("valueFrom") or {}).values()
    ]
    keys = [ref["key"] for ref in sources if ref.get("name") == found["name"] and "key" in ref]
    return {"key": keys[0] if keys else "KEY"}


def _add_key(view: View, found: Mapping[str, str]) -> Facts:
    """Return the change that adds a key, if the message names the object that lacks it."""
    kind, _, name = found["name"].partition(" ")
    if kind not in ADDED:
        return {"adds": ""}
    content = {ADDED[kind]: {found["key"]: "VALUE"}}
    name = name.rpartition("/")[2]
    return {"adds": ADDS, "kind": kind.lower(), "object": name, "patch": compact(content)}


_secret, _config_map = _reference(_key_of, SECRET), _reference(_key_of, CONFIG_MAP)
_key = _reference(_add_key, KEY, KEY_OF_VOLUME)


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
    found = _containers(view, {each.reason for each in view.waiting} - KNOWN)
    if not found and not any(test(view) for test in (_secret, _config_map, _key)):
        found = _containers(view, CONFIG)
    if not found:
        return _sandbox_failed(view)
    first = found[0]
    return {"who": who(_ranks(found)), "reason": first.reason, "cause": clean(first.message)}


def _sandbox_failed(view: View) -> Facts | None:
    """Match pods without a network or a runtime, which wait as all new ones do."""
    created, failed = _containers(view, CREATING), view.events(*SANDBOX)
    if not created or not failed:
        return None
    cause = clean(str(failed[0].get("message") or ""))
    return {"who": who(_ranks(created)), "reason": failed[0]["reason"], "cause": cause}


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
    said = [condition(pod, "DisruptionTarget") for pod in view.snapshot.pods]
    cause = next((str(each["message"]) for each in said if each.get("message")), "")
    asked = [
        when - float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        for pod in view.snapshot.pods
        if (when := unix_time(pod["metadata"].get("deletionTimestamp")))
    ]
    times = lasting(view, min(asked, default=None))
    return {"who": who(found), "lasting": times, "cause": after(cause)}


def _creating(*, pulls: bool) -> Callable[[View], Facts | None]:
    def holds(view: View) -> Facts | None:
        found = _containers(view, CREATING)
        explained = (_secret, _config_map, _key, _mount_failed, _sandbox_failed, _init_container)
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
    "pull-secret-missing": _pull_secret_missing,
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
