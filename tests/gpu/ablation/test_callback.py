"""The ablation's callback, with torch on CPU and a stub of ms-swift's trainer."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts.helm import ROOT
from scripts.local.runner import training_python
from tests.gpu.ablation import steps as ablation_steps
from tests.gpu.ablation.plan import BASELINE, Choice, Variant
from tests.gpu.ablation.steps import Count

ONE = Count(steps=1, warm_up=1, first=1)


def train(folder: Path, *variants: Variant, profile: bool) -> tuple[dict[str, Any], list[Any]]:
    """Return the state of each segment's first step, and the rows of the callback."""
    base = Variant(name=BASELINE, profile=profile)
    segments = ablation_steps.lay_out(Choice(baseline=base, variants=variants, starts=()), ONE)
    env = {
        **os.environ,
        "ABLATION": ablation_steps.write(segments),
        "ABLATION_BUSES": "",
        "PROBE": str(folder),
        "PYTHONPATH": str(ROOT),
        "LOCAL_RANK": "0",
        "OMP_NUM_THREADS": "1",
    }
    env.pop("NVTE_USE_CUTLASS_GROUPED_GEMM", None)
    steps = str(segments[-1].last)
    command = [str(training_python(ROOT)), "-m", "tests.gpu.ablation.fake_trainer", steps]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    path = folder / "ablation-0.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    last = {
        each.name if each.role == "time" else each.role: seen[each.last - 1] for each in segments
    }
    return last | {f"{each.name}/begin": seen[each.first - 1] for each in segments}, rows


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[Any]]:
    return train(
        tmp_path_factory.mktemp("whole"),
        Variant(name="router", state={"config": {"moe_router_fusion": False}}),
        Variant(
            name="kept",
            state={"config": {"recompute_num_layers": 12}, "env": {"NVTE_FLASH_ATTN": "1"}},
            keep=True,
        ),
        Variant(name="act", state={"modules": {"activation_recompute": True}}, trace=True),
        Variant(name="nan", state={"ddp": {"check_for_nan_in_grad": False}}),
        Variant(name="cutlass", state={"env": {"NVTE_USE_CUTLASS_GROUPED_GEMM": "0"}}),
        Variant(name="off", state={"gc": "off"}),
        Variant(name="frozen", state={"gc": "frozen"}),
        Variant(name="pin", state={"pin": "share", "tf32": True}),
        Variant(name="permute", state={"config": {"moe_permute_fusion": False}}),
        Variant(
            name="absent", state={"config": {"moe_router_fusion": 0, "apply_rope_fusion": True}}
        ),
        profile=True,
    )


def test_each_variant_is_switched_on_all_that_has_it(whole: Any) -> None:
    last, _ = whole
    assert last["router"]["router"] == [False, False]  # the trainer's and a layer's own copy
    assert last["act"]["moe_act"] == [True, True]
    assert last["nan"]["nan"] == [False, False]  # of the model and of its groups of buckets
    assert last["cutlass"]["cutlass"] == "0"
    assert not last["off"]["gc"] and last["frozen"]["frozen"] and last["frozen"]["gc"]
    assert last["kept/begin"]["attention"] is None  # the attention backend is selected again
    assert last["router/begin"]["attention"] == last["kept"]["attention"] == "of the last step"
    assert last["pin"]["tf32"]
    assert last["permute"]["device"] == "cpu"


def test_what_is_not_kept_is_undone(whole: Any) -> None:
    last, _ = whole
    assert last["kept"]["router"] == [True, True]
    assert last["act"]["layers"] == 12 and last["act"]["flash"] == "1"
    assert last["nan"]["moe_act"] == [False, False]
    plain = {key: value for key, value in last["baseline"].items() if key not in ("calls",)}
    again = {key: value for key, value in last["baseline again"].items() if key not in ("calls",)}
    assert plain["sync"] == "before_finish"
    assert plain == again and plain["layers"] == 36 and plain["device"] == "cuda"


def test_memory_is_given_back_and_its_peaks_reset_at_a_switch_only(whole: Any) -> None:
    last, _ = whole
    given = ["synchronize", "empty_cache", "reset_peak_memory_stats"]
    assert last["router/begin"]["calls"] == given
    assert last["router"]["calls"] == []


def test_a_missing_part_of_the_model_is_reported_and_nothing_is_switched(whole: Any) -> None:
    last, rows = whole
    refused = [row for row in rows if row["kind"] == "refused"]
    assert [(row["name"], row["why"]) for row in refused] == [
        ("absent", "nothing of this model has apply_rope_fusion")
    ]
    assert last["absent"]["router"] == [True, True]
    assert last["absent"]["layers"] == 36  # not even what was kept: the row says so


def test_profiles_come_after_all_that_is_timed(whole: Any, tmp_path: Path) -> None:
    last, rows = whole
    assert last["profile"]["profiled"] and last["trace"]["profiled"]
    assert not last["baseline again"]["profiled"] and not last["end"]["profiled"]
    kinds = [(row["kind"], row["name"], row["role"]) for row in rows if row["kind"] != "refused"]
    assert kinds == [("profile", BASELINE, "profile"), ("trace", "act", "trace")]
    assert rows[-1]["file"] == "trace-act.json.gz" and rows[-1]["bytes"] > 500
    assert last["trace"]["moe_act"] == [True, True]
