"""Loaded into Megatron DPO: writes the log-probabilities of each pair, of reference and policy.

``PROBE`` names the folder; ``logps-<rank>.jsonl`` gets a row a micro-batch: step from 1, ids, and
of chosen and rejected the reference's and the policy's sums and the tokens that these are over. It
works on ms-swift's own trainer and on ours alike.
"""

import importlib
import json
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from launchers.training.reference.loss import bounds_of, sums
from launchers.training.reference.pairs import pair_id, rows_of

NAMES = "probe_names"
trainers: Any = importlib.import_module("swift.megatron.trainers")
Upstream: Any = trainers.MegatronDPOTrainer


class Collator:
    """Adds the pairs' ids to a batch."""

    def __init__(self, inner: Any) -> None:
        """Wrap another collator."""
        self.inner = inner

    def __call__(self, batch: list[Any]) -> dict[str, Any]:
        """Name the pairs before they are padded."""
        names = [pair_id(row).hex() for row in rows_of(batch)]
        return {**self.inner(batch), NAMES: names}


class ProbeTrainer(Upstream):  # type: ignore[misc]
    """The trainer under test, which writes what its loss was made of."""

    def _get_data_collator(self) -> Any:
        return Collator(super()._get_data_collator())

    def get_batch(self, data_iterator: Any, vp_stage: Any = None) -> Any:
        """Keep the ids of the micro-batch: the model takes none."""
        data = super().get_batch(data_iterator, vp_stage)
        self.probe_names = data.pop(NAMES, None)
        return data

    def forward_step(self, data_iterator: Any, model: Any) -> Any:
        """Write both models' sums where the loss is made."""
        output, loss_func = super().forward_step(data_iterator, model)
        names = self.probe_names
        given = loss_func.keywords

        def loss(tensor: Any) -> Any:
            self.write(names, tensor.detach(), given)
            return loss_func(tensor)

        return output, loss

    def write(self, names: list[str], output: Any, given: dict[str, Any]) -> None:
        """Sum with ms-swift's own function, for either trainer."""
        labels, packed = given["labels"], given["packed_seq_params"]
        if (stored := given.get("reference")) is None:
            half = output.shape[0] // 2
            reference = self.get_logps(output[:half].double(), labels, packed).view(2, -1)
            policy = self.get_logps(output[half:].double(), labels, packed).view(2, -1)
        else:
            reference, policy = stored, self.get_logps(output.double(), labels, packed).view(2, -1)
        ones = torch.full(labels.shape, -1.0, device=labels.device)
        counts = sums(ones, labels, bounds_of(packed)).view(2, -1)
        row = {"step": self.state.iteration + 1, "names": names, "tokens": counts.tolist()}
        row |= {"reference": reference.tolist(), "policy": policy.tolist()}
        path = Path(os.environ["PROBE"]) / f"logps-{dist.get_rank()}.jsonl"
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")


trainers.MegatronDPOTrainer = ProbeTrainer
