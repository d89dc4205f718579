"""One training of a case, with what it did: batches, logs, gradients, and what it saved."""

import functools
import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from launchers.flags.features import FEATURES
from launchers.metrics import reader
from launchers.metrics.rows import Row
from launchers.training import loading
from launchers.training.installed import INSTALLED
from launchers.upstream.patches import ACCEPT, Function
from launchers.upstream.table import PATCHES

Trace = dict[str, Any]
"""``batches``: of each microbatch its tokens, without padding; ``logs``: rows as logged; ``steps``:
gradients by name; ``saved``: tensors of each checkpoint; ``tokens``: of each step, as the
launcher counts them; ``calls``: of each feature how often what it replaced was called."""


def train(job: Mapping[str, Any], home: Path) -> Trace:
    """Train with the features of a job; return what was done.

    ``job``: ``backend``, ``features`` and ``flags`` of ms-swift; ``home`` is its run folder.
    """
    os.environ |= {ACCEPT: ",".join(patch.name for patch in PATCHES)}
    os.environ |= {"DPO_RUN_FOLDER": str(home), "DPO_ATTEMPT_FOLDER": str(home)}
    found: Trace = {"batches": [], "logs": [], "steps": [], "saved": {}}
    order = [each.name for each in FEATURES]
    calls = {name: _install(name) for name in sorted(job["features"], key=order.index)}
    is_megatron = job["backend"] == "megatron"
    (_observe_megatron if is_megatron else _observe_transformers)(found)
    flags = {**job["flags"], "output_dir": str(home / "out")}
    own = [feature.callback for feature in FEATURES if feature.name in INSTALLED]
    callbacks = [*filter(None, own), *([] if is_megatron else ["trace"])]
    words = [str(word) for name, value in flags.items() for word in (f"--{name}", value)]
    words += ["--callbacks", *callbacks] if callbacks else []
    place = "swift.megatron.pipelines.train.rlhf" if is_megatron else "swift.pipelines.train.rlhf"
    module = importlib.import_module(place)
    (module.MegatronRLHF if is_megatron else module.SwiftRLHF)(words).main()
    found["calls"] = calls
    found["tokens"] = [row.tokens for row in reader.read(home / "metrics.jsonl", Row)]
    found["saved"] = {p.name: _saved(p) for p in sorted((home / "out").glob("checkpoint-*"))}
    return found


def _install(feature: str) -> dict[str, int]:
    """Install a feature; return how often each function that it replaced is called."""
    patch = next(each for each in PATCHES if each.feature == feature)
    places = [(f, *_owner(f)) for f in patch.functions]
    before = {f.place: getattr(owner, name, None) for f, owner, name in places if owner}
    loading.install(feature)
    calls: dict[str, int] = {}
    for f, owner, name in places:
        now = getattr(owner, name, None) if owner else None
        if now is None or now is before[f.place] or isinstance(now, type):
            continue
        calls[f.place] = 0

        def counted(*given: Any, _now: Any = now, _at: str = f.place, **named: Any) -> Any:
            calls[_at] += 1
            return _now(*given, **named)

        setattr(owner, name, counted)
    return calls


def _owner(function: Function) -> tuple[Any, str]:
    """Return the class or module that holds a function, and its name there."""
    *above, name = function.name.split(".")
    try:
        return functools.reduce(getattr, above, importlib.import_module(function.module)), name
    except (ImportError, AttributeError):  # known to be missing in some releases
        return None, name


def _observe_megatron(found: Trace) -> None:
    trainer = importlib.import_module("swift.megatron.trainers.base").BaseMegatronTrainer
    prepare, made = trainer._prepare_batch, trainer.get_optimizer_and_scheduler
    log = trainer._log_callback

    def _prepare_batch(self: Any, data: Any, *given: Any, **named: Any) -> Any:
        real = sum(data.get("seq_lens") or [data["input_ids"].numel()])
        if self.unwrapped_models[0].training:
            found["batches"].append(data["input_ids"].flatten()[:real].tolist())
        return prepare(self, data, *given, **named)

    def get_optimizer_and_scheduler(self: Any) -> Any:
        optimizer, scheduler = made(self)
        inner = optimizer.step

        def step(*given: Any, **named: Any) -> Any:
            weights = self.unwrapped_models[0].named_parameters()
            grads = {n: p.main_grad.clone() for n, p in weights if hasattr(p, "main_grad")}
            found["steps"].append(grads)
            return inner(*given, **named)

        optimizer.step = step
        return optimizer, scheduler

    def _log_callback(self: Any, logs: Any, *given: Any) -> Any:
        log(self, logs, *given)
        found["logs"].append(_numbers(logs))

    trainer._prepare_batch = _prepare_batch
    trainer.get_optimizer_and_scheduler = get_optimizer_and_scheduler
    trainer._log_callback = _log_callback


def _observe_transformers(found: Trace) -> None:
    base = importlib.import_module("swift.callbacks.base").TrainerCallback
    trainer = importlib.import_module("transformers.trainer").Trainer
    inner = trainer.training_step

    class Note(base):  # type: ignore[misc, valid-type]
        def on_pre_optimizer_step(self, *_: Any, model: Any, **__: Any) -> None:
            found["steps"].append({n: p.grad.clone() for n, p in model.named_parameters()})

        def on_log(self, *_: Any, logs: Any, **__: Any) -> None:
            found["logs"].append(_numbers(logs))

    def training_step(self: Any, model: Any, inputs: Any, *given: Any, **named: Any) -> Any:
        batch: list[int] = []
        for name in [name for name in inputs if name.endswith("input_ids")]:  # KTO has two
            words, mask = inputs[name], inputs.get(name.replace("input_ids", "attention_mask"))
            is_padded = mask is not None and mask.shape == words.shape
            batch += (words[mask.bool()] if is_padded else words).flatten().tolist()
        found["batches"].append(batch)
        return inner(self, model, inputs, *given, **named)

    importlib.import_module("swift.callbacks.mapping").callbacks_map["trace"] = Note
    trainer.training_step = training_step


def _numbers(logs: Mapping[str, Any]) -> dict[str, float]:
    timed = ("time", "speed", "memory", "runtime", "per_second", "flos")
    found = {name: value for name, value in logs.items() if isinstance(value, int | float)}
    return {n: float(v) for n, v in found.items() if not any(word in n for word in timed)}


def _saved(folder: Path) -> dict[str, Any]:
    """Return the tensors of a checkpoint as torch itself reads them."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*.safetensors")):
        read = importlib.import_module("safetensors.torch").load_file(path)
        found |= {f"{path.name} {name}": tensor for name, tensor in read.items()}
    for path in sorted(folder.rglob(".metadata")):
        dcp = importlib.import_module("torch.distributed.checkpoint")
        reader, state = dcp.FileSystemReader(path.parent), {}
        for name, kind in reader.read_metadata().state_dict_metadata.items():
            if hasattr(kind, "properties"):
                state[name] = torch.zeros(kind.size, dtype=kind.properties.dtype)
        dcp.load(state, storage_reader=reader, no_dist=True)
        found |= state
    for path in sorted(folder.glob("optimizer.pt")):
        states = torch.load(path, weights_only=True)["state"]
        found |= {f"{n} {k}": v for n, each in states.items() for k, v in each.items()}
    return found
