"""The few flags that process tests use."""

from dataclasses import dataclass


@dataclass
class RLHFArguments:
    learning_rate: float = 1e-5
    tuner_type: str = "lora"
