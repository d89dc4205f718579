"""Permissions that a user needs during a run, and those that are missing."""

from scripts.doctor import api as kinds
from scripts.doctor.api import Answer, Kind
from scripts.doctor.findings import Finding, fail, ok, unchecked, warn
from scripts.doctor.snapshot import Permission, Snapshot

INSTALL = "helm install"
"""Helm 4 applies (get, create, patch) and keeps its record in Secrets (`HELM_DRIVER`)."""


def needed_permissions(
    *, claim: bool, queue: bool, account: bool = False, policy: bool = False, role: bool = False
) -> list[Permission]:
    """Return the permissions that a release needs."""
    made = {
        kinds.CONFIG_MAPS: True, kinds.JOBSETS: True, kinds.CLAIMS: claim, kinds.ACCOUNTS: account,
        kinds.POLICIES: policy,
    }  # fmt: skip
    made |= {kinds.ROLES: role, kinds.ROLE_BINDINGS: role}
    applied = [kind for kind, is_made in made.items() if is_made]
    found = [
        *_permissions(kinds.SECRETS, INSTALL, "get", "list", "create", "update"),
        *(p for kind in applied for p in _permissions(kind, INSTALL, "get", "create", "patch")),
        *_permissions(kinds.SECRETS, "helm uninstall", "delete", required=False),
        *_permissions(kinds.CONFIG_MAPS, "helm uninstall", "delete", required=False),
        *_permissions(kinds.JOBSETS, "helm uninstall", "delete", required=False),
        *_permissions(kinds.PODS, "helm test", "create", "delete", required=False),
        *_permissions(kinds.PODS, "listing the run's pods", "get", "list", required=False),
        *_permissions(kinds.EVENTS, "reading why a pod does not start", "list", required=False),
        Permission(
            verb="get", kind=kinds.PODS, subresource="log", purpose="kubectl logs", required=False
        ),
    ]
    if queue:
        why = "reading why the queue does not admit the run"
        found += _permissions(kinds.WORKLOADS, why, "list", required=False)
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
    status = answer.content.get("status") or {}
    if status.get("allowed"):
        return None
    if (error := status.get("evaluationError")) and not status.get("denied"):
        return unchecked("permission", subject, Answer(status=0, content={"message": error}))
    found = f"missing in namespace {snapshot.namespace}, needed for {permission.purpose}"
    remedy = "ask the administrator for a Role that grants it"
    level = fail if permission.required else warn
    return level("permission-missing", subject, found, remedy)
