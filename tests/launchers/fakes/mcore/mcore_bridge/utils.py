import logging
from pathlib import Path

from safetensors import safe_open


def get_logger():
    return logging.getLogger("bridge")


def unwrap_model(models):
    return models


class SafetensorLazyLoader:
    def __init__(self, hf_model_dir, peft_format=False):
        self.hf_model_dir = hf_model_dir
        self._file_handles = {}

    def _open_file(self, filename):
        path = Path(self.hf_model_dir) / filename
        return self._file_handles.setdefault(filename, safe_open(path, framework="pt"))

    def get(self, key):
        return self._open_file("model.safetensors").get_tensor(key)
