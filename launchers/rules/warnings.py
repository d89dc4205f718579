"""What works, but is surely not wanted: logged by the launcher and shown by ``plan``."""

from __future__ import annotations

from launchers.rules.condition import given, missing, none_of, off, on, one_of, over, under
from launchers.rules.engine import Conflict, Rule
from launchers.rules.facts import TASK
from launchers.rules.parallelism import PP, SEQUENCE, TP
from launchers.rules.recompute import GRANULARITY, LAYERS, METHOD

_OFFLOAD, _AWARE = "optimizer_cpu_offload", "use_precision_aware_optimizer"
_CAPACITY = "moe_expert_capacity_factor"

MEGATRON: tuple[Rule, ...] = (
    Conflict(
        id="sequence-parallel-tp1",
        flag=SEQUENCE,
        when=(on(SEQUENCE), under(TP, "2")),
        says=f"has no effect at {TP} 1",
        source="SW megatron_args.py:__post_init__ resets it",
    ),
    Conflict(
        id="offload-fp32-weights",
        flag=_OFFLOAD,
        when=(on(_OFFLOAD), off(_AWARE), one_of("optimizer", "adam")),
        says=f"without {_AWARE} the fp32 weights stay on the GPU: 4 bytes a parameter; "
        f"write {_AWARE}: true",
        source="MC distrib_optimizer.py keeps shard_fp32_from_float16; measured: +14 GiB",
    ),
    Conflict(
        id="offload-adapter",
        flag=_OFFLOAD,
        when=(on(_OFFLOAD), none_of("tuner_type", "full")),
        says="with tuner_type {tuner_type} has ended in illegal memory accesses; remove it",
        source="ms-swift issue 9554",
    ),
    Conflict(
        id="offload-fraction-unused",
        flag="optimizer_offload_fraction",
        when=(off(_OFFLOAD), under("optimizer_offload_fraction", "1")),
        says=f"{{optimizer_offload_fraction}} has no effect without {_OFFLOAD}",
        source="MC optimizer/__init__.py reads it with optimizer_cpu_offload only",
    ),
    Conflict(
        id="param-gather-bucket",
        flag="overlap_param_gather",
        when=(on("overlap_param_gather"), off("overlap_grad_reduce")),
        says="does nothing without overlap_grad_reduce: all parameters are one bucket; "
        "write overlap_grad_reduce: true",
        source="SW megatron_lm_utils.py:wrap_model sets bucket_size None",
    ),
    Conflict(
        id="padding-free-packing",
        flag="padding_free",
        when=(on("packing"), off("padding_free")),
        says="false has no effect: packing turns it on",
        source="SW megatron_base_args.py:__post_init__",
    ),
    *(
        Conflict(
            id="recompute-none-flags",
            flag=flag,
            when=(one_of(GRANULARITY, "none"), given(flag)),
            says=f"{{{flag}}} has no effect with {GRANULARITY} none",
            source="MC transformer_config.py reads it with recompute only",
        )
        for flag in (METHOD, LAYERS)
    ),
    Conflict(
        id="recompute-block-mtp",
        flag=METHOD,
        when=(one_of(METHOD, "block"), given("mtp_num_layers"), one_of(GRANULARITY, "full")),
        says="block does not recompute the layers of mtp_num_layers; write uniform",
        source="MC multi_token_prediction.py warns and skips",
    ),
    Conflict(
        id="capacity-drops-tokens",
        flag=_CAPACITY,
        when=(over(_CAPACITY, "0"),),
        says=f"{{{_CAPACITY}}} drops tokens, and training differs; remove it, except to measure",
        source="MC moe_utils.py:topk_routing_with_score_function drops above the capacity",
    ),
    Conflict(
        id="packing-micro-batch",
        flag="micro_batch_size",
        when=(on("packing"), over("micro_batch_size", "1")),
        says="{micro_batch_size} with packing joins that many packs; "
        "a larger max_length does the same with less waste",
        source="SW template/base.py:data_collator joins the rows of a microbatch",
    ),
    Conflict(
        id="ddp-timeout-long",
        flag="ddp_timeout",
        when=(over("ddp_timeout", "86400"),),
        says="{ddp_timeout} seconds: a hang would not be seen for more than a day",
        source="SW megatron_lm_utils.py hands it to the process groups",
    ),
    Conflict(
        id="loss-split-no-pipeline",
        flag="account_for_loss_in_pipeline_split",
        when=(on("account_for_loss_in_pipeline_split"), one_of(PP, "1")),
        says=f"has no use at {PP} 1",
        source="MC transformer_block.py:get_num_layers_to_build",
    ),
    Conflict(
        id="reference-free",
        flag="rlhf_type",
        when=(one_of(TASK, "rlhf"), one_of("rlhf_type", "dpo"), on("reference_free")),
        says="dpo with reference_free still loads and runs the reference",
        source="SW rlhf_mixin.py:prepare_model, dpo_trainer.py:forward_step",
    ),
)
TRANSFORMERS: tuple[Rule, ...] = tuple(
    Conflict(
        id="best-model-not-exported",
        flag="load_best_model_at_end",
        when=(on("load_best_model_at_end"), is_not_one),
        says="does not choose what is exported, which is the last checkpoint; with "
        "save_total_limit: 1 the best one alone is left in the end, and exported",
        source="transformers trainer.py:_finalize_training loads it and writes nothing, and of "
        "a limit of 1 deletes all but the best; measured with 5.12.1",
    )
    for is_not_one in (none_of("save_total_limit", "1"), missing("save_total_limit"))
)
