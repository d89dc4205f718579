"""The ablation without GPUs: parsing, validation, figures and results."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from launchers.flags import command_line
from launchers.run import kernel_cache
from tests.gpu import host
from tests.gpu.ablation import choice, command, figures, kernels, pin, plan
from tests.gpu.ablation import run as ablation_run
from tests.gpu.ablation import steps as ablation_steps
from tests.gpu.ablation.kernels import Kernel
from tests.gpu.ablation.plan import BASELINE, Choice, Variant
from tests.gpu.ablation.steps import Count
from tests.gpu.bench import run as bench_run
from tests.gpu.bench.profiles import ROOT
from tests.gpu.bench.read import Ranks

FOUR = "seed:tests/gpu/baselines/seed.yaml,expert_model_parallel_size=4"
H200 = ["NVIDIA H200, 580.1"] * 4
VARIANTS = """
baseline: {steps: 2}
variants:
  a: {why: first, config: {moe_router_fusion: false}, keep: true}
  b: {config: {recompute_num_layers: 0.5}}
  c: {gc: "off"}
starts:
  d: {why: own, changes: {overlap_grad_reduce: false}}
"""


def lay_out(text: str, tmp_path: Path) -> list[plan.Segment]:
    file = tmp_path / "variants.yaml"
    file.write_text(text)
    return ablation_steps.lay_out(plan.read(file, 8), Count(steps=3, warm_up=1, first=3))


def test_states_are_the_variants_own_over_what_is_kept(tmp_path: Path) -> None:
    segments = lay_out(VARIANTS, tmp_path)
    kept = {"moe_router_fusion": False}
    assert [(each.name, each.first, each.last, each.state) for each in segments] == [
        ("baseline", 1, 5, {}),
        ("a", 6, 9, {"config": kept}),
        ("b", 10, 13, {"config": {**kept, "recompute_num_layers": 4}}),
        ("c", 14, 17, {"config": kept, "gc": "off"}),
        ("baseline again", 18, 20, {}),
        ("end", 21, 21, {}),
    ]


def test_the_list_can_be_read_and_each_line_says_why() -> None:
    whole = plan.read(command.VARIANTS, 48)
    assert len(whole.variants) > 12 and len(whole.starts) > 5
    assert all(each.why for each in whole.variants) and all(each.why for each in whole.starts)
    assert not any(each.steps or each.keep for each in whole.variants)
    fewer = plan.read(command.VARIANTS.with_name("fewer.yaml"), 48)
    assert fewer.variants and all(each.why for each in fewer.variants)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("variants: {a: {config: {moe_grouped_gemm: false}}}", "or make it one of `starts`"),
        ("variants: {a: {env: {CUDA_DEVICE_MAX_CONNECTIONS: 8}}}", "write NVTE_USE_CUTLASS"),
        ("variants: {a: {gc: never}}", "gc is never; write on, off, frozen"),
        ("variants: {a: {gc: off}}", "gc is False; write on, off, frozen"),  # YAML 1.1's off
        ("variants: {a: {setps: 3}}", "setps is not known"),
        ("variant: {}", "variant is not known; write baseline, starts, variants"),
        ("starts: {a: {why: x}}", "a start without changes"),
        ("{variants: {a: {}}, starts: {a: {changes: {lr: 1}}}}", "a is given twice"),
    ],
)
def test_what_can_not_be_switched_is_refused(text: str, cause: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=cause.replace("`", ".")):
        lay_out(text, tmp_path)


def test_parts_are_chosen_by_name(tmp_path: Path) -> None:
    lay_out(VARIANTS, tmp_path)
    whole = plan.read(tmp_path / "variants.yaml", 8)
    assert choice.choose(whole, [], starts=False).starts == ()
    some = choice.choose(whole, ["c", "d"], starts=False)
    assert [each.name for each in some.variants] == ["c"]
    assert [each.name for each in some.starts] == ["d"]
    with pytest.raises(ValueError, match="e is not in the file; write a, b, c, d"):
        choice.choose(whole, ["e"], starts=False)
    both = choice.traced(some, [BASELINE, "c"])
    assert both.baseline.trace and both.variants[0].trace and not some.baseline.trace
    with pytest.raises(ValueError, match="no trace of d; write baseline, c"):
        choice.traced(some, ["d"])


def test_kernels_that_overlap_are_counted_once() -> None:
    ms = 1_000_000
    events = [
        Kernel("gemm<bf16>", 0, 4 * ms),
        Kernel("ncclDevKernel_SendRecv", 2 * ms, 4 * ms),
        Kernel("gemm<bf16>", 8 * ms, 2 * ms),
        Kernel("nccl:all_to_all", 0, 10 * ms),  # the profiler's own span over a kernel
    ]
    assert kernels.summary(events) == {
        "wall_ms": 10.0,
        "busy_ms": 8.0,
        "compute_ms": 6.0,
        "communication_ms": 4.0,
        "exposed_ms": 2.0,
        "kernels": 3,
        "top": [["gemm<bf16>", 6.0, 2], ["ncclDevKernel_SendRecv", 4.0, 1]],
    }
    assert kernels.summary([]) == {"kernels": 0}


def test_cores_are_those_of_the_gpus_node(tmp_path: Path) -> None:
    device = tmp_path / "bus/pci/devices/0000:1b:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    node = tmp_path / "devices/system/node/node1"
    node.mkdir(parents=True)
    (node / "cpulist").write_text("4-7,12\n")
    assert pin.near("0000:1B:00.0", {1, 5, 6, 12}, tmp_path) == {5, 6, 12}
    assert pin.near("0000:1b:00.0", {1}, tmp_path) == {1}  # a container without that node
    assert pin.near("", {1, 2}, tmp_path) == {1, 2}
    (device / "numa_node").write_text("-1\n")
    assert pin.near("0000:1b:00.0", {1, 5}, tmp_path) == {1, 5}
    assert pin.part("numa", 1, [{0, 1}, {0, 1}]) == {0, 1}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[str]]:
    """Fake four H200 and trainings that write their steps at once, a given number per start."""

    def choose(*starts: tuple[int, str]) -> list[str]:
        left, plans = list(starts), []

        def torchrun(place: object, *, nproc: int, log_dir: Path, **_: object) -> list[str]:
            steps, mode = left.pop(0)
            plans.append(log_dir.parent.name)
            script = str(ROOT / "tests" / "gpu" / "bench" / "fake_ranks.py")
            return [sys.executable, script, str(nproc), str(steps), mode, str(log_dir.parent)]

        monkeypatch.setattr(command_line, "torchrun", torchrun)
        return plans

    about = {"gpus": H200, "versions": {}}
    monkeypatch.setattr(host, "about", lambda: about)
    monkeypatch.setattr(bench_run, "swift_folder", lambda: tmp_path / "swift")
    monkeypatch.setattr(bench_run, "LOG_LAG", 0.0)
    monkeypatch.setattr(kernel_cache, "has_bytecode", lambda: True)
    monkeypatch.chdir(ROOT)
    home = tmp_path / "home"
    (home / "model-8-32-experts").mkdir(parents=True)
    (home / "model-8-32-experts" / "READY").touch()
    (home / "pairs-1500.jsonl").touch()
    (tmp_path / "variants.yaml").write_text(VARIANTS)
    return choose


def go(tmp_path: Path, *words: str, code: int = 0) -> dict[str, Any]:
    common = ["--home", str(tmp_path / "home"), "--layers", "8", "--experts", "32", "--label", "t"]
    common += ["--variants", str(tmp_path / "variants.yaml"), "--profile", FOUR]
    places = [str(tmp_path / "tok"), str(tmp_path / "results")]
    assert command.main([*places, *common, *words]) == code
    record: dict[str, Any] = json.loads((tmp_path / "results" / "ablation-t.json").read_text())
    return record


def test_one_start_gives_a_row_for_each_variant(
    fake: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = fake((21, "ends"))
    record = go(tmp_path)
    assert names == ["seed"]
    rows = record["rows"]
    assert list(rows) == ["baseline", "a", "b", "c", "baseline again"]
    assert rows["baseline"]["steps"] == 2 and rows["b"]["steps"] == 3  # 11, 12, 13: 2, 3, 2 s
    assert rows["b"]["seconds"] == {"median": 2.0, "min": 2.0, "max": 3.0}
    assert rows["b"]["tokens_per_second_per_gpu"] == 8000 / 2 / 4
    assert rows["b"]["reserved_gib"] == 6.0 and rows["b"]["allocated_gib"] == 2.0
    assert len(rows["b"]["loss"]) == 4 and rows["b"]["loss_off"] < 1e-8
    assert rows["a"]["why"] == "first"
    run = record["runs"]["seed"]
    assert run["finished"] and run["flags"]["lr"] == "1e-12" and "rpo_alpha" not in run["flags"]
    assert run["flags"]["callbacks"][:2] == ["probe", "ablation"]
    assert any("swift_ablation.py" in each for each in run["flags"]["external_plugins"])
    assert record["experts"] == 32 and record["drift"] == {"first start": 0.0}
    assert record["command"].startswith("python3 -m tests.gpu.ablation TOKENIZER RESULTS --home")
    said = capsys.readouterr().out
    assert "| b | 2.000 (2.000 to 3.000) | 1000 |" in said


def test_after_a_variant_that_does_not_fit_the_rest_is_measured_in_another_start(
    fake: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake((10, "fails"), (13, "ends"), (6, "ends"))
    record = go(tmp_path, "--with-starts", code=1)
    rows = record["rows"]
    assert rows["b"]["ended"] == "out of memory in time"
    assert rows["c"]["steps"] == 3 and "ended" not in rows["c"]
    assert [name for name in rows if name.startswith(BASELINE)] == [
        *("baseline", "baseline (2)", "baseline again (2)"),
    ]
    assert rows["d"]["steps"] == 2 and rows["d"]["times"] > 0
    assert list(record["runs"]) == ["seed", "seed (2)", "seed with d"]
    assert record["runs"]["seed with d"]["flags"]["overlap_grad_reduce"] == "false"
    assert "b: out of memory in time" in capsys.readouterr().out


def test_a_start_that_is_cut_keeps_what_it_measured(
    fake: Callable[..., Any], tmp_path: Path
) -> None:
    fake((12, "hangs"))
    record = go(tmp_path, "--limit", "3", code=1)
    rows = record["rows"]
    assert rows["a"]["steps"] == 3 and rows["b"]["steps"] == 2
    assert rows["b"]["ended"] == "cut: time limit in time" and rows["c"]["ended"] == "not reached"


def test_a_loss_that_moves_fails(fake: Callable[..., Any], tmp_path: Path) -> None:
    fake((21, "wrong"))
    rows = go(tmp_path, code=1)["rows"]
    assert "a: a loss is off ln 2 by 0.0568528, more than 0.001" in figures.wrong(rows)


def test_results_of_callbacks_go_to_the_rows(tmp_path: Path) -> None:
    base = Choice(baseline=Variant(name=BASELINE), variants=(), starts=())
    segments = ablation_steps.lay_out(base, Count(steps=1, warm_up=1, first=1))
    row = {"step": 1, "seconds": 1.0, "tokens": 4, "squares": 4, "sequences": 1}
    rank = [{**row, "step": n, "allocated": 1, "reserved": 1} for n in (1, 2)]
    who = {"world": 1, "tp": 0, "pp": 0, "cp": 0}
    seen = Ranks(who=[who], rows=[rank])
    callback_rows = [
        {"name": BASELINE, "kind": "profile", "rank": 1, "busy_ms": 2.0, "top": []},
        {"name": BASELINE, "kind": "profile", "rank": 0, "busy_ms": 1.0, "top": [["k", 1.0, 2]]},
        {"name": BASELINE, "kind": "refused", "rank": 0, "why": "no"},
        {"name": "gone", "kind": "refused", "rank": 0, "why": "no"},
    ]
    found = figures.rows(seen, [], callback_rows, segments)[BASELINE]
    assert [each["rank"] for each in found["profiles"]] == [0, 1]
    assert "top" in found["profiles"][0] and "top" not in found["profiles"][1]
    assert found["refused"] == "no" and found["grad_norm"] is None


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["--against", FOUR.replace("seed:", "b:")], "2 profiles; write one --profile"),
        (["--only", "x"], "x is not in the file"),
        (["--steps", "0"], "must be 1 or more"),
        (["--gpus", "8"], "this host has 4 GPUs"),
    ],
)
def test_what_can_not_be_measured_is_refused_before_anything_is_written(
    fake: Callable[..., Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: Sequence[str],
    cause: str,
) -> None:
    common = ["--variants", str(tmp_path / "variants.yaml"), "--profile", FOUR, *words]
    assert command.main([str(tmp_path), str(tmp_path / "results"), *common]) == 2
    assert cause in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_all_starts_of_the_list_can_be_had_on_four_gpus(tmp_path: Path) -> None:
    tuned = "values/a100-2node.yaml,values/hardware/h200-4.yaml"
    words = ["t", str(tmp_path), "--profile", f"{tuned},global_batch_size=4", "--with-starts"]
    prepared = command.prepare(command.arguments(words), {"gpus": H200}, 0.0)
    assert len(prepared.choice.starts) > 5
    one = "expert_model_parallel_size=1,recompute_num_layers=4,global_batch_size=2"
    alone = ["t", str(tmp_path), "--profile", f"{tuned},{one}", "--layers", "8", "--experts", "32"]
    command.prepare(command.arguments([*alone, "--gpus", "1"]), {"gpus": H200}, 0.0)


def test_the_step_that_did_not_end_says_which_variant_it_was(tmp_path: Path) -> None:
    segments = lay_out(VARIANTS, tmp_path)
    names = [ablation_run.failed(segments, complete).name for complete in (0, 5, 9, 20)]
    assert names == [BASELINE, "a", "b", "end"]
