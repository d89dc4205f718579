import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from launchers.config.recipe import Backend
from launchers.plan import plan as planning
from launchers.plan.plan import Job, link_of
from launchers.plan.run_length import Data
from launchers.units import GIB
from scripts.plan import bars, layout_text, screen
from scripts.plan.submission import Submission
from scripts.plan.units import time_text
from scripts.plan.verdict import judge
from scripts.prices import NONE, Prices
from tests.scripts.plan.values import planned


def text(release: Submission, job: Job, prices: Prices = NONE) -> str:
    out = io.StringIO()
    plan = planning.build(job)
    Console(file=out, width=80).print(screen.show(release, plan, judge(release, plan), prices))
    return out.getvalue()


def shown_of(*sets: str) -> str:
    release, plan = planned(*sets)
    return text(release, plan.job)


def test_the_bar_of_memory_has_a_place_for_each_part() -> None:
    items = {"weights": 10.0, "gradients": 20.0, "optimizer": 30.0}
    bar = bars.itemised(items, 80.0, 40)
    assert bar.plain == "█" * 30 + "░" * 10
    assert [span.end - span.start for span in bar.spans] == [5, 10, 15, 10]


def test_the_cost_is_that_of_the_users_own_prices() -> None:
    release, plan = planned()
    job = replace(plan.job, data=Data(pairs=40_000, tokens=2048, source="test"))
    run = planning.build(job).duration
    assert run is not None
    shown = text(release, job, Prices(currency="EUR", gpu_hour={"a100-80g": 2.0}))
    found = re.search(r"cost: ([\d.,]+) EUR; ([\d.,]+) EUR an epoch, ([\d.]+) EUR per", shown)
    assert found is not None
    whole, epoch, thousand = (float(each.replace(",", "")) for each in found.groups())
    assert whole == pytest.approx(2 * run.gpu_hours, abs=0.01)
    assert epoch == pytest.approx(40 * thousand, rel=0.02)
    assert "cost:" not in text(release, job, Prices(currency="EUR", gpu_hour={"h200": 2.0}))


@pytest.mark.parametrize(("used", "colour"), [(50, "green"), (95, "yellow"), (120, "red")])
def test_a_full_bar_changes_its_colour(used: float, colour: str) -> None:
    bar = bars.plain(used, 100.0, 20)
    assert len(bar) == 20
    assert bar.spans[0].style == colour


def test_the_parts_sum_up_to_what_the_bar_says() -> None:
    _release, plan = planned()
    assert plan.memory is not None
    assert sum(bars.items_of(plan.memory).values()) == pytest.approx(plan.memory.total)


SIZES = ("tensor", "pipeline", "expert")
TP, PP, EP = (f"recipe.args.{each}_model_parallel_size" for each in SIZES)
LAYOUTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "many nodes take a few lines": (
        ("nodes=16",),
        (
            "nodes 0-7, ranks 0-63  stage 0, layers 0-23",
            "nodes 8-15, ranks 64-127  stage 1, layers 24-47",
            "PP over 2, DP over 8, EDP over 8",
        ),
    ),
    "one node has no network": (
        ("nodes=1", f"{TP}=4", f"{EP}=4", "recipe.args.sequence_parallel=true"),
        ("node 0 [0 1 2 3][4 5 6 7]  stages 0-1",),
    ),
    "experts leave their node": ((f"{EP}=16", f"{PP}=1"), ("EP over 2", f"warning: {EP}: 16")),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_layout_is_shown(name: str) -> None:
    sets, wanted = LAYOUTS[name]
    shown = shown_of(*sets)
    assert [each for each in wanted if each not in shown] == [] and len(shown.splitlines()) <= 45
    assert ("across nodes" in shown) is ("nodes=1" not in sets)


def test_a_speed_from_the_chart_is_expected_and_another_is_assumed() -> None:
    _release, plan = planned()
    network_env = {"DPO_NETWORK_TRANSPORT": "NET/OFI", "DPO_NETWORK_FLOOR_GBS": "66.3"}
    job = replace(plan.job, link=link_of(network_env), assumes_link=False)
    assert layout_text.fabric(planning.build(job)) == "NET/OFI, 78 GB/s expected"
    job = replace(plan.job, link=link_of({"NCCL_NET": "Socket"}), assumes_link=True)
    assert layout_text.fabric(planning.build(job)) == "NET/Socket, 2.5 GB/s assumed"


def test_without_a_gpu_model_the_plan_does_not_say_that_it_fits() -> None:
    release, plan = planned()
    shown = text(release, replace(plan.job, gpu_model=""))
    assert "accepted, memory unknown" in shown
    assert "GiB a GPU, predicted; the GPU model is unknown" in shown


def test_work_lost_and_checkpoints_without_limit_are_warnings() -> None:
    shown = shown_of("recipe.args.save_total_limit=null", "recipe.args.save_steps=500")
    assert "warning: every checkpoint is kept, 244 GB each" in shown
    assert "recipe.args.save_steps" in shown
    assert "without limit for the model, all checkpoints" in shown


def test_a_grace_period_too_short_for_a_save_is_a_warning() -> None:
    release, plan = planned()
    assert plan.stop_seconds is not None
    [doubt] = [w for w in judge(release, plan).warnings if "terminationGracePeriodSeconds" in w]
    assert f"a step and a save take {time_text(plan.stop_seconds)} (predicted)" in doubt
    enough = int(re.findall(r"raise it to (\d+)", doubt)[0])
    for seconds, warned in ((enough, False), (plan.stop_seconds + 9, True)):
        given = replace(release, grace_seconds=seconds)
        assert any("GracePeriod" in line for line in judge(given, plan).warnings) is warned
    shown = text(release, plan.job)
    assert "every 9 min; an interruption loses at most 15 min" in shown
    assert "a save stops training for 3.1 s (assumed), 0.5% of the time" in shown
    assert "a save takes 5 min at 0.8 GB/s (assumed); SIGTERM leaves" in shown


@pytest.mark.parametrize(
    ("merge", "size", "merged", "needed"),
    [
        # the adapter's safetensors, 0.8 GB, are written with the last one alone, or with each
        ("null", 2.6, "a merged model of 61 GB with the last one", "131 GB for the models"),
        ("true", 3.4, "a merged model of 61 GB with each", "254 GB for the models"),
        ("false", 2.6, "not merged, the export is the adapter", "70 GB for the model,"),
    ],
)
def test_an_adapters_checkpoints_and_its_merged_models(
    merge: str, size: float, merged: str, needed: str
) -> None:
    given = ("recipe.args.tuner_type=lora", "recipe.args.save_steps=100")
    shown = shown_of(*given, f"recipe.args.merge_lora={merge}")
    assert f"checkpoint of {size} GB every 100 steps" in shown
    assert f"of the adapter; {merged}" in shown
    assert f"claim training: {needed}" in shown
    assert "adapter" not in shown_of()


def test_models_that_are_merged_with_every_save_count_in_what_is_said_of_them() -> None:
    both = ("recipe.args.tuner_type=lora", "recipe.args.merge_lora=true")
    more = ("recipe.args.save_total_limit=null", "recipe.args.save_steps=9")
    assert "every checkpoint is kept, 64 GB each" in shown_of(*both, *more)
    release, plan = planned(*both)
    (refusal,) = judge(replace(release, workspace_size=2e11), plan).refusals
    assert "needs 254 GB and the claim has 200 GB" in refusal
    assert refusal.endswith("or remove recipe.args.merge_lora [plan-workspace-size]")


@pytest.mark.parametrize(("size", "warns"), [("100Gi", True), ("300Gi", False), ("", False)])
def test_a_nodes_disk_that_is_too_small_for_two_checkpoints_is_a_warning(
    size: str, warns: bool
) -> None:
    disk = f"emptyDir.sizeLimit={size}" if size else "hostPath.path=/x"
    release, plan = planned(f"localCheckpoints.{disk}")
    found = [line for line in judge(release, plan).warnings if "nodes' disks" in line]
    assert bool(found) == warns
    if found:
        assert "a node needs 258 GB" in found[0]


def test_a_nodes_disk_is_not_used_without_the_optimizers_state() -> None:
    release, plan = planned("localCheckpoints.hostPath.path=/x", "recipe.args.no_save_optim=true")
    assert any("localCheckpoints is not used" in line for line in judge(release, plan).warnings)


def test_memory_within_the_predictions_error_is_a_warning() -> None:
    release, plan = planned()
    assert plan.memory is not None and plan.gpu is not None
    total = plan.memory.total
    tight, wide, over = (
        judge(release, replace(plan, gpu=replace(plan.gpu, memory_gib=each)))
        for each in (total + 1, total * 1.1, total - 1)
    )
    assert any("memory is tight: 1.0 GiB free" in line for line in tight.warnings)
    assert not any("tight" in line for line in wide.warnings)
    assert over.is_too_big


def test_host_memory_within_its_error_or_short_of_queued_files_is_a_warning() -> None:
    release, plan = planned()
    assert plan.memory is not None
    need, queued = plan.memory.host, plan.memory.host_queued
    cases = ((1.14, "is within its error"), (1.16, ""), (0, "lack where"), (-1, "refused"))
    for gib, said in cases:
        limit = gib * need if gib > 0 else need - queued / 2 + gib * queued
        pod = replace(release.pod, memory=limit * GIB)
        verdict = judge(replace(release, pod=pod), plan)
        tight = [line for line in verdict.warnings if "host memory is tight" in line]
        assert all(said in line for line in tight) and bool(tight) is (said not in ("", "refused"))
        assert verdict.is_too_big is (said == "refused")


@pytest.mark.parametrize(
    ("backend", "flag", "trained"),
    [
        ("megatron", "", "full"),
        ("megatron", "tuner_type=lora", "lora"),
        ("megatron", "adapters=/workspace/adapter", "lora"),
        ("transformers", "", "lora"),
        ("transformers", "tuner_type=adalora", "adalora"),
        ("transformers", "tuner_type=full", "full"),
    ],
)
def test_the_title_says_what_the_backend_trains(backend: Backend, flag: str, trained: str) -> None:
    release, plan = planned()
    name, _, word = flag.partition("=")
    recipe = replace(release.recipe, backend=backend, args={name: word} if flag else {})
    shown = text(replace(release, recipe=recipe), plan.job)
    assert f": DPO ({trained}) of Qwen3" in shown.splitlines()[0]


def test_a_commit_is_no_moving_source() -> None:
    release, plan = planned()
    assert any("recipe.model, code.ref may change" in w for w in judge(release, plan).warnings)
    pinned = planned("recipe.model=hf://Qwen/Qwen3-30B-A3B@9c925d64", "code.ref=9c925d64")
    assert not any("may change" in line for line in judge(*pinned).warnings)
