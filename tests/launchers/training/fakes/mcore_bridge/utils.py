import logging
from pathlib import Path
from typing import Any

from safetensors import safe_open


def get_logger() -> logging.Logger:
    return logging.getLogger("bridge")


def unwrap_model(models: Any) -> Any:
    return models


class SafetensorLazyLoader:
    def __init__(self, hf_model_dir: str, peft_format: bool = False) -> None:
        self.hf_model_dir = hf_model_dir
        self._file_handles: dict[str, Any] = {}

    def _open_file(self, filename: str) -> Any:
        path = Path(self.hf_model_dir) / filename
        return self._file_handles.setdefault(filename, safe_open(path, framework="pt"))

    def get(self, key: str) -> Any:
        return self._open_file("model.safetensors").get_tensor(key)
