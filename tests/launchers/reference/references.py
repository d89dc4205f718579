"""ms-swift's arguments of a DPO run, for the tests of the reference."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from launchers.reference.fingerprint import Machine

MACHINE = Machine(versions={"ms-swift": "4.4.1", "torch": "2.11.0"}, gpu="NVIDIA H200")


def arguments(tmp_path: Path, **changed: Any) -> Any:
    """Make ms-swift's arguments of a DPO run over real files."""
    model, data = tmp_path / "model", tmp_path / "pairs.jsonl"
    model.mkdir(exist_ok=True)
    (model / "model.safetensors").write_bytes(b"weights")
    data.write_text("{}\n")
    task = {"rlhf_type": "dpo", "tuner_type": "full", "task_type": "causal_lm", "streaming": False}
    models = {"model": str(model), "ref_model": str(model), "mcore_model": None}
    rows = {"dataset": [str(data)], "val_dataset": [], "external_plugins": [], "max_length": 8192}
    more = {"mcore_ref_model": None, "template": "qwen3", "context_parallel_size": 1}
    return SimpleNamespace(**{**task, **models, **rows, **more, **changed})
