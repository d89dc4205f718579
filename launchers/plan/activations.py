"""Bytes of activations on one rank: kept for the backward pass, and temporary.

The bytes of a layer follow Korthikanti et al., "Reducing activation recomputation in large
transformer models" (arXiv 2205.05198), adapted to grouped queries, gated MLPs and experts, for bf16
with flash attention; which tensors are saved was read in megatron-core 0.18
(``transformer_layer.py``, ``moe/``) and Transformer Engine's linear layers.
"""

from launchers.plan.model_config import ModelConfig
from launchers.plan.parameters import Shard
from launchers.plan.training_job import Training

LOGIT_BYTES = 10
"""Per logit: bf16, an fp32 copy, and the fp32 buffer of the compiled in-place steps (megatron-core
``fusions/fused_cross_entropy.py``; the backward pass has the same three)."""
TE_LOGIT_BYTES = 2
"""Per logit: the gradient overwrites the bf16 logits (Transformer Engine 2.12,
``common/triton/cross_entropy.py``). Measured: 17.9 GiB less than the native implementation at
16,384 tokens, 7.7 bytes per logit (tests/bench/notes/memory.md)."""


def tokens(training: Training, positions: int) -> int:
    """Return the tokens of the longest microbatch, before context parallelism.

    A row has at most ``max_length`` tokens, a pair twice that; a pair longer than a pack gets its
    own pack (``swift/dataset/packing.py``). If the data is known, ``longest`` holds the value.
    """
    if training.longest:
        return training.longest
    sample = (training.max_length or positions or 1) * (2 if training.pairs else 1)
    pack = training.packing_length or training.max_length
    return training.micro_batch_size * (max(sample, pack) if training.packing else sample)


def usual(training: Training, positions: int) -> float:
    """Return the tokens of a full microbatch, the usual case; see ``tokens``."""
    row = training.max_length or positions or 1
    if training.packing:
        return float((training.packing_length or row) * training.micro_batch_size)
    return float(row * (2 if training.pairs else 1) * training.micro_batch_size)


def split(training: Training) -> int:
    """Return the number of ranks that divide the sequence outside attention and MLP."""
    return training.layout.tp if training.sequence_parallel else 1


def rows(model: ModelConfig, training: Training, local: float, imbalance: float) -> float:
    """Return the rows of one microbatch that a rank's experts process.

    Each token of the EP x ETP ranks goes to ``topk`` experts; ranks of one ETP group process the
    same rows. ``imbalance`` is the fullest rank's share over the mean, unless the job's own is
    known; a capacity factor bounds it.
    """
    layout = training.layout
    worst = min(training.imbalance or imbalance, float(layout.ep))
    if training.capacity_factor:
        worst = min(worst, training.capacity_factor)
    return local / split(training) * model.topk * layout.etp * worst


def layer(
    model: ModelConfig,
    training: Training,
    local: float,
    expert_rows: float,
    *,
    remade: bool = False,
) -> float:
    """Return the bytes that one layer keeps for its backward pass, without full recomputation.

    ``local`` tokens are of this context parallel rank; ``expert_rows`` is 0 for a dense MLP.
    ``remade``: the inputs of experts are made again.
    """
    tp, of_sequence = training.layout.tp, split(training)
    drops = training.recompute_modules if training.recompute == "selective" else ()
    norms = 2 if "layernorm" in drops else 4
    qkv = model.q_width + 2 * model.kv_width
    attention = 2 * norms * model.hidden / of_sequence + 2 * (qkv + model.q_width) / tp
    if model.qk_norm:
        attention += 2 * (model.q_width + model.kv_width) / tp
    if expert_rows:
        return local * attention + _experts(model, training, local, expert_rows, drops, remade)
    mlp = 0.0 if "mlp" in drops else 6 * model.ffn / tp
    return local * (attention + mlp)


def _experts(
    model: ModelConfig,
    training: Training,
    local: float,
    expert_rows: float,
    drops: tuple[str, ...],
    remade: bool,
) -> float:
    if "moe" in drops:
        return 0.0
    width = model.expert_ffn / training.layout.etp
    routed = 4 * width if remade else 2 * model.hidden + (4 if "moe_act" in drops else 6) * width
    shared = 0.0 if "shared_experts" in drops else 6 * model.shared_ffn / training.layout.tp
    router = 8 * model.experts / split(training)  # fp32 scores and probabilities
    # rows are made again of the tokens of all ranks, which one rank has of its norm already
    ranks = training.layout.ep * training.layout.etp
    gathered = 2 * model.hidden * ranks / split(training) if remade and ranks > 1 else 0.0
    return expert_rows * routed + local * (shared + router + gathered)


def in_flight(training: Training, stage: int) -> float:
    """Return the number of microbatches that a stage holds at once.

    megatron-core ``pipeline_parallel/schedules.py``: 1F1B, and the interleaved schedule in units
    of a model chunk.
    """
    layout = training.layout
    if layout.vpp is None:
        return float(min(training.microbatches or 1, layout.pp - stage))
    warm_up = 2 * (layout.pp - stage - 1) + (layout.vpp - 1) * layout.pp + 1
    return min((training.microbatches or 1) * layout.vpp, warm_up) / layout.vpp


def kept(model: ModelConfig, training: Training, shard: Shard, local: float, each: float) -> float:
    """Return the bytes kept for the microbatches in flight.

    ``each``: mean of ``layer`` over the stage's layers; ``local``: tokens on this rank.
    """
    boundary = 2 * model.hidden * local / split(training)
    flying = in_flight(training, shard.stage)
    # the pipeline passes hidden states of reference and policy together (dpo_trainer.py)
    received = boundary * training.compares * (shard.stage > 0)
    if training.recompute != "full":
        return flying * (shard.layers * each + received)
    if training.recompute_method == "block":
        again = min(shard.layers, training.recompute_num_layers * training.layout.chunks)
        return flying * (again * boundary + (shard.layers - again) * each + received)
    blocks = -(-shard.layers // max(1, training.recompute_num_layers))
    return flying * (min(shard.layers, blocks) * boundary + received)


def working(training: Training, shard: Shard, each: float) -> float:
    """Return the bytes of a recomputed block and its gradients, which have the same size."""
    block = 1
    if training.recompute == "full" and training.recompute_method != "block":
        block = min(shard.layers, training.recompute_num_layers)
    saved = block * each if training.recompute == "full" else 0.0
    return saved + each


def scores(model: ModelConfig, training: Training, positions: int, local: float) -> float:
    """Return the bytes of attention scores in unfused attention: 5 bytes each (2205.05198)."""
    if training.attention_backend not in ("unfused", "local"):
        return 0.0
    length = training.max_length or positions
    return 5.0 * model.heads / training.layout.tp * local * min(length, local)


def logits(model: ModelConfig, training: Training, shard: Shard, local: float) -> float:
    """Return the bytes of the last stage's logits and their loss."""
    if not shard.head:
        return 0.0
    fused = training.cross_entropy_fusion and training.cross_entropy_impl == "te"
    each = TE_LOGIT_BYTES if fused else LOGIT_BYTES
    return each * local * -(-model.vocab // training.layout.tp)
