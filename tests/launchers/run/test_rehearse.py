"""Whole rehearsals of real launcher processes; only torch and ms-swift are fakes."""

import json
from pathlib import Path
from typing import Any

import pytest

from launchers.exits import Exit
from tests.launchers.pods import Pods, end


@pytest.fixture
def pods(tmp_path: Path) -> Pods:
    return Pods(tmp_path, train="0:rehearse,1:rehearse")


def rehearse(pods: Pods) -> list[tuple[int, str]]:
    return pods.all(DPO_REHEARSE="1")


def own(pods: Pods) -> Path:
    return pods.run.with_name("r.rehearsal")


def report(pods: Pods) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((pods.run / "rehearsal.json").read_text())
    return found


def test_the_first_attempt_ends_with_the_planned_kill(pods: Pods) -> None:
    assert [code for code, _ in rehearse(pods)] == [Exit.PEER, Exit.PEER]
    assert pods.message(1)["id"] == "rehearsal-kill"
    assert not (pods.run / "rehearsal.json").exists()


@pytest.fixture(scope="module")
def over(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pods, list[tuple[int, str]]]:
    """A rehearsal with both attempts, and how the second one ended."""
    made = Pods(tmp_path_factory.mktemp("over"), train="0:rehearse,1:rehearse")
    rehearse(made)
    return made, rehearse(made)


def test_the_second_attempt_resumes_and_reports_each_figure(
    over: tuple[Pods, list[tuple[int, str]]],
) -> None:
    pods, [(code, output), (peer, _)] = over
    # the fake's weights are not safetensors: the one figure that fails
    assert (code, peer) == (Exit.CONFIG, Exit.OK), output
    assert pods.message(0)["id"] == "rehearsal-failed"
    found = report(pods)
    figures = {figure["id"]: figure for figure in found["figures"]}
    assert (
        figures["export"]["measured"] == "ValueError: model.safetensors is not a safetensors file"
    )
    failed = {id for id, figure in figures.items() if figure["verdict"] == "fail"}
    assert failed - {"host-memory"} == {"export"}  # the host's memory is that of this machine
    assert figures.keys() == {"resume", "host-memory", "speed", "save", "grace", "disk", "export"}
    assert found["unknown"].keys() == {"gpu-memory", "load", "evaluation"}
    measured = found["measured"]
    assert (measured["killed_rank"], measured["resumed_from"]) == (1, 2)
    assert measured["step_seconds"] == 2.0
    assert measured["tokens_per_second_per_gpu"] == 1000.0
    assert measured["checkpoint_bytes"] > 16
    assert {host["rank"] for host in measured["hosts"]} == {0, 1}
    assert output.count("rehearsal | ") >= len(found["figures"])


def test_it_leaves_logs_and_the_report_and_no_checkpoints(
    over: tuple[Pods, list[tuple[int, str]]],
) -> None:
    pods, _ = over
    assert not (own(pods) / "checkpoints").exists() and not (own(pods) / "export").exists()
    assert (own(pods) / "attempts" / "2").is_dir() and (own(pods) / "metrics.jsonl").exists()


def test_a_rehearsal_that_is_over_is_followed_by_a_new_one(
    over: tuple[Pods, list[tuple[int, str]]],
) -> None:
    pods, _ = over
    assert [code for code, _ in rehearse(pods)] == [Exit.PEER, Exit.PEER]
    assert [folder.name for folder in (own(pods) / "attempts").iterdir()] == ["1"]


def test_the_run_of_the_same_name_is_not_touched(pods: Pods) -> None:
    pods.train = ""
    assert [code for code, _ in pods.all()] == [0, 0]
    before = {path: path.stat().st_mtime_ns for path in pods.run.rglob("*") if path.is_file()}
    pods.train = "0:rehearse,1:rehearse"
    rehearse(pods)
    rehearse(pods)
    after = {path: path.stat().st_mtime_ns for path in pods.run.rglob("*") if path.is_file()}
    assert before == {path: when for path, when in after.items() if path.name != "rehearsal.json"}


def test_only_steps_change_in_the_training_command(pods: Pods) -> None:
    pods.train = ""
    pods.write_recipe(args={"learning_rate": "1e-3", "tuner_type": "full"})
    ends = pods.all()
    assert [code for code, _ in ends] == [0, 0], ends
    usual = pods.argv(0)
    pods.train = "0:rehearse,1:rehearse"
    rehearse(pods)
    log = own(pods) / "attempts" / "1" / "node-0"
    words = json.loads(next(log.rglob("argv.json")).read_text())
    before, now = flags(usual), flags(words)
    changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    steps = {"max_steps", "save_steps", "eval_steps", "logging_steps"}
    assert changed == {*steps, "output_dir", "save_total_limit"}  # saved by steps, not by time
    assert [now[name] for name in sorted(steps)] == ["4", "1", "4", "2"]


def flags(words: list[str]) -> dict[str, str]:
    """The flags of the training program, which follow torchrun's own."""
    program = words[words.index("--tee") + 3 :]
    pairs = zip(program, program[1:], strict=False)
    return {name[2:]: value for name, value in pairs if name.startswith("--")}


def test_helm_test_waits_for_the_report(pods: Pods) -> None:
    rehearse(pods)
    env = {"DPO_REHEARSE": "1", "DPO_TEST_DEADLINE": "1"}
    code, output = end(pods.start(0, "verify", **env))
    assert code == Exit.UNAVAILABLE, output
    progress = own(pods) / "progress.json"
    document = json.loads(progress.read_text()) | {"state": "succeeded"}
    progress.write_text(json.dumps(document))
    code, output = end(pods.start(0, "verify", **env))
    assert code == Exit.INPUT_MISSING and "rehearsal.json does not exist" in output
    pods.run.mkdir(parents=True, exist_ok=True)
    (pods.run / "rehearsal.json").write_text("{}")
    code, output = end(pods.start(0, "verify", **env))
    assert code == Exit.OK and "rehearsal verified" in output


def test_preflight_only_checks_the_gang_and_trains_nothing(pods: Pods) -> None:
    env = {"DPO_PREFLIGHT_ONLY": "1", "SKIP_TRAIN": "1"}
    ends = pods.all(**env)
    assert [code for code, _ in ends] == [0, 0], ends
    reports = sorted(path.name for path in (pods.run / "attempts" / "1").glob("preflight-*.json"))
    assert reports == ["preflight-0.json", "preflight-1.json"]
    progress = pods.progress()
    assert (progress["state"], progress["stages"]) == ("succeeded", {})
    assert not (pods.folder / "workspace" / "models").exists()
    code, output = end(pods.start(0, "verify", SKIP_TRAIN="1"))
    assert code == 0, output


def test_a_preflight_only_that_fails_is_80_and_says_so_in_progress(pods: Pods) -> None:
    env = {"DPO_PREFLIGHT_ONLY": "1", "SKIP_TRAIN": "1"}
    env |= {"DPO_GPUS_PER_NODE": "1", "DPO_PREFLIGHT_SKIP": "shm,versions"}
    codes = [code for code, _ in pods.all(**env)]
    assert Exit.PREFLIGHT in codes, codes
    assert pods.progress()["state"] == "failed"
