"""Record the policy's log-probabilities of some pairs: the export is compared with them.

The trainer computes them with its own forward pass and loss, before the first step and where a
checkpoint is saved that may be exported (``rehearsal/load_export.py`` compares).
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from launchers import logs
from launchers.config.workspace import PROBE
from launchers.flags.features import EXPORT_VARIABLE
from launchers.reference.pairs import FIELDS, pair_id, rows_of
from launchers.rehearsal.load_export import chosen, describe
from launchers.stop import finished
from launchers.system.atomic_file import replace
from launchers.training.collect.batch_rows import CURRENT
from launchers.training.installed import INSTALLED

PAIRS = 64
"""Most pairs; with packing the last pack may exceed it."""


def record(trainer: Any, held_out: Any, step: int, last: int, score: Callable[..., Any]) -> None:
    """Write the log-probabilities of the first pairs; a failure does not end training.

    Args:
        trainer: ms-swift's; all ranks call it.
        held_out: rows that are not trained on; None where there are none.
        step: optimizer steps done.
        last: steps of the run.
        score: yields the pairs that this rank computes: id, chosen and rejected, in nats.
    """
    if step and not finished.is_last(step, last) and os.environ.get(EXPORT_VARIABLE) != "best":
        return
    source = CURRENT.dataset if held_out is None else held_out
    models = getattr(trainer, "wrapped_models", None) or [trainer.model_wrapped]
    try:
        taken: list[Any] = []
        _gathered(lambda: _take(source, taken))  # before a forward pass that waits for all ranks
        for model in models:
            model.eval()
        with torch.no_grad():
            found = _gathered(lambda: {name: sums for name, *sums in score(trainer, taken)})
        if not dist.is_initialized() or dist.get_rank() == 0:
            sums = {name: value for each in found for name, value in each.items()}
            _write(trainer, models[0], rows_of(taken), sums, step, held_out is not None)
    except Exception as error:
        logs.warning("export will not be compared", cause=f"{type(error).__name__}: {error}")
    finally:
        for model in models:
            model.train()


def _take(source: Any, taken: list[Any]) -> None:
    while len(rows_of(taken)) < PAIRS and len(taken) < len(source):
        taken.append(source[len(taken)])


def _gathered(act: Callable[[], Any]) -> list[Any]:
    """Return what ``act`` returns on each rank.

    Raises:
        RuntimeError: on every rank, where it raises on one, so that no rank waits for that one.
    """
    own, cause = None, ""
    try:
        own = act()
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
    found: list[Any] = [(own, cause)]
    if dist.is_initialized():
        found *= dist.get_world_size()
        dist.all_gather_object(found, (own, cause))
    for rank, (_, why) in enumerate(found):
        if why:
            raise RuntimeError(f"rank {rank}: {why}")
    return [each for each, _ in found]


def _write(trainer: Any, model: Any, rows: Any, sums: Any, step: int, is_held_out: bool) -> None:
    args, tokenizer = trainer.args, trainer.template.tokenizer
    # on CPU ms-swift sets fp16 for float32 weights, and accelerate computes in float32
    autocasts = getattr(getattr(trainer, "accelerator", None), "native_amp", None)
    if autocasts is None:
        autocasts = any(getattr(args, name, 0) for name in ("bf16", "fp16"))
    found = {
        "step": step,
        "held_out": is_held_out,
        "weights": str(next(model.parameters()).dtype).removeprefix("torch."),
        "narrow": autocasts,
        "pairs": [
            {**{name: list(row[name]) for name in FIELDS}, "sums": sums[pair_id(row)]}
            for row in rows
        ],
        "tokenizer": describe(tokenizer, [tokenizer.decode(row[FIELDS[0]]) for row in rows[:8]]),
    }
    home = Path(os.environ.get("DPO_RUN_FOLDER") or args.output_dir)
    replace(home / PROBE.format(step), json.dumps(found) + "\n")


def of_megatron(trainer: Any, taken: list[Any]) -> Any:
    """Yield this rank's share of the pairs, by the schedule of the reference's pass."""
    from launchers.reference.forward_pass import forward, rounds

    trainer.plain_collator = getattr(trainer, "plain_collator", trainer.data_collator)
    for batch, counts in rounds(trainer, taken, {}):
        micros, _, values = forward(trainer, batch, counts)
        for micro, each in zip(micros, values, strict=False):  # only the last stage has values
            half = len(each) // 2
            yield from zip(micro.names, each[:half], each[half:], strict=True)


def of_transformers(trainer: Any, taken: list[Any]) -> Any:
    """Yield all pairs on every rank."""
    from swift.utils import to_device

    for each in taken:
        batch = to_device(trainer.data_collator([each]), trainer.model.device)
        # as for the reference: without ld_alpha, which belongs to the loss
        found = trainer.concatenated_forward(trainer.model_wrapped, batch, is_ref_model=True)
        both = (found[f"{side}_logps"].tolist() for side in ("chosen", "rejected"))
        yield from zip(map(pair_id, rows_of([each])), *both, strict=True)


def install() -> None:
    """Register the callback ``probe`` of the trainer's backend."""
    is_megatron = "seal_megatron" in INSTALLED
    backend = "megatron" if is_megatron else "transformers"
    (_install_megatron if is_megatron else _install_transformers)(
        is_wanted=chosen(os.environ, backend) != "none"
    )


def _install_megatron(*, is_wanted: bool) -> None:
    from swift.megatron.callbacks.base import MegatronCallback
    from swift.megatron.callbacks.mapping import megatron_callbacks_map

    class ProbeCallback(MegatronCallback):  # type: ignore[misc]
        """Records where upstream's hooks that gather parameters are off: at both events."""

        def on_step_begin(self) -> None:
            if not self.state.iteration:
                self.on_save("")

        def on_save(self, output_dir: str) -> None:
            held_out = getattr(self.trainer, "held_out_rows", None)
            step, last = self.state.iteration, self.args.train_iters
            record(self.trainer, held_out, step, last, of_megatron)

    megatron_callbacks_map["probe"] = ProbeCallback if is_wanted else MegatronCallback


def _install_transformers(*, is_wanted: bool) -> None:
    from swift.callbacks.base import TrainerCallback
    from swift.callbacks.mapping import callbacks_map

    class ProbeCallback(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.on_save(args, state, control)  # a last step may be saved and not recorded

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            rows, step = self.trainer.eval_dataset, state.global_step
            record(self.trainer, rows, step, state.max_steps, of_transformers)

    callbacks_map["probe"] = ProbeCallback if is_wanted else TrainerCallback
