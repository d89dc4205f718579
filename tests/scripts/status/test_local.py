"""status of a run whose checkpoints go to the nodes' disks first, as the launcher writes them."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from launchers.metrics import rows
from launchers.metrics.rows import Row
from launchers.storage import checkpoint, node_disk
from scripts.observe.view import View
from scripts.observe.workspace import read_run
from scripts.status import screen
from scripts.status.summary import Local, summarise
from tests.scripts.doctor.healthy import release
from tests.scripts.observe.planted import NOW, RUNNING, jobset, pod, view
from tests.scripts.observe.test_workspace import make_checkpoint

STEP_SECONDS = 12.0
DISKS = {
    "emptyDir": "localCheckpoints.emptyDir.sizeLimit=600Gi",
    "hostPath": "localCheckpoints.hostPath.path=/mnt/nvme",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A run in step 36 with a complete checkpoint of step 24."""
    made = tmp_path / "w" / "runs" / "dpo"
    make_checkpoint(made, 24)
    training = {"step": 36, "step_seconds": STEP_SECONDS}
    (made / "progress.json").write_text(json.dumps({"state": "running", "training": training}))
    row = Row(step=36, total=107, attempt=1, time=NOW, seconds=STEP_SECONDS)
    (made / "metrics.jsonl").write_text(rows.line(row) + "\n")
    return made


def local_disks(folder: Path) -> list[Path]:
    made = []
    for rank in range(2):
        own = folder / f"node-{rank}" / "checkpoint-34"
        own.mkdir(parents=True)
        (own / f"__{rank}_0.distcp").write_text(f"state of rank {rank}")
        checkpoint.digest_own(own, rank)
        made.append(own)
    return made


def seen(home: Path, kind: str) -> View:
    run = jobset()
    if kind:
        run["spec"]["replicatedJobs"] = release(DISKS[kind]).jobset.manifest["spec"][
            "replicatedJobs"
        ]
    files = read_run(home.parent.parent, home.name)
    return view(run, files, pods=[pod(0, RUNNING), pod(1, RUNNING)])


def local(home: Path, kind: str = "emptyDir") -> tuple[Local | None, str]:
    """Return the local checkpoints in the document and their line on the screen."""
    status = summarise(seen(home, kind))
    console = Console(width=200)
    with console.capture() as captured:
        screen.show(status, console, "", [])
    lines = (line.partition(" ") for line in captured.get().splitlines())
    return status.local, {name: text.strip() for name, _, text in lines}.get("local", "")


def test_a_run_without_these_disks_has_no_line(home: Path) -> None:
    assert local(home, "") == (None, "")


def test_a_step_is_followed_from_the_disks_to_the_workspace(home: Path, tmp_path: Path) -> None:
    folder, (first, second) = home / "checkpoints" / "checkpoint-34", local_disks(tmp_path / "d")
    folder.mkdir()
    said = "nodes' disks (emptyDir): nothing waits for its copy to the workspace"
    nothing = (Local(kind="emptyDir"), said)
    assert local(home) == nothing
    parts = [checkpoint.rank_digests(first, 0), checkpoint.rank_digests(second, 1), {}]
    node_disk.announce(folder, parts)
    found, text = local(home)
    lost: Any = {"lost_steps": 2, "lost_seconds": 24.0}
    assert found == Local(kind="emptyDir", step=34, parts=2, copied=0, **lost)
    ends = "an end in the same pods loses 2 steps, 24 s"
    assert text == f"step 34 on the nodes' disks, 0 of 2 ranks copied; {ends}"
    status = summarise(seen(home, "hostPath"))
    assert status.saved and (status.saved.step, status.saved.lost_steps) == (24, 12)
    node_disk.copy_shards(first, folder, 0)
    assert local(home)[1].startswith("step 34 on the nodes' disks, 1 of 2 ranks copied")
    node_disk.copy_shards(second, folder, 1)
    ends = "an end on the same nodes loses 2 steps, 24 s"
    assert local(home, "hostPath")[1].endswith(f"2 of 2 ranks copied; {ends}")
    (folder / ".metadata").write_text("the index of the shards")
    checkpoint.seal(folder, 34)
    assert local(home) == nothing
    status = summarise(seen(home, "emptyDir"))
    assert status.saved and (status.saved.step, status.saved.lost_steps) == (34, 2)


def test_an_older_step_than_the_newest_complete_one_is_not_waited_for(
    home: Path, tmp_path: Path
) -> None:
    folder, disks = home / "checkpoints" / "checkpoint-12", local_disks(tmp_path / "d")
    folder.mkdir()
    node_disk.announce(folder, [checkpoint.rank_digests(each, n) for n, each in enumerate(disks)])
    found, _ = local(home)
    assert found and found.step is None


@pytest.mark.parametrize("text", ["", "{", '{"ranks": 3}', '{"ranks": [{}, {}]}', "[]"])
def test_a_torn_note_is_of_no_step(home: Path, text: str) -> None:
    folder = home / "checkpoints" / "checkpoint-34"
    folder.mkdir()
    (folder / checkpoint.PENDING).write_text(text)
    found, _ = local(home)
    assert found and found.step is None
