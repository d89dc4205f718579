"""Parallel sizes of a run, the layers of each pipeline stage, and the groups of ranks.

Megatron-core numbers ranks in the order tp-cp-ep-dp-pp (``parallel_state.py``, class
``RankGenerator``; ms-swift keeps this default): neighbours in rank are tensor parallel, pipeline
stages are farthest apart. Expert layers have their own axes over the same ranks: etp, ep, edp, pp.
"""

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
    nvlink: int = 0
    """GPUs of one NVLink domain, where it is wider than a node."""

    @property
    def world(self) -> int:
        """Return the number of processes, one per GPU."""
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
        """Return the number of replicas of the experts; TP and CP do not divide it.

        >>> Layout(nodes=2, gpus_per_node=8, tp=4, pp=2, ep=8).edp
        1
        """
        return self.world // (self.etp * self.ep * self.pp)

    @property
    def chunks(self) -> int:
        """Return the number of model chunks of a rank (virtual pipeline)."""
        return self.vpp or 1

    def microbatches(self, global_batch_size: int, micro_batch_size: int) -> int:
        """Return the microbatches of a step, as in ms-swift's ``_init_distributed``."""
        return global_batch_size // (micro_batch_size * self.dp)

    def stage_layers(self, layers: int) -> tuple[int, ...]:
        """Return the number of decoder layers of each pipeline stage.

        megatron-core 0.18 ``transformer_block.py:get_num_layers_to_build``: uneven first and last
        stages, or embedding and loss counted as one layer each.

        Raises:
            LaunchError: CONFIG if the layers cannot be divided that way.
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
            f"recipe.args.pipeline_model_parallel_size: {layers} layers cannot be divided evenly "
            f"among {self.pp} stages",
            "change it, or set decoder_first_pipeline_num_layers or "
            "decoder_last_pipeline_num_layers",
            id="pipeline-layers",
        )


KINDS = ("tp", "cp", "dp", "pp", "etp", "ep", "edp")
DENSE = ("tp", "cp", "dp", "pp")
EXPERT = ("etp", "ep", "edp", "pp")
"""Axes from the one with consecutive ranks to the one with the largest stride."""


def stride(layout: Layout, kind: str) -> int:
    """Return the stride in rank between neighbours of a group."""
    order = EXPERT if kind in EXPERT and kind != "pp" else DENSE
    distance = 1
    for axis in order[: order.index(kind)]:
        distance *= size(layout, axis)
    return distance


def size(layout: Layout, kind: str) -> int:
    """Return the number of ranks in a group."""
    return int(getattr(layout, kind))


def groups(layout: Layout, kind: str) -> list[tuple[int, ...]]:
    """Return all groups of a kind as tuples of ranks; every rank is in exactly one."""
    step, count = stride(layout, kind), size(layout, kind)
    firsts = (rank for rank in range(layout.world) if rank // step % count == 0)
    return [tuple(first + i * step for i in range(count)) for first in firsts]


def spread(layout: Layout, kind: str) -> int:
    """Return the largest number of nodes that a group of a kind spans."""
    nodes = (
        len({rank // layout.gpus_per_node for rank in group}) for group in groups(layout, kind)
    )
    return max(nodes)


def stages_of_node(layout: Layout, node: int) -> tuple[int, ...]:
    """Return the pipeline stages of the ranks on a node."""
    first, per_stage = node * layout.gpus_per_node, stride(layout, "pp")
    last = first + layout.gpus_per_node - 1
    return tuple(range(first // per_stage, last // per_stage + 1))
