"""Give all pairs of a step the same weight in packed DPO on Megatron.

The feature of ``recipe.pairWeights: equal``. ms-swift 4.4.1
(``swift/megatron/trainers/dpo_trainer.py: loss_func``) takes the mean over the pairs of a
microbatch, and megatron-core (``pipeline_parallel/schedules.py: forward_step_calc_loss``) the mean
over the M microbatches and the D data-parallel ranks, so that a pair in a pack of 2 weighs ten
times as much as one in a pack of 20. Here a microbatch's loss is ``M x D / N`` times the sum over
its pairs, where N is the number of pairs of the whole step: the mean of both is the mean over the N
pairs. N follows from the packs that the sampler deals to the step, so the ranks exchange nothing.
The loss is scaled before the schedule sees it, and the auxiliary losses of the experts, which
megatron-core scales by itself, stay as they are.

``rpo_alpha`` adds the negative log-likelihood of the chosen answer. Upstream's is a mean over all
chosen tokens of a microbatch: a long answer weighs more than a short one, and each again by its
pack. Here it is each answer's own mean over its tokens, as in the paper (Pang et al. 2024,
"Iterative Reasoning Preference Optimization", equation 1) and as upstream computes it for a
microbatch of one pair: a step has the loss and the gradients of the same pairs without packing.

Metrics are sums and counts of pairs, which ms-swift divides when it logs: means over pairs, in
evaluation too.
"""

import importlib
from typing import Any

import torch
from megatron.core import mpu

from launchers.exits import Exit, LaunchError
from launchers.training.installed import INSTALLED

trainers: Any = importlib.import_module("swift.megatron.trainers")
"""Module in which ms-swift looks up its trainers."""
_Upstream: Any = trainers.MegatronDPOTrainer
"""ms-swift's trainer, or the one with a precomputed reference."""


class EqualPairsDPOTrainer(_Upstream):  # type: ignore[misc]
    """A DPO trainer whose steps minimise the mean loss of their pairs."""

    sums_metrics = True
    """``loss_func`` returns sum and count of each metric, over pairs; upstream's returns means."""
    step_pairs = 1
    """Pairs of the current step on all ranks. An evaluation has no use for it: it discards the
    loss, and logs the metrics."""

    def train_step(self, train_data_iterator: Any) -> Any:
        """Count the pairs of the step, run it, and verify that the ranks have read as many.

        Raises:
            LaunchError: CONFIG if the ranks have read other packs than the sampler announced.
        """
        self.step_pairs = self.dealt_sampler.rows_of_step(self.state.consumed_train_samples)
        metrics, grad_norm, successful = super().train_step(train_data_iterator)
        if metrics:  # the last stage of a pipeline has them; a count is a mean over the replicas
            counted = float(sum(each["loss"][1] for each in metrics))
            seen = round(counted * mpu.get_data_parallel_world_size())
            if seen != self.step_pairs:
                raise LaunchError(
                    Exit.CONFIG,
                    f"recipe.pairWeights: equal, but a step had {seen} pairs instead of the "
                    f"{self.step_pairs} that its packs were dealt for",
                    "remove plugins that change the data loader, or set recipe.pairWeights: pack",
                    id="pair-weights-count",
                )
        return metrics, grad_norm, successful

    def loss_func(
        self, output_tensor: Any, *, labels: Any, packed_seq_params: Any, reference: Any = None
    ) -> tuple[Any, dict[str, Any]]:
        """Return the loss of a microbatch, and sum and count of each metric.

        Args:
            output_tensor: loss of each token, ``[rows, length]``; without ``reference`` the
                reference model's rows come first.
            labels: of the tokens; -100 where a token does not count.
            packed_seq_params: where the texts of the pack begin, with their lengths.
            reference: the reference's log-probabilities, ``[2, pairs]``; None to compute them.
        """
        if reference is None:
            rows, output_tensor = output_tensor.chunk(2)
            reference = self.get_logps(rows.detach(), labels, packed_seq_params).chunk(2)
        chosen, rejected = self.get_logps(output_tensor, labels, packed_seq_params).chunk(2)
        losses, rewards, others = self.dummy_dpo_trainer.dpo_loss(chosen, rejected, *reference)
        metric = {
            "logps/chosen": chosen,
            "logps/rejected": rejected,
            "rewards/chosen": rewards,
            "rewards/rejected": others,
            "rewards/accuracies": (rewards > others).float(),
            "rewards/margins": rewards - others,
        }
        if self.args.rpo_alpha:
            metric["nll_loss"] = -chosen / self._tokens(output_tensor, labels, packed_seq_params)
            losses = losses + self.args.rpo_alpha * metric["nll_loss"]
        metric = {"loss": losses, **metric}
        return self._scaled(losses), self._all_reduce_metric(
            {name: _sum_and_count(values.detach()) for name, values in metric.items()}
        )

    def _tokens(self, output_tensor: Any, labels: Any, packed_seq_params: Any) -> Any:
        """Return the tokens of each chosen answer, [pairs]: its sum with -1 for each token."""
        ones = -torch.ones_like(output_tensor)
        chosen, _ = self.get_logps(ones, labels, packed_seq_params).detach().chunk(2)
        return chosen.clamp(min=1)

    def _scaled(self, losses: Any) -> Any:
        """Return the pairs' sum, scaled so that megatron-core's mean is the mean over the step."""
        batches = self.args.num_microbatches * mpu.get_data_parallel_world_size()
        # the schedule multiplies by the size of the context-parallel group
        return losses.sum() * (batches / self.step_pairs / mpu.get_context_parallel_world_size())


def _sum_and_count(values: Any) -> Any:
    """Return the sum of the values and their number, float32 [2]."""
    return torch.stack([values.float().sum(), values.new_tensor(float(len(values))).float()])


def install() -> None:
    """Let ms-swift use ``EqualPairsDPOTrainer`` for DPO.

    Raises:
        LaunchError: CONFIG without the feature ``packing``, whose sampler counts a step's pairs.
    """
    if "packing" not in INSTALLED:
        raise LaunchError(
            Exit.CONFIG,
            "recipe.pairWeights: equal requires the patch packing, which stepped aside",
            "set recipe.pairWeights: pack, or add packing to extraEnv.DPO_ACCEPT_PATCHES",
            id="pair-weights-packing",
        )
    trainers.MegatronDPOTrainer = EqualPairsDPOTrainer
