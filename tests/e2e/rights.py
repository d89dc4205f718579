"""Accounts with few rights, which verbs act as."""

import json
from pathlib import Path

from tests.e2e.space import Space

RBAC = "rbac.authorization.k8s.io"
SEES = {
    "": ["pods", "pods/log", "events", "persistentvolumeclaims", "configmaps"],
    "batch": ["jobs"],
    "jobset.x-k8s.io": ["jobsets"],
    "kueue.x-k8s.io": ["workloads", "localqueues"],
}
"""What `status` and `why` read by API group, all of it in the run's namespace."""


def acting(space: Space, account: str) -> Path:
    token = space.kubectl.run("create", "token", account).strip()
    text = space.kubectl.run("config", "view", "--raw", "--output=json")
    content = json.loads(text)
    content["users"][0]["user"] = {"token": token}
    file = space.folder / f"{account}.kubeconfig"
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def member(space: Space, name: str, *, of: tuple[str, ...] = tuple(SEES)) -> Path:
    """Return a kubeconfig of a new account that may read a run in this namespace only."""
    rules = [{"apiGroups": [api], "resources": SEES[api], "verbs": ["get", "list"]} for api in of]
    rules.append({"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]})
    metadata = {"metadata": {"name": name}}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": space.name}
    role = {"apiGroup": RBAC, "kind": "Role", "name": name}
    space.kubectl.apply(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", **metadata},
            {"apiVersion": f"{RBAC}/v1", "kind": "Role", **metadata, "rules": rules},
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "RoleBinding",
                **metadata,
                "subjects": [subject],
                "roleRef": role,
            },
        ]
    )
    return acting(space, name)
