"""The proof of learning without GPUs, from the command line to the verdict."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launchers.flags import command_line
from scripts.demo.pairs import Pair, write_jsonl
from scripts.dev import results
from tests.bench import host
from tests.bench.learning import command, data, judge, plan
from tests.bench.learning.plan import Run
from tests.bench.model import random_model
from tests.bench.speed import profiles
from tests.bench.speed import run as bench_run
from tests.bench.speed.shared import own_flags
from tests.launchers import warm
from tests.launchers.training_environment import needs_training

pytestmark = pytest.mark.real  # its trainings, of stand-ins, take minutes of a processor
STEPS = 4
PROOFS = results.read(prefix="learning-") | results.read(prefix="prompt-once-learning-")
FAKE = str(Path(__file__).with_name("fake_training.py"))
PAIRS = [
    Pair(module="m", name=str(n), prompt=f"What is {n}?", chosen=f"a {n} b", rejected=f"b a {n}")
    for n in range(20)
]
Go = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    made = tmp_path / "sources"
    (made / "model").mkdir(parents=True)
    write_jsonl(PAIRS, made / "pairs.jsonl")
    write_jsonl(PAIRS[:4], made / "heldout.jsonl")
    return made


@pytest.fixture
def modes() -> dict[str, str]:
    """Modes of the fake by run; ``as asked`` by default."""
    return {}


@pytest.fixture
def gpus() -> int:
    return 4


@pytest.fixture
def go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sources: Path, modes: dict[str, str], gpus: int
) -> Go:
    """Run the command with fake H200 and trainings that write at once."""

    def torchrun(place: object, *, nproc: int, log_dir: Path, **_: object) -> list[str]:
        assert nproc == min(gpus, 2)
        folder = log_dir.parent
        mode = modes.get(folder.name, "as asked")
        return [sys.executable, FAKE, "train", folder.name, str(STEPS), mode, str(folder)]

    def scoring(run: Run, held: Path, base: Path, export: Path, out: Path) -> list[str]:
        assert held.is_file() and export.name == f"checkpoint-{STEPS}"
        mode = modes.get(run.name, "as asked")
        return [sys.executable, FAKE, "score", run.name, mode, str(out)]

    monkeypatch.setattr(command_line, "torchrun", torchrun)
    monkeypatch.setattr(plan, "scoring", scoring)
    about: dict[str, Any] = {"gpus": ["NVIDIA H200, 580.1"] * gpus, "versions": {}}
    about["when"] = "2026-11-22T07:00:00+00:00"
    monkeypatch.setattr(host, "about", lambda: dict(about))
    monkeypatch.setattr(bench_run, "swift_folder", lambda: tmp_path / "swift")
    monkeypatch.setattr(command, "LEAD", 0.0)
    monkeypatch.setattr(random_model, "vocabulary", lambda _: 2048)
    monkeypatch.setattr(random_model, "write", lambda folder, *_, **__: folder.mkdir(parents=True))

    def run(*words: str) -> tuple[int, dict[str, Any]]:
        home = ["--home", str(tmp_path / "home"), "--caches", str(tmp_path / "caches")]
        own = [str(sources), str(tmp_path / "results"), "--steps", str(STEPS), *home]
        code = command.main([*own, *words])
        return code, results.read(tmp_path / "results")[f"learning-{gpus}gpu"]

    return run


def test_sides_that_agree_end_with_0_and_a_mistake_is_found(
    go: Go, modes: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    modes |= {f"control-{seed}": "apart" for seed in (1, 2, 3)}
    code, record = go("--seeds", "1,2,3")
    assert (code, record["judged"]["wrong"]) == (0, [])
    assert len(record["runs"]) == 18
    tests = record["judged"]["tests"]
    assert tests["ours"]["held-out margin"]["equivalent"]
    assert tests["kernels"]["held-out margin"]["seeds"] == [1, 2, 3]
    assert not tests["control"]["held-out margin"]["equivalent"]
    ours, upstream = record["runs"]["ours-1"], record["runs"]["upstream-1"]
    assert upstream["kept"] == upstream["features"] == upstream["loaded"] == []
    assert upstream["reference"] == "online" and ours["reference"] == "precomputed"
    assert {"reference", "rank_order", "equal_packs", "chunked_adam"} <= {*ours["features"]}
    assert ours["pairs_per_step"] == [44] * STEPS
    assert record["command"].startswith("python3 -m tests.bench learning SOURCES RESULTS --steps")
    out = capsys.readouterr().out
    assert out.rstrip().endswith("passed") and "control       held-out margin" in out


@pytest.mark.parametrize("name", PROOFS)
def test_results_pass_when_they_are_judged_again(name: str) -> None:
    assert judge.judge(PROOFS[name]["runs"])["passed"]


@pytest.mark.parametrize("gpus", [1])
def test_on_one_gpu_a_run_has_all_experts_and_nothing_to_gather(go: Go) -> None:
    code, record = go("--seeds", "1,2,3", "--sides", "ours,upstream")
    assert (code, record["judged"]["wrong"]) == (0, [])
    flags = record["runs"]["ours-1"]["changes"]
    assert flags["expert_model_parallel_size"] == 1
    assert flags["moe_token_dispatcher_type"] == "alltoall"


@pytest.mark.parametrize("gpus", [0])
def test_without_a_gpu_nothing_starts(
    go: Go, sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(sources), str(tmp_path / "r")]) == 2
    assert "this host has 0 GPUs and a run needs 1" in capsys.readouterr().err


def test_equal_weights_need_the_accuracy_but_not_the_loss_of_upstream() -> None:
    found = runs()
    for seed in (1, 2, 3):
        like = found[f"ours-{seed}"]
        other = like["after"] | {"loss": 0.2}
        found[f"equal-weights-{seed}"] = like | {"side": "equal-weights", "after": other}
    judged = judge.judge(found)
    assert judged["wrong"] == []
    assert not judged["tests"]["equal-weights"]["held-out loss"]["equivalent"]
    found["equal-weights-2"]["after"]["accuracy"] = 0.9
    wrong = judge.judge(found)["wrong"]
    assert wrong == ["equal-weights-2: held-out accuracy 0.900 is below 0.95"]


def test_one_that_learns_something_else_ends_with_1(go: Go, modes: dict[str, str]) -> None:
    modes |= {f"ours-{seed}": "apart" for seed in (1, 2, 3)}
    code, record = go("--seeds", "1,2,3", "--sides", "ours,upstream")
    assert code == 1
    assert record["judged"]["wrong"] == ["held-out margin: not equivalent"]


def test_a_run_that_dies_or_loads_a_plugin_ends_with_1(go: Go, modes: dict[str, str]) -> None:
    modes |= {"ours-4": "dies", "upstream-2": "loads"}
    code, record = go("--seeds", "1,2,3,4", "--sides", "ours,upstream")
    assert code == 1
    wrong = ["ours-4: exited 1", "upstream-2: loaded launchers.training.loading"]
    assert record["judged"]["wrong"] == wrong
    assert "out of memory" in record["runs"]["ours-4"]["tail"]
    assert record["judged"]["tests"]["ours"]["held-out loss"]["seeds"] == [1, 2, 3]


def test_what_has_no_time_left_is_reported_and_keeps_the_runs_before_it(go: Go) -> None:
    code, record = go("--seeds", "1,2", "--sides", "ours,upstream", "--total", "1")
    assert code == 1
    assert {run["ended"] for run in record["runs"].values()} == {"no time left None"}


def runs(**changes: Any) -> dict[str, dict[str, Any]]:
    """Return three seeds of both sides that agree."""
    found = {}
    for side in ("ours", "upstream"):
        for seed in (1, 2, 3):
            apart = 1 + 0.001 * seed * (side == "ours")
            after = {"accuracy": 0.97, "loss": 0.1 * apart, "margin": 3 * apart, "chosen": -90.0}
            found[f"{side}-{seed}"] = {
                "side": side,
                "seed": seed,
                "finished": True,
                "kept": None,
                "loaded": [],
                "log": {"loss": [8.3, 8.0], "grad_norm": [1.0, 0.9 * apart]},
                "pairs_per_step": [44, 45],
                "after": after,
            }
    for name, change in changes.items():
        found[name.replace("_", "-")] |= change
    return found


def test_runs_that_agree_pass() -> None:
    assert judge.judge(runs()) | {"tests": {}} == {"passed": True, "wrong": [], "tests": {}}


def test_accuracy_below_what_is_required_fails_even_if_both_have_it() -> None:
    low = {"accuracy": 0.94, "loss": 0.1, "margin": 3.0, "chosen": -90.0}
    wrong = judge.judge(runs(ours_1={"after": low}, upstream_1={"after": low}))["wrong"]
    assert wrong == [
        "ours-1: held-out accuracy 0.940 is below 0.95",
        "upstream-1: held-out accuracy 0.940 is below 0.95",
    ]


def test_other_pairs_in_a_step_fail() -> None:
    wrong = judge.judge(runs(ours_2={"pairs_per_step": [45, 44]}))["wrong"]
    assert wrong == ["ours-2: steps have other pairs than upstream-2"]


def test_a_margin_of_the_wrong_sign_is_no_crash() -> None:
    lost = {"accuracy": 0.97, "loss": 0.1, "margin": -1.0, "chosen": -90.0}
    assert "held-out margin: not equivalent" in judge.judge(runs(ours_3={"after": lost}))["wrong"]


def test_two_seeds_are_not_enough() -> None:
    some = {name: run for name, run in runs().items() if run["seed"] < 3}
    assert judge.judge(some)["wrong"] == ["fewer than 3 seeds have ours and upstream"]


def test_a_control_that_passes_fails_the_comparison() -> None:
    found = runs()
    for seed in (1, 2, 3):
        found[f"control-{seed}"] = {**found[f"ours-{seed}"], "side": "control"}
    (wrong,) = judge.judge(found)["wrong"]
    assert "mistake was not found" in wrong


def test_ours_is_the_shipped_profile_and_upstream_differs_by_what_it_has_not() -> None:
    made = {run.side: run for run in plan.read([7], 2)}
    own = own_flags(STEPS)
    parsed = {name: profiles.recipe(run.profile.values(), own) for name, run in made.items()}
    ours, upstream = parsed["ours"].args, parsed["upstream"].args
    for flag, value in {"rpo_alpha": "1", "exp_avg_dtype": "bf16", "beta": "0.1"}.items():
        assert ours[flag] == upstream[flag] == value
    different = {flag for flag in ours | upstream if ours.get(flag) != upstream.get(flag)}
    assert different == {"moe_token_dispatcher_type"}
    assert ours["moe_token_dispatcher_type"] == "allgather" and ours["seed"] == "7"
    assert made["upstream"].profile.kept == () and made["ours"].profile.kept is None


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["--sides", "theirs"], "no side theirs"),
        (["--seeds", "one"], "invalid literal"),
        (["--seeds", ",".join("12345678901")], "at most 10"),
    ],
)
def test_what_can_not_run_is_refused_before_anything_is_written(
    go: Go,
    tmp_path: Path,
    sources: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    cause: str,
) -> None:
    home = tmp_path / "home"
    given = [str(sources), str(tmp_path / "r"), "--home", str(home), *words]
    assert command.main(given) == 2
    assert cause in capsys.readouterr().err and not home.exists()


def test_a_seed_gives_the_order_of_the_pairs() -> None:
    once, again, other = (data.shuffled(PAIRS, seed) for seed in (1, 1, 2))
    assert once == again != other and sorted(p.name for p in other) == sorted(p.name for p in PAIRS)


@needs_training
def test_a_checkpoint_that_is_the_base_has_no_margin_and_loss_ln_2(
    tokenizer: Path, tmp_path: Path
) -> None:
    model, held, out = tmp_path / "model", tmp_path / "held.jsonl", tmp_path / "score.json"
    write_jsonl(PAIRS, held)
    small = ["-m", "tests.bench.model.random_model", str(model), "--tiny"]
    warm.printed(*small, "--tokenizer", str(tokenizer))
    words = ["-m", "tests.bench.learning.score", str(held), str(model), str(model), "0.1", str(out)]
    warm.printed(*words)
    scores = json.loads(out.read_text())
    assert scores["before"] == scores["after"] and scores["after"]["pairs"] == len(PAIRS)
    assert scores["after"]["margin"] == 0 and scores["after"]["loss"] == pytest.approx(0.693147)


def test_the_prompt_once_is_compared_with_ours_by_its_accuracy() -> None:
    found = {name: run for name, run in runs().items() if run["side"] == "ours"}
    once = {"side": "prompt-once", "pairs_per_step": [50]}
    found |= {f"prompt-once-{seed}": {**found[f"ours-{seed}"], **once} for seed in (1, 2, 3)}
    judged = judge.judge(found)
    assert judged["passed"] and judged["tests"]["prompt-once"]["held-out loss"]["equivalent"]
    low = {"accuracy": 0.955, "loss": 0.1, "margin": 3.0, "chosen": -90.0}
    for seed in (1, 2, 3):
        found[f"prompt-once-{seed}"] |= {"after": low}
    wrong = judge.judge(found)["wrong"]
    assert wrong == ["prompt-once: held-out accuracy: not equivalent to ours"]
    del found["prompt-once-3"]
    assert judge.judge(found)["wrong"] == ["fewer than 3 seeds have ours and prompt-once"]
