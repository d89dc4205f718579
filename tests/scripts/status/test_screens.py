"""Recorded terminal screens of the verbs about a run: 120 columns, and 80 in colours.

`make golden` records them again.
"""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from scripts.helm import ROOT
from scripts.observe.command import Target
from scripts.observe.source import Reading
from scripts.observe.view import View
from scripts.observe.workspace import RunFiles, read_run
from scripts.start.view import start
from scripts.status import listing, screen
from scripts.status.summary import Status, summarise
from scripts.why import command as why
from scripts.why.reasons import explain
from tests.scripts.observe.planted import NOW, RUNNING, jobset, pod, view
from tests.scripts.observe.server import Cluster
from tests.scripts.report.planted import plant, progress
from tests.scripts.status import verbs
from tests.scripts.status.recorded import make_run
from tests.scripts.why.states import STATES

GOLDEN = Path(__file__).parent / "golden"
HOW = "exec in pod dpo-node-0-0-x7k2p"
NOTES = ["you lack the permission: list events"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> RunFiles:
    root = tmp_path_factory.mktemp("workspace")
    make_run(root, "dpo", NOW)
    found = read_run(root, "dpo")
    return RunFiles(**{**vars(found), "now": NOW})


def training(files: RunFiles) -> View:
    pods = [pod(0, RUNNING), pod(1, RUNNING)]
    return view(jobset(restarts=2, restartsCountTowardsMax=1), files, pods=pods)


def status_of(files: RunFiles) -> Status:
    return summarise(training(files), {"node-1": "rack-1", "node-2": "rack-1"})


def draw_status(files: RunFiles, console: Console) -> None:
    screen.show(status_of(files), console, HOW, NOTES)


def draw_why(files: RunFiles, console: Console) -> None:
    for id in ("quota-short", "preflight-failed", "training"):
        seen = STATES[id][0]()
        reading = Reading(files=seen.files, how=HOW, notes=("a note that limits the report",))
        reasons = explain(seen)
        why.show(console, seen, reading, reasons, start(seen, reasons[0]))


def draw_list(files: RunFiles, console: Console) -> None:
    short = STATES["quota-short"][0]()
    waits = replace(summarise(short), start=start(short, summarise(short).reason))
    failed = summarise(STATES["user-error"][0]())
    lines = [listing.line(each) for each in (status_of(files), waits, failed)]
    listing.show(lines, training(files).snapshot, console, NOW)


DRAW = {"status": draw_status, "why": draw_why, "list": draw_list}


@pytest.fixture(params=[(120, None), (80, "standard")], ids=str)
def console(request: pytest.FixtureRequest) -> Console:
    width, colours = request.param
    plain: Any = {"file": io.StringIO(), "markup": False, "emoji": False, "force_terminal": True}
    return Console(width=width, color_system=colours, **plain)


@pytest.fixture
def stage(
    console: Console, cluster: Cluster, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> verbs.Stage:
    monkeypatch.setattr("getpass.getuser", lambda: "ann")
    return verbs.Stage(cluster=cluster, workspace=workspace, patch=monkeypatch, console=console)


def compare(text: str, name: str, console: Console, *, update: bool) -> str:
    """Compare what was printed with the record of this console; return it."""
    shown = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    assert console.color_system or "\x1b" not in shown
    folder = "colours" if console.color_system else "plain"
    golden = GOLDEN / folder / f"{name}.txt"
    if update:
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8")
    return shown


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("name", DRAW)
def test_a_screen_is_as_recorded(
    files: RunFiles, name: str, console: Console, update_golden: bool
) -> None:
    DRAW[name](files, console)
    shown = compare(printed(console), name, console, update=update_golden)
    assert all(len(Text.from_ansi(line)) <= console.width for line in shown.splitlines())


@pytest.mark.parametrize("name", verbs.DRAW)
@pytest.mark.usefixtures("api")
def test_a_verb_prints_what_is_recorded(
    name: str, console: Console, stage: verbs.Stage, update_golden: bool
) -> None:
    """Sentences are one line each, which the terminal folds: they can be copied and searched."""
    verbs.DRAW[name](stage)
    compare(stage.clean(printed(console)), name, console, update=update_golden)


def test_the_screens_of_the_readme_are_those_that_are_recorded() -> None:
    text = (ROOT / "scripts" / "status" / "README.md").read_text(encoding="utf-8")
    for name in ("status", "list"):
        assert (GOLDEN / "plain" / f"{name}.txt").read_text(encoding="utf-8") in text
    first = (GOLDEN / "plain" / "why.txt").read_text(encoding="utf-8").split("run dpo in ")[1]
    assert f"run dpo in {first}" in text


def test_the_screen_without_a_cluster_is_that_of_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workspace of the README is the test's folder."""
    place = "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(place, str(tmp_path / "none"))
    work = plant(tmp_path / "w", "dpo-42")
    ended = {**progress("dpo-42"), "state": "failed", "code": 65, "why": "no pairs"}
    work.progress.write_text(json.dumps(ended))
    for record in work.attempts.glob("*/termination-*.json"):
        record.unlink()
    console = Console(file=io.StringIO(), width=120)
    assert why.run(Target(run="dpo-42", workspace=work.root), console) == 1
    text = (ROOT / "scripts" / "status" / "README.md").read_text(encoding="utf-8")
    block = text.split("$ megatron-dpo why dpo-42 --workspace /mnt/workspace\n")[1].split("```")[0]
    shown = printed(console).replace(str(work.root), "/mnt/workspace")
    assert shown.split() == block.split()
