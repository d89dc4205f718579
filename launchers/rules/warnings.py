"""Warnings: valid but almost certainly unintended, logged by the launcher and shown by ``plan``.

Rows where conditions on flags suffice, one function each where arithmetic is needed. Sources are
abbreviated as in ``rules/parallelism.py``.
"""

from collections.abc import Callable
from math import prod

from launchers.config.gpu_models import GPU_MODELS
from launchers.config.recipe import EXPORT
from launchers.plan.model_config import ModelConfig
from launchers.refusal import Refusal
from launchers.rules.engine import (
    GPU_MODEL,
    RLHF,
    TRAINS_ADAPTER,
    Conflict,
    Rule,
    given,
    missing,
    none_of,
    off,
    on,
    one_of,
    over,
    under,
)
from launchers.rules.model import Known, refused
from launchers.rules.moe import CAPACITY, ROUTER_LOSSES
from launchers.rules.optimizer import AWARE
from launchers.rules.parallelism import (
    CP,
    DENSE,
    EP,
    ETP,
    GBS,
    GRANULARITY,
    LAYERS,
    MBS,
    METHOD,
    PP,
    SEQUENCE,
    TP,
    VPP,
)

_NO_OPTIMIZER = (
    "leaves the optimizer out of checkpoints: an interrupted run resumes with an empty one and "
    "the learning rate of step 1; remove it, and set a small save_total_limit"
)
_OFFLOAD = "optimizer_cpu_offload"
_GRADIENTS = "main_grads_dtype"
ARCHITECTURE = frozenset({
    "num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "kv_channels",
    "num_query_groups", "num_moe_experts", "moe_router_topk", "moe_ffn_hidden_size",
    "rotary_base", "layernorm_epsilon", "moe_router_pre_softmax", "moe_shared_expert_gate",
    "moe_router_score_function", "moe_router_topk_scaling_factor", "window_size",
})  # fmt: skip
"""Fields of megatron-core's configuration that a model's config.json determines."""


def _of_both(rate: str, alone: str) -> tuple[Rule, ...]:
    """Return the warnings of both backends: flags of the learning rate and of weights alone.

    A resume without an optimizer is silent (transformers ``_load_optimizer_and_scheduler``).
    """
    split = "split_dataset_ratio"
    rows = (
        ("rate-zero", rate, (under(rate, "1e-12"),), "trains nothing"),
        ("rate-large", rate, (over(rate, "0.01"),), "diverges; 1e-6 to 1e-4 is usual"),
        (
            "beta-large",
            "beta",
            (RLHF, one_of("rlhf_type", "dpo", "kto"), over("beta", "5")),
            "hardly lets the policy leave the reference; 0.1 is usual",
        ),
        ("rpo-large", "rpo_alpha", (RLHF, over("rpo_alpha", "10")), "outweighs the preferences"),
        ("save-only-model", alone, (on(alone),), _NO_OPTIMIZER),
        ("split-large", split, (over(split, "0.5"),), "holds out more than it trains on"),
        (
            "truncation-right",
            "truncation_strategy",
            (RLHF, one_of("truncation_strategy", "right")),
            "cuts the ends of long answers; delete leaves out their pairs",
        ),
    )
    return tuple(
        Conflict(
            id=id,
            flag=flag,
            when=when,
            says=f"{{{flag}}} {says}",
            source="no check in SW, MC or transformers",
        )
        for id, flag, when, says in rows
    )


MEGATRON: tuple[Rule, ...] = (
    *_of_both("lr", "no_save_optim"),
    *(
        Conflict(
            id="balance-large",
            when=(over(flag, "0.1"),),
            says=f"{{{flag}}} outweighs the preferences; 0.001 to 0.01 is usual",
            source="MC router.py adds it to the loss of each layer",
        )
        for flag in ROUTER_LOSSES
    ),
    Conflict(
        id="sequence-parallel-tp1",
        when=(on(SEQUENCE), under(TP, "2")),
        says=f"has no effect at {TP} 1",
        source="SW megatron_args.py:__post_init__ resets it",
    ),
    Conflict(
        id="offload-fp32-weights",
        when=(on(_OFFLOAD), off(AWARE), one_of("optimizer", "adam")),
        says=f"without {AWARE} the fp32 weights stay on the GPU, 4 bytes per parameter; "
        f"set {AWARE}: true",
        source="MC distrib_optimizer.py keeps shard_fp32_from_float16; measured: +14 GiB",
    ),
    Conflict(
        id="offload-adapter",
        when=(on(_OFFLOAD), TRAINS_ADAPTER),
        says="with an adapter has caused illegal memory accesses; remove it",
        source="ms-swift issue 9554",
    ),
    Conflict(
        id="second-moments-fp8",
        when=(one_of("exp_avg_sq_dtype", "fp8"), on(AWARE)),
        says="fp8 rounds second moments to 0 below 1/450,000 of the largest of their tensor: those "
        "weights make steps of hundreds of learning rates; use bf16",
        source="simulated in tests/launchers/training/optimizer/second_moments.py: 640 times lr "
        "where gradients are a thousandth of the largest",
    ),
    Conflict(
        id="offload-fraction-unused",
        when=(under("optimizer_offload_fraction", "1"), off(_OFFLOAD)),
        says=f"{{optimizer_offload_fraction}} has no effect without {_OFFLOAD}",
        source="MC optimizer/__init__.py reads it with optimizer_cpu_offload only",
    ),
    Conflict(
        id="param-gather-bucket",
        when=(on("overlap_param_gather"), off("overlap_grad_reduce")),
        says="has no effect without overlap_grad_reduce, since all parameters form one bucket; "
        "set overlap_grad_reduce: true",
        source="SW megatron_lm_utils.py:wrap_model sets bucket_size None",
    ),
    Conflict(
        id="padding-free-packing",
        when=(off("padding_free"), on("packing")),
        says="false has no effect: packing enables it",
        source="SW megatron_base_args.py:__post_init__",
    ),
    *(
        Conflict(
            id="recompute-none-flags",
            when=(given(flag), one_of(GRANULARITY, "none")),
            says=f"{{{flag}}} has no effect with {GRANULARITY} none",
            source="MC transformer_config.py reads it with recompute only",
        )
        for flag in (METHOD, LAYERS)
    ),
    Conflict(
        id="recompute-block-mtp",
        when=(one_of(METHOD, "block"), given("mtp_num_layers"), one_of(GRANULARITY, "full")),
        says="block does not recompute the layers of mtp_num_layers; use uniform",
        source="MC multi_token_prediction.py warns and skips",
    ),
    Conflict(
        id="capacity-drops-tokens",
        when=(over(CAPACITY, "0"),),
        says=f"{{{CAPACITY}}} drops tokens, which changes training; remove it except for "
        "measurements",
        source="MC moe_utils.py:topk_routing_with_score_function drops above the capacity",
    ),
    Conflict(
        id="packing-micro-batch",
        when=(over("micro_batch_size", "1"), on("packing")),
        says="{micro_batch_size} with packing concatenates that many packs; "
        "a larger max_length does the same with less padding",
        source="SW template/base.py:data_collator joins the rows of a microbatch",
    ),
    Conflict(
        id="ddp-timeout-long",
        when=(over("ddp_timeout", "86400"),),
        says="{ddp_timeout} seconds: a hang would go unnoticed for more than a day",
        source="SW megatron_lm_utils.py hands it to the process groups",
    ),
    Conflict(
        id="loss-split-no-pipeline",
        when=(on("account_for_loss_in_pipeline_split"), one_of(PP, "1")),
        says=f"has no effect at {PP} 1",
        source="MC transformer_block.py:get_num_layers_to_build",
    ),
    Conflict(
        id="reference-free",
        when=(RLHF, one_of("rlhf_type", "dpo"), on("reference_free")),
        says="dpo with reference_free still loads and runs the reference",
        source="SW rlhf_mixin.py:prepare_model, dpo_trainer.py:forward_step",
    ),
)
TRANSFORMERS: tuple[Rule, ...] = (
    *_of_both("learning_rate", "save_only_model"),
    *(
        Conflict(
            id="best-model-not-exported",
            when=(on("load_best_model_at_end"), one_of(EXPORT, "last"), is_not_one),
            says="does not affect the export; set recipe.export: best",
            source="transformers trainer.py:_finalize_training loads it and writes nothing, and "
            "of a limit of 1 deletes all but the best; measured with 5.12.1",
        )
        for is_not_one in (none_of("save_total_limit", "1"), missing("save_total_limit"))
    ),
)

Hint = Callable[[ModelConfig, Known], Refusal | None]
_LENGTH = "max_length"


def _joined(known: Known) -> int:
    """Return the GPUs that NVLink joins: those of a node, or of a domain that is wider."""
    gpu = GPU_MODELS.get(known.facts.text(GPU_MODEL))
    return max(known.facts.gpus, gpu.domain if gpu else 0)


def tensor_across_nodes(known: Known) -> Refusal | None:
    """Ranks of tensor parallelism are neighbours (MC parallel_state.py, order tp-cp-ep-dp-pp)."""
    tp, gpus = known.size(TP), _joined(known)
    if tp <= gpus:
        return None
    return refused(
        "tensor-across-nodes",
        TP,
        f"{tp} is more than the {gpus} GPUs of a node, so each layer communicates over the network",
    )


def experts_across_nodes(known: Known) -> Refusal | None:
    """Each token goes to its experts and back, twice a layer.

    51.5 GB a pack and GPU between nodes at EP 16 over 2 nodes (Qwen3-30B-A3B): 18 s at 200 Gb/s.
    """
    ep, etp, gpus = known.size(EP), known.size(ETP), _joined(known)
    if ep * etp <= gpus or ep == 1:
        return None
    return refused(
        "experts-across-nodes",
        EP,
        f"{ep} x {ETP} {etp} is more than the {gpus} GPUs of a node: tokens "
        f"cross the network twice per layer; {PP} across nodes costs far less",
    )


def _microbatches(known: Known) -> int:
    """Return the microbatches of a step on each replica; 0 where no replica fits."""
    replica = prod(map(known.size, DENSE))
    step = known.size(MBS) * (known.facts.world // replica)
    return known.size(GBS) // step if step else 0


def bubble(known: Known) -> Refusal | None:
    """Idle share (PP-1)/(m+PP-1), Narayanan et al. 2021, arXiv 2104.04473, divided by VPP."""
    pp, batches = known.size(PP), _microbatches(known)
    if pp == 1 or not 0 < batches < pp:
        return None
    idle = (pp - 1) / (batches * known.size(VPP) + pp - 1)
    return refused(
        "pipeline-bubble",
        GBS,
        f"{known.size(GBS)} is {batches} microbatches for {pp} stages, which "
        f"idle {idle:.0%} of the time; use a larger one",
    )


def rounded_gradients(known: Known) -> Refusal | None:
    """Sums of gradients in bf16 lose bits with each microbatch: 0.5 % rms at 16, 0.8 % at 64."""
    facts, batches = known.facts, _microbatches(known)
    if not facts.is_on(AWARE) or facts.text(_GRADIENTS) != "bf16" or batches <= 64:
        return None
    return refused(
        "gradients-rounded",
        _GRADIENTS,
        f"bf16 sums the gradients of {batches} microbatches with an error of about 1 %; use fp32, "
        "or more GPUs or a smaller global_batch_size for at most 64",
    )


def best_not_evaluated(known: Known) -> Refusal | None:
    """Only an evaluation in the step of a save belongs to a checkpoint (``stages/export.py``)."""
    every, saved = known.size("eval_steps"), known.size("save_steps")
    if known.facts.text(EXPORT) != "best" or not saved % every:
        return None
    return refused(
        "best-not-evaluated",
        "save_steps",
        f"{saved} is not a multiple of eval_steps {every}, and recipe.export: best chooses among "
        "checkpoints that were evaluated when they were saved",
    )


def no_experts(model: ModelConfig, known: Known) -> Refusal | None:
    """SW model/utils.py:get_mcore_model_config sets both sizes to 1 for a dense model."""
    for flag in (EP, ETP) if not model.is_moe else ():
        if known.size(flag) > 1:
            return refused("no-experts", flag, "has no effect: the model has no experts")
    return None


def too_many_recomputed(model: ModelConfig, known: Known) -> Refusal | None:
    """MC recompute.py takes at most the layers of a stage."""
    held = max(1, model.layers // (known.size(PP) * known.size(VPP)))
    if known.facts.text(GRANULARITY) != "full" or known.size(LAYERS) <= held:
        return None
    return refused(
        "recompute-layers-many",
        LAYERS,
        f"{known.size(LAYERS)} is more than the {held} layers of a stage",
    )


def too_long(model: ModelConfig, known: Known) -> Refusal | None:
    """The model has seen no position beyond ``max_position_embeddings``; ms-swift only logs."""
    length = known.facts.number(_LENGTH) or 0
    reach = model.positions and max(model.positions, model.scaled_positions)
    if length <= reach or not reach or known.facts.text("rope_scaling"):
        return None
    return refused(
        "length-positions",
        _LENGTH,
        f"{length:.0f} is more than the model's {reach} positions",
    )


def uneven_context(model: ModelConfig, known: Known) -> Refusal | None:
    """SW megatron_lm_utils.py cuts each sequence into 2 x CP pieces: short ones are padding."""
    cp, length = known.size(CP), known.facts.number(_LENGTH) or 0
    if cp == 1 or not length or length / cp >= 1024:
        return None
    return refused(
        "context-parallel-short",
        CP,
        f"{cp} leaves {length / cp:.0f} tokens per GPU of {_LENGTH} {length:.0f}",
    )


def other_architecture(known: Known) -> Refusal | None:
    """SW model/utils.py:get_mcore_model_config lays the map over what config.json says."""
    if not (changed := sorted(known.facts.overridden & ARCHITECTURE)):
        return None
    return refused(
        "architecture-overridden",
        "megatron_extra_kwargs",
        f"{', '.join(changed)} replace the model's own: other layers or routes are trained than "
        "the export's config.json describes",
    )


PLAIN: tuple[Callable[[Known], Refusal | None], ...] = (
    other_architecture, tensor_across_nodes, experts_across_nodes, bubble, rounded_gradients,
    best_not_evaluated,
)  # fmt: skip
MODEL: tuple[Hint, ...] = (no_experts, too_many_recomputed, too_long, uneven_context)
