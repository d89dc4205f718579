"""A recipe, a model and a job for tests of the plan."""

from typing import Any

from launchers.config.recipe import Recipe, parse
from launchers.plan.plan import Job, link_of
from tests.launchers.models import load_model_config

MODEL_CONFIG = load_model_config("Qwen3-30B-A3B")
FIELDS = {"backend": "megatron", "task": "rlhf", "model": "file:///m", "dataset": ["file:///d"]}


def plain(backend: str = "megatron", task: str = "rlhf", **args: Any) -> Recipe:
    return parse(FIELDS | {"backend": backend, "task": task, "args": args})


def recipe(**args: Any) -> Recipe:
    sizes = {"tensor_model_parallel_size": 4, "pipeline_model_parallel_size": 2}
    sizes |= {"expert_model_parallel_size": 8, "sequence_parallel": True}
    batch = {"max_length": 8192, "packing": True, "global_batch_size": 128}
    again = {"granularity": "full", "method": "uniform", "num_layers": 1}
    recompute = {f"recompute_{name}": value for name, value in again.items()}
    return parse(FIELDS | {"args": {**sizes, **batch, **recompute, **args}})


def job(**fields: Any) -> Job:
    given: dict[str, Any] = {
        "run": "r",
        "recipe": recipe(),
        "nodes": 2,
        "gpus_per_node": 8,
        "gpu_model": "a100-80g",
        "link": link_of({"DPO_NETWORK_TRANSPORT": "NET/IB", "DPO_NETWORK_FLOOR_GBS": "17"}),
        "model_config": MODEL_CONFIG,
        "model_config_source": "test",
    }
    return Job(**given | fields)
