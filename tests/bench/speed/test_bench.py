"""The bench without GPUs: parsing, figures, validation and results."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from launchers.config import gpu_models
from launchers.config.rank import Place
from launchers.flags import command_line, features
from launchers.plan import flops, model_config
from scripts.dev import results
from tests.bench import host, session
from tests.bench.model import random_model
from tests.bench.speed import command, figures, kernels, profiles
from tests.bench.speed import options as bench_options
from tests.bench.speed import run as bench_run
from tests.bench.speed.profiles import ROOT
from tests.bench.speed.read import Step
from tests.launchers import warm
from tests.launchers.training_environment import needs_training

SEED = "tests/bench/baselines/seed.yaml"
TUNED = "values/a100-2node.yaml,values/hardware/h200-4.yaml"
FOUR = f"{SEED},expert_model_parallel_size=4"
BARE = f"{FOUR},features=none,recipe.reference=precomputed"
ROUTED = f"{TUNED},features=reference,recipe.reference=online"
H200 = ["NVIDIA H200, 580.1"] * 4


Fake = Callable[[str, int], None]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    """Fake four H200 and a training that writes its steps at once."""

    def choose(mode: str, steps: int) -> None:
        def torchrun(place: object, *, nproc: int, log_dir: Path, **_: object) -> list[str]:
            script = str(Path(__file__).with_name("fake_ranks.py"))
            return [sys.executable, script, str(nproc), str(steps), mode, str(log_dir.parent)]

        monkeypatch.setattr(command_line, "torchrun", torchrun)

    about = {"gpus": H200, "versions": {}, "when": "2026-11-22T07:00:00+00:00"}
    monkeypatch.setattr(host, "about", lambda: about)
    monkeypatch.setattr(bench_run, "swift_folder", lambda: tmp_path / "swift")
    monkeypatch.setattr(bench_run, "LOG_LAG", 0.0)
    home = tmp_path / "home"
    (home / "model-8").mkdir(parents=True)
    (home / "model-8" / "READY").touch()
    (home / "pairs-12000.jsonl").touch()
    return choose


def go(tmp_path: Path, *words: str, code: int = 0) -> dict[str, Any]:
    common = ["--home", str(tmp_path / "home"), "--layers", "8", "--label", "t"]
    assert command.main([str(tmp_path / "tok"), str(tmp_path / "results"), *common, *words]) == code
    record: dict[str, Any] = results.read(tmp_path / "results")["bench-t"]
    return record


def test_the_figures_are_the_formula_of_the_steps_after_the_warm_up(
    fake: Fake, tmp_path: Path
) -> None:
    fake("reports", 12)
    record = go(tmp_path, "--profile", f"seed:{FOUR}", "--steps", "9", code=1)
    run = record["runs"]["seed"]
    assert run["finished"] and run["ended"] in ("exited", "done")
    assert run["steps"] == 9
    assert run["seconds"]["median"] == 2.0 and run["seconds"]["p95"] == 3.0
    assert run["tokens_per_step"] == 8000  # two replicas of two ranks that read the same
    assert run["tokens_per_second_per_gpu"]["median"] == 8000 / 2.0 / 4
    qwen = model_config.parse_config(random_model.config(random_model.Config(num_hidden_layers=8)))
    work = 1000 * 4 * flops.forward(qwen, 1000.0) / 989e12
    assert run["mfu"] == pytest.approx(work, abs=1e-4)
    assert run["reserved_gib"] == 6.0
    # of steps 4 to 12 three took 3 s
    overall = {"tokens": 72_000, "seconds": 21.0, "tokens_per_second_per_gpu": 857.1}
    assert {name: run["overall"][name] for name in overall} == overall
    whole = 1 / (1 / 857.1 + 1 / 3000)
    assert run["reference_pass"]["over_one_epoch"] == pytest.approx(whole, 1e-3)
    assert run["metrics"] == {"seconds": 2.0, "data_seconds": 0.08}  # of steps 4 to 12
    assert run["self_report"]["missing"] == ["mfu", "tokens_per_second_per_gpu"]
    assert run["first_loss"]["ok"] and run["load_balancing_loss"] == 1.02
    assert run["flags"]["optimizer_cpu_offload"] == "true"
    assert run["flags"]["callbacks"][0] == "bench_probe" and "seal" in run["flags"]["callbacks"]
    assert record["command"].startswith("python3 -m tests.bench speed TOKENIZER RESULTS --home")
    assert "tests/bench/plugins/swift_probe.py" in run["flags"]["external_plugins"]


def test_upstream_runs_with_the_same_flags_and_without_our_plugins(
    fake: Fake, tmp_path: Path
) -> None:
    fake("ends", 3)
    few = f"few:{FOUR},features=seal_megatron+chunked_adam"
    words = ["--profile", f"all:{FOUR}", "--profile", f"bare:{FOUR},features=none"]
    words += ["--profile", few, "--steps", "2", "--warm-up", "1"]
    runs = go(tmp_path, *words)["runs"]
    ours, bare, kept = runs["all"], runs["bare"], runs["few"]
    assert bare["features"] == bare["profile"]["kept"] == bare["loaded"] == []
    (probe,) = bare["flags"]["external_plugins"]
    assert probe.endswith("swift_probe.py") and bare["flags"]["callbacks"] == ["bench_probe"]
    changed = {f for f in ours["flags"] if ours["flags"][f] != bare["flags"].get(f)}
    assert changed == {"external_plugins", "callbacks", "output_dir"}
    assert "reference" not in kept["features"]
    assert kept["features"] == ["seal_megatron", "chunked_adam"]
    assert kept["flags"]["callbacks"] == ["bench_probe", "seal"]
    assert len(kept["flags"]["external_plugins"]) == 2


def test_the_environment_names_only_the_features_that_are_kept(fake: Fake, tmp_path: Path) -> None:
    options = bench_options.arguments(["t", "r", "--layers", "8", "--home", str(tmp_path)])
    bench = bench_options.bench(options, H200)
    place = Place(rank=0, nodes=1, master_addr="a", master_port=1, source="single")

    def named(text: str) -> str | None:
        profile = profiles.parse(text)
        env = bench_run.environment(bench, profile, place, tmp_path, tmp_path / "caches")
        return env.get(features.VARIABLE)

    assert named(f"{FOUR},features=none") is None
    assert named(f"{FOUR},features=grad_check") == "grad_check"
    assert "metrics_megatron" in str(named(FOUR))


def test_a_bare_run_that_has_loaded_our_code_fails_the_bench(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake("loads", 6)
    go(tmp_path, "--profile", f"bare:{FOUR},features=none", "--steps", "3", code=1)
    assert "bare: features=none, but launchers.training.loading" in capsys.readouterr().out


def test_a_training_that_hangs_after_its_last_step_is_ended_with_all_it_started(
    fake: Fake, tmp_path: Path
) -> None:
    fake("hangs", 6)
    run = go(tmp_path, "--profile", f"seed:{FOUR}", "--steps", "3")["runs"]["seed"]
    child = int((tmp_path / "home" / "runs" / "seed" / "child").read_text())
    assert run["ended"] == "done" and run["finished"]
    assert not Path(f"/proc/{child}").exists()


def test_a_run_that_is_cut_short_keeps_its_steps(fake: Fake, tmp_path: Path) -> None:
    fake("hangs", 6)
    run = go(tmp_path, "--profile", f"seed:{FOUR}", "--steps", "30", "--limit", "3")["runs"]["seed"]
    assert run["ended"] == "time limit" and not run["finished"]
    assert run["steps"] == 3


def test_runs_are_compared_and_a_failed_one_says_why(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake("fails", 6)
    again = f"b:{FOUR},global_batch_size=8"
    record = go(tmp_path, "--profile", f"a:{FOUR}", "--against", again, "--steps", "30")
    assert record["runs"]["a"]["out_of_memory"] and record["runs"]["a"]["exit"] == 1
    assert record["runs"]["b"]["flags"]["global_batch_size"] == "8"
    said = capsys.readouterr().out
    assert "a / b: 1.00 x tok/s/GPU" in said
    assert "out of memory" in said


def test_a_container_without_memory_is_seen(tmp_path: Path) -> None:
    assert session.left_in_group(tmp_path) == 1.0
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("995\n")
    (tmp_path / "memory.stat").write_text("anon 300\ninactive_file 395\nactive_file 300\n")
    assert session.left_in_group(tmp_path) == pytest.approx(0.7)
    (tmp_path / "memory.max").write_text("max\n")
    assert session.left_in_group(tmp_path) == 1.0


def test_a_first_loss_that_is_not_ln_2_fails_the_bench(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake("wrong", 6)
    go(tmp_path, "--profile", f"seed:{FOUR}", "--steps", "3", code=1)
    assert "seed: the first loss is 0.75, not ln 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("gpus", "words", "cause"),
    [
        ([], ["--profile", FOUR], "this host has 0 GPUs"),
        (H200, ["--profile", FOUR, "--gpus", "8"], "this host has 4 GPUs and the bench needs 8"),
        (H200, ["--profile", SEED], "expert_model_parallel_size"),
        (H200, ["--profile", "global_batch_size=4"], "names no values file"),
        (H200, ["--profile", FOUR, "--against", FOUR], "two profiles have one name"),
        (H200, [], "nothing to run"),
        (H200, ["--profile", f"{FOUR},features=adam"], "adam is not a feature"),
        (H200, ["--profile", BARE], "recipe.reference=online"),
        (H200, ["--profile", ROUTED], "moe_token_dispatcher_type=alltoall"),
        (H200, ["--profile", "values/none.yaml"], "values/none.yaml"),
    ],
)
def test_what_can_not_be_measured_is_refused_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    gpus: list[str],
    words: Sequence[str],
    cause: str,
) -> None:
    monkeypatch.setattr(host, "about", lambda: {"gpus": gpus})
    monkeypatch.chdir(ROOT)
    home = ["--home", str(tmp_path / "home")]
    assert command.main([str(tmp_path), str(tmp_path / "results"), *home, *words]) == 2
    assert cause in capsys.readouterr().err
    assert not (tmp_path / "home").exists()


def test_a_self_report_is_held_against_the_formula() -> None:
    qwen = model_config.parse_config(random_model.config(random_model.Config()))
    values = {"recipe": {"backend": "megatron", "task": "rlhf", "args": {"rlhf_type": "dpo"}}}
    job = profiles.job(profiles.recipe(values, {}), 1)
    step = Step(number=4, seconds=2.1, tokens=8000, squares=16_000_000, sequences=8, balance=1.0)
    gpu = gpu_models.by_name("h200")
    rate = 8000 / 2.0
    mfu = rate * 4 * flops.forward(qwen, 2000.0) / gpu.peak_tflops / 1e12
    row = {"step": 4, "seconds": 2.0, "tokens": 8000, "tokens_per_second_per_gpu": rate, "mfu": mfu}
    report = figures.self_report([row], [step], qwen, job, gpu)
    assert report is not None and report["ok"] and report["mfu"] < 1e-9
    off = figures.self_report([{**row, "tokens": 7900}], [step], qwen, job, gpu)
    assert off is not None and not off["ok"]
    assert figures.self_report([], [step], qwen, job, gpu) is None


def test_a_trace_adds_three_steps_that_do_not_count(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake("traces", 9)
    words = ["--profile", f"seed:{FOUR}", "--steps", "3", "--trace", "seed"]
    run = go(tmp_path, *words)["runs"]["seed"]
    assert run["finished"] and run["steps"] == 3 and run["flags"]["train_iters"] == "9"
    assert len(run["each_step"]["seconds"]) == 6
    assert "swift_trace.py" in run["flags"]["external_plugins"][-1]
    assert run["flags"]["callbacks"][:2] == ["bench_probe", "trace"]
    assert run["kernels"][0]["busy_ms"] == 3.0
    assert "2.00 ms in      1 of nccl_sum" in capsys.readouterr().out
    assert (tmp_path / "results" / "trace-t-seed.json.gz").read_bytes() == b"trace"


def test_a_pass_is_computed_anew_and_measured_by_rounds(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake("passes", 6)
    store = tmp_path / "home" / "reference" / "made-before"
    store.mkdir(parents=True)
    words = ["--profile", f"p:{TUNED},rpo_alpha=null", "--passes", "p", "--steps", "3"]
    run = go(tmp_path, *words)["runs"]["p"]
    assert not store.exists()
    assert "swift_pass.py" in run["flags"]["external_plugins"][-1]
    found = run["pass_rounds"]
    # rounds of 4,000 tokens on each of two ranks that keep results; the third is profiled
    assert found["steady"] == [1, 3] and found["start_s"] == 7.0 and found["end_s"] == 0.5
    assert found["tokens_per_second_per_gpu"] == 8000 / 2.0 / 4
    assert found["ratio"] < found["steady_ratio"] < 1
    assert "p: pass {" in capsys.readouterr().out


@needs_training
def test_the_rounds_of_a_pass_add_up_to_its_seconds(tmp_path: Path) -> None:
    said = warm.printed("-m", "tests.bench.speed.fake_pass", PROBE=str(tmp_path))
    took, pairs = json.loads(said.splitlines()[-1])
    rows = [json.loads(line) for line in (tmp_path / "pass-0.jsonl").read_text().splitlines()]
    assert [row["part"] for row in rows] == ["start", *["round"] * 4, "end"]
    assert [row["traced"] for row in rows[1:-1]] == [False, False, True, False]
    assert sum(row["tokens"] for row in rows[1:-1]) == pairs * 8
    assert sum(row["seconds"] for row in rows) == pytest.approx(took, abs=0.05)
    assert json.loads((tmp_path / "kernels-pass-0.json").read_text())["microbatches"] == 6
    waits = json.loads((tmp_path / "waits-pass-0.json").read_text())["waits"]
    assert [(name, count) for name, _, count in waits] == [("aten::nonzero", 3)]
    assert (tmp_path / "trace-pass.json.gz").stat().st_size > 500


@needs_training
def test_kernels_are_profiled_before_the_trace_of_all_operators(tmp_path: Path) -> None:
    words = ("-m", "tests.bench.speed.fake_trainer", "6")
    said = warm.printed(*words, PROBE=str(tmp_path), TRACE_FROM="4")
    assert json.loads(said) == [4, 5, 6]
    assert json.loads((tmp_path / "kernels-0.json").read_text()) == {"rank": 0, "kernels": 0}
    assert (tmp_path / "trace.json.gz").stat().st_size > 500


def test_the_sums_of_a_step_count_communication_that_is_not_hidden() -> None:
    events = [
        kernels.Kernel("gemm", 0, 2_000_000),
        kernels.Kernel("nccl_sum", 1_000_000, 2_000_000),
        kernels.Kernel("nccl:all_reduce", 0, 9_000_000),
    ]
    found = kernels.summary(events)
    assert (found["wall_ms"], found["busy_ms"], found["exposed_ms"]) == (3.0, 3.0, 1.0)
    assert found["kernels"] == 2 and kernels.summary([]) == {"kernels": 0}
