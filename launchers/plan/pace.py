"""The constants of predicted time: those that were fitted, and those that were measured.

Four were fitted on measured and published runs (``scripts/calibrate``). The others have an
experiment of their own, each of which gives one figure; only ``EXPOSED`` is an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The constants that were fitted."""

    passing: float = 8.32
    """How often a layer's saved activations pass through the card's memory in one pass."""
    host: float = 6.35e-3
    """Seconds in which the host launches one pass of a layer with experts, beside the GPU."""
    idle: float = 3.456e-3
    """Seconds of such a pass that the GPU has nothing to do, where the host waits for it in every
    layer (``Training.host_waits``)."""
    host_adam: float = 2.794e9
    """Parameters that a node's CPUs update in a second."""
    spread: float = 0.17
    """Standard deviation of the logarithm of predicted over measured, each file of rows predicted
    by a fit of the others."""


PACE = Pace()
PRODUCTS = 0.80
"""Part of the peak that matrix products of dense layers reach: 790 of 989 TFLOP/s in the preflight
of H200 (tests/gpu/README.md)."""
GROUPED = 0.60
"""The same of experts: 3.71 TFLOP of a pack of 16,384 tokens in 6.28 ms, unevenly routed, there
and back (tests/gpu/results/experts-h200.json)."""
NVLINK = 0.67
"""Part of the card's all-reduce that an all-to-all of 235 MiB reaches: 281 and 296 of 431 GB/s in
the preflight of 2 and 4 H200 (tests/gpu/README.md). Taken for all that goes over NVLink."""
A2A_HIDDEN = 0.37
"""Part of the all-to-all that an overlapped schedule hides: a profile in NVIDIA-NeMo/
Megatron-Bridge ``skills/nemo-mbridge-perf-moe-hardware-configs/SKILL.md``."""
EXPOSED = 0.5
"""Part of data parallel traffic that waits when it is overlapped; an estimate, not measured."""
GPU_ADAM_BYTES = 93.0
"""Bytes that the card's memory could move in the time of a parameter's Adam step, its moments'
conversions included: 38.1 ms for 1.97e9 on H200 (tests/gpu/results/adam-h200.json)."""
