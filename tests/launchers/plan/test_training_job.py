"""Flags that memory and time depend on; the defaults are ms-swift's."""

from typing import Any

import pytest

from launchers.exits import Exit, LaunchError
from launchers.flags import installed
from launchers.plan.training_job import _CHOICES, _FLAGS, _SIZES, Training, parse
from tests.launchers.recipes import plain, recipe
from tests.launchers.training_environment import needs_training, swift_classes


def read(task: str = "rlhf", **args: Any) -> Training:
    return parse(plain(task=task, **args), nodes=1, gpus_per_node=8)


@needs_training
def test_the_defaults_are_those_of_the_installed_ms_swift() -> None:
    known = installed.flags(swift_classes(), "MegatronRLHFArguments")
    seen = read()
    chosen = {field: flag for field, (flag, _) in _CHOICES.items()}
    for field, flag in (dict(zip(_SIZES, _SIZES, strict=True)) | _FLAGS | chosen).items():
        default = known[flag]
        if default is not None:
            assert getattr(seen, field) == default, flag
    assert known["recompute_num_layers"] is None
    assert known["attention_backend"] == seen.attention_backend
    assert known["optimizer_offload_fraction"] == 1.0
    assert known["padding_free"] is True


def test_the_two_node_recipe() -> None:
    training = parse(recipe(), nodes=2, gpus_per_node=8)
    assert (training.layout.world, training.layout.dp, training.layout.edp) == (16, 2, 1)
    assert training.microbatches == 64
    assert (training.recompute, training.recompute_method) == ("full", "uniform")
    assert (training.pairs, training.reference, training.sequence_parallel) == (True, True, True)


@pytest.mark.parametrize(
    ("args", "field", "value"),
    [
        ({"sequence_parallel": True}, "sequence_parallel", False),
        ({"optimizer_cpu_offload": True}, "optimizer_offload", 1.0),
        ({"optimizer_offload_fraction": 0.5}, "optimizer_offload", 0.0),
        ({"tuner_type": "lora"}, "reference", False),
        ({"adapters": ["a"]}, "tuner", "lora"),
        ({"tuner_type": "lora"}, "merges", "last"),
        ({"tuner_type": "lora", "merge_lora": True}, "merges", "every"),
        ({"tuner_type": "lora", "merge_lora": "no"}, "merges", "never"),
        ({"rlhf_type": "kto"}, "pairs", False),
        ({"rlhf_type": "rm"}, "compares", False),
        ({"optimizer": "dist_muon"}, "distributed_optimizer", False),
        ({"packing": True, "packing_length": 4096, "max_length": 2048}, "packing_length", 4096),
        ({"rlhf_type": "rm"}, "head", False),
        ({"main_grads_dtype": "bf16"}, "grad_bytes", 2),
    ],
)
def test_what_follows_from_a_flag(args: dict[str, Any], field: str, value: object) -> None:
    assert getattr(read(**args), field) == value


def test_supervised_training_has_no_reference() -> None:
    training = read(task="sft")
    assert (training.pairs, training.compares, training.reference) == (False, False, False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tensor_model_parallel_size", "0"),
        ("global_batch_size", "many"),
        ("exp_avg_dtype", "int8"),
        ("packing", "perhaps"),
        ("optimizer_offload_fraction", "nan"),
    ],
)
def test_a_wrong_value_names_its_flag(name: str, value: str) -> None:
    args: dict[str, Any] = {name: value}
    with pytest.raises(LaunchError, match=rf'recipe\.args\.{name}: "{value}"; use') as error:
        read(**args)
    assert error.value.code == Exit.CONFIG
