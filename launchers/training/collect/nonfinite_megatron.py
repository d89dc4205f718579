"""Note the rows and losses of a Megatron step, which ``optimizer/grad_check.py`` names on NaN.

A run whose first gradients are all exactly 0 ends here.
"""

from typing import Any

from swift.megatron.callbacks.base import MegatronCallback

from launchers.training.collect.batch_rows import CURRENT


class NonFiniteCallback(MegatronCallback):  # type: ignore[misc]
    """Records the training loader's batches and each microbatch's own loss, on the GPU."""

    def on_train_begin(self) -> None:
        """Wrap the functions by which the trainer makes its loaders and computes a loss."""
        trainer = self.trainer
        self.create, trainer._create_dataloader = trainer._create_dataloader, self.created
        self.is_watching = False
        CURRENT.decode = trainer.template.tokenizer.decode
        # without clipping a single optimizer of megatron-core returns 0 for the norm
        if CURRENT.zeros and self.args.clip_grad > 0:
            self.optimize, trainer.optimizer.step = trainer.optimizer.step, self.optimized
        if hasattr(trainer, "loss_func"):
            self.inner, trainer.loss_func = trainer.loss_func, self.measured

    def optimized(self) -> Any:
        """Make the optimizer's step and judge the norm of all gradients, which all ranks have.

        Raises:
            LaunchError: DATA, those of the first steps are all 0.
        """
        returned = self.optimize()
        if CURRENT.zeros and returned[1] is not None:
            CURRENT.zeros.judge(float(returned[1]), self.args.train_iters)
        return returned

    def created(self, dataset: Any, batch_sampler: Any) -> Any:
        """Create a loader; watch the first, which is the training data of the first chunk."""
        loader = self.create(dataset, batch_sampler)
        if not self.is_watching:
            CURRENT.watch(loader)
            self.is_watching = True
        return loader

    def measured(self, *given: Any, **named: Any) -> Any:
        """Compute the loss of a microbatch and keep it."""
        found = self.inner(*given, **named)
        if self.trainer.unwrapped_models[0].training:
            CURRENT.losses.append(found[0].detach())
        return found

    def on_step_begin(self) -> None:
        """Begin to note a step."""
        CURRENT.begin(self.state.iteration + 1, self.args.num_microbatches)

    def on_step_end(self) -> None:
        """Forget a step whose gradients are finite."""
        CURRENT.end()
