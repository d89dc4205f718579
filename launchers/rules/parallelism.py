"""Rules of parallel sizes and of recomputation that need no model.

Sources are megatron-core 0.18.0 (MC), mcore-bridge 1.6.0 (MB) and ms-swift 4.4.1 (SW), read line
by line; what is not said to differ is the same in megatron-core 0.16.1 and 0.17.0. The differential
test (``make test-next``) compares with megatron-core 0.19.2, mcore-bridge 1.6.5 and ms-swift 4.6.0.
"""

from launchers.rules.engine import (
    Conflict,
    Multiple,
    Order,
    Range,
    Rule,
    Words,
    given,
    has,
    missing,
    off,
    on,
    one_of,
    over,
    under,
)

TP, PP, CP = (f"{kind}_parallel_size" for kind in ("tensor_model", "pipeline_model", "context"))
EP, ETP = "expert_model_parallel_size", "expert_tensor_parallel_size"
VPP = "virtual_pipeline_model_parallel_size"
GROUP = "microbatch_group_size_per_vp_stage"
FIRST, LAST = "decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers"
ENDS = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")
LAYOUT = "pipeline_model_parallel_layout"
MBS, GBS = "micro_batch_size", "global_batch_size"
DENSE = (TP, PP, CP)
"""Their product is one model replica."""
EXPERT = (ETP, EP, PP)
"""Their product must divide the processes too; TP and CP are not in it."""
SEQUENCE = "sequence_parallel"
NEEDS_SEQUENCE = "moe-sequence-parallel"
"""Id of a refusal that this table and ``rules/model.py`` share."""

_VIRTUAL = over(VPP, "1")


def size(flag: str, source: str) -> Range:
    """Return the rule that a flag is a whole number from 1."""
    return Range(
        id="size", flag=flag, noun="size", low="1", high="999999", whole=True, source=source
    )


SIZES: tuple[Rule, ...] = (
    *(size(name, "MC parallel_state.py divides by it") for name in (*DENSE, EP, ETP)),
    *(size(name, "SW megatron_args.py:_init_distributed divides by it") for name in (MBS, GBS)),
    size(VPP, "MC transformer_config.py: layers % it"),
    size(GROUP, "MC schedules.py: microbatches % it"),
    size(FIRST, "MC transformer_config.py: ValueError, must be larger than 0"),
    size(LAST, "MC transformer_config.py: ValueError, must be larger than 0"),
)
WORLD: tuple[Rule, ...] = (
    Multiple(
        id="world-model-parallel",
        total="world",
        factors=DENSE,
        source="MC parallel_state.py:initialize_model_parallel: RuntimeError",
    ),
    Multiple(
        id="world-expert-parallel",
        total="world",
        factors=EXPERT,
        source="MC parallel_state.py: RuntimeError; no CP, no TP in the product",
    ),
    Multiple(
        id="batch-replicas",
        total=GBS,
        factors=(MBS,),
        replica=DENSE,
        source="SW megatron_args.py:_init_distributed: ValueError",
    ),
    Conflict(
        id="megatron-fsdp",
        when=(on("use_megatron_fsdp"),),
        says="was never run with the launcher, whose patches are of megatron-core's own data "
        "parallelism; remove it",
        source="upstream/patches.yaml: DistributedDataParallel, _ParamAndGradBucketGroup; SW "
        "megatron_fsdp_checkpoint.py has checkpoints of another format",
        since="4.5.0",
    ),
)
PIPELINE: tuple[Rule, ...] = (
    Conflict(
        id="vpp-no-pipeline",
        when=(_VIRTUAL, under(PP, "2")),
        says=f"{{{VPP}}} requires a pipeline, and {PP} is {{{PP}}}; remove it or set {PP} to 2 "
        "or more",
        source="MC parallel_state.py: RuntimeError; SW _init_vpp_size takes 1 for none",
    ),
    Multiple(
        id="vpp-microbatches",
        total=GBS,
        factors=(MBS, PP),
        replica=DENSE,
        when=(_VIRTUAL, missing(GROUP)),
        source="MC schedules.py, interleaved: ValueError below PP microbatches, RuntimeError for "
        "a remainder from 1 to PP-1; the group is PP (model_parallel_config.py)",
    ),
    Order(
        id="vpp-group-size",
        least=PP,
        most=GROUP,
        when=(_VIRTUAL, given(GROUP)),
        source="MC schedules.py, interleaved: ValueError for a group below PP",
    ),
    Multiple(
        id="vpp-group-microbatches",
        total=GBS,
        factors=(MBS, GROUP),
        replica=DENSE,
        when=(_VIRTUAL, given(GROUP)),
        source="MC schedules.py, interleaved: ValueError for a group above the microbatches, "
        "RuntimeError for a remainder from 1 to PP-1; whole groups are asked for here",
    ),
    *(
        Conflict(
            id="pipeline-end-no-pipeline",
            when=(given(flag), one_of(PP, "1")),
            says=f"{{{flag}}} requires a pipeline, and {PP} is 1; remove it or set {PP} to 2 "
            "or more",
            source="SW megatron_args.py:__post_init__: ValueError",
        )
        for flag in (FIRST, LAST)
    ),
    *(
        Conflict(
            id="pipeline-end-accounted",
            when=(given(flag), on(end)),
            says=f"{{{flag}}} cannot be combined with {end}; remove one",
            source="MC transformer_config.py: ValueError",
        )
        for flag in (FIRST, LAST)
        for end in ENDS
    ),
    *(
        Conflict(
            id="pipeline-layout-conflict",
            when=(given(LAYOUT), given(other) if other in (FIRST, LAST) else on(other)),
            says=f"it defines all stages, and {other} is set too; remove one",
            source="MC transformer_config.py: ValueError, any_conflict",
        )
        for other in (FIRST, LAST, *ENDS)
    ),
)
TENSOR: tuple[Rule, ...] = (
    Conflict(
        id=NEEDS_SEQUENCE,
        when=(off(SEQUENCE), over(EP, "1"), over(TP, "1")),
        says=f"off, but experts with {TP} {{{TP}}} require it; set it to true",
        source="MC moe_layer.py:forward: ValueError in training, after the model was loaded; "
        "model_parallel_config.py only warns",
    ),
    Conflict(
        id="tp-overlap-sequence-parallel",
        when=(on("tp_comm_overlap"), off(SEQUENCE)),
        says=f"requires {SEQUENCE}; set {SEQUENCE}: true or remove it",
        source="SW megatron_args.py:__post_init__: ValueError",
    ),
    Conflict(
        id="tp-overlap-tp",
        when=(on("tp_comm_overlap"), on(SEQUENCE), one_of(TP, "1")),
        says=f"requires {TP} of 2 or more; remove it",
        source="SW megatron_args.py: sequence_parallel is reset at TP 1, then ValueError",
    ),
)

GRANULARITY, LAYERS = "recompute_granularity", "recompute_num_layers"
METHOD, MODULES = "recompute_method", "recompute_modules"
NAMES = ("core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts")
_SELECTIVE, _FULL = one_of(GRANULARITY, "selective"), one_of(GRANULARITY, "full")

RECOMPUTE: tuple[Rule, ...] = (
    size(LAYERS, "MC recompute.py: uniform steps by it; with 0 the loop has no end"),
    Conflict(
        id="recompute-method-missing",
        when=(missing(METHOD), _FULL),
        says=f"missing, and {GRANULARITY} full requires it; use uniform or block",
        source="MC transformer_config.py: ValueError",
    ),
    Conflict(
        id="recompute-layers-missing",
        when=(missing(LAYERS), _FULL),
        says=f"missing, and {GRANULARITY} full requires it; use 1",
        source="MC transformer_config.py: ValueError",
    ),
    *(
        Conflict(
            id="recompute-selective-flags",
            when=(given(flag), _SELECTIVE),
            says=f"{{{flag}}} requires {GRANULARITY} full, not selective; remove one",
            source="SW megatron_args.py (method), MC transformer_config.py (layers): ValueError",
        )
        for flag in (METHOD, LAYERS)
    ),
    Words(
        id="recompute-module-unknown",
        flag=MODULES,
        known=NAMES,
        when=(_SELECTIVE,),
        source="MC transformer_config.py: AssertionError, the same names in 0.16.1",
    ),
    Conflict(
        id="recompute-moe-act",
        when=(has(MODULES, "moe_act"), _SELECTIVE, off("moe_grouped_gemm")),
        says="moe_act requires moe_grouped_gemm; set moe_grouped_gemm: true or remove moe_act",
        source="MC transformer_config.py: ValueError",
    ),
    Conflict(
        id="recompute-moe-layer",
        when=(on("moe_layer_recompute"), _FULL),
        says=f"cannot be combined with {GRANULARITY} full, which includes it; remove it",
        source="MC transformer_config.py: ValueError",
    ),
    Conflict(
        id="recompute-mtp",
        when=(over(LAYERS, "1"), given("mtp_num_layers"), _FULL, one_of(METHOD, "uniform")),
        says=f"{{{LAYERS}}} is not allowed: mtp_num_layers with full uniform recomputation "
        "requires 1; use 1",
        source="MC multi_token_prediction.py: AssertionError in the first forward",
    ),
)

_FILE = ", or the path of a JSON file"
SHARDING: tuple[Rule, ...] = (
    Words(
        id="deepspeed-unknown",
        flag="deepspeed",
        known=("zero0", "zero1", "zero2", "zero3", "zero2_offload", "zero3_offload"),
        otherwise=_FILE,
        source="SW sft_args.py:_init_deepspeed takes a preset or a file: JSONDecodeError",
    ),
    Words(
        id="fsdp-1",
        flag="fsdp",
        known=("fsdp2",),
        otherwise=_FILE,
        source="SW sft_args.py:_init_fsdp takes a preset or a file, not the words of FSDP 1, such "
        "as full_shard: JSONDecodeError",
    ),
    Conflict(
        id="fsdp-deepspeed",
        when=(given("fsdp"), given("deepspeed")),
        says="cannot be combined with deepspeed; remove one",
        source="SW sft_args.py:_init_fsdp: ValueError",
    ),
)
"""Rules of the transformers backend."""
