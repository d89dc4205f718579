"""The feature among fakes that call each other as ms-swift 4.4.1 does (it needs a GPU)."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.launchers.training import stand_ins


class Callback:
    """``swift/megatron/callbacks/base.py``."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer


class Trainer:
    """``swift/megatron/trainers/base.py`` with the reference of ``rlhf_mixin.py``."""

    def __init__(self, callbacks: dict[str, Any]) -> None:
        self.prepare_model()
        self.get_optimizer_and_scheduler()
        self._load_checkpoint()
        self.callback = callbacks["phases"](self)

    def prepare_model(self) -> None:
        self._prepare_peft_model([])

    def _prepare_peft_model(self, models: list[Any]) -> list[Any]:
        return models

    def get_optimizer_and_scheduler(self) -> str:
        return "optimizer"

    def _load_checkpoint(self) -> None:
        pass

    def get_batch(self, iterator: Iterator[int], vp_stage: Any = None) -> int:
        return next(iterator)

    def train(self, data: list[int], steps: int) -> None:
        self.callback.on_train_begin()
        iterator = iter(data)
        for _ in range(steps):
            assert self.get_batch(iterator, None) in data
            self.callback.on_step_end()


class Sft:
    """``swift/megatron/pipelines/train/sft.py`` and what it inherits."""

    def __init__(self) -> None:
        self._parse_args()
        self._set_seed()
        self._prepare_template()

    def _parse_args(self) -> None:
        importlib.import_module("launchers.training.startup_megatron").install()

    def _set_seed(self) -> None:
        pass

    def _prepare_template(self) -> None:
        pass

    def _prepare_dataset(self) -> list[int]:
        return [1, 2, 3]


ORDER = """
process imports arguments template dataset policy_built policy reference optimizer checkpoint
trainer first_batch first_step second_step
"""


def test_every_phase_is_noted_in_the_order_of_ms_swift(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    callbacks: dict[str, Any] = {}
    modules: dict[str, dict[str, Any]] = {
        "swift.megatron.callbacks.base": {"MegatronCallback": Callback},
        "swift.megatron.callbacks.mapping": {"megatron_callbacks_map": callbacks},
        "swift.megatron.pipelines.train.sft": {"MegatronSft": Sft},
        "swift.megatron.trainers.base": {"BaseMegatronTrainer": Trainer},
    }
    for name, module in stand_ins.modules(modules).items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "launchers.training.startup_megatron", raising=False)
    env = {"RANK": "0", "WORLD_SIZE": "2", "DPO_ATTEMPT_FOLDER": str(tmp_path)}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    pipeline = Sft()
    data = pipeline._prepare_dataset()
    trainer = Trainer(callbacks)
    assert trainer.get_optimizer_and_scheduler() == "optimizer"
    trainer.train(data, 3)
    reported = json.loads((tmp_path / "phases-0.json").read_text())
    assert list(reported) == ORDER.split()
    assert sorted(reported.values()) == list(reported.values())
