"""Whole runs of real launcher processes; only torch and ms-swift are fakes."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launchers.exits import Exit
from tests.launchers.pods import Pods, end, read
from tests.launchers.processes import commands, is_running


def test_two_nodes_prepare_train_and_export(pods: Pods) -> None:
    leader, other = pods.ended()
    assert "gang started" in leader and "train start attempt=1" in other
    progress = pods.progress()
    assert progress["state"] == "succeeded"
    states = {name: s["state"] for name, s in progress["stages"].items()}
    assert states == {"clone": "skipped", "download": "done", "convert": "skipped", "train": "done"}
    assert progress["stages"]["convert"]["why"] == "backend transformers reads the downloaded model"
    exported = sorted(p.name for p in (pods.run / "export").iterdir())
    assert exported == [".complete.json", "config.json", "model.safetensors", "statement.json"]
    for rank in (0, 1):
        assert pods.flag("node-rank", rank) == str(rank)
        model = pods.flag("model", rank)
        assert model == pods.flag("ref_model", rank)
        assert (Path(model) / "config.json").exists()


@pytest.mark.parametrize("streams", ["<&- >&- 2>&-", ">/dev/full 2>&1"])
def test_no_stream_that_is_closed_or_full_changes_the_exit_code(
    tmp_path: Path, streams: str
) -> None:
    pods = Pods(tmp_path, nodes=1)
    shell = ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, "-m", "launchers", "run"]
    assert subprocess.run(shell, env=pods.env(0), cwd=tmp_path, timeout=60).returncode == Exit.OK
    assert pods.progress()["state"] == "succeeded"


def test_a_second_run_finds_everything_up_to_date(pods: Pods) -> None:
    pods.all()
    assert pods.progress()["attempt"] == 1
    outputs = pods.ended()
    assert pods.progress()["attempt"] == 1
    states = {name: s["state"] for name, s in pods.progress()["stages"].items()}
    assert states["download"] == states["train"] == "up to date"
    assert "train skipped" in outputs[1]
    assert not (pods.run / "attempts" / "2").exists()


def test_an_early_stop_is_exported_with_a_warning(tmp_path: Path) -> None:
    pods = Pods(tmp_path, nodes=1, train="0:early")
    [output] = pods.ended()
    assert 'training ended early why="early stop" step=3 planned=9' in output
    assert (pods.run / "export" / "model.safetensors").exists()


def test_a_user_error_of_one_rank_is_its_code_and_the_others_cascade(pods: Pods) -> None:
    cause = "ValueError: heads must be divisible"
    pods.train = f"1:fail:{cause},0:hang"
    begin = time.monotonic()
    leader, culprit = pods.start(0), pods.start(1)
    second, _ = end(culprit)
    assert leader.poll() is None  # Kubernetes must see the culprit's code first
    first, log = end(leader)
    assert (first, second) == (Exit.PEER, Exit.CONFIG)
    assert time.monotonic() - begin < 20
    assert f"rank 1 (r-node-0-1) ended: {cause}" in log
    message = pods.message(1)
    remedy = "correct the recipe or plugin: a restart would fail again before the first step"
    assert (message.pop("cause"), message.pop("remedy")) == (cause, remedy)
    end_of = {"code": 78, "class": "user", "id": "recipe-or-plugin"}
    assert message == {**end_of, "stage": "train", "rank": 1, "step": None}
    assert pods.message(0)["code"] == 1
    found = pods.progress()
    assert (found["state"], found["code"]) == ("failed", 78)  # of the run: no restart follows


def test_the_user_error_of_another_rank_is_the_runs_end_also_when_rank_0_is_stopped(
    pods: Pods,
) -> None:
    """As the JobSet does: it ends all pods as soon as one has failed."""
    pods.train = "1:fail:ValueError: heads must be divisible,0:hang"
    leader, culprit = pods.start(0), pods.start(1)
    assert end(culprit)[0] == Exit.CONFIG
    time.sleep(1.0)  # the news is there at once, and rank 0 ends its own rank for 3 s
    leader.send_signal(signal.SIGTERM)
    assert end(leader)[0] == Exit.TERMINATED
    found = pods.progress()
    assert (found["state"], found["code"]) == ("failed", 78)
    assert found["why"].startswith("rank 1 (r-node-0-1) ended: ValueError: heads must be divisible")


def test_sigterm_ends_all_pods_and_leaves_no_process(pods: Pods) -> None:
    pods.train = "0:orphan,1:orphan"
    started = [pods.start(rank) for rank in (0, 1)]
    orphans = [int(path.read_text()) for path in pods.files("orphan")]
    assert all(is_running(pid) for pid in orphans)
    begin = time.monotonic()
    started[1].send_signal(signal.SIGTERM)
    ends = [end(pod) for pod in started]
    assert time.monotonic() - begin < 10
    assert [code for code, _ in ends] == [Exit.TERMINATED, Exit.TERMINATED], ends
    assert "rank 1" in pods.message(0)["cause"]
    assert not any(is_running(pid) for pid in orphans)


def test_a_trainer_that_ignores_sigterm_and_has_nothing_to_save_is_killed(tmp_path: Path) -> None:
    pods = Pods(tmp_path, nodes=1, train="0:deaf")
    pod = pods.start(0)
    pods.files("deaf", 1)
    begin = time.monotonic()
    pod.send_signal(signal.SIGINT)
    assert end(pod)[0] == Exit.TERMINATED
    assert time.monotonic() - begin < 10
    assert pods.message(0)["code"] == Exit.TERMINATED
    assert not [pid for pid, words in commands() if str(tmp_path) in words]


def test_an_unknown_flag_fails_at_once_on_every_rank(pods: Pods) -> None:
    pods.write_recipe(args={"learning_rte": "1e-3"})
    begin = time.monotonic()
    pods.ended(Exit.CONFIG, Exit.CONFIG)
    assert time.monotonic() - begin < 15
    assert "learning_rate" in pods.message(0)["cause"]
    progress = pods.progress()
    assert (progress["state"], progress["code"]) == ("failed", Exit.CONFIG)
    assert "learning_rate" in progress["why"]


def test_a_workspace_that_cannot_be_written_is_a_user_error(pods: Pods) -> None:
    pod = pods.start(0, DPO_NODES="1", DPO_COMPLETIONS="1", DPO_WORKSPACE="/sys/workspace")
    code, output = end(pod)
    assert code in (Exit.QUOTA, Exit.INPUT_MISSING), output
    assert "Traceback" not in output


def test_ranks_with_different_recipes_never_start(pods: Pods) -> None:
    other = pods.folder / "other.yaml"
    other.write_text((pods.folder / "recipe.yaml").read_text().replace("1e-3", "2e-3"))
    one = pods.start(0, DPO_GANG_DEADLINE="1")
    two = pods.start(1, DPO_RECIPE=str(other))
    code, output = end(two)
    assert code == Exit.CONFIG and "another recipe or launcher" in output
    assert "id=gang-refused" in output
    one.send_signal(signal.SIGTERM)
    assert end(one)[0] == Exit.TERMINATED


def test_a_stage_on_its_own_needs_no_gang(pods: Pods) -> None:
    pods.alone("download")
    progress = pods.progress()
    assert (progress["state"], progress["stages"]["download"]["state"]) == ("running", "done")
    assert list((pods.folder / "workspace" / "models").rglob("config.json"))


def test_a_stage_on_its_own_refuses_what_cannot_work(pods: Pods) -> None:
    pods.write_recipe(args={"learning_rte": "1e-3"})
    pods.alone("download", Exit.CONFIG)
    assert not list((pods.folder / "workspace").rglob("config.json"))
    assert (pods.progress()["state"], pods.progress()["code"]) == ("failed", Exit.CONFIG)


def test_check_prints_the_command_and_trains_nothing(pods: Pods) -> None:
    output = pods.alone("check")
    assert "check passed world_size=2" in output and "--learning_rate 1e-3" in output
    assert not (pods.folder / "workspace").exists()


def test_an_unknown_command_is_a_usage_error(pods: Pods) -> None:
    assert "run|clone|download|convert|train|check|" in pods.alone("trian", Exit.USAGE)


def test_secrets_reach_no_training_process_and_no_file(pods: Pods) -> None:
    outputs = pods.ended(HF_TOKEN="hf_CANARY", MODELSCOPE_API_TOKEN="ms_CANARY")
    assert not any("CANARY" in output for output in outputs)
    for file in pods.folder.rglob("*"):
        assert not file.is_file() or b"CANARY" not in file.read_bytes(), file
    assert read(next(pods.run.rglob("env.json")))["HF_HUB_OFFLINE"] == "1"
