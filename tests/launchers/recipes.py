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
    given = {
        "max_length": 8192,
        "packing": True,
        "global_batch_size": 128,
        "tensor_model_parallel_size": 4,
        "pipeline_model_parallel_size": 2,
        "expert_model_parallel_size": 8,
        "sequence_parallel": True,
        "recompute_granularity": "full",
        "recompute_method": "uniform",
        "recompute_num_layers": 1,
    }
    return parse(FIELDS | {"args": given | args})


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
