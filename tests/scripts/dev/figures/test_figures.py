"""The tables of values/FIGURES.md hold what is predicted and measured now."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from launchers.units import GIB
from scripts.dev import results as raw_results
from scripts.dev.figures import learning, measured, table
from scripts.dev.figures.__main__ import PAGE, page
from scripts.dev.figures.markdown import filled
from scripts.dev.figures.predicted import BASE, HARDWARE, predictions
from scripts.helm import ROOT, template
from scripts.plan.submission import read_submission
from scripts.problem import Problem

FIGURES: dict[str, Any] = {
    "profile": {"files": ["values/a100-2node.yaml", "values/hardware/h200-4.yaml"]},
    "flags": {"global_batch_size": "32", "micro_batch_size": "1"},
    "seconds": {"median": 10.25, "p95": 11.5},
    "tokens_per_second_per_gpu": {"median": 7504.4, "mad": 40.0},
    "first_loss": {"first": 0.69314718, "ok": True},
}
FIGURES |= {"steps": 30, "world": 4, "mfu": 0.2123, "reserved_gib": 121.44}
FIGURES["load_balancing_loss"] = 1.0123
ABOUT = {"when": "2026-11-22T18:47:27+00:00", "gpus": ["NVIDIA H200, 580.1"] * 4, "card": "h200"}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    slow = {**FIGURES, "tokens_per_second_per_gpu": {"median": 1500.0, "mad": 9.0}}
    slow["profile"] = {"files": ["tests/bench/baselines/seed.yaml"]}
    runs = {"tuned": FIGURES, "seed": slow, "cut": {"skipped": "no time left"}}
    record = {**ABOUT, "layers": 48, "against": "seed", "runs": runs}
    raw_results.put(tmp_path, "bench-ab", record)
    few = {**ABOUT, "layers": 8, "against": None, "runs": {"tuned": FIGURES}}
    raw_results.put(tmp_path, "bench-few", few)
    return tmp_path


def test_the_readme_holds_the_figures_of_now() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, predictions(), measured.runs()) == text, "run `make figures`"


def test_every_profile_is_in_the_table_and_each_gpu_model_but_one_has_all_counts() -> None:
    assert {row.file for row in predictions()} == {BASE, *HARDWARE.glob("*.yaml")}
    wanted = dict.fromkeys(("h200", "b200"), [1, 2, 4, 8, 16])
    wanted |= dict.fromkeys(("a100-80g", "a800-80g", "h100-80g"), [2, 4, 8, 16])
    for gpu_model, counts in wanted.items():
        assert [row.gpus for row in predictions() if row.gpu_model == gpu_model] == counts


@pytest.mark.parametrize("file", [BASE, *sorted(HARDWARE.glob("*.yaml"))], ids=lambda f: f.stem)
def test_a_pods_memory_leaves_a_tenth_above_the_prediction(file: Path) -> None:
    row = next(row for row in predictions() if row.file == file)
    limit = read_submission(template("figures", row.files)).pod.memory
    assert row.plan.memory is not None and limit is not None
    assert row.plan.memory.host <= 0.9 * limit / GIB


def test_a_layer_of_fewer_experts_is_not_the_whole_model(tmp_path: Path) -> None:
    record = {**ABOUT, "layers": 48, "experts": 32, "runs": {"tuned": FIGURES}}
    raw_results.put(tmp_path, "bench-part", record)
    runs = measured.runs(tmp_path)
    assert measured.best(runs, gpu_model="h200", gpus=4, file=HARDWARE / "h200-4.yaml") is None
    assert "| 48, 32 experts |" in table.ran(runs)


def test_a_measured_run_is_in_the_row_of_its_profile(results: Path) -> None:
    runs = measured.runs(results)
    names = [("tuned", "bench-ab"), ("seed", "bench-ab"), ("tuned", "bench-few")]
    assert [(run.name, run.result) for run in runs] == names
    lines = table.predicted(predictions(), runs).splitlines()
    (line,) = [line for line in lines if "7,500 with 32 packs, 121.4 GiB" in line]
    assert "`hardware/h200-4.yaml`" in line
    first, second, third = table.ran(runs).splitlines()[2:]
    assert "| 5.00 x |" in first and "| 0.693147 |" in first and "| 10.25, 11.50 |" in first
    assert second.startswith("| seed |") and second.endswith("|  |")
    assert "| 8 | 4 h200 |" in third


def test_runs_of_fewer_layers_are_not_the_profile(results: Path) -> None:
    raw_results.put(results, "bench-ab", {**ABOUT, "runs": {}})
    (row,) = [row for row in predictions() if (row.gpu_model, row.gpus) == ("h200", 4)]
    found = measured.best(measured.runs(results), gpu_model="h200", gpus=4, file=row.file)
    assert found is None


def split_results(folder: Path) -> None:
    """Write the results of the lines that separate flags from code."""

    def run(rate: float, **more: Any) -> dict[str, Any]:
        overall = {"tokens_per_second_per_gpu": rate, "mfu": 0.25}
        return {**FIGURES, "steps": 10, "overall": overall, **more}

    bare = {"profile": {**FIGURES["profile"], "kept": []}, "reference": "online"}
    cost = {"over_one_epoch": 9000.0}
    tuned = run(12000.0, reference="precomputed", reference_pass=cost)
    versions = {"transformer-engine": "2.16.1"}
    files = {
        "bench-4gpu-split": {"tuned": tuned, "bare": run(6000.0, **bare)},
        "bench-4gpu-split-seed": {"seed-bare": run(1500.0, **bare)},
        "bench-few": {"few": {**tuned, "steps": 9}},
    }
    for name, runs in files.items():
        record = {**ABOUT, "layers": 48, "against": None, "versions": versions}
        raw_results.put(folder, name, {**record, "runs": runs})


def test_headlines_are_all_tokens_over_all_seconds_with_and_without_the_reference(
    tmp_path: Path,
) -> None:
    split_results(tmp_path)
    text = table.headline(measured.runs(tmp_path))
    seed, tuned, bare = text.splitlines()[2:5]
    assert "| seed-bare |" in seed and "| none |" in seed and "| 1,500 | 1,500 |" in seed
    assert "| 2.16.1 | all |" in tuned and "| 10 | 12,000 | 9,000 | 25.0% |" in tuned
    assert "| none |" in bare and "| 6,000 | 6,000 |" in bare
    assert "few" not in text  # nine steps are not enough
    parts = "Of the 8.0 x speed-up flags give 4.0 x and our code 2.00 x; with the reference's pass "
    assert text.endswith(f"{parts}over one epoch 6.0 x, our code 1.50 x.")


def test_the_readme_of_values_has_the_headline_figures() -> None:
    *_, seed, old, tuned, bare, _, split = table.headline(measured.runs()).splitlines()
    said = " ".join((ROOT / "values" / "README.md").read_text(encoding="utf-8").split())
    assert split in said
    rows = [[cell.strip() for cell in line.split("|")] for line in (seed, old, tuned, bare)]
    (s, _), (o, o_reference), (t, t_reference), (b, _) = ((row[7], row[8]) for row in rows)
    assert f"reaches {t} to {o} tokens/s/GPU, and {t_reference} to {o_reference} with" in said
    assert f"reaches {b} with the same flags and {s} with the seed's." in said


def test_a_split_without_the_seed_says_nothing(tmp_path: Path) -> None:
    split_results(tmp_path)
    raw_results.put(tmp_path, "bench-4gpu-split-seed", {**ABOUT, "runs": {}})
    assert "flags give" not in table.headline(measured.runs(tmp_path))
    assert table.headline([]) == "None yet."


def proof() -> dict[str, Any]:
    """Return a result of ``tests.bench.learning`` with two seeds of both sides."""
    test: dict[str, Any] = {"ours": [0.98, 0.97], "upstream": [0.98, 0.98], "equivalent": True}
    test |= {"mean": -0.005, "low": -0.03, "high": 0.02, "bound": 0.05}
    runs = {}
    for side, seed in product(("ours", "upstream"), (1, 2)):
        log = {"loss": [8.3, 7.0 + seed], "grad_norm": [1.0, 0.9]}
        run = {"side": side, "seed": seed, "finished": True, "log": log}
        runs[f"{side}-{seed}"] = {**run, "after": {"accuracy": 0.98, "margin": 3.0 + seed}}
    tests = {"ours": {"held-out accuracy": test}, "kernels": {}, "control": {}}
    return {
        "when": ABOUT["when"],
        "gpus": ["NVIDIA H200, 580.159.04"] * 4,
        "versions": {"ms-swift": "4.4.1", "transformer-engine": "2.16.1"},
        "runs": runs,
        "judged": {"passed": True, "wrong": [], "tests": tests},
    }


def test_the_proof_of_learning_has_tables(tmp_path: Path) -> None:
    assert learning.newest_first(tmp_path) == [] and learning.summary([]) == "None yet."
    newer = proof() | {"when": "2026-11-24T04:35:40+00:00", "gpus": ["NVIDIA H200, 580.159.04"]}
    newer["judged"]["tests"]["control"] = newer["judged"]["tests"]["ours"]
    raw_results.put(tmp_path, "learning-1gpu", newer)
    raw_results.put(tmp_path, "learning-4gpu", proof())
    records = learning.newest_first(tmp_path)
    assert records == [newer, proof()]
    line = "| held-out accuracy | 0.975 | 0.98 | -0.0050, -0.0300 to +0.0200 | 0.05 |"
    first, second = learning.summary(records).split("\n\n2026-11-22, ")
    assert first.startswith("2026-11-24, 1 x NVIDIA H200, ms-swift 4.4.1, ")
    assert first.splitlines()[-1] == f"{line} equivalent | -0.0300 to +0.0200 |"
    assert "| result | control |" in first and "| result |\n" in second
    assert second.splitlines()[-1] == f"{line} equivalent |"


def test_a_readme_without_its_markers_is_reported() -> None:
    with pytest.raises(Problem, match="<!-- predicted -->"):
        filled("no markers", {"predicted": "x"})
