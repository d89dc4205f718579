"""The comparison of gradients without GPUs, from the command line to the verdict."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from launchers.flags import command_line
from scripts.dev import results as raw
from tests.bench import host
from tests.bench.gradients import command, data, errors, judge, plan
from tests.bench.model import random_model
from tests.bench.speed import profiles
from tests.bench.speed import run as bench_run
from tests.bench.speed.shared import own_flags
from tests.launchers import warm
from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import needs_oracle, needs_training

pytestmark = pytest.mark.real  # its trainings, of stand-ins, take minutes of a processor
FAKE = str(Path(__file__).with_name("fake_step.py"))
RESULTS = raw.read(prefix="gradients-")
MISTAKES = {"control-beta": "scaled", "control-weights": "apart"}
Go = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Go:
    """Run the command with two fake H200 and trainings that write at once."""
    modes: dict[str, str] = {}

    def torchrun(place: object, *, nproc: int, log_dir: Path, **_: object) -> list[str]:
        assert nproc == 2
        side = log_dir.parent.name
        mode = modes.get(side, "as asked")
        return [sys.executable, FAKE, side, mode, str(log_dir.parent)]

    monkeypatch.setattr(command_line, "torchrun", torchrun)
    about: dict[str, Any] = {"gpus": ["NVIDIA H200, 580.1"] * 2, "versions": {}}
    about["when"] = "2026-11-22T07:00:00+00:00"
    monkeypatch.setattr(host, "about", lambda: dict(about))
    monkeypatch.setattr(bench_run, "swift_folder", lambda: tmp_path / "swift")
    monkeypatch.setattr(data, "prepare", lambda *_: None)
    monkeypatch.setattr(random_model, "vocabulary", lambda _: 2048)

    def run(*words: str, **changed: str) -> tuple[int, dict[str, Any]]:
        modes.update(MISTAKES | {name.replace("_", "-"): mode for name, mode in changed.items()})
        home = ["--home", str(tmp_path / "home"), "--caches", str(tmp_path / "caches")]
        results = tmp_path / "results"
        code = command.main([str(tmp_path / "tok"), str(results), *home, *words])
        return code, raw.read(results)["gradients-2gpu"]

    return run


def test_sides_within_the_spread_end_with_0_and_mistakes_are_found(
    go: Go, capsys: pytest.CaptureFixture[str]
) -> None:
    code, record = go()
    judged = record["judged"]
    assert (code, judged["wrong"]) == (0, [])
    assert judged["found"]["control-beta"][-1].startswith("it has 1.03")
    weights = judged["found"]["control-weights"]
    assert any(each.startswith("mlp.router.weight: ") for each in weights)
    assert judged["sides"]["ours"]["errors"]["all parameters"] == pytest.approx(0.02, rel=0.1)
    assert judged["sides"]["ours"]["scale"] == pytest.approx(1, abs=2e-3)
    assert len(record["compared"]["ours"]["name"]) == 3 * (2 + 4)
    assert "decoder.layers.2.mlp.experts.3.linear_fc1.weight" in record["compared"]["ours"]["name"]
    assert record["runs"]["upstream"]["kept"] == record["runs"]["upstream"]["features"] == []
    assert {"pair_weights", "rank_order", "filler_mask"} <= {*record["runs"]["ours"]["features"]}
    out = capsys.readouterr().out
    assert out.rstrip().endswith("passed") and "mlp.experts.linear_fc1.weight" in out


@pytest.mark.parametrize(("mode", "expected"), [("", 0), ("scaled", 1)])
def test_a_side_whose_package_is_installed_is_judged_like_ours(
    go: Go, monkeypatch: pytest.MonkeyPatch, mode: str, expected: int
) -> None:
    assert "ours-flash" not in [side.name for side in plan.read(2)]
    monkeypatch.setattr(host, "version", {"flash-attn": "2.8.3"}.get)
    code, record = go(**{"ours_flash": mode} if mode else {})
    assert record["runs"]["ours-flash"]["flags"]["attention_backend"] == "flash"
    assert code == expected
    assert all(each.startswith("ours-flash: ") for each in record["judged"]["wrong"])


@pytest.mark.parametrize("name", RESULTS)
def test_results_pass_when_they_are_judged_again(name: str) -> None:
    record = RESULTS[name]
    compared = {name: errors.rows(each) for name, each in record["compared"].items()}
    judged = judge.judge(record["runs"], compared)
    assert judged["passed"] and judged["wrong"] == record["judged"]["wrong"] == []
    kernels = {name for name in ("apex", "flash-attn") if record["versions"].get(name)}
    assert ("ours-flash" in record["runs"]) == ("flash-attn" in kernels)
    assert ("apex" in kernels) == ("apex" in name)


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"ours": "apart"}, "ours: mlp.router.weight: error 2"),
        ({"ours": "scaled"}, "ours: it has 1.03"),
        ({"ours": "dies"}, "ours: it did not end by itself: exited 1"),
        ({"ours": "lacks"}, "ours: decoder.layers.0.mlp.router.weight: elements 170 to 512 are"),
        ({"exact": "lacks"}, "exact: decoder.layers.0.mlp.router.weight: elements 170 to 512 are"),
        ({"exact": "dies"}, "exact: it did not end by itself: exited 1"),
        ({"upstream": "loads"}, "upstream: loaded launchers.training.loading"),
        ({"control_beta": "as asked"}, "control-beta: its mistake was not found"),
        ({"kernels": "dies"}, "ours, upstream and kernels are needed for a verdict"),
    ],
)
def test_what_is_wrong_ends_with_1(go: Go, changed: dict[str, str], wrong: str) -> None:
    code, record = go(**changed)
    assert code == 1
    assert [each for each in record["judged"]["wrong"] if each.startswith(wrong)]
    if "dies" in changed.values():
        assert "out of memory" in record["runs"][next(iter(changed))]["tail"]


def run(**changes: Any) -> dict[str, Any]:
    rank = {"weights": "torch.bfloat16", "gradients": "torch.bfloat16", "launchers": []}
    rank |= {"loss": 9.0} | changes
    return {"ended": "exited 0", "why": "", "kept": [], "ranks": [rank]}


def rows(error: float, along: float = 3.0) -> dict[str, dict[str, float]]:
    return {"decoder.layers.0.a": {"exact": 3.0, "error": error, "along": along}}


def test_another_type_or_loss_of_a_side_is_found() -> None:
    right = {"weights": "torch.float32", "gradients": "torch.float32"}
    runs = {name: run() for name in ("ours", "upstream", "kernels")} | {"exact": run(**right)}
    compared = {name: rows(0.03) for name in ("ours", "upstream", "kernels")}
    assert judge.judge(runs, compared)["passed"]
    assert judge.judge(runs | {"exact": run()}, compared)["wrong"] == [
        "exact: its weights are torch.bfloat16, not torch.float32",
        "exact: its gradients are torch.bfloat16, not torch.float32",
    ]
    assert judge.judge(runs | {"ours": run(loss=9.1)}, compared)["wrong"] == [
        "ours: its loss 9.100000 is not 9.000000 within 0.1%"
    ]


def test_a_gradient_that_is_not_a_number_or_exactly_zero_fails() -> None:
    spread = [rows(0.03), rows(0.02)]
    assert judge.broken(rows(0.03 * 1.2), spread) == []
    assert len(judge.broken(rows(float("nan"), float("nan")), spread)) == 5
    empty = {"decoder.layers.0.b": {"exact": 0.0, "error": 0.0, "along": float("nan")}}
    assert judge.broken(rows(0.03) | empty, [each | empty for each in spread]) != []


def test_other_parameters_or_sizes_are_no_comparison() -> None:
    one = {"a": np.ones(3, np.float32)}
    with pytest.raises(ValueError, match="1 parameters have gradients on one side only: b"):
        errors.compare(one | {"b": np.ones(2, np.float32)}, one)
    with pytest.raises(ValueError, match="a has 2 elements, in fp32 3"):
        errors.compare({"a": np.ones(2, np.float32)}, one)
    found = errors.compare({"a": 2 * one["a"]}, one)["a"]
    assert found["error"] == pytest.approx(3**0.5) and found["along"] == pytest.approx(2 * 3**0.5)


def test_ours_is_the_shipped_profile_and_all_sides_have_the_same_pairs() -> None:
    own = own_flags(plan.STEPS)
    parsed = {side.name: profiles.recipe(side.values(), own) for side in plan.read(2)}
    ours, upstream = parsed["ours"], parsed["upstream"]
    assert ours.weighs_pairs_equally and ours.reference == "precomputed"
    assert ours.args["moe_token_dispatcher_type"] == "allgather" and ours.args["rpo_alpha"] == "1"
    assert ours.args["global_batch_size"] == str(data.PACKS)
    for name in ("upstream", "kernels", "exact"):
        args = parsed[name].args
        assert args["packing"] == "false" and args["micro_batch_size"] == "1"
        assert args["global_batch_size"] == str(data.PAIRS)
    for flag in ("beta", "rpo_alpha", "max_length", "template", "loss_type"):
        assert ours.args[flag] == upstream.args[flag] == parsed["exact"].args[flag]
    assert [parsed["exact"].args[flag] for flag in ("fp16", "bf16")] == ["false", "false"]
    assert not parsed["control-weights"].weighs_pairs_equally


@pytest.mark.parametrize(
    ("words", "gpus", "cause"),
    [
        (["--only", "theirs"], 2, "no side theirs"),
        ([], 4, "for runs of 1 or 2 GPUs, and 4 were given"),
    ],
)
def test_what_can_not_run_is_refused_before_anything_is_written(
    go: Go,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    gpus: int,
    cause: str,
) -> None:
    monkeypatch.setattr(host, "about", lambda: {"gpus": ["NVIDIA H200, 580.1"] * gpus})
    home = tmp_path / "home"
    assert command.main([str(tmp_path), str(tmp_path / "r"), "--home", str(home), *words]) == 2
    assert cause in capsys.readouterr().err and not home.exists()


@needs_training
def test_packs_hold_the_pairs_of_one_class_in_any_order(tokenizer: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    small = ["-m", "tests.bench.model.random_model", str(model), "--tiny"]
    warm.printed(*small, "--tokenizer", str(tokenizer))
    said = warm.printed("-m", "tests.bench.gradients.packs_edge", str(model), str(tmp_path))
    assert said.splitlines()[-1] == "each pack has the pairs of one class"


@needs_oracle
def test_the_probe_agrees_with_megatrons_distributed_optimizer(tmp_path: Path) -> None:
    said = ranks_on_cpu.said("tests.bench.gradients.probe_ranks", str(tmp_path))
    shown = (
        "fp32: the model lies below a module that casts nothing",
        "a parameter is split between the ranks",
        "the parts of both ranks are the whole gradients",
        "the optimizer's step follows",
    )
    assert [line for line in shown if line not in said] == []
    assert {rank["weights"] for rank in errors.ranks(tmp_path)} == {"torch.float32"}
