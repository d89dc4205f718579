"""The recipe: model, data and flags, parsed once from the chart's ``recipe.yaml``."""

import hashlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from launchers import suggestion
from launchers.config.flag_value import Value, as_text, is_zero, switch, words
from launchers.exits import Exit, LaunchError

Backend = Literal["megatron", "transformers", "script"]
Task = Literal["rlhf", "sft", "pt"]
Reference = Literal["online", "precomputed"]
AdapterReference = Literal["adapter", "base"]
Export = Literal["last", "best"]
PairWeights = Literal["equal", "pack"]
Saving = Literal["background", "blocking"]

TUNER = "tuner_type"
ADAPTERS = ("adapters", "ref_adapters", "mcore_adapter", "mcore_ref_adapter")
"""Flags that name an adapter; with one of them ms-swift's Megatron trainer trains LoRA and ignores
``tuner_type`` (``swift/megatron/arguments/megatron_args.py``, ``__post_init__``)."""
PAIRED = ("dpo", "rm", "cpo", "orpo", "simpo")
"""``rlhf_type`` of the losses on pairs of a chosen and a rejected text
(``swift/template/base.py``)."""
OWN = "recipe."
"""The recipe's own keys begin with it where they stand among the flags, for rules that ask for
them."""
TASK, REFERENCE, EXPORT = f"{OWN}task", f"{OWN}reference", f"{OWN}export"
PAIR_WEIGHTS, PROMPT_ONCE = f"{OWN}pairWeights", f"{OWN}promptOnce"
AUTO = "auto"
"""Default of ``promptOnce``."""
ADAPTER_REFERENCE = f"{OWN}adapterReference"
TRAINS = f"{OWN}trains"
"""``adapter`` or ``full``: what Megatron's trainer trains, a fact that follows from flags."""
_RELEASE = re.compile(r"\d+(\.\d+)+")
_REFERENCE_TYPES = ("dpo", "kto")
TRACKERS = {"wandb": "WANDB_API_KEY", "swanlab": "SWANLAB_API_KEY"}
"""Trackers that are sent the curves, with the variable of their API key."""
SWITCHES = {"allowVersionChange": False, "checkFirstStep": True, "pairLedger": True}
"""Keys that are true or false, with their defaults."""
KEYS = (
    "backend", "task", "model", "dataset", "args", "reference", "adapterReference", "pairWeights",
    "promptOnce", "export", "saving", "saveMinutes", "maxDroppedRows", *SWITCHES, "swiftVersion",
    "trackers", "script",
)  # fmt: skip
CHOICES = {
    "backend": get_args(Backend),
    "task": get_args(Task),
    "reference": get_args(Reference),
    "adapterReference": get_args(AdapterReference),
    "export": get_args(Export),
    "pairWeights": get_args(PairWeights),
    "saving": get_args(Saving),
}
SAVE_MINUTES = 15.0
MAX_DROPPED_ROWS = 0.05
SAVE_STEPS = 500
"""ms-swift's default of ``save_steps`` (``swift/megatron/arguments/megatron_args.py``)."""
KEPT_BY_TIME = 2
"""Checkpoints kept where they are saved by time and ``save_total_limit`` is not given."""
_NUMBERS = {
    "saveMinutes": (
        sys.float_info.max,
        "recipe-save-minutes",
        "use minutes, e.g. 15, or 0 to save by recipe.args.save_steps",
    ),
    "maxDroppedRows": (1, "recipe-max-dropped-rows", "use a share from 0 to 1, e.g. 0.05"),
}
"""Keys that are a number from 0 on: the greatest, the id of the refusal, and its remedy."""
_SAVES_AT_STEPS = ("save_steps", "save_strategy", "load_best_model_at_end")
"""Flags that tie the checkpoints to steps."""
_DEFAULTS = {key: choices[0] for key, choices in CHOICES.items() if key not in ("backend", "task")}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One training recipe."""

    backend: Backend
    task: Task
    model: str
    """Source of the model, e.g. ``hf://org/name@revision``."""
    dataset: tuple[str, ...]
    """Sources of the datasets, at least one."""
    args: dict[str, Value]
    """Flags of ms-swift without their dashes."""
    reference: Reference = "online"
    """``online``: DPO computes the reference log-probabilities in every step;
    ``precomputed``: once, before training."""
    export: Export = "last"
    """The checkpoint that is exported: the ``last``, or the ``best`` by its evaluation."""
    pair_weights: PairWeights = "equal"
    """Weights of the pairs of a step in packed DPO. ``equal``: all the same; ``pack``: as ms-swift
    does, packs weigh the same and the pairs of a pack share its weight."""
    prompt_once: bool | None = None
    """Whether the texts of a pair share the computation of their prompt in a pack; None
    (``auto``): rank 0 decides (``stages/attempt.py: settle``), and until then they do not."""
    saving: Saving = "background"
    """How Megatron's checkpoints are written: in the ``background``, from a copy in host memory, or
    ``blocking`` training until they are complete. Not part of ``digest``."""
    save_minutes: float = SAVE_MINUTES
    """Minutes of work that an interruption may lose, where checkpoints are saved by time; 0 saves
    by steps. Not part of ``digest``."""
    max_dropped_rows: float = MAX_DROPPED_ROWS
    """Share of the rows that may be dropped before training is refused. Not part of ``digest``."""
    allow_version_change: bool = False
    """Whether a resume may use other versions of upstream than before; not part of ``digest``."""
    adapter_reference: AdapterReference = "adapter"
    """Reference of a run that continues an adapter: the ``adapter`` that ``ref_adapters`` names, or
    ``base``, the model without it. Not part of ``digest``."""
    check_first_step: bool = True
    """Whether a first step that differs from the reference ends the run; not in ``digest``."""
    pair_ledger: bool = True
    """Whether a DPO run records each pair; not part of ``digest``."""
    swift_version: str = ""
    """The ms-swift whose flags the chart has checked; empty for none. Not part of ``digest``."""
    trackers: tuple[str, ...] = ()
    """Trackers added to ``report_to``; not part of ``digest``."""
    script: tuple[str, ...] = ()
    """Of backend ``script``: a file of the clone, and its arguments."""

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the recipe; equal recipes have equal digests."""
        fields = [self.backend, self.task, self.model, list(self.dataset), self.args]
        fields += [self.reference] if self.reference != "online" else []
        fields += [f"export {self.export}"] if self.export != "last" else []
        # a run that began before there were equal weights has the digest of ``pack``
        fields += ["equal pair weights"] if self.weighs_pairs_equally else []
        fields += [["script", *self.script]] if self.script else []
        fields += ["prompt once"] if self.prompt_once else []  # its packs hold other pairs
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

    @property
    def identity(self) -> str:
        """Return the digest of what determines the checkpoints.

        A run may resume with the other reference, which gives the same results, and then export
        another checkpoint.
        """
        return replace(self, reference="online", export="last").digest

    @property
    def settled(self) -> tuple["Recipe", ...]:
        """Return what the recipe may become once ``prompt_once`` is decided."""
        both = (False, True) if self.prompt_once is None else (self.prompt_once,)
        return tuple(replace(self, prompt_once=each) for each in both)

    @property
    def own(self) -> dict[str, str]:
        """Return the keys other than ``args`` that rules may ask for, by their path in the values.

        ``chart/charts/library/templates/recipe/_rules.tpl`` lists the same.
        """
        return {
            TASK: self.task,
            REFERENCE: self.reference,
            EXPORT: self.export,
            PAIR_WEIGHTS: self.pair_weights,
            PROMPT_ONCE: AUTO if self.prompt_once is None else str(self.prompt_once).lower(),
            ADAPTER_REFERENCE: self.adapter_reference,
        }

    @property
    def reports_to(self) -> list[str]:
        """Return the values of ``report_to``: the flag's or ms-swift's default, and the trackers.

        >>> Recipe(backend="megatron", task="rlhf", model="m", dataset=("d",), args={},
        ...        trackers=("wandb",)).reports_to
        ['tensorboard', 'wandb']
        """
        given = words(self.args.get("report_to", "tensorboard"))
        return list(dict.fromkeys([*(name for name in given if name != "none"), *self.trackers]))

    @property
    def holds_out(self) -> bool:
        """Return whether some rows are evaluated and not trained on."""
        is_split = not is_zero(self.arg("split_dataset_ratio", "0"))
        return is_split or any(self.args.get(n) for n in ("val_dataset", "cached_val_dataset"))

    @property
    def preference(self) -> str:
        """Return the method of preference training, ``rlhf_type``; empty for another task."""
        return as_text(self.args.get("rlhf_type", "dpo")) if self.task == "rlhf" else ""

    def arg(self, name: str, default: str = "") -> str:
        """Return the value of a flag that takes one value."""
        value = self.args.get(name, default)
        return value if isinstance(value, str) else default

    def is_on(self, name: str, default: str = "false") -> bool:
        """Return the value of a switch; an empty value counts as missing.

        Raises:
            LaunchError: CONFIG for a value that ms-swift's parser refuses.
        """
        text = as_text(self.args.get(name, "")) or default
        value = switch(text)
        if value is None:
            raise LaunchError(
                Exit.CONFIG,
                f'recipe.args.{name}: "{text}" is neither true nor false',
                "use true or false",
                id="flag-switch",
            )
        return value

    @property
    def trains_adapter(self) -> bool:
        """Return whether an adapter is trained on a frozen model."""
        if self.backend == "megatron" and any(self.args.get(name) for name in ADAPTERS):
            return True
        return self.arg("tuner_type", "full" if self.backend == "megatron" else "lora") != "full"

    @property
    def writes_safetensors_once(self) -> bool:
        """Return whether only Megatron's last save writes safetensors; a resume needs none."""
        is_exact = self.backend == "megatron" and not self.is_on("no_save_optim")
        is_for_export = "save_safetensors" not in self.args and self.export == "last"
        # the user wants the merged model of each checkpoint
        merges_each = self.trains_adapter and self.is_on("merge_lora")
        return is_exact and is_for_export and not merges_each

    @property
    def saves_in_background(self) -> bool:
        """Return whether checkpoints are written while training continues."""
        is_exact = self.backend == "megatron" and not self.is_on("no_save_optim")
        return is_exact and self.saving == "background"

    @property
    def saves_by_time(self) -> bool:
        """Return whether the launcher chooses the steps of the checkpoints, by time.

        The best checkpoint must be saved in the step of its evaluation.
        """
        is_free = self.export == "last" and not any(map(self.args.get, _SAVES_AT_STEPS))
        return is_free and self.save_minutes > 0

    @property
    def weighs_pairs_equally(self) -> bool:
        """Return whether the launcher replaces the weights that packs give to pairs of DPO."""
        return self.has_packed_pairs and self.pair_weights == "equal"

    @property
    def has_packed_pairs(self) -> bool:
        """Return whether rows of DPO are packed."""
        return self.preference == "dpo" and self.is_on("packing")

    @property
    def has_reference(self) -> bool:
        """Return whether ms-swift accepts a reference model for this recipe."""
        return self.preference in _REFERENCE_TYPES and not self.trains_adapter


def parse(document: object) -> Recipe:
    """Parse the recipe's document."""
    if not isinstance(document, Mapping):
        remedy = f"use the keys {', '.join(KEYS)}"
        raise LaunchError(Exit.CONFIG, "recipe is not a map", remedy, id="recipe-map")
    for key in document:
        if key not in KEYS:
            remedy = f"{suggestion.remedy(str(key), KEYS)}; a flag of ms-swift belongs below args"
            cause = f"recipe.{key} is not a key"
            raise LaunchError(Exit.CONFIG, cause, remedy, id="recipe-key-unknown")
    given = {**_DEFAULTS, **document}
    for key, choices in CHOICES.items():
        if given.get(key) not in choices:
            raise _wrong(key, given.get(key), f"use {' or '.join(choices)}", id="recipe-choice")
    return Recipe(
        backend=cast(Backend, document["backend"]),
        task=cast(Task, document["task"]),
        model=_model(document.get("model")),
        dataset=_dataset(document.get("dataset")),
        args=_args(document.get("args")),
        reference=cast(Reference, given["reference"]),
        export=cast(Export, given["export"]),
        pair_weights=cast(PairWeights, given["pairWeights"]),
        prompt_once=_prompt_once(document.get("promptOnce", AUTO)),
        saving=cast(Saving, given["saving"]),
        save_minutes=_number("saveMinutes", given.get("saveMinutes", SAVE_MINUTES)),
        max_dropped_rows=_number("maxDroppedRows", given.get("maxDroppedRows", MAX_DROPPED_ROWS)),
        allow_version_change=_switch("recipe-version-change", document, "allowVersionChange"),
        adapter_reference=cast(AdapterReference, given["adapterReference"]),
        check_first_step=_switch("recipe-first-step", document, "checkFirstStep"),
        pair_ledger=_switch("recipe-pair-ledger", document, "pairLedger"),
        swift_version=_swift_version(document.get("swiftVersion", "")),
        trackers=_trackers(document.get("trackers", [])),
        script=_script(document),
    )


def _wrong(key: str, given: object, remedy: str, *, id: str) -> LaunchError:
    return LaunchError(Exit.CONFIG, f"recipe.{key}={given!r}", remedy, id=id)


def _switch(id: str, document: Mapping[str, object], key: str) -> bool:
    given = document.get(key, SWITCHES[key])
    if not isinstance(given, bool):
        raise _wrong(key, given, "use true or false", id=id)
    return given


def _prompt_once(given: object) -> bool | None:
    if given != AUTO and not isinstance(given, bool):
        raise _wrong("promptOnce", given, f"use {AUTO}, true or false", id="recipe-prompt-once")
    return given if isinstance(given, bool) else None


def _number(key: str, given: object) -> float:
    high, id, remedy = _NUMBERS[key]
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= high:
        raise _wrong(key, given, remedy, id=id)
    return float(given)


def _swift_version(given: object) -> str:
    if not isinstance(given, str) or (given and not _RELEASE.fullmatch(given)):
        remedy = 'use a release of ms-swift, e.g. "4.5.3"'
        raise _wrong("swiftVersion", given, remedy, id="recipe-swift-version")
    return given


def _trackers(given: object) -> tuple[str, ...]:
    if not isinstance(given, list) or any(each not in [*TRACKERS] for each in given):
        remedy = f"use a list of {' and '.join(TRACKERS)}"
        raise _wrong("trackers", given, remedy, id="recipe-trackers")
    return tuple(given)


def _script(document: Mapping[str, object]) -> tuple[str, ...]:
    given, is_script = document.get("script") or [], document["backend"] == "script"
    if (
        not isinstance(given, list)
        or not all(isinstance(each, str) for each in given)
        or bool(given) != is_script
        or (is_script and document.get("args"))
    ):
        raise LaunchError(
            Exit.CONFIG,
            f"recipe.script={given!r} with recipe.backend={document['backend']}",
            "use backend: script with a list, the path of a script in the clone and its "
            "arguments, and without recipe.args; or another backend without recipe.script",
            id="recipe-script",
        )
    return tuple(given)


def _model(model: object) -> str:
    if not isinstance(model, str) or not model:
        raise _wrong("model", model, "use a source, e.g. hf://org/name@revision", id="recipe-model")
    return model


def _dataset(dataset: object) -> tuple[str, ...]:
    if not isinstance(dataset, list) or not dataset or not all(isinstance(d, str) for d in dataset):
        raise _wrong("dataset", dataset, "use a list of at least one source", id="recipe-dataset")
    return tuple(dataset)


def _args(args: object) -> dict[str, Value]:
    if args is None:
        return {}
    if not isinstance(args, Mapping):
        raise _wrong("args", args, "use a map of flag: value", id="recipe-args")
    return {str(k): _value(str(k), v) for k, v in sorted(args.items()) if v is not None}


def _value(name: str, value: object) -> Value:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list):
        return [_word(name, item) for item in value]
    return _word(name, value)


def _word(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise _wrong(f"args.{name}", value, "use a string, a list of strings or a map", id="flag-value")
