"""The variants of variants.yaml: every line is accepted for its number of GPUs, others are
refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from launchers.config import gpu_models
from launchers.flags import flag_types, installed
from launchers.flags.renames import RENAMED
from launchers.plan import model_config
from launchers.rules import table
from tests.gpu.bench import profiles as bench_profiles
from tests.gpu.bench.shared import Bench
from tests.gpu.model import random_model
from tests.gpu.variants import data
from tests.gpu.variants import plan as variants_plan
from tests.gpu.variants.data import PAIRS
from tests.launchers.training_environment import needs_training, swift_classes


def setting(gpus: int, home: Path = Path("/nowhere")) -> Bench:
    return Bench(
        home=home,
        model=home / "model",
        data=home / "pairs.jsonl",
        model_config=model_config.parse_config(random_model.config(data.MODEL_CONFIG)),
        gpu=gpu_models.GPU_MODELS["h200"],
        gpus=gpus,
        steps=variants_plan.STEPS,
        warm_up=0,
    )


@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_every_line_is_accepted_by_the_launchers_rules(gpus: int) -> None:
    plan = variants_plan.read(gpus)
    variants_plan.refuse(setting(gpus), plan)
    assert plan[0].name == "base" and not plan[0].own_kernels
    layouts = {each.name for each in plan} & {"tp2", "pp2", "ep1"}
    assert len(layouts) == (0 if gpus == 1 else 3)
    for each in plan:
        parsed = bench_profiles.recipe(each.profile.values(), setting(gpus).own_flags)
        assert not table.empty(parsed.args), each.name
        assert parsed.arg("rpo_alpha") == "" and parsed.arg("train_iters") == "2"


@needs_training
def test_every_flag_is_one_of_ms_swifts() -> None:
    classes, entry = swift_classes(), installed.ENTRIES["megatron"]["rlhf"]
    for each in variants_plan.read(2) + variants_plan.read(4):
        args = bench_profiles.recipe(each.profile.values(), setting(2).own_flags).args
        wrong = installed.check_flags(args, installed.flags(classes, entry), RENAMED["megatron"])
        assert wrong + flag_types.check_values(args, installed.types(classes, entry)) == [], (
            each.name
        )


def test_the_steps_of_all_variants_have_all_pairs() -> None:
    """The arithmetic of data.py: a pack's pairs times the packs of a step."""
    least, most = data.LEAST, data.MOST
    for each in variants_plan.read(4):
        args = bench_profiles.recipe(each.profile.values(), setting(4).own_flags).args
        length, batch = args.get("packing_length"), int(str(args["global_batch_size"]))
        packed = args["packing"] == "true"
        in_pack = int(str(length)) // most if packed else 1
        assert in_pack * batch == PAIRS, each.name
        assert not packed or (in_pack + 1) * least > int(str(length)), each.name


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"flag": {}}, "odd.flag is not one of flags, gpus, own_kernels"),
        ({"flags": {"moe_expert_capacity_factor": 1}}, "moe_expert_capacity_factor would hide"),
        (
            {"flags": {"recipe.args.megatron_extra_kwargs.moe_router_force_load_balancing": True}},
            "moe_router_force_load_balancing would hide",
        ),
        ({"flags": {"tensor_model_parallel_size": 3}}, "are not a multiple of"),
    ],
)
def test_a_line_that_can_not_be_is_refused(
    line: dict[str, Any], message: str, tmp_path: Path
) -> None:
    plan = yaml.safe_load(variants_plan.FILE.read_text(encoding="utf-8"))
    plan["files"] = [str((variants_plan.FILE.parent / each).resolve()) for each in plan["files"]]
    plan["variants"]["odd"] = line
    file = tmp_path / "variants.yaml"
    file.write_text(yaml.safe_dump(plan, sort_keys=False), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        variants_plan.refuse(setting(2), variants_plan.read(2, ["odd"], file))


def test_unknown_names_and_hosts_are_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="has no variant tp3; it has base, online"):
        variants_plan.read(2, ["tp3"])
    with pytest.raises(ValueError, match="tp2 can't run on 1 GPUs; leave it out"):
        variants_plan.read(1, ["tp2"])
    with pytest.raises(ValueError, match="for hosts of 1, 2, 4 GPUs, and this one has 0"):
        variants_plan.read(0)
    assert [each.name for each in variants_plan.read(2, ["tp2"])] == ["base", "tp2"]
