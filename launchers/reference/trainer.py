"""Train DPO in Megatron with precomputed log-probabilities of the reference.

Before the first step the policy is the reference. One forward pass of it over all pairs gives the
log-probabilities that ms-swift otherwise computes with a second model in every step; they are
stored on the workspace, and no reference model is built. After ms-swift 4.4.1
(``swift/megatron/trainers/{base,rlhf_mixin,dpo_trainer}.py``) and megatron-core 0.18.0.
"""

import importlib
from functools import partial
from typing import Any

import torch
from swift.megatron.trainers.base import BaseMegatronTrainer

from launchers.exits import Exit, LaunchError
from launchers.reference.forward_pass import take
from launchers.reference.loss import bounds_of, chosen_nll, sums
from launchers.reference.pairs import pair_id, rows_of
from launchers.reference.policy import KEY
from launchers.reference.store import Pairs

trainers: Any = importlib.import_module("swift.megatron.trainers")
"""Module in which ms-swift looks up its trainers."""
_Upstream: Any = trainers.MegatronDPOTrainer


class Collator:
    """Adds the stored log-probabilities to a batch, in the process that collates it."""

    def __init__(self, inner: Any, pairs: Pairs) -> None:
        """Wrap ms-swift's collator; ``pairs`` is filled before the first batch."""
        self.inner, self.pairs = inner, pairs

    def __call__(self, batch: list[Any]) -> dict[str, Any]:
        """Collate a batch; a pair that the store lacks ends the run.

        Raises:
            LaunchError: DATA, naming the pair by its id.
        """
        names = [pair_id(row) for row in rows_of(batch)]  # before the collator pads them
        absent = [name.hex() for name in names if name not in self.pairs]
        if absent:
            raise LaunchError(
                Exit.DATA,
                f"pair {absent[0]} has no reference log-probability: no pair had its tokens "
                "when the run began",
                "make each row's encoding deterministic, or set recipe.reference: online",
                id="reference-unknown-pair",
            )
        values = torch.tensor([self.pairs[name] for name in names], dtype=torch.float32)
        return {**self.inner(batch), KEY: values.T.contiguous()}


class PrecomputedDPOTrainer(_Upstream):  # type: ignore[misc]
    """ms-swift's DPO trainer without a reference model, for runs that ``rules`` allows."""

    reference_is_precomputed = True

    def prepare_model(self) -> None:
        """Build the policy only."""
        BaseMegatronTrainer.prepare_model(self)
        self.ref_models: list[Any] = []

    def _load_checkpoint(self) -> None:
        BaseMegatronTrainer._load_checkpoint(self)  # the class between them loads the reference

    def _get_data_collator(self) -> Collator:
        self.plain_collator = super()._get_data_collator()
        self.reference_pairs: Pairs = {}
        return Collator(self.plain_collator, self.reference_pairs)

    def setup_training(self, train_dataset: Any, val_dataset: Any) -> Any:
        """Compute the log-probabilities, or read them, while the policy is still the reference."""
        self.reference_pairs.update(take(self, [train_dataset, val_dataset]))
        return super().setup_training(train_dataset, val_dataset)

    def forward_step(self, data_iterator: Any, model: Any) -> tuple[Any, Any]:
        """Run the policy on a micro-batch, without a reference."""
        data = self.get_batch(data_iterator, model.module.module.vp_stage)
        data.pop("loss_scale", None)
        reference = data.pop(KEY)
        given = {"labels": data.get("labels"), "packed_seq_params": data.get("packed_seq_params")}
        return model(**data), partial(self.loss_func, reference=reference, **given)

    def get_logps(
        self, output_tensor: Any, labels: Any, packed_seq_params: Any, per_token: bool = False
    ) -> Any:
        """Return each text's summed log-probability in nats, like upstream's, float32 [texts]."""
        assert not per_token, "DPO sums them"
        return sums(output_tensor, labels, bounds_of(packed_seq_params))

    def loss_func(
        self, output_tensor: Any, *, labels: Any, packed_seq_params: Any, reference: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Return the loss and the logged metrics, like upstream's function of this name."""
        chosen, rejected = self.get_logps(output_tensor, labels, packed_seq_params).chunk(2)
        loss, rewards, others = self.dummy_dpo_trainer.dpo_loss(chosen, rejected, *reference)
        nll = None
        if self.args.rpo_alpha:
            nll = chosen_nll(output_tensor, labels, bounds_of(packed_seq_params))
            loss = loss + self.args.rpo_alpha * nll
        loss = loss.mean()
        metric = {
            "loss": loss.detach().clone(),
            "logps/chosen": chosen.mean(),
            "logps/rejected": rejected.mean(),
            "rewards/chosen": rewards.mean(),
            "rewards/rejected": others.mean(),
            "rewards/accuracies": (rewards > others).float().mean(),
            "rewards/margins": (rewards - others).mean(),
        }
        if nll is not None:
            metric["nll_loss"] = nll.detach()
        return loss, self._all_reduce_metric({k: v.detach() for k, v in metric.items()})


def install() -> None:
    """Let ms-swift use ``PrecomputedDPOTrainer`` for DPO."""
    trainers.MegatronDPOTrainer = PrecomputedDPOTrainer
