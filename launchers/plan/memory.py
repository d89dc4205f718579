"""Predicted GPU memory of a job, itemised, for the fullest rank.

Persistent memory (weights, gradients, reference, optimizer) is arithmetic; activations, logits and
buffers follow the sources that their functions name. Three constants were fitted by least squares
to measured and published runs (``make calibrate`` prints the errors). A fourth, for fragmentation
of the allocator, fitted to zero: those runs used expandable segments.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from launchers.plan import activations
from launchers.plan.model_config import ModelConfig
from launchers.plan.parameters import IN_PEFT, Shard, shards, trained, whole
from launchers.plan.training_job import BYTES, Training
from launchers.units import GIB

CHUNK = 2**27
"""Elements of one part of a chunked optimizer step: the fp32 copies of its two moments take 1 GiB
(``training/optimizer/step_parts.py``)."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Fitted constants."""

    imbalance: float = 1.091
    """Rows of the fullest rank's experts over the mean, if unknown for a job."""
    context: float = 5.563
    """GiB outside PyTorch: CUDA context, NCCL communicators, cuBLAS."""
    staging: float = 5.316
    """GiB on the GPU during the step of an optimizer in host memory. Observed in all runs with
    offload; not explained by the source."""


FIT = Fit()
MEMORY_ERROR_SHARE = 0.030
"""Root mean square of the relative error, with each visit predicted by a fit of the others. A job
closer than this to the GPU's memory is tight."""


@dataclass(frozen=True, kw_only=True)
class Items:
    """Memory of one rank on its GPU, by purpose, in one unit: bytes or GiB."""

    weights: float
    gradients: float
    reference: float
    optimizer: float
    """State, and temporary memory of a step beyond the space that activations free."""
    activations: float
    logits: float
    buffers: float
    """Buffers of the all-to-all and of permuted rows."""
    overhead: float
    """Memory outside PyTorch, and GPU memory of an optimizer in host memory."""

    @property
    def total(self) -> float:
        """Return the memory needed on the GPU."""
        kept = self.weights + self.gradients + self.reference + self.optimizer
        return kept + self.activations + self.logits + self.buffers + self.overhead


@dataclass(frozen=True, kw_only=True)
class Memory(Items):
    """GiB of the fullest rank; ``host`` is per node and not part of ``total``."""

    host: float
    host_queued: float
    """Part of ``host`` that is in use only where files are written more slowly than gathered."""
    per_stage: tuple[float, ...]
    context: float
    """Part of ``overhead`` that PyTorch's counters do not include."""

    @property
    def reserved(self) -> float:
        """Return ``torch.cuda.max_memory_reserved``, ms-swift's ``memory(GiB)``."""
        return self.total - self.context


def predict(model: ModelConfig, training: Training, fit: Fit = FIT) -> Memory:
    """Predict the memory of a job.

    The job's layout must pass the rules.

    Raises:
        LaunchError: CONFIG if the layers cannot be divided among the stages.
    """
    parts = list(shards(model, training.layout, head=training.head))
    stages = [_stage(model, training, shard, fit) for shard in parts]
    totals = tuple(items.total / GIB for items in stages)
    fullest = stages[totals.index(max(totals))]
    node = host(model, training, parts)
    return Memory(
        **{name: value / GIB for name, value in asdict(fullest).items()},
        host=node.total / GIB,
        host_queued=(node.gathered - _gathered(model, training, files=1)) / GIB,
        per_stage=totals,
        context=fit.context,
    )


def _stage(model: ModelConfig, training: Training, shard: Shard, fit: Fit) -> Items:
    """Return the bytes of a rank of one stage."""
    part = trained(model, training, shard)
    dense, experts = part.owned(training.layout, distributed=training.distributed_optimizer)
    reference = 2.0 + training.reference_grads * training.grad_bytes
    acts, logits, buffers = _work(model, training, shard, fit)
    passing = optimizer_passing(training, dense, experts)
    adapter = part.parameters if training.tuner == "lora" else 0.0
    return Items(
        weights=2.0 * (shard.parameters + adapter),
        gradients=training.grad_bytes * part.parameters,
        reference=reference * shard.parameters if training.reference else 0.0,
        # the step reuses memory that the backward pass freed
        optimizer=optimizer_kept(training) * (dense + experts)
        + max(0.0, passing - acts - logits - buffers),
        activations=acts,
        logits=logits,
        buffers=buffers,
        overhead=(fit.context + fit.staging * training.offloads) * GIB,
    )


def _work(
    model: ModelConfig, training: Training, shard: Shard, fit: Fit
) -> tuple[float, float, float]:
    """Return activations, logits and buffers of one stage."""
    local = activations.tokens(training, model.positions) / training.layout.cp
    moe, own, rows = 0.0, 0.0, 0.0
    if shard.moe_layers:
        rows = activations.rows(model, training, local, fit.imbalance)
        moe = activations.layer(model, training, local, rows)
        own = activations.layer(model, training, local, rows, remade=training.remakes_rows)
    plain = shard.layers - shard.moe_layers
    dense = activations.layer(model, training, local, 0.0) if plain else 0.0
    mean = (own * shard.moe_layers + dense * plain) / max(1, shard.layers)
    kept = activations.kept(model, training, shard, local, mean)
    working = activations.working(training, shard, max(moe, dense))
    logits = activations.logits(model, training, shard, local)
    scores = activations.scores(model, training, model.positions, local)
    return (
        # the loss is over before a layer is recomputed: the larger of both is held
        kept + max(0.0, working - logits) + scores,
        logits,
        _sent(model, training, local, rows),
    )


def _sent(model: ModelConfig, training: Training, local: float, rows: float) -> float:
    """Return the bytes of rows that experts of a layer exchange (``moe/token_dispatcher.py``)."""
    layout = training.layout
    if training.dispatcher != "allgather":  # sent and received rows, and a sorted copy
        return 6.0 * model.hidden * rows
    # all tokens of the group, the sorted rows of own experts, and the sum for all tokens
    gathered = local / activations.split(training) * layout.ep * layout.etp if rows else 0.0
    return 2.0 * model.hidden * (2.0 * gathered + rows)


PROCESS = 4.9 * GIB
"""Bytes of a rank: its process with CUDA's context and NCCL, four data loader workers, the process
that writes its checkpoints, and its part of torchrun and the launcher. Fitted, as one constant, to
the four readings of two rehearsals on two GPUs (``make calibrate``), which by themselves give 4.3
to 5.9 GiB. Imports are 0.5 GiB of it on the CPU stack; the rest is not itemised."""
STANDBY = 2 * GIB
"""Bytes of a waiting process of ``restarts.standby`` (estimate). On the CPU stack 0.8 GiB are
resident, 0.5 GiB of them its own; CUDA's libraries are not in it."""
OFFLOADED = 24.5
"""Host bytes per parameter with offloaded optimizer. fp32 weights and moments take 12, pinned
gradients 4.0 to 8.0, since PyTorch rounds each up to a power of two (``aten/src/ATen/core/
CachingHostAllocator.h``): 17.3 with 768-wide experts. 24.5 is the minimum that, with ``PROCESS``,
explains the two measured runs, 0.8 and 0.6 of 30.5 B parameters on 4 ranks, which needed more than
489 and 436 GiB; the remainder is fitted and unexplained."""
BUFFER_SPARE = 1.05
"""Factor of the buffer for the copy of a checkpoint over the estimated bytes
(``training/saving/background.py``); a buffer that is too small is reallocated."""
HOST_ERROR_SHARE = 0.15
"""Largest relative error of the host memory on the measured rows; the worst is off by 6 %. A pod
whose limit is closer to its prediction is tight."""
SHARD_FILE = 5e9
"""Bytes of one safetensors file (``max_shard_size``), which rank 0 gathers before writing."""
SHARD_FILES = 4
"""Files in host memory at most: those that are written (``training/saving/shard_writes.py``,
``WRITERS``), and the next one."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """Bytes of host memory on the fullest node, without files on a tmpfs."""

    processes: float
    offload: float
    save: float
    """Copy of a checkpoint, kept between saves."""
    gathered: float
    """Safetensors that rank 0 holds while it writes them, in the last save or in each."""

    @property
    def at_save(self) -> float:
        """Return the bytes in use during a save without safetensors."""
        return self.processes + self.offload + self.save

    @property
    def total(self) -> float:
        """Return the peak: rank 0 gathers safetensors once all ranks have copied their state."""
        return self.at_save + self.gathered


def host(model: ModelConfig, training: Training, shards: Sequence[Shard]) -> Host:
    """Return the host memory of a node.

    The offloaded optimizer is megatron-core's ``optimizer/cpu_offloading/hybrid_optimizer.py``. A
    checkpoint with the optimizer is copied to a buffer that is kept (``training/saving/
    host_buffer.py``): trained parameters, with replicated weights divided among ranks
    (``FullyParallelSaveStrategyWrapper``), and an optimizer in host memory too. Upstream's own save
    copies what is on the GPU. A resume reads the state before the buffer is made, and a launcher
    that keeps it over a restart in place releases it without room for both, so it does not add to
    the peak. Weights of the model are read through the page cache, which the kernel
    reclaims.
    """
    layout = training.layout
    ranks = layout.gpus_per_node
    parts = [trained(model, training, shard) for shard in shards]
    # all ranks of a node may belong to the fullest stage
    owned = max(sum(p.owned(layout, distributed=training.distributed_optimizer)) for p in parts)
    weights = 2 * max(sum(part.owned(layout, distributed=True)) for part in parts)
    if training.in_background:
        state = BUFFER_SPARE * (owned * optimizer_saved(training) + weights)
    else:
        state = owned * optimizer_saved(training) * (1 - training.optimizer_offload) + weights
    return Host(
        processes=ranks * (PROCESS + (STANDBY if training.standby else 0)),
        offload=ranks * owned * training.optimizer_offload * OFFLOADED,
        save=ranks * state if training.saves_optimizer else 0.0,
        gathered=_gathered(model, training),
    )


def _gathered(model: ModelConfig, training: Training, files: int = SHARD_FILES) -> float:
    """Return the peak bytes of safetensors held by rank 0 (``save_weights``), with so many files.

    An adapter is one file, a model several; with merging an adapter's checkpoint writes both. The
    largest tensor, an embedding, is gathered before a full file is handed to its writer.
    """
    shard = min(files * SHARD_FILE + 2 * model.embedding_parameters, 2 * model.parameters)
    if training.tuner == "full":
        return shard
    own = 2 * whole(model, training, IN_PEFT)
    return own if training.merges == "never" else max(own, shard)


def optimizer_kept(training: Training) -> float:
    """Return the persistent optimizer bytes on the GPU per parameter whose state the rank holds.

    Sources: megatron-core 0.18 ``optimizer/distrib_optimizer.py`` and
    ``optimizer/cpu_offloading/hybrid_optimizer.py``; Transformer Engine
    ``pytorch/optimizers/fused_adam.py`` (the fp32 master is kept as the 16 bits that bf16 weights
    lack, ``store_param_remainders``).

    >>> from launchers.plan.layout import Layout
    >>> one = Layout(nodes=1, gpus_per_node=1)
    >>> optimizer_kept(Training(layout=one))
    12.0
    >>> optimizer_kept(Training(layout=one, precision_aware=True))
    10.0
    """
    left = 1 - training.optimizer_offload
    if training.optimizer != "adam":
        return 8.0 * left  # fp32 master and one momentum
    if not training.precision_aware:
        # the fp32 shard of the weights stays on the GPU even when offloaded
        return 4.0 + 8.0 * left
    if training.offloads:  # the hybrid optimizer keeps a plain fp32 copy
        return 12.0 * left
    moments = BYTES[training.exp_avg_dtype] + BYTES[training.exp_avg_sq_dtype]
    return 2.0 + moments


def optimizer_saved(training: Training) -> float:
    """Return the optimizer's bytes per trained parameter in Megatron's checkpoint.

    fp32 master and moments; with the precision-aware optimizer the 16 bits of the master that the
    weight lacks, and moments in bf16 as they are (``training/optimizer/narrow_moments.py``). Other
    moments are widened to fp32 (megatron-core ``distrib_optimizer.py``,
    ``_get_main_param_and_optimizer_states``), and all state for ``fully_reshardable``.
    """
    if training.reshardable or not training.precision_aware or training.offloads:
        return 12.0
    moments = (training.exp_avg_dtype, training.exp_avg_sq_dtype)
    return 2.0 + sum(2.0 if dtype == "bf16" else 4.0 for dtype in moments)


def optimizer_passing(training: Training, dense: float, experts: float) -> float:
    """Return the temporary bytes of an optimizer step.

    Transformer Engine's FusedAdam makes fp32 copies of all moments that are not fp32 of a
    parameter group at once (``get_unscaled_state``); experts are a group of their own. Without the
    precision-aware optimizer, bf16 gradients are copied to fp32 (``optimizer.py``:
    ``_copy_model_grads_to_main_grads``).
    """
    if training.optimizer != "adam":
        return 4.0 * (dense + experts)
    if not training.precision_aware or training.offloads:
        copies = 4 - BYTES[training.main_grads_dtype] and 4
        on_gpu = 1 - training.optimizer_offload if training.precision_aware else 1.0
        return copies * on_gpu * (dense + experts)
    narrow = sum(BYTES[d] < 4 for d in (training.exp_avg_dtype, training.exp_avg_sq_dtype))
    group = max(dense, experts)
    return 4.0 * narrow * (min(group, CHUNK) if training.chunked_step else group)
