"""Whole rehearsals of real launcher processes; only torch and ms-swift are fakes."""

import json
from pathlib import Path

import pytest

from launchers.exits import Exit
from tests.launchers.pods import Pods, read

Over = tuple[Pods, list[str]]
TRAIN = "0:rehearse,1:rehearse"


@pytest.fixture
def pods(tmp_path: Path) -> Pods:
    return Pods(tmp_path, train=TRAIN)


def rehearse(pods: Pods, *codes: Exit) -> list[str]:
    """Rehearse, by default to the planned kill; return the outputs."""
    return pods.ended(*(codes or (Exit.PEER, Exit.PEER)), DPO_REHEARSE="1")


def own(pods: Pods) -> Path:
    return pods.run.with_name("r.rehearsal")


def test_the_first_attempt_ends_with_the_planned_kill(pods: Pods) -> None:
    rehearse(pods)
    assert pods.message(1)["id"] == "rehearsal-kill"
    assert not (pods.run / "rehearsal.json").exists()


@pytest.fixture(scope="module")
def over(tmp_path_factory: pytest.TempPathFactory) -> Over:
    """A rehearsal with both attempts, and what the second one printed."""
    made = Pods(tmp_path_factory.mktemp("over"), train=TRAIN)
    rehearse(made)
    # the fake's weights are not safetensors: the one figure that fails
    return made, rehearse(made, Exit.CONFIG, Exit.OK)


def test_the_second_attempt_resumes_and_reports_each_figure(over: Over) -> None:
    pods, [output, _] = over
    assert pods.message(0)["id"] == "rehearsal-failed"
    found = read(pods.run / "rehearsal.json")
    figures = {figure["id"]: figure for figure in found["figures"]}
    cause = "ValueError: model.safetensors is not a safetensors file"
    assert figures["export"]["measured"] == cause
    failed = {id for id, figure in figures.items() if figure["verdict"] == "fail"}
    assert failed - {"host-memory"} == {"export"}  # the host's memory is that of this machine
    assert figures.keys() == {"resume", "host-memory", "speed", "save", "grace", "disk", "export"}
    assert found["unknown"].keys() == {"gpu-memory", "load", "evaluation"}
    measured = found["measured"]
    assert (measured["killed_rank"], measured["resumed_from"]) == (1, 2)
    assert (measured["step_seconds"], measured["tokens_per_second_per_gpu"]) == (2.0, 1000.0)
    assert measured["checkpoint_bytes"] > 16
    assert {host["rank"] for host in measured["hosts"]} == {0, 1}
    assert output.count("rehearsal | ") >= len(found["figures"])


def test_it_leaves_logs_and_the_report_and_no_checkpoints(over: Over) -> None:
    left = own(over[0])
    assert not (left / "checkpoints").exists() and not (left / "export").exists()
    assert (left / "attempts" / "2").is_dir() and (left / "metrics.jsonl").exists()


def test_a_rehearsal_that_is_over_is_followed_by_a_new_one(over: Over) -> None:
    rehearse(over[0])
    assert [folder.name for folder in (own(over[0]) / "attempts").iterdir()] == ["1"]


def times(pods: Pods) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in pods.run.rglob("*") if path.is_file()}


def test_the_run_of_the_same_name_is_not_touched(pods: Pods) -> None:
    pods.train = ""
    pods.ended()
    before = times(pods)
    pods.train = TRAIN
    rehearse(pods)
    rehearse(pods, Exit.CONFIG, Exit.OK)
    after = times(pods)
    assert before == {path: when for path, when in after.items() if path.name != "rehearsal.json"}


def test_only_steps_change_in_the_training_command(pods: Pods) -> None:
    pods.train = ""
    pods.ended()
    usual = pods.argv(0)
    pods.train = TRAIN
    rehearse(pods)
    log = own(pods) / "attempts" / "1" / "node-0"
    before, now = flags(usual), flags(json.loads(next(log.rglob("argv.json")).read_text()))
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
    pods.alone("verify", Exit.UNAVAILABLE, **env)
    progress = own(pods) / "progress.json"
    progress.write_text(json.dumps(read(progress) | {"state": "succeeded"}))
    output = pods.alone("verify", Exit.INPUT_MISSING, **env)
    assert "rehearsal.json does not exist" in output
    pods.run.mkdir(parents=True, exist_ok=True)
    (pods.run / "rehearsal.json").write_text("{}")
    assert "rehearsal verified" in pods.alone("verify", **env)


ALONE = {"DPO_PREFLIGHT_ONLY": "1", "SKIP_TRAIN": "1"}


def test_preflight_only_checks_the_gang_and_trains_nothing(pods: Pods) -> None:
    pods.ended(**ALONE)
    reports = sorted(path.name for path in (pods.run / "attempts" / "1").glob("preflight-*.json"))
    assert reports == ["preflight-0.json", "preflight-1.json"]
    progress = pods.progress()
    assert (progress["state"], progress["stages"]) == ("succeeded", {})
    assert not (pods.folder / "workspace" / "models").exists()
    pods.alone("verify", SKIP_TRAIN="1")


def test_a_preflight_only_that_fails_is_80_and_says_so_in_progress(pods: Pods) -> None:
    env = ALONE | {"DPO_GPUS_PER_NODE": "1", "DPO_PREFLIGHT_SKIP": "shm,versions"}
    codes = [code for code, _ in pods.all(**env)]
    assert Exit.PREFLIGHT in codes, codes
    assert pods.progress()["state"] == "failed"
