"""`megatron-dpo doctor`: check a release against a cluster before it is submitted."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from scripts.doctor.admission import check_jobset, check_name, check_network, check_pods
from scripts.doctor.api import connect
from scripts.doctor.control_plane import answers, check_apis, check_controllers, check_server
from scripts.doctor.findings import Finding, Report, as_json, show
from scripts.doctor.gather import gather
from scripts.doctor.nodes import check_gpu_model, check_hosts, check_image_volumes, check_nodes
from scripts.doctor.permissions import check_permissions
from scripts.doctor.queue import check_queue, check_topology
from scripts.doctor.quota import check_quota, check_ready_time, check_resource_quota
from scripts.doctor.references import check_account, check_image, check_references
from scripts.doctor.snapshot import Snapshot
from scripts.doctor.storage import check_claims, check_drivers
from scripts.helm import template
from scripts.manifest import KUEUE, Release, parse_release
from scripts.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `megatron-dpo doctor`."""

    run: str
    files: Sequence[Path] = ()
    sets: Sequence[str] = ()
    namespace: str | None = None
    """None: the context's."""
    context: str | None = None
    """None: the kubeconfig's current one."""


def run(request: Request, console: Console, *, as_data: bool = False) -> int:
    """Print the findings about a release; return the exit status.

    Raises:
        Problem: the chart refuses the values, or the kubeconfig can't be read.
    """
    report = diagnose(request)
    if as_data:
        console.print(as_json(report), soft_wrap=True, highlight=False, markup=False)
    else:
        show(report, console)
    return report.exit_code


def diagnose(request: Request) -> Report:
    """Render the release, read the cluster, and return the report."""
    if not request.files and not request.sets:
        raise Problem("no values given; use e.g. -f values/a100-2node.yaml")
    release = parse_release(template(request.run, request.files, request.sets))
    api = connect(request.context, request.namespace)
    findings = examine(release, gather(api, release))
    return Report(context=api.context, namespace=api.namespace, run=request.run, findings=findings)


def examine(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Run all checks in the order of the report; only the first where no server answers."""
    if not answers(snapshot):
        return check_server(snapshot)
    # Later checks use the pods as the API server would store them, with its defaults filled in.
    admitted = release.with_pods(snapshot.admitted())
    # Without Kueue's API its objects can't be read; check_apis reports that.
    has_kueue = not release.jobset.queue or "v1beta2" in snapshot.versions(KUEUE)
    return [
        *check_server(snapshot),
        *check_apis(release, snapshot),
        *check_controllers(release, snapshot),
        *check_permissions(snapshot),
        *check_name(release, snapshot),
        *check_jobset(release, snapshot),
        *check_pods(release, snapshot),
        *check_network(release, snapshot),
        *check_account(release, snapshot),
        *check_resource_quota(admitted, snapshot),
        *(_check_kueue(admitted, snapshot) if has_kueue else ()),
        *check_nodes(admitted, snapshot),
        *check_gpu_model(admitted, snapshot),
        *check_hosts(admitted, snapshot),
        *check_image_volumes(admitted, snapshot),
        *check_claims(release, snapshot),
        *check_drivers(release, snapshot),
        *check_references(release, snapshot),
        *check_image(release),
    ]


def _check_kueue(release: Release, snapshot: Snapshot) -> list[Finding]:
    return [
        *check_queue(release, snapshot),
        *check_quota(release, snapshot),
        *check_ready_time(release, snapshot),
        *check_topology(release, snapshot),
    ]
