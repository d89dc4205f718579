"""Loaded into Megatron DPO: the experts' all-to-all of one microbatch runs beside another's work.

megatron-core 0.18 asks the forward step for a plan of the model's parts instead of an output
(``combined_1f1b.py``: ``return_schedule_plan``). ms-swift 4.4.1 has no such word, and the first
part of megatron-core's plan calls ``_preprocess`` with an argument that mcore-bridge 1.6.0's model
does not take and reads its answer in another order. Both are supplied here. All other parts are
the model's own modules, called in the same order on the same tensors: for packs of Qwen3-MoE the
``forward`` of mcore-bridge's layers adds nothing to what a plan calls but the rope below.
"""

from __future__ import annotations

import importlib
import os
from types import SimpleNamespace
from typing import Any

from mcore_bridge.model.gpt_model import GPTModel
from mcore_bridge.model.modules.transformer_layer import TransformerLayer
from megatron.core.models.gpt.fine_grained_callables import PreProcessNode
from megatron.core.pipeline_parallel.utils import get_comp_stream

from launchers import logs
from launchers.flags.overlap import SWITCH, OverlapConfigError, refusals, switched, unread
from launchers.training.upstream import require, require_parameters

QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS"
trainers: Any = importlib.import_module("swift.megatron.trainers")  # where ms-swift looks it up
_Upstream: Any = trainers.MegatronDPOTrainer
_OTHERWISE = f"remove recipe.args.{SWITCH}"
_INPUTS = ("input_ids", "position_ids", "decoder_input", "inference_context", "packed_seq_params")
require_parameters(_Upstream.forward_step, "self", "data_iterator", "model", otherwise=_OTHERWISE)
require_parameters(GPTModel._preprocess, "self", *_INPUTS, otherwise=_OTHERWISE)
require(TransformerLayer, "_patch_apply_rotary_pos_emb")
require(GPTModel, "build_schedule_plan")


class Inputs(PreProcessNode):  # type: ignore[misc]
    """The plan's first part: embedding and rope, as in mcore-bridge's ``GPTModel.forward``."""

    def forward_impl(self) -> Any:
        """Return the embedded tokens, and leave the rest to the parts that follow."""
        model, state = self.gpt_model, self.chunk_state
        embedded, _, rope, cos, sin, offset = model._preprocess(
            input_ids=state.input_ids,
            position_ids=state.position_ids,
            decoder_input=state.decoder_input,
            packed_seq_params=state.packed_seq_params,
        )
        if model.position_embedding_type == "rope" and not model.config.apply_rope_fusion:
            rope = rope[state.position_ids[0]]  # each text of a pack begins at 0
        state.decoder_input, state.sequence_len_offset = embedded, offset
        state.rotary_pos_emb, state.rotary_pos_cos, state.rotary_pos_sin = rope, cos, sin
        return embedded


class Planner:
    """Stands for the wrapped model in the trainer's forward step, and plans instead of running."""

    def __init__(self, model: Any) -> None:
        """Take the model as megatron-core hands it over: without its wrappers."""
        if type(model) is not GPTModel:
            told = f"{type(model).__name__} has a forward pass of its own"
            raise OverlapConfigError(f"recipe.args.{SWITCH}: {told}; remove it")
        self.model = model
        self.module = SimpleNamespace(module=model)

    def __call__(self, **batch: Any) -> Any:
        """Return the plan of a microbatch."""
        if lost := unread(batch):
            told = f"a batch holds {', '.join(lost)}, which a plan does not read"
            raise OverlapConfigError(f"recipe.args.{SWITCH}: {told}; remove it")
        plan = self.model.build_schedule_plan(
            batch["input_ids"],
            batch["position_ids"],
            None,  # packs have no mask
            labels=batch["labels"],
            packed_seq_params=batch["packed_seq_params"],
        )
        plan.pre_process = Inputs(self.model, plan.state, plan.event, get_comp_stream)
        return plan


class OverlappedDPOTrainer(_Upstream):  # type: ignore[misc]
    """The DPO trainer whose forward step gives a plan when it is asked for one."""

    def __init__(self, args: Any, template: Any) -> None:
        """Refuse what can't be planned, then build as upstream does."""
        precomputed = getattr(_Upstream, "reference_is_precomputed", False)
        if found := refusals(args, precomputed=precomputed):
            raise OverlapConfigError(f"recipe.args.{SWITCH}: {'; '.join(found)}; remove it")
        # of megatron-core's own arguments the model gets this one, its gradients' hooks do not
        args.delay_wgrad_compute = switched(args.megatron_extra_kwargs, "delay_wgrad_compute")
        super().__init__(args, template)

    def forward_step(
        self, data_iterator: Any, model: Any, return_schedule_plan: bool = False
    ) -> tuple[Any, Any]:
        """Run the policy on a microbatch, or plan it; both with the same loss."""
        step: tuple[Any, Any] = super().forward_step(
            data_iterator, Planner(model) if return_schedule_plan else model
        )
        return step


_attention = TransformerLayer._forward_attention


def _forward_attention(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Rotate as mcore-bridge does: a plan does not pass its layer's ``forward``, which says so."""
    with self._patch_apply_rotary_pos_emb():
        return _attention(self, *args, **kwargs)


TransformerLayer._forward_attention = _forward_attention
trainers.MegatronDPOTrainer = OverlappedDPOTrainer
if os.environ.get(QUEUES) == "1" and os.environ.get("RANK", "0") == "0":  # ms-swift's default
    cause = f"{QUEUES} is 1, so that streams wait for each other"
    print(logs.line("overlap", cause=cause, remedy=f'extraEnv: {{{QUEUES}: "32"}}'), flush=True)
