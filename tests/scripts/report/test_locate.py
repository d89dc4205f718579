"""report and bundle without a mount: the same through a pod; what has changed since is said."""

import base64
import errno
import io
import json
import math
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

from launchers.config.workspace import Workspace
from launchers.state import files
from scripts.bundle import command as bundling
from scripts.bundle import logs
from scripts.observe import local_copy
from scripts.observe.command import Target
from scripts.observe.local_copy import unpack
from scripts.observe.ways import Source
from scripts.problem import Problem
from scripts.report import Format, command, reading
from scripts.report.command import Request
from scripts.report.locate import located
from tests.faults.errno_matrix import Seam
from tests.scripts.observe.fixtures import JOBSETS, at
from tests.scripts.observe.planted import jobset, rewrite, suspended
from tests.scripts.observe.server import Cluster
from tests.scripts.observe.test_bad_input import started, train_another_recipe
from tests.scripts.report.planted import plant

__all__ = ["started"]
pytestmark = pytest.mark.usefixtures("api")
Change = Callable[[Path, Cluster], None]


@pytest.fixture
def run(workspace: Path) -> Path:
    """The files of the run whose pods the test's cluster has."""
    (workspace / "runs" / "dpo" / "progress.json").unlink()
    home = plant(workspace, "dpo").home
    (home / "checkpoints" / "checkpoint-20" / "iter_20").mkdir()
    (home / "attempts" / "2" / "node-0.log").write_text("loss 0.6\n" * 100_000)
    return home


def document(source: Source, workspace: Path = Path("elsewhere")) -> dict[str, object]:
    console = Console(width=200)
    target = Target(run="dpo", workspace=workspace, source=source)
    request = Request(targets=[target], format="json")
    with console.capture() as captured:
        assert command.run(request, console) == 0
    found: dict[str, object] = json.loads(captured.get())["runs"][0]
    return found


@pytest.mark.parametrize("source", [Source.AUTO, Source.EXEC, Source.POD])
def test_a_report_through_a_pod_is_that_of_the_mount(
    source: Source, cluster: Cluster, workspace: Path, run: Path
) -> None:
    here = document(Source.MOUNT, workspace)
    there = document(source)
    assert there.pop("place") != here.pop("place")
    assert there == here
    assert there["checkpoints"] == [20]
    assert not any("reader" in path for path in cluster.objects)


def test_a_refused_exec_leaves_the_reader_pod(cluster: Cluster, run: Path) -> None:
    cluster.forbidden.add("GET /exec")
    assert str(document(Source.AUTO)["place"]).startswith("reader pod dpo-reader-")
    cluster.forbidden.add("POST /pods")
    with pytest.raises(Problem, match=r"no run 'dpo' .* through the cluster: exec .* refused"):
        document(Source.AUTO)


def test_files_that_a_log_cannot_hold_are_named_with_their_size(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_copy, "LOG_BYTES", 10)
    with pytest.raises(Problem, match="the files of dpo take 0 MB packed, of at most 0 MB"):
        document(Source.POD)


def test_a_run_without_pods_or_in_no_cluster_is_refused(cluster: Cluster, workspace: Path) -> None:
    cluster.put(JOBSETS, at(suspended(), workspace))
    cluster.drop_pods()
    with pytest.raises(Problem, match=r"no pod of run dpo mounts its workspace"):
        document(Source.AUTO)
    assert cluster.changes == []
    with pytest.raises(Problem, match="no run 'dpo' in elsewhere"):
        document(Source.MOUNT)


def of_another_chart(home: Path, cluster: Cluster) -> None:
    """The digest of a recipe may be another one there: it is not compared."""
    train_another_recipe(home)
    old = at(jobset(), home.parent.parent)
    old["metadata"]["labels"]["helm.sh/chart"] = "megatron-dpo-0.0.9"
    cluster.put(JOBSETS, old)


@pytest.mark.parametrize("source", [Source.AUTO, Source.EXEC])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda home, _: train_another_recipe(home), "the checkpoints are of another recipe"),
        (
            lambda home, _: rewrite(home / "progress.json", digest="1" * 64),
            "is not that of the last start",
        ),
        (of_another_chart, "the run was installed with chart 0.0.9, and this command is of "),
    ],
    ids=["recipe", "launcher", "chart"],
)
def test_what_has_changed_since_the_run_stands_in_each_format(
    source: Source, change: Change, said: str, cluster: Cluster, started: Path
) -> None:
    workspace = started.parent.parent if source is Source.AUTO else Path("elsewhere")
    assert document(source, workspace)["changes"] == []
    change(started, cluster)
    found, *others = map(str, cast(list[str], document(source, workspace)["changes"]))
    assert said in found and others == []
    record = replace(reading.read(Workspace.of(started)), changes=[found])
    changed: tuple[tuple[Format, str], ...] = (("md", "Changed: "), ("html", "<b>Changed: </b>"))
    for form, begin in changed:
        assert begin in command.render([record], form)
    assert document(Source.MOUNT, started.parent.parent)["changes"] == [], "no cluster is asked"


def test_a_bundle_through_a_pod_has_the_files_of_that_of_the_mount(
    run: Path, workspace: Path, tmp_path: Path
) -> None:
    def names(source: Source, place: Path) -> dict[str, bytes]:
        file = tmp_path / f"{source}.tar.gz"
        target = Target(run="dpo", workspace=place, source=source)
        bundling.run(bundling.Request(target=target, file=file), Console(quiet=True))
        with tarfile.open(file) as tar:
            found = {m.name: tar.extractfile(m) for m in tar.getmembers()}
            return {name: each.read() if each else b"" for name, each in found.items()}

    here, there = names(Source.MOUNT, workspace), names(Source.EXEC, Path("elsewhere"))
    assert there.keys() == here.keys()
    log = "bundle-dpo/attempts/2/node-0.log"
    differ = {name for name in here if here[name] != there[name]} - {"bundle-dpo/CONTENTS.md"}
    assert differ == {log}, "a copy keeps as much of its begin as of its end"
    assert b"bytes left out" in there[log] and len(there[log]) < 3 * logs.TAIL
    assert b"x.distcp" not in b"".join(there.values())


def test_a_copy_ends_with_its_block(run: Path) -> None:
    target = Target(run="dpo", source=Source.EXEC, workspace=Path("elsewhere"))
    with located(target, command.FILES) as found:
        assert (found.work.home / "metrics.jsonl").is_file()
    assert not found.work.root.exists()
    with pytest.raises(KeyError), located(target, command.FILES) as found:
        raise KeyError
    assert not found.work.root.exists()


def packed(*members: tuple[str, bytes], sizes: object) -> str:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in (*members, (files.SIZES, json.dumps(sizes).encode())):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return base64.encodebytes(buffer.getvalue()).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no archive",
        packed(("../outside", b"x"), sizes={}),
        packed(sizes={"../outside": 1}),
        packed(sizes={"a/../../outside": 1}),
        packed(sizes={"/outside": 1}),
        packed(sizes=[]),
        packed(sizes={"a": "many"}),
        packed(("a", b"x"), sizes={"a": 3}),
    ],
    ids=["empty", "text", "member", "hole", "hole-inside", "absolute", "list", "size", "twice"],
)
def test_an_archive_writes_nothing_outside_of_its_folder(text: str, tmp_path: Path) -> None:
    home = tmp_path / "runs" / "dpo"
    with pytest.raises(Problem, match="printed no archive"):
        unpack(text.encode(), home)
    found = {each.relative_to(tmp_path).as_posix() for each in tmp_path.rglob("*")}
    assert not any("outside" in each for each in found)


@pytest.mark.parametrize(
    ("call", "unread"),
    [("open", "metrics.jsonl"), ("stat", "metrics.jsonl"), ("scandir", "attempts")],
)
def test_what_a_pod_cannot_read_is_named_and_not_left_out(
    call: str, unread: str, tmp_path: Path
) -> None:
    home, seam = tmp_path / "home", Seam(tmp_path)
    (home / "attempts").mkdir(parents=True)
    for name in ("metrics.jsonl", "plan.json"):
        (home / name).write_text("{}")
    seam.call, seam.path, seam.number, seam.left = call, f"/home/{unread}", errno.EIO, math.inf
    with seam.patched():
        text = base64.encodebytes(files.archive(home, [r"\w+\.json.*"], 0))
    assert unpack(text, tmp_path / "copy") == [unread]
    assert (tmp_path / "copy" / "plan.json").exists()


def test_a_run_that_is_not_there_is_refused() -> None:
    target = Target(run="other", source=Source.EXEC)
    with pytest.raises(Problem, match="no run other .* Use dpo;"), located(target, command.FILES):
        pass
