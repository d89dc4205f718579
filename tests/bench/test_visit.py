"""The visits of visits.yaml: every line is accepted for its number of GPUs."""

import importlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from launchers.system.proc_stat import has_ended
from launchers.system.process import descendants
from scripts.dev import results
from tests.bench import __main__ as runner
from tests.bench import backends, host, visit
from tests.bench.launcher import rehearse
from tests.bench.launcher import run as launch_run
from tests.bench.speed import command as bench
from tests.bench.speed import options as bench_options
from tests.bench.speed import profiles as bench_profiles
from tests.bench.speed.profiles import ROOT

ABOUT = {"when": "2026-11-25T01:00:00+00:00", "gpus": ["NVIDIA H200, 580.1"] * 2}
VISITS = [
    (name, line)
    for name in visit.names()
    for line, words in visit.lines(name).items()
    if words[0] not in visit.LAUNCHED  # launcher/test_launch.py has the others
]


@pytest.mark.parametrize(("name", "line"), VISITS)
def test_every_line_is_accepted_where_it_is_meant_to_run(
    name: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    program, *words = visit.lines(name)[line]
    if program == "gradients":
        assert not words
        return
    if program == "backends":
        given = backends.arguments(["t", "r", *words])
        for profile in bench_options.profiles(given):
            parsed = backends.recipe(profile, given.steps, "qwen3")
            bench = backends.setting(given, host.gpu_model(["NVIDIA H100 80GB HBM3, 580.1"]))
            bench_profiles.refuse(parsed, bench.model_config, bench.gpus)
        assert given.total <= 590
        return
    options = bench_options.arguments(["t", "r", *words])
    gpus = ["NVIDIA H200, 580.1"] * int(name.removesuffix("gpu"))
    profiles = bench_options.profiles(options)
    bench_options.refuse(bench_options.bench(options, gpus), profiles)
    assert options.limit <= 590 and options.total <= 590


@pytest.mark.parametrize("name", ["4gpu", "8gpu"])
def test_a_host_without_the_gpus_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.bench", "visit", name, "none", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    wanted = name.removesuffix("gpu")
    assert done.stderr == f"visit: {name} needs {wanted} GPUs and this host has 0\n"


def test_the_make_target_runs_lines_that_exist() -> None:
    words = ["make", "--dry-run", "bench-gpu", "LINES=lora"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"-m tests.bench visit {visit.TABLE} tokenizer tests/bench/results lora" in done.stdout
    for gpus in (1, 2, 4):
        name, listed = visit.of_host(gpus)
        assert name == f"{gpus}gpu" and not set(listed) - set(visit.lines(name))


def test_weak_scaling_is_computed_from_the_results(tmp_path: Path) -> None:
    for gpus, rate in ((2, 1000.0), (4, 960.0), (8, 912.0)):
        run = {"steps": 3, "tokens_per_second_per_gpu": {"median": rate}}
        record = {**ABOUT, "gpus_used": gpus, "runs": {"tuned": run}}
        results.put(tmp_path, f"bench-8gpu-scaling-{gpus}", record)
    assert visit.scaling(visit.rates(tmp_path, "8gpu")) == [
        "2 to 4 GPUs: 96.0 % of the tokens per second and GPU",
        "4 to 8 GPUs: 95.0 % of the tokens per second and GPU",
    ]


def test_a_line_that_breaks_costs_the_lines_after_it_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(_: list[str]) -> int:
        raise subprocess.CalledProcessError(1, "random_model")

    monkeypatch.setattr(host, "about", lambda: ABOUT)
    monkeypatch.setattr(bench, "main", breaks)
    monkeypatch.setattr(rehearse, "main", lambda _: 0)
    assert visit.main(["2gpu", "t", str(tmp_path), "half", "rehearse"]) == 1
    printed = capsys.readouterr()
    assert "== 2gpu rehearse" in printed.out and "random_model" in printed.err


def test_a_visit_that_is_stopped_ends_with_what_it_started(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.bench import host, session;"
        "words = [sys.executable, '-c', 'import time; print(1, flush=True); time.sleep(60)'];"
        "go = lambda: session.run(words, {}, Path(sys.argv[1]), limit=60)[1] or 0;"
        "sys.exit(host.run(go))"
    )
    log = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", code, str(log)], cwd=ROOT) as process:
        launch_run.wait_for("a start", lambda: log.exists() and bool(log.read_text()), 20, process)
        below = descendants(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143
    assert below
    launch_run.wait_for("their end", lambda: all(map(has_ended, below)), 5)


def test_a_line_or_a_program_that_does_not_exist_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert visit.main(["2gpu", "t", "r", "halves"]) == 2
    assert "visit: 2gpu has no line halves; it has lora, " in capsys.readouterr().err
    assert runner.main(["benches"]) == 2
    assert "  visit        lines of visits.yaml" in capsys.readouterr().out


def test_every_program_of_the_runner_has_a_main() -> None:
    for module, _ in runner.PROGRAMS.values():
        assert callable(importlib.import_module(f"tests.bench.{module}").main)
