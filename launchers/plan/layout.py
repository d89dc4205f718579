"""How a model is spread over GPUs: the parallel sizes, and which layers each stage holds."""

from __future__ import annotations

from dataclasses import dataclass

from launchers.exits import Exit, LaunchError


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The parallel sizes of one run. Ranks are ordered tp, cp, ep, dp, pp (megatron-core)."""

    nodes: int
    gpus_per_node: int
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1
    vpp: int | None = None
    first_layers: int | None = None
    """``decoder_first_pipeline_num_layers``."""
    last_layers: int | None = None
    """``decoder_last_pipeline_num_layers``."""
    embedding_is_layer: bool = False
    """``account_for_embedding_in_pipeline_split``."""
    loss_is_layer: bool = False
    """``account_for_loss_in_pipeline_split``."""

    @property
    def world(self) -> int:
        """Return the number of processes, one a GPU."""
        return self.nodes * self.gpus_per_node

    @property
    def dp(self) -> int:
        """Return the number of replicas of the dense part (megatron-core ``parallel_state.py``).

        >>> Layout(nodes=2, gpus_per_node=8, tp=4, pp=2).dp
        2
        """
        return self.world // (self.tp * self.pp * self.cp)

    @property
    def edp(self) -> int:
        """Return the number of replicas of the experts: TP and CP are not in it.

        >>> Layout(nodes=2, gpus_per_node=8, tp=4, pp=2, ep=8).edp
        1
        """
        return self.world // (self.etp * self.ep * self.pp)

    @property
    def chunks(self) -> int:
        """Return the number of model chunks of a rank (virtual pipeline)."""
        return self.vpp or 1

    def microbatches(self, global_batch_size: int, micro_batch_size: int) -> int:
        """Return the microbatches of a step, as ms-swift ``_init_distributed`` counts them."""
        return global_batch_size // (micro_batch_size * self.dp)

    def stage_layers(self, layers: int) -> tuple[int, ...]:
        """Return how many decoder layers each pipeline stage holds.

        megatron-core 0.18 ``transformer_block.py:get_num_layers_to_build``: uneven first and last
        stages, or the embedding and the loss counted as a layer each.

        Raises:
            LaunchError: CONFIG if the layers can't be spread so.

        >>> Layout(nodes=2, gpus_per_node=8, pp=4, first_layers=9).stage_layers(48)
        (9, 13, 13, 13)
        """
        if self.embedding_is_layer or self.loss_is_layer:
            return self._with_ends(layers)
        ends = [n for n in (self.first_layers, self.last_layers) if n is not None]
        stages, left = self.pp - len(ends), layers - sum(ends)
        if stages < 0 or left < 0 or (left % stages if stages else left):
            raise self._uneven(layers)
        inner = (left // stages,) * stages if stages else ()
        first = () if self.first_layers is None else (self.first_layers,)
        last = () if self.last_layers is None else (self.last_layers,)
        return (*first, *inner, *last)

    def _with_ends(self, layers: int) -> tuple[int, ...]:
        total = layers + self.embedding_is_layer + self.loss_is_layer
        if total % self.pp or total // self.pp < 1:
            raise self._uneven(layers)
        spread = [total // self.pp] * self.pp
        spread[0] -= self.embedding_is_layer
        spread[-1] -= self.loss_is_layer
        return tuple(spread)

    def _uneven(self, layers: int) -> LaunchError:
        return LaunchError(
            Exit.CONFIG,
            f"recipe.args.pipeline_model_parallel_size: {layers} layers cannot be spread evenly "
            f"over {self.pp} stages",
            "change it, or set decoder_first_pipeline_num_layers or "
            "decoder_last_pipeline_num_layers",
        )
