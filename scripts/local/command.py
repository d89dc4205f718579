"""`megatron-dpo local`: a run on this machine, from the same chart as on a cluster."""

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from rich.console import Console

from launchers.config.workspace import Workspace
from launchers.metrics.trainer_log import LOG
from scripts import manifest
from scripts.helm import ROOT, template
from scripts.local import overlay, runner
from scripts.local.display import Display
from scripts.local.pods import refuse_unrunnable
from scripts.local.schedule import Machine
from scripts.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `megatron-dpo local`: values, or a rendered manifest."""

    run: str
    files: Sequence[Path] = ()
    sets: Sequence[str] = ()
    manifest: Path | None = None
    workspace: Path
    python: str | None = None
    verbose: bool = False
    gpu_resource: str = "nvidia.com/gpu"


def render(request: Request) -> str:
    """Return the manifest, rendered with the workspace and the ports of this machine."""
    if request.manifest:
        if request.files or request.sets:
            raise Problem("--manifest is already rendered; remove -f and --set")
        if not request.manifest.is_file():
            raise Problem(f"{request.manifest} is not a file; give the path of a rendered manifest")
        return request.manifest.read_text(encoding="utf-8", errors="replace")
    if not request.files:
        raise Problem("nothing to run; use e.g. -f values/demo-cpu.yaml or --manifest FILE")
    workspace = request.workspace.resolve()
    if re.search(r"""[\s"'\\:]""", str(workspace)):
        why = "the chart takes no path with blanks, quotes, \\ or :"
        raise Problem(f"workspace {workspace}: {why}; choose another folder")
    workspace.mkdir(parents=True, exist_ok=True)
    master, gang = overlay.free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "local.yaml"
        file.write_text(yaml.safe_dump(overlay.overlay(workspace, master, gang)), encoding="utf-8")
        return template(request.run, [*request.files, file], request.sets)


def run_locally(request: Request, console: Console) -> int:
    """Render and run; return the run's exit status."""
    jobset = manifest.parse(render(request))
    refuse_unrunnable(jobset)
    workspace = request.workspace.resolve()
    folder = workspace / "pods" / jobset.name
    folder.parent.mkdir(parents=True, exist_ok=True)
    machine = Machine(
        python=runner.training_python(ROOT, request.python),
        folder=folder,
        caller=os.environ,
        gpu_resource=request.gpu_resource,
    )
    trainer_log = Workspace(root=workspace, run=jobset.name).checkpoints / LOG
    display = Display(console, trainer_log, verbose=request.verbose)
    return runner.run(jobset, machine, display)
