"""The few flags that process tests use."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass
class RLHFArguments:
    learning_rate: float = 1e-5
    load_from_cache_file: bool = True
    num_train_epochs: float = 3.0
    split_dataset_ratio: float = 0.0
    tuner_type: str = "lora"
    external_plugins: list[str] = field(default_factory=list)
    val_dataset: list[str] = field(default_factory=list)


@dataclass
class MegatronRLHFArguments:
    context_parallel_size: int = 1
    expert_model_parallel_size: int = 1
    expert_tensor_parallel_size: int = 1
    global_batch_size: int = 16
    micro_batch_size: int = 1
    num_train_epochs: int | None = None
    packing: bool = False
    pipeline_model_parallel_size: int = 1
    recompute_granularity: Literal["selective", "full", "none"] = "selective"
    sequence_parallel: bool = False
    tensor_model_parallel_size: int = 1
    tuner_type: Literal["lora", "full"] = "full"
