"""Permissions that a user needs during a run, and those that are missing."""

from scripts.doctor.api import (
    ACCOUNTS,
    CLAIMS,
    CONFIG_MAPS,
    EVENTS,
    JOBSETS,
    PODS,
    POLICIES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    WORKLOADS,
    Kind,
    Permission,
)
from scripts.doctor.findings import Finding, fail, ok, unchecked, warn
from scripts.doctor.snapshot import Snapshot

INSTALL = "helm install"
"""Helm 4 applies (get, create, patch) and keeps its record in Secrets (`HELM_DRIVER`)."""


def needed_permissions(
    *, claim: bool, queue: bool, account: bool = False, policy: bool = False, role: bool = False
) -> list[Permission]:
    """Return the permissions that a release needs."""
    found = [
        *_permissions(SECRETS, INSTALL, "get", "list", "create", "update"),
        *_permissions(CONFIG_MAPS, INSTALL, "get", "create", "patch"),
        *_permissions(JOBSETS, INSTALL, "get", "create", "patch"),
        *(_permissions(CLAIMS, INSTALL, "get", "create", "patch") if claim else []),
        *(_permissions(ACCOUNTS, INSTALL, "get", "create", "patch") if account else []),
        *(_permissions(POLICIES, INSTALL, "get", "create", "patch") if policy else []),
        *(_permissions(ROLES, INSTALL, "get", "create", "patch") if role else []),
        *(_permissions(ROLE_BINDINGS, INSTALL, "get", "create", "patch") if role else []),
        *_permissions(SECRETS, "helm uninstall", "delete", required=False),
        *_permissions(CONFIG_MAPS, "helm uninstall", "delete", required=False),
        *_permissions(JOBSETS, "helm uninstall", "delete", required=False),
        *_permissions(PODS, "helm test", "create", "delete", required=False),
        *_permissions(PODS, "listing the run's pods", "get", "list", required=False),
        *_permissions(EVENTS, "reading why a pod does not start", "list", required=False),
        Permission(
            verb="get", kind=PODS, subresource="log", purpose="kubectl logs", required=False
        ),
    ]
    if queue:
        why = "reading why the queue does not admit the run"
        found += _permissions(WORKLOADS, why, "list", required=False)
    return found


def _permissions(kind: Kind, purpose: str, *verbs: str, required: bool = True) -> list[Permission]:
    return [Permission(verb=verb, kind=kind, purpose=purpose, required=required) for verb in verbs]


def check_permissions(snapshot: Snapshot) -> list[Finding]:
    """Return one finding per missing permission, or one if none is missing."""
    reviews = snapshot.permissions
    found = [each for each in (_missing(permission, snapshot) for permission in reviews) if each]
    return found or [ok("permissions-ok", "permissions", f"all {len(reviews)} that a run needs")]


def _missing(permission: Permission, snapshot: Snapshot) -> Finding | None:
    answer = snapshot.permissions[permission]
    subject = f"permission {permission}"
    if not answer.found:
        return unchecked("permission", subject, answer)
    if (answer.content.get("status") or {}).get("allowed"):
        return None
    found = f"missing in namespace {snapshot.namespace}, needed for {permission.purpose}"
    remedy = "ask the administrator for a Role that grants it"
    level = fail if permission.required else warn
    return level("permission-missing", subject, found, remedy)
