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
    given = {
        "rlhf_type": "dpo",
        "tuner_type": "full",
        "streaming": False,
        "task_type": "causal_lm",
        "model": str(model),
        "ref_model": str(model),
        "dataset": [str(data)],
        "val_dataset": [],
        "max_length": 8192,
        "template": "qwen3",
        "external_plugins": [],
        "mcore_model": None,
        "mcore_ref_model": None,
        "context_parallel_size": 1,
    }
    return SimpleNamespace(**{**given, **changed})
