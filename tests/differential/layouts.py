"""Runs drawn for both sides: models, layouts, flags; most of them nearly right."""

from dataclasses import dataclass
from functools import lru_cache
from math import lcm
from typing import Any

from hypothesis import strategies as st

from launchers.yaml_file import read_yaml
from tests.chart.helm import ROOT

MODELS = ROOT / "scripts" / "plan" / "models.yaml"
LARGEST = 512
"""Processes: their code counts every rank, so larger worlds cost much and show nothing new."""
TRANSFORMERS = {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
TRANSFORMERS |= {"qwen3_moe": "Qwen3MoeForCausalLM"}
"""Architectures that need no code of a hub."""


@dataclass(frozen=True, kw_only=True)
class Run:
    config: dict[str, Any]
    """The model's config.json."""
    nodes: int
    gpus: int
    args: dict[str, Any]
    """``recipe.args``."""


@lru_cache(maxsize=1)
def known() -> tuple[dict[str, Any], ...]:
    """Return the known models that can be read without a hub."""
    models = read_yaml(MODELS)
    configs = [models[name] for name in sorted(models)]
    found = [
        {**config, "architectures": [TRANSFORMERS[config["model_type"]]]}
        for config in configs
        if config["model_type"] in TRANSFORMERS
    ]
    assert len(found) > 8
    return tuple(found)


@st.composite
def models(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a known model, or one with other sizes."""
    config = dict(draw(st.sampled_from(known())))
    if draw(st.booleans()):
        return config
    heads = draw(st.sampled_from((2, 6, 8, 12, 24, 32, 40, 64)))
    groups = draw(st.sampled_from([n for n in (1, 2, 3, 4, 8, heads) if heads % n == 0]))
    change = {
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "num_hidden_layers": draw(st.integers(1, 72)),
        "hidden_size": heads * 64,
        "head_dim": 64,
        "intermediate_size": draw(st.sampled_from((768, 1000, 4096, 11008))),
    }
    if "num_experts" in config:
        count = draw(st.sampled_from((4, 6, 16, 60, 64)))
        change |= {"num_experts": count, "num_experts_per_tok": draw(st.integers(1, 4))}
        change["moe_intermediate_size"] = draw(st.sampled_from((96, 770, 1408)))
    return config | change


def maybe(values: st.SearchStrategy[Any], often: int = 3) -> st.SearchStrategy[Any]:
    return st.one_of(*[st.none()] * often, values)


BOOLEAN = st.booleans()
DTYPE = st.sampled_from(("fp32", "fp16", "bf16", "fp8"))
MODULE = st.sampled_from(("core_attn", "mlp", "moe", "moe_act", "layernorm", "shared_experts"))
FLAGS: dict[str, st.SearchStrategy[Any]] = {
    "sequence_parallel": st.sampled_from((True,) * 9 + (False,)),
    "virtual_pipeline_model_parallel_size": maybe(st.integers(1, 6)),
    "decoder_first_pipeline_num_layers": maybe(st.integers(1, 24), 6),
    "decoder_last_pipeline_num_layers": maybe(st.integers(1, 24), 6),
    "account_for_embedding_in_pipeline_split": maybe(BOOLEAN, 8),
    "account_for_loss_in_pipeline_split": maybe(BOOLEAN, 8),
    "microbatch_group_size_per_vp_stage": maybe(st.integers(1, 16), 8),
    "recompute_granularity": maybe(st.sampled_from(("full", "selective", "none"))),
    "recompute_method": maybe(st.sampled_from(("uniform", "block"))),
    "recompute_num_layers": maybe(st.integers(1, 6)),
    "recompute_modules": maybe(st.lists(MODULE, min_size=1, max_size=3, unique=True), 6),
    "optimizer": maybe(st.sampled_from(("adam", "sgd")), 8),
    "use_distributed_optimizer": maybe(BOOLEAN, 8),
    "use_precision_aware_optimizer": maybe(BOOLEAN),
    "optimizer_cpu_offload": maybe(BOOLEAN),
    "optimizer_offload_fraction": maybe(st.sampled_from((0, 0.5, 1, 2, -1)), 6),
    "main_grads_dtype": maybe(st.sampled_from(("fp32", "bf16")), 6),
    "main_params_dtype": maybe(st.sampled_from(("fp32", "fp16")), 6),
    "exp_avg_dtype": maybe(DTYPE, 6),
    "exp_avg_sq_dtype": maybe(DTYPE, 6),
    "save_total_limit": maybe(st.integers(-1, 4)),
    "group_by_length": maybe(BOOLEAN, 6),
    "padding_free": maybe(BOOLEAN, 6),
    "packing": maybe(BOOLEAN),
    "attention_backend": maybe(st.sampled_from(("flash", "fused", "unfused", "auto", "local")), 6),
    "tp_comm_overlap": maybe(BOOLEAN, 8),
    "overlap_grad_reduce": maybe(BOOLEAN, 6),
    "overlap_param_gather": maybe(BOOLEAN, 6),
    "freeze_parameters_ratio": maybe(st.sampled_from((0, 0.5, 1)), 8),
    "moe_token_dispatcher_type": maybe(st.sampled_from(("allgather", "alltoall", "flex")), 6),
    "moe_grouped_gemm": maybe(BOOLEAN, 8),
    "moe_expert_capacity_factor": maybe(st.sampled_from((-1, 0.5, 1, 2)), 8),
    "moe_pad_expert_input_to_capacity": maybe(BOOLEAN, 8),
    "moe_shared_expert_overlap": maybe(BOOLEAN, 8),
    "lr_warmup_fraction": maybe(st.sampled_from((0, 0.05, 1, 1.5)), 6),
    "lr_decay_style": maybe(st.sampled_from(("cosine", "WSD", "constant")), 8),
    "weight_decay_incr_style": maybe(st.sampled_from(("constant", "linear")), 8),
    "bf16": maybe(BOOLEAN, 12),
    "fp16": maybe(BOOLEAN, 12),
    "tuner_type": maybe(st.sampled_from(("full", "lora")), 12),
    "max_length": st.sampled_from((512, 4096)),
}


def near(draw: st.DrawFn, whole: int, most: int = 16) -> int:
    """Draw a size that divides a number of the model, now and then any size."""
    divisors = [1, *(n for n in (2, 3, 4, 5, 6, 8, 16) if whole and whole % n == 0 and n <= most)]
    return int(draw(st.sampled_from(divisors * 10 + [2, 3, 4, 5, 6, 7, 8])))


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Draw a case; most layouts fit their model and fill their world."""
    config = draw(models())
    tp = near(draw, config["num_attention_heads"])
    pp = near(draw, config["num_hidden_layers"], 8)
    cp = draw(st.sampled_from((1, 1, 1, 2, 4)))
    ep = near(draw, config.get("num_experts", 0))
    etp = draw(st.sampled_from((1, 1, 1, near(draw, config.get("moe_intermediate_size", 0), 4))))
    world = lcm(tp * pp * cp, ep * etp * pp) * draw(st.sampled_from((1, 1, 2, 3)))
    if world > LARGEST or not draw(st.integers(0, 20)):
        world = draw(st.integers(1, 64))
    gpus = draw(st.sampled_from([n for n in (1, 2, 4, 8, 3) if world % n == 0]))
    micro = draw(st.sampled_from((1, 1, 2, 3)))
    batch = micro * max(1, world // (tp * pp * cp)) * draw(st.integers(1, 16))
    names = ("tensor_model", "pipeline_model", "context", "expert_model", "expert_tensor")
    sizes = zip(names, (tp, pp, cp, ep, etp), strict=True)
    args: dict[str, Any] = {f"{name}_parallel_size": size for name, size in sizes}
    args |= {"micro_batch_size": micro, "num_train_epochs": 1}
    args["global_batch_size"] = batch + draw(st.sampled_from((*[0] * 20, 1, -1)))
    chosen = draw(st.lists(st.sampled_from(sorted(FLAGS)), max_size=5, unique=True))
    for name in sorted({"sequence_parallel", "max_length", *chosen}):
        value = draw(FLAGS[name])
        if value is not None:
            args[name] = value
    return Run(config=config, nodes=world // gpus, gpus=gpus, args=args)
