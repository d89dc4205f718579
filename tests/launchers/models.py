from launchers.plan.model_config import ModelConfig, parse_config
from scripts.plan.inputs import known_models


def load_model_config(name: str) -> ModelConfig:
    return parse_config(known_models()[name])
