"""A plan as one JSON document: ``plan.json`` of a run, and a part of ``megatron-dpo plan --json``.

The shape, version 1; sizes are bytes, GiB where the name says so, times seconds. A part that is
not known is null, and ``unknown`` has its reason under its name:

    version  run  recipe{backend, task, model, dataset, args, digest}  stages{name: run|skip}
    gang{nodes, gpus_per_node, world_size, card}
    model{source, parameters, active_parameters, layers, experts}
    layout{tp, pp, cp, ep, etp, vpp, dp, edp, stage_layers, spread{kind: nodes}, nodes[{ranks,
           stages}]}
    training{micro_batch_size, global_batch_size, microbatches, max_length, packing, recompute, ...}
    memory{card_gib, total_gib, free_gib, items{name: gib}, stages_gib[], host_gib_per_node}
    speed{step_seconds, low_seconds, high_seconds, tokens_per_second_per_gpu, mfu,
          communication{link: seconds}}
    length{steps, source, seconds, gpu_hours}
    footprint{model, converted, checkpoint, every_steps, kept, needed, lost_seconds, is_exact}
    unknown{part: reason}
"""

from __future__ import annotations

from typing import Any

from launchers.groups import KINDS, spread, stages_of_node
from launchers.plan import Plan
from launchers.settings import STAGES
from launchers.training import Training

VERSION = 1
ITEMS = (
    "weights",
    "gradients",
    "reference",
    "optimizer",
    "activations",
    "logits",
    "buffers",
    "overhead",
)
"""Parts of a GPU's memory, as ``memory.Memory`` names them."""
