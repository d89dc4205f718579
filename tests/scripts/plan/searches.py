"""Searches on a plain cluster, and looking at all ways to train there."""

from itertools import product
from typing import Any

from launchers.config.gpu_models import GPU_MODELS
from launchers.plan import memory
from launchers.plan.plan import build, speed_of
from scripts.plan import candidates, recipe_args
from scripts.plan.candidates import OPTIMIZERS
from scripts.plan.inputs import find_model
from scripts.plan.search import TIGHT, Found, Search
from tests.launchers.recipes import job, recipe

BATCH = {"global_batch_size": 64, "max_length": 4096, "num_train_epochs": 1}


def cluster(
    nodes: int,
    gpu_model: str = "a100-80g",
    name: str = "Qwen3-30B-A3B",
    gpus: int = 8,
    packing_length: int = 8192,
) -> Search:
    """A search whose recipe is plain: all sizes 1."""
    model_config, where = find_model(f"hf://Qwen/{name}@v1")
    assert model_config is not None
    sizes = {f"{each}_model_parallel_size": 1 for each in ("tensor", "pipeline", "expert")}
    described = job(
        recipe=recipe(**BATCH, **sizes, packing_length=packing_length, sequence_parallel=False),
        nodes=nodes,
        gpus_per_node=gpus,
        gpu_model=gpu_model,
        model_config=model_config,
        model_config_source=where,
    )
    training = build(described).training
    assert training is not None
    return Search(
        job=described,
        model_config=model_config,
        training=training,
        gpu=GPU_MODELS[gpu_model],
        host_gib=480.0,
    )


def everything(search: Search) -> list[Found]:
    found = []
    ways = [
        (layout, {**again, "dispatcher": dispatcher})
        for layout in search.layouts()
        for dispatcher in candidates.dispatchers(search.model_config, search.training, layout)
        for again in candidates.recompute(search.model_config.layers, layout.pp)
    ]
    for (layout, chosen), (name, fields) in product(ways, OPTIMIZERS):
        training = candidates.on(search.training, layout, {**chosen, **fields})
        used = memory.predict(search.model_config, training)
        if used.total <= (1 - TIGHT) * search.gpu.memory_gib and used.host <= 480:
            speed = speed_of(search.job, search.model_config, training, search.gpu)
            changes = recipe_args.changes(search.job.recipe, recipe_args.flags(training))
            made: Any = {"memory": used, "speed": speed, "changes": changes}
            found.append(Found(training=training, optimizer=name, **made))
    return found


def seconds(found: list[Found]) -> list[float]:
    return [each.speed.step_seconds for each in found]
