from types import SimpleNamespace

import torch

from mcore_bridge.utils import SafetensorLazyLoader

reads = []


class GPTBridge:
    def __init__(self):
        self.config = SimpleNamespace(hf_config=SimpleNamespace())

    def load_weights(
        self, mg_models, hf_model_dir, peft_format=False, adapter_name="default", converter=None
    ):
        reads.append(str(hf_model_dir))
        loader = SafetensorLazyLoader(hf_model_dir)
        with torch.no_grad():
            for model in mg_models:
                for name, tensor in model.state_dict().items():
                    tensor.copy_(loader.get(name))
