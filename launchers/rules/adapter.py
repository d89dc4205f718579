"""Rules of adapter training: settings whose adapter ms-swift cannot save or load again."""

from __future__ import annotations

from launchers.rules.engine import Conflict, Rule, given, none_of, one_of, over
from launchers.rules.parallelism import VPP

_TUNER = "tuner_type"
_TRAINED = none_of(_TUNER, "full")

ADAPTER: tuple[Rule, ...] = (
    Conflict(
        id="adapter-lora-llm",
        flag=_TUNER,
        when=(one_of(_TUNER, "lora_llm"),),
        says="lora_llm does not save an adapter, so an interrupted run would start with a new one; "
        "use lora or full",
        source="SW trainers/base.py:save_checkpoint, skip_saving_adapter",
    ),
    Conflict(
        id="adapter-virtual-pipeline",
        flag=VPP,
        when=(_TRAINED, over(VPP, "1")),
        says="{" + VPP + "} model chunks cannot load an adapter's checkpoint; remove it "
        "or set tuner_type: full",
        source="SW megatron_lm_utils.py:load_mcore_checkpoint loads several chunks strictly",
    ),
    Conflict(
        id="adapter-target-regex",
        flag="target_regex",
        when=(_TRAINED, given("target_regex")),
        says="an adapter selected by a pattern cannot be saved; list the layers in "
        "target_modules instead",
        source="SW megatron/init.py: AssertionError in the first save",
    ),
)
"""Rules of the Megatron backend."""
