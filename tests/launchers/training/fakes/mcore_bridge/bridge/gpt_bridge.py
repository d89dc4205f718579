from types import SimpleNamespace
from typing import Any

import torch

from mcore_bridge.utils import SafetensorLazyLoader

reads: list[str] = []


class GPTBridge:
    def __init__(self) -> None:
        self.config = SimpleNamespace(hf_config=SimpleNamespace())

    def load_weights(
        self,
        mg_models: Any,
        hf_model_dir: str,
        peft_format: bool = False,
        adapter_name: str = "default",
        converter: Any = None,
    ) -> None:
        reads.append(str(hf_model_dir))
        loader = SafetensorLazyLoader(hf_model_dir)
        with torch.no_grad():
            for model in mg_models:
                for name, tensor in model.state_dict().items():
                    tensor.copy_(loader.get(name))
