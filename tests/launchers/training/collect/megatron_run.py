"""A Megatron trainer's interface around the real callback, for a process with torch on CPU.

megatron-core and Transformer Engine do not import without a GPU; what the callback uses of them is
stood in for here, with the names and the order of calls of ms-swift 4.4.1 ``trainers/base.py``
``run_train_step``.
"""

import json
import os
import statistics
import sys
import time
import types
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from tests.launchers.training import stand_ins


class Router(torch.nn.Module):  # type: ignore[misc]
    """megatron-core's router: each text's token has the experts that ``rows`` counts."""

    def forward(self, rows: list[int], filler: Any = None) -> tuple[None, Any]:
        """Return the routing map, bool [tokens, experts], with one token more that is filler."""
        chosen = [
            [expert == e for e in range(4)] for expert in range(4) for _ in range(rows[expert])
        ]
        return None, torch.tensor([*chosen, [True] * 4])


class MoELayer(torch.nn.Module):  # type: ignore[misc]
    """megatron-core's, as far as it is watched."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.layer_number, self.is_mtp_layer = number, False
        self.router = Router()

    def forward(self, rows: list[int]) -> None:
        filler = torch.zeros(sum(rows) + 1, 1, dtype=torch.bool)
        filler[-1] = True
        self.router(rows, filler)


class Callback:
    """ms-swift's ``MegatronCallback``."""

    def __init__(self, trainer: Any) -> None:
        self.trainer, self.args, self.state = trainer, trainer.args, trainer.state

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            return lambda **_: None
        raise AttributeError(name)


class BaseTrainer:
    """ms-swift's trainer: reads microbatches, runs the layers, returns what a step returns."""

    def __init__(self, args: dict[str, Any], layers: list[MoELayer]) -> None:
        self.args = types.SimpleNamespace(**args)
        self.state = types.SimpleNamespace(iteration=args.get("start", 0))
        self.config = types.SimpleNamespace(num_layers=2, num_moe_experts=4 if layers else None)
        self.unwrapped_models = [torch.nn.ModuleList(layers)]
        parameter = torch.nn.Parameter(torch.zeros(1))
        groups = [{"params": [], "lr": 1.0}, {"params": [parameter], "lr": 5e-6}]
        self.optimizer = types.SimpleNamespace(param_groups=groups)
        self.callbacks: list[Any] = []
        self.reference_is_precomputed = args.get("reference_is_precomputed", False)

    def train_step(self, train_data_iterator: Any) -> Any:
        chunks = train_data_iterator
        chunks = chunks if isinstance(chunks, list) else [chunks]
        found = []
        for number in range(self.args.microbatches):
            for chunk in chunks:
                next(chunk)
            for layer in self.unwrapped_models[0]:
                with torch.no_grad():  # as evaluation, or a layer that is computed again
                    layer(self.args.rows[::-1])
                layer(self.args.rows)
            pair = torch.tensor([3.0 * number, 2.0])
            found.append({"loss": torch.tensor(0.5 + number), "nll": pair, "none": None})
        return found, 1.5, True


def install(rank: int) -> Any:
    """Put the stand-ins where the feature imports them from, and install it."""
    mpu = types.SimpleNamespace(
        get_tensor_model_parallel_rank=lambda: rank % int(os.environ.get("TP", "1")),
        get_context_parallel_rank=lambda: 0,
        get_pipeline_model_parallel_rank=lambda: 0,
    )
    table: dict[str, Any] = {}
    stand_ins.install(
        {
            "megatron.core": {"mpu": mpu},
            "megatron.core.transformer.moe.moe_layer": {"MoELayer": MoELayer},
            "swift.megatron.callbacks.base": {"MegatronCallback": Callback},
            "swift.megatron.callbacks.mapping": {"megatron_callbacks_map": table},
            "swift.megatron.trainers": {"BaseMegatronTrainer": BaseTrainer},
        }
    )
    from launchers.training import loading
    from launchers.upstream.patches import ACCEPT

    os.environ[ACCEPT] = "metrics-megatron"  # on these stand-ins
    loading.install("metrics_megatron")
    return table["metrics"]


class TensorboardCallback:
    def __init__(self) -> None:
        self.drawn: dict[str, list[tuple[int, float]]] = {}
        self.writer = self

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.drawn.setdefault(name, []).append((step, value))


def batches(rank: int) -> Iterator[dict[str, Any]]:
    """Microbatches of a rank: chosen and rejected of one pair, longer on rank 1."""
    while True:
        yield {"seq_lens": [100 * (rank + 1), 300], "input_ids": torch.zeros(1, 512)}


def train(args: dict[str, Any]) -> None:
    """Run the steps that ``args`` asks for; prints what a test wants to know."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    made = install(rank)
    dist.init_process_group("gloo")
    layers = [MoELayer(n) for n in args["moe_layers"]] if world == 2 else []
    trainer, board = BaseTrainer(args, layers), TensorboardCallback()
    callback = made(trainer)
    trainer.callbacks = [callback, board]
    callback.on_train_begin()
    read_by = rank // int(os.environ.get("TP", "1"))
    data: Any = batches(read_by)
    if args.get("chunks"):
        data = [data, batches(read_by)]
    while trainer.state.iteration < args["train_iters"]:
        callback.on_step_begin()
        trainer.train_step(data)
        trainer.state.iteration += 1
        callback.on_step_end()
        if args.get("dies") == trainer.state.iteration:
            os._exit(9)
        callback.on_log(logs={})
        if args.get("evaluates"):
            callback.on_eval_begin()
            scores = {"eval_loss": 0.5, "eval_rewards/margins": 1.5}
            callback.on_log(logs={**scores, "iteration": "1/3"})
    callback.on_train_end()
    print(json.dumps({"drawn": board.drawn}))
    dist.destroy_process_group()


def cost(steps: int) -> None:
    """Print the median seconds of CPU that a step spends outside of torch.

    Those of this thread: another one, or the machine's other work, does not count.
    """
    made = install(0)
    dist.init_process_group("gloo")
    dist.all_reduce = lambda _: None
    from launchers.training.collect import device as gpu

    nothing = torch.zeros(0)
    gpu.means, gpu.fetch = lambda _: ([], nothing), lambda tensor: tensor  # type: ignore[assignment]
    args = {"train_iters": steps, "output_dir": os.environ["DPO_RUN_FOLDER"]}
    trainer = BaseTrainer(args, [])
    callback, source, found = made(trainer), batches(0), []
    callback.on_train_begin()
    callback.inner = lambda data: [next(data) for _ in range(8)] and None
    for step in range(steps):
        trainer.state.iteration = step + 1
        began = time.thread_time()
        callback.on_step_begin()
        trainer.train_step(source)
        callback.on_step_end()
        found.append(time.thread_time() - began)
    callback.on_train_end()
    print(json.dumps({"median": statistics.median(found)}))
    dist.destroy_process_group()


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    if isinstance(asked, int):
        cost(asked)
    else:
        train(asked)
