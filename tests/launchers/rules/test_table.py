"""Megatron's arithmetic: defaults are ms-swift's, each rule refuses what its source refuses."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers.config import recipe
from launchers.config.flag_value import Value
from launchers.exits import LaunchError
from launchers.flags import installed
from launchers.flags.command_line import DEFAULTS as LAUNCHERS
from launchers.flags.flag_types import is_number
from launchers.plan.layout import Layout
from launchers.plan.model_config import ModelConfig
from launchers.plan.training_job import Arguments
from launchers.rules import model, table, warnings
from launchers.rules.model import divisors
from tests.launchers.models import load_model_config
from tests.launchers.recipes import plain
from tests.launchers.training_environment import STACK, needs_training, swift_classes

QWEN, DENSE = map(load_model_config, ("Qwen3-30B-A3B", "Qwen3-4B"))
GRPO: dict[str, Any] = {"rlhf_type": "grpo", "reward_funcs": ["accuracy"]}
SHORT = {
    "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size",
    "cp": "context_parallel_size",
    "ep": "expert_model_parallel_size",
    "etp": "expert_tensor_parallel_size",
    "vpp": "virtual_pipeline_model_parallel_size",
    "first": "decoder_first_pipeline_num_layers",
    "gbs": "global_batch_size",
    "last": "decoder_last_pipeline_num_layers",
    "sp": "sequence_parallel",
    "loss_ends": "account_for_loss_in_pipeline_split",
    "modules": "recompute_modules",
    "embedding_ends": "account_for_embedding_in_pipeline_split",
}

OTHER = "transformers"
FULL_RECOMPUTE: dict[str, Any] = {"recompute_granularity": "full", "recompute_method": "uniform"}
FULL_RECOMPUTE |= {"recompute_num_layers": 13}
BF16_GRADIENTS = {"use_precision_aware_optimizer": True, "main_grads_dtype": "bf16"}
GANG = table.Context(model_config=QWEN, nodes=2, gpus_per_node=8, backend="megatron")
ONE = table.Context(model_config=None, nodes=1, gpus_per_node=1, backend=OTHER)


def read(**args: Any) -> dict[str, Any]:
    """Return flags as the recipe has them; some have short names here."""
    flags = {SHORT.get(name, name): value for name, value in args.items()}
    return dict(plain(**{"num_train_epochs": 1, **flags}).args)


def reported(
    model_config: ModelConfig | None = QWEN, nodes: int = 2, core: str = table.CORE, **args: Any
) -> list[str]:
    context = replace(GANG, model_config=model_config, nodes=nodes, core=core)
    return [refusal.id for refusal in table.check(read(**args), context)]


def warned(model_config: ModelConfig | None = QWEN, nodes: int = 2, **args: Any) -> list[str]:
    context = replace(GANG, model_config=model_config, nodes=nodes)
    return [refusal.id for refusal in table.warn(read(**args), context)]


NO_WARM_UP = {("warmup_ratio", "0"), ("warmup_ratio", "0.0")}
"""Default from ms-swift 4.5.3 on, where 4.4.1 has None: both mean no warm-up."""


@needs_training
@pytest.mark.parametrize("backend", ["megatron", "transformers"])
def test_the_defaults_are_those_of_the_pinned_ms_swift(backend: str) -> None:
    real = installed.flags(swift_classes(), installed.ENTRIES[backend]["rlhf"])
    rows = (*table.rows(backend, STACK.swift), *table.UNWISE[backend])
    names = {name for row in rows for name in row.flags()} - set(LAUNCHERS)
    assert names <= set(real)
    set_there = {n: str(real[n]) for n in names if real[n] is not None and real[n] is not False}
    set_there = {n: text for n, text in set_there.items() if (n, text) not in NO_WARM_UP}
    lowered = {n: text.lower() if text == "True" else text for n, text in set_there.items()}
    known = {name: text for name, text in table.DEFAULTS[backend].items() if name in names}
    assert {n: _number(t) for n, t in known.items()} == {n: _number(t) for n, t in lowered.items()}


def _number(text: str) -> float | str:
    """Return a number's value: a release may write 32, another 32.0."""
    return float(text) if is_number(text) else text


@pytest.mark.parametrize(
    ("swift", "ids"),
    [
        ("4.4.1", ["reference-adapter"]),
        ("4.4.2", ["reference-adapter"]),
        ("4.5.3", ["megatron-fsdp"]),
        ("4.6.0.dev0", ["megatron-fsdp"]),
        ("4.6.0", ["megatron-fsdp"]),
    ],
)
def test_a_rule_holds_for_the_releases_that_need_it(swift: str, ids: list[str]) -> None:
    args = read(ref_adapters=["/a"], tuner_type="lora", use_megatron_fsdp=True)
    found = table.check(args, replace(GANG, model_config=None, swift=swift))
    assert [refusal.id for refusal in found] == ids


ADAPTER, SAME = {"adapters": ["/a"]}, {"ref_adapters": ["/a"]}


@pytest.mark.parametrize(
    ("backend", "swift", "args", "remedy"),
    [
        ("megatron", "4.6.0", ADAPTER, "set ref_adapters to the same adapter"),
        ("megatron", "4.6.0", {"mcore_adapter": "/a"}, "set mcore_ref_adapter to the same"),
        ("transformers", "4.6.0", ADAPTER | {"rlhf_type": "ppo"}, "; merge it into recipe.model"),
        ("transformers", "4.6.0", ADAPTER | GRPO, "set ref_adapters to the same"),
        ("megatron", "4.6.0", ADAPTER | SAME, ""),
        ("megatron", "4.6.0", {"mcore_adapter": "/a", "mcore_ref_adapter": "/a"}, ""),
        ("transformers", "4.4.1", ADAPTER | SAME, ""),
        ("transformers", "4.4.1", ADAPTER | {"rlhf_type": "orpo"}, ""),
        ("megatron", "4.4.1", ADAPTER | {"reference_free": True}, ""),
    ],
)
def test_an_adapter_is_not_continued_against_the_base_model(
    backend: str, swift: str, args: dict[str, Any], remedy: str
) -> None:
    gang = replace(GANG, model_config=None, backend=backend, swift=swift)
    found = table.check(read(**args, tuner_type="lora"), gang)
    assert [refusal.id for refusal in found] == ["adapter-base-reference"] * bool(remedy)
    assert all(remedy in refusal.says for refusal in found)
    base_is_meant = replace(gang, own={**gang.own, recipe.ADAPTER_REFERENCE: "base"})
    assert table.check(read(**args, tuner_type="lora"), base_is_meant) == []


def test_every_rule_names_its_source_once() -> None:
    for rows in (*table.ROWS.values(), *table.UNWISE.values()):
        assert len(set(rows)) == len(rows)
        assert all(row.source for row in rows)
    for function in (*model.MODEL, *warnings.MODEL, *warnings.PLAIN):
        assert "MC " in str(function.__doc__) or len(str(function.__doc__)) > 40, function


FIT: list[dict[str, Any]] = [
    {"tp": 4, "pp": 2, "ep": 8, "sp": True, "gbs": 128},
    {"tp": 8, "ep": 2, "sp": True, "pp": 2},  # kv heads are replicated
    {"pp": 2, "ep": 8, "vpp": 4, "gbs": 16},
    {"pp": 4, "first": 9, "gbs": 16},
    {"pp": 4, "first": 11, "last": 13, "gbs": 16},
    {"pp": 2, "first": 25, "gbs": 16},
    {"pp": 2, "first": 20, "last": 28},
    {"tp": 4, "etp": 4, "ep": 4, "sp": True},
    {"pp": 2, "modules": ["core_attn", "moe_act", "mlp"]},
    {"megatron_extra_kwargs": {"num_layers": 7}, "pp": 2},
    {"pp": 4, "pipeline_model_parallel_layout": "Et*12|t*12|t*12|t*12L"},
]


@pytest.mark.parametrize("args", FIT, ids=str)
def test_what_fits_passes(args: dict[str, Any]) -> None:
    assert reported(**args) == []


BROKEN = [
    ({"pp": 4, "first": 10}, "pipeline-uneven", "48 layers less 10 "),
    ({"pp": 2, "first": 20, "last": 27}, "pipeline-uneven", "48 layers less 47 "),
    ({"pp": 4, "first": 24, "last": 24}, "pipeline-uneven", ""),
    ({"pp": 4, "loss_ends": True}, "pipeline-uneven", "48 layers plus 1 "),
    ({"pp": 4, "vpp": 2, "first": 9}, "vpp-uneven", ""),
    ({"fp16": True}, "fp16-bf16-model", ""),
]


@pytest.mark.parametrize("args, id, counted", BROKEN, ids=str)
def test_what_the_models_sizes_rule_out_is_reported(
    args: dict[str, Any], id: str, counted: str
) -> None:
    found = table.check(read(**args), GANG)
    assert any(counted in refusal.says for refusal in found if refusal.id == id), found


def test_one_mistake_is_reported_once() -> None:
    assert reported(tp=2, ep=2) == ["moe-sequence-parallel"]
    assert reported(None, tp=2, pp=2) == []  # without the model its rules are silent
    assert reported(tp="four", pp=5, ep=7) == ["size", "world-expert-parallel"]
    six = replace(DENSE, heads=48, kv_heads=6, ffn=9600)
    assert reported(tp=16, sp=True, model_config=six).count("kv-heads") == 1


def test_a_dense_model_needs_less() -> None:
    assert reported(DENSE, tp=2) == []
    assert reported(DENSE, modules=["layernorm"]) == []
    assert "mlp-width" in reported(DENSE, tp=5, nodes=5, gbs=8)
    assert "no-experts" in warned(DENSE, ep=2)


def test_older_cores_recompute_layernorm_with_experts() -> None:
    for core in ("0.16.1", "0.17.0"):
        assert reported(modules=["layernorm"], core=core) == []
    for core in ("0.18.0", "0.18.0rc1", "0.19"):
        extra: dict[str, Any] = {"cuda_graph_scope": []}  # which 0.18 sets to None again
        assert reported(modules=["layernorm"], core=core, megatron_extra_kwargs=extra)


def test_positions_that_the_model_scales_are_not_too_many() -> None:
    scaled = replace(QWEN, scaled_positions=65536)
    assert "length-positions" not in warned(scaled, max_length=65536)
    assert "length-positions" in warned(scaled, max_length=65537)


@pytest.mark.parametrize(
    "args, id",
    [
        ({"sp": True}, "sequence-parallel-tp1"),
        ({"ep": 16}, "experts-across-nodes"),
        ({"tp": 16, "sp": True}, "tensor-across-nodes"),
        ({"pp": 4, "gbs": 8}, "pipeline-bubble"),
        ({"optimizer_cpu_offload": True}, "offload-fp32-weights"),
        ({"optimizer_cpu_offload": True, "adapters": "/a", "rlhf_type": "rm"}, "offload-adapter"),
        ({"optimizer_offload_fraction": 0.5}, "offload-fraction-unused"),
        ({**BF16_GRADIENTS, "gbs": 16 * 65}, "gradients-rounded"),
        ({"overlap_param_gather": True}, "param-gather-bucket"),
        ({"packing": True, "padding_free": False}, "padding-free-packing"),
        ({"max_length": 65536}, "length-positions"),
        ({"cp": 8, "max_length": 4096}, "context-parallel-short"),
        ({"recompute_granularity": "none", "recompute_num_layers": 1}, "recompute-none-flags"),
        ({"moe_expert_capacity_factor": 1.5}, "capacity-drops-tokens"),
        ({"moe_aux_loss_coeff": 1}, "balance-large"),
        ({"moe_z_loss_coeff": 1}, "balance-large"),
        ({"lr": 0}, "rate-zero"),
        ({"lr": 0.05}, "rate-large"),
        ({"beta": 100}, "beta-large"),
        ({"rpo_alpha": 100}, "rpo-large"),
        ({"no_save_optim": True}, "save-only-model"),
        ({"split_dataset_ratio": 0.9}, "split-large"),
        ({"truncation_strategy": "right"}, "truncation-right"),
        ({"megatron_extra_kwargs": '{"moe_router_topk": 4}'}, "architecture-overridden"),
        ({"ddp_timeout": 18000000}, "ddp-timeout-long"),
        ({**FULL_RECOMPUTE, "pp": 4, "gbs": 16}, "recompute-layers-many"),
    ],
    ids=lambda v: str(v)[:40],
)
def test_what_works_but_is_unwise_is_a_warning(args: dict[str, Any], id: str) -> None:
    assert reported(**args) == []
    assert id in warned(**args)


@pytest.mark.parametrize("change", [{"gbs": 16 * 64}, {"main_grads_dtype": "fp32", "gbs": 16 * 65}])
def test_gradients_are_summed_exactly_enough(change: dict[str, Any]) -> None:
    args = {**BF16_GRADIENTS, **change}
    assert reported(**args) == []
    assert "gradients-rounded" not in warned(**args)


@pytest.mark.parametrize(
    ("args", "ids"),
    [
        ({"load_best_model_at_end": "true"}, ["best-model-not-exported"]),
        ({"load_best_model_at_end": "true", "save_total_limit": "2"}, ["best-model-not-exported"]),
        ({"load_best_model_at_end": "true", "save_total_limit": "1"}, []),
        ({"load_best_model_at_end": "false"}, []),
        ({"save_only_model": "true"}, ["save-only-model"]),
    ],
)
def test_on_transformers_too(args: dict[str, Value], ids: list[str]) -> None:
    assert [warning.id for warning in table.warn(args, ONE)] == ids
    assert table.check(args, ONE) == [] or not ids


def test_the_two_node_run_is_neither_wrong_nor_unwise() -> None:
    args = FIT[0] | {"optimizer_cpu_offload": True, "use_precision_aware_optimizer": True}
    assert reported(**args) == warned(**args) == []


@given(
    tp=st.sampled_from(divisors(32)),
    pp=st.sampled_from(divisors(48)),
    ep=st.sampled_from(divisors(128)),
    nodes=st.integers(1, 64),
)
def test_what_divides_is_never_refused_for_the_model(tp: int, pp: int, ep: int, nodes: int) -> None:
    """Whatever divides the model's sizes is left to the rules of the gang."""
    found = reported(tp=tp, pp=pp, ep=ep, sp=True, nodes=nodes)
    assert not {"tp-heads", "kv-heads", "mlp-width", "expert-count", "pipeline-uneven"} & set(found)
    worlds = {"world-model-parallel", "world-expert-parallel"} & set(found)
    assert bool(worlds) == bool(nodes * 8 % (tp * pp) or nodes * 8 % (ep * pp))


@given(layers=st.integers(1, 99), pp=st.integers(2, 12), first=st.integers(1, 40))
def test_stages_are_spread_as_the_layout_counts_them(layers: int, pp: int, first: int) -> None:
    model_config = replace(DENSE, layers=layers)
    refused = "pipeline-uneven" in reported(model_config, nodes=pp, pp=pp, first=first, gbs=8)
    layout = Layout(nodes=pp, gpus_per_node=8, pp=pp, first_layers=first)
    try:
        held = layout.stage_layers(layers)
    except LaunchError:
        assert refused
    else:
        assert refused == (0 in held)


@pytest.mark.parametrize(
    "registrar", ["external_plugins", "custom_register_path", "custom_dataset_info"]
)
def test_a_name_that_the_users_code_registers_is_no_file(registrar: str) -> None:
    assert reported(val_dataset="mine") == ["val-dataset-remote"]
    registered: dict[str, Any] = {registrar: ["/opt/mine"]}
    assert reported(val_dataset="mine", **registered) == []
    # ms-swift opens a cached dataset as a folder, even if one of that name is registered
    for flag in ("cached_dataset", "cached_val_dataset"):
        cached: dict[str, Any] = {**registered, flag: "mine"}
        assert reported(**cached) == ["cached-dataset-remote"]


@pytest.mark.parametrize("text", ["on", "off", "maybe", "true false"])
def test_launcher_and_plan_and_rules_read_a_switch_alike(text: str) -> None:
    parsed = plain(packing=text)
    for read in (parsed.is_on, lambda name: Arguments(args=parsed.args).flag(name, False)):
        with pytest.raises(LaunchError) as refused:
            read("packing")
        assert refused.value.id in ("flag-switch", "plan-switch")
    assert "lazy-tokenize" not in reported(packing=text, lazy_tokenize=True)
    assert "lazy-tokenize" in reported(packing="Yes", lazy_tokenize=True)


OF_DENSE = replace(DENSE, architecture="Qwen3ForCausalLM")
ONCE = {"packing": True, "recompute_granularity": "full", "attention_backend": "auto"}


@pytest.mark.parametrize(
    ("change", "context", "why"),
    [
        ({}, {}, ""),
        ({"megatron_extra_kwargs": '{"moe_router_fusion": true}'}, {}, ""),
        ({"megatron_extra_kwargs": '{"window_size": 9}'}, {}, "not measured with window_size"),
        ({"cp": 2}, {}, "cannot be combined with context_parallel_size 2"),
        ({"packing": False}, {}, "requires packing: true"),
        ({"pp": 2}, {}, "not measured with pipeline_model_parallel_size 2"),
        ({"tuner_type": "lora"}, {}, "not measured with adapters (their speed alone)"),
        ({"fp8_format": "hybrid"}, {}, "not measured with fp8_format"),
        ({"attention_backend": None}, {}, "not measured with attention_backend flash"),
        ({"streaming": True}, {}, "not measured with streaming"),
        ({}, {"gpu_model": ""}, "not measured with an unknown GPU (set gpuModel)"),
        ({}, {"gpu_model": "a100-80g"}, "not measured with a100-80g"),
        ({}, {"model_config": None}, "not measured with a model of unknown architecture"),
        ({}, {"model_config": DENSE}, "not measured with a model of unknown architecture"),
        ({}, {"backend": OTHER}, "requires backend megatron, not transformers"),
        ({}, {"own": table.PLAIN}, "not measured with recipe.reference: online"),
        ({}, {"model_config": OF_DENSE}, "not measured with Qwen3ForCausalLM"),
    ],
)
def test_prompts_are_computed_once_by_default_where_that_was_measured(
    change: dict[str, Any], context: dict[str, Any], why: str
) -> None:
    own = {**table.PLAIN, recipe.REFERENCE: "precomputed"}
    base = replace(GANG, own=own, gpu_model="h200")
    given = {name: text for name, text in (ONCE | change).items() if text is not None}
    assert table.why_twice(read(**given), replace(base, **context)) == why
