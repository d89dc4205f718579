"""Rules of an adapter that is trained beside the model: what ms-swift can't save or read again."""

from __future__ import annotations

from launchers.rules.condition import given, none_of, one_of, over
from launchers.rules.engine import Conflict, Rule
from launchers.rules.parallelism import VPP

_TUNER = "tuner_type"
_TRAINED = none_of(_TUNER, "full")

ADAPTER: tuple[Rule, ...] = (
    Conflict(
        id="adapter-lora-llm",
        flag=_TUNER,
        when=(one_of(_TUNER, "lora_llm"),),
        says="lora_llm saves no adapter, so that a run that was cut would begin with a new one; "
        "write lora or full",
        source="SW trainers/base.py:save_checkpoint, skip_saving_adapter",
    ),
    Conflict(
        id="adapter-virtual-pipeline",
        flag=VPP,
        when=(_TRAINED, over(VPP, "1")),
        says="{" + VPP + "} model chunks can't read the checkpoint of an adapter again; remove it, "
        "or write tuner_type: full",
        source="SW megatron_lm_utils.py:load_mcore_checkpoint loads several chunks strictly",
    ),
    Conflict(
        id="adapter-target-regex",
        flag="target_regex",
        when=(_TRAINED, given("target_regex")),
        says="its adapter can't be saved; name the layers in target_modules instead",
        source="SW megatron/init.py: AssertionError in the first save",
    ),
)
"""Of the Megatron backend."""
