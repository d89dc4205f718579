"""Cases that only our rules refuse: upstream fails later, or trains with an unintended result."""

import re

STRICTER = {
    r"\[(offload-fraction|warmup-fraction|split-ratio|freeze-ratio)\]$": (
        "a fraction out of range: megatron-core asserts when the scheduler or the offloaded "
        "optimizer is built (optimizer_param_scheduler.py, hybrid_optimizer.py), on GPUs"
    ),
    r"\[moe-sequence-parallel\]$": (
        "expert sizes with a dense model, which ms-swift sets back to 1 in silence; the chart does "
        "not know the model and takes them for what they say"
    ),
    r"\[packing-unfused\]$": (
        "ms-swift only warns and turns padding_free off (swift/megatron/model/utils.py: "
        "_check_padding_free), which takes each pack apart"
    ),
    r"\[wsd-decay-iters\]$": (
        "optimizer_param_scheduler.py asserts it at the first step of the decay"
    ),
    r"\[adapter-expert-tensor\]$": (
        "an adapter on experts that are split by tensor may compute wrong results in silence "
        "(Megatron-Bridge issue 5635); the chart does not know whether the model has experts"
    ),
    r"\[freeze-all\]$": (
        "they train no parameter (swift/utils/transformers_utils.py: freeze_parameters)"
    ),
    r"\[(adam-beta|adam-epsilon|not-negative|lr|balance-negative)\]$": (
        "numbers of the optimizer and of the balancing loss that no source checks"
    ),
    r"\[(adapter-flags-full|lora-alpha|lora-dropout)\]$": (
        "flags of an adapter that have no effect, or with which it learns nothing"
    ),
    r"\[per-token-loss\]$": (
        "a preference loss returns no number of tokens, and its gradients are summed over ranks "
        "(megatron/core/distributed/distributed_data_parallel.py)"
    ),
    r"layers .*less .*\[pipeline-uneven\]$": (
        "more layers given by hand than the model has: get_num_layers_to_build returns less than "
        "0, and the block has no layers"
    ),
}
"""Pattern of our message to the reason."""


def reason(message: str) -> str:
    """Return why we refuse what they accept; empty if that is not known."""
    return next((why for pattern, why in STRICTER.items() if re.search(pattern, message)), "")
