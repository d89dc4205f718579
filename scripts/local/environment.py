"""A pod's environment on this machine: what its spec gives, and a few variables of the shell.

A pod sees nothing of the caller's shell, and neither does its process here, but for PASSED:
without these a host's Python, git or CUDA does not start. Names and places of the cluster become
local ones: pod host names are 127.0.0.1, paths below a mount are paths below the pod's folder.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from scripts.local.pods import Pod
from scripts.manifest import Fields
from scripts.problem import Problem

PASSED = ("PATH", "LANG", "LD_LIBRARY_PATH", "CUDA_HOME", "SSL_CERT_FILE")
"""Taken from the caller: PATH for git; libraries and certificates where a host needs them."""
LOOPBACK = "127.0.0.1"
_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_LABEL = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


def resolve(
    pod: Pod,
    caller: Mapping[str, str],
    config_maps: Mapping[str, Mapping[str, str]],
    addresses: Iterable[str],
    mounts: Mapping[str, str],
) -> dict[str, str]:
    """Return the environment of the pod's process.

    ``caller`` is the source of PASSED and of secrets; ``mounts``: path in the pod -> path here.

    Raises:
        Problem: a value comes from something that this machine does not have.
    """
    env = {name: caller[name] for name in PASSED if name in caller}
    own: dict[str, str] = {}
    for item in pod.job.container.get("env") or []:
        value = _value(pod, item, caller, config_maps)
        if value is not None:
            own[item["name"]] = value if "valueFrom" in item else dereference(value, own)
    env |= {name: localise(value, addresses, mounts) for name, value in own.items()}
    env["JOB_COMPLETION_INDEX"] = str(pod.index)
    env["CUDA_VISIBLE_DEVICES"] = ",".join(pod.gpus)
    return env


def dereference(text: str, env: Mapping[str, str]) -> str:
    """Replace each `$(NAME)` by its value; an unknown one stays, `$$(NAME)` becomes `$(NAME)`.

    As the kubelet does it (Kubernetes, ``third_party/forked/golang/expansion/expand.go``).

    >>> dereference("$(A)/$(B) $$(A) $A", {"A": "x"})
    'x/$(B) $(A) $A'
    """
    return _REFERENCE.sub(
        lambda found: "$" if found[1] is None else env.get(found[1], found[0]), text
    )


def localise(value: str, addresses: Iterable[str], mounts: Mapping[str, str]) -> str:
    """Replace pod names by 127.0.0.1, and a path below a mount by its path on this machine.

    >>> localise("/tmp/x", [], {"/tmp": "/pod/tmp"})
    '/pod/tmp/x'
    >>> localise("tcp://r-node-0-0.r:80", ["r-node-0-0.r"], {})
    'tcp://127.0.0.1:80'
    """
    for path in sorted(mounts, key=len, reverse=True):
        if value == path or value.startswith(path + "/"):
            return mounts[path] + value[len(path) :]
    for address in addresses:
        value = re.sub(rf"(?<![\w.-]){re.escape(address)}(?![\w-])", LOOPBACK, value)
    return value


def moved(text: str, mounts: Mapping[str, str]) -> str:
    """Replace each path below a mount in a command by its path on this machine.

    >>> moved('open("/etc/a/b") # /etc/ab, /x/etc/a', {"/etc/a": "/pod/etc/a", "/etc": "/pod/etc"})
    'open("/pod/etc/a/b") # /pod/etc/ab, /x/etc/a'
    """
    if not mounts:
        return text
    paths = "|".join(re.escape(path) for path in sorted(mounts, key=len, reverse=True))
    return re.sub(rf"(?<![\w./-])({paths})(?![\w.-])", lambda found: mounts[found[1]], text)


def _value(
    pod: Pod, item: Fields, caller: Mapping[str, str], config_maps: Mapping[str, Mapping[str, str]]
) -> str | None:
    source = item.get("valueFrom")
    if source is None:
        return str(item.get("value", ""))
    if "fieldRef" in source:
        return _field(pod, item["name"], source["fieldRef"]["fieldPath"])
    if "configMapKeyRef" in source:
        reference = source["configMapKeyRef"]
        data = config_maps.get(reference["name"], {})
        return _referenced(item["name"], "ConfigMap", reference, data.get(reference["key"]))
    if "secretKeyRef" in source:
        reference = source["secretKeyRef"]
        return _referenced(item["name"], "Secret", reference, caller.get(item["name"]))
    raise Problem(
        f"env {item['name']} comes from {', '.join(source)}, which does not exist locally; "
        f"give it a plain value in a values file: extraEnv: {{{item['name']}: ...}}"
    )


def _referenced(name: str, kind: str, reference: Fields, value: str | None) -> str | None:
    if value is None and not reference.get("optional"):
        raise Problem(
            f"env {name} comes from the {kind} {reference['name']} (key {reference['key']}); "
            + (
                f"set {name} in your own environment to stand for it"
                if kind == "Secret"
                else "the manifest does not hold it"
            )
        )
    return value


def _field(pod: Pod, name: str, path: str) -> str:
    plain: dict[str, Any] = {
        "metadata.name": pod.name, "metadata.namespace": "default", "metadata.uid": pod.name,
        "spec.nodeName": pod.node, "status.podIP": LOOPBACK, "status.hostIP": LOOPBACK,
    }  # fmt: skip
    if path in plain:
        return str(plain[path])
    match = _LABEL.fullmatch(path)
    if match is None:
        known = ", ".join([*plain, "metadata.labels['...']", "metadata.annotations['...']"])
        raise Problem(f"env {name} comes from the field {path}; known locally are {known}")
    return (pod.labels if match[1] == "labels" else pod.annotations).get(match[2], "")
