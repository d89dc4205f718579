"""Shell completion of the names of runs."""

import glob
from pathlib import Path

import typer

from launchers.state.contents import is_name


def complete_run(context: typer.Context, incomplete: str) -> list[str]:
    """Return names of runs for shell completion.

    They are those of the mounted workspace, if there is one, and of the namespace, if the cluster
    answers.
    """
    workspace = context.params.get("workspace")
    names = {*_mounted_runs(Path(workspace) if workspace else None), *_installed_runs(context)}
    return sorted(name for name in names if name.startswith(incomplete))


def complete_run_or_folder(context: typer.Context, incomplete: str) -> list[str]:
    """Return names of runs, and folders, which may be a run's."""
    if "/" in incomplete:
        parent, _, begin = incomplete.rpartition("/")
        found = Path(parent or "/").glob(f"{glob.escape(begin)}*/")
        return sorted(f"{each}/" for each in found)
    return complete_run(context, incomplete)


def _mounted_runs(workspace: Path | None) -> list[str]:
    try:
        found = [] if workspace is None else [*(workspace / "runs").iterdir()]
    except OSError:  # not a workspace, or not readable
        return []
    return [each.name for each in found if is_name(each.name)]


def _installed_runs(context: typer.Context) -> list[str]:
    from scripts.doctor.api import JOBSETS, connect
    from scripts.observe.cluster import CHART, CHART_LABEL
    from scripts.problem import Problem

    try:
        api = connect(context.params.get("context"), context.params.get("namespace"))
    except Problem:
        return []
    found = api.get(JOBSETS.path(api.namespace), labelSelector=f"{CHART_LABEL}={CHART}")
    return [str(each["metadata"]["name"]) for each in found.items]
