"""Switch of a running model to a state and back. Needs no torch: it only sets attributes."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.gpu.ablation.plan import State

MISSING = object()
ATTENTION = ("NVTE_FLASH_ATTN", "NVTE_FUSED_ATTN")


@dataclass(kw_only=True)
class Switch:
    """Model and process of one rank, and their original values."""

    modules: Sequence[Any]
    """All modules of all parts of the model; each may have a ``config``."""
    config: Any
    """The trainer's."""
    ddp_configs: Sequence[Any]
    matmul: Any
    """Objects with ``allow_tf32``."""
    pin: Callable[[str], None]
    """Bind this process's threads to cores."""
    choose_attention: Callable[[], None]
    """Clear the attention backend that Transformer Engine caches."""
    before: dict[tuple[int, str], tuple[Any, Any]] = field(default_factory=dict)
    environment: dict[str, str | None] = field(default_factory=dict)
    undo: list[Callable[[], None]] = field(default_factory=list)
    """Other changes of this process: its threads' cores, Python's collector."""

    def to(self, state: State) -> None:
        """Undo the previous switch, then apply a state.

        Raises:
            ValueError: no part of the model has a name of the state; nothing is switched.
        """
        self.back()
        try:
            for name, value in state.get("config", {}).items():
                self._set(self._configs(), name, value)
                if name == "moe_permute_fusion":
                    self._move_indices(value)
            for name, value in state.get("modules", {}).items():
                self._set(self.modules, name, value)
            for name, value in state.get("ddp", {}).items():
                self._set(self.ddp_configs, name, value)
            if "tf32" in state:
                self._set([self.matmul], "allow_tf32", state["tf32"])
        except ValueError:
            self.back()
            raise
        self._export(state.get("env", {}))
        self._collect(state.get("gc", "on"))
        if state.get("pin", "none") != "none":
            self.pin(state["pin"])
            self.undo.append(lambda: self.pin("none"))

    def back(self) -> None:
        """Undo the previous switch."""
        for (_, name), (owner, value) in self.before.items():
            setattr(owner, name, value)
        self.before.clear()
        self._export(dict(self.environment))
        self.environment.clear()
        while self.undo:
            self.undo.pop()()

    def _configs(self) -> list[Any]:
        """Return each distinct configuration object: some modules have copies."""
        found = [self.config, *(getattr(module, "config", None) for module in self.modules)]
        return list({id(each): each for each in found if each is not None}.values())

    def _set(self, owners: Iterable[Any], name: str, value: Any) -> None:
        having = [owner for owner in owners if getattr(owner, name, MISSING) is not MISSING]
        if not having:
            raise ValueError(f"nothing of this model has {name}")
        for owner in having:
            # the original: an attribute may be set twice
            self.before.setdefault((id(owner), name), (owner, getattr(owner, name)))
            setattr(owner, name, value)

    def _move_indices(self, fused: bool) -> None:
        """Replicate megatron-core's dispatcher constructor: fused sorting reads counts on GPU.

        Its synchronisation point is recorded for the undo: upstream only moves it forward.
        """
        for dispatcher in (getattr(module, "token_dispatcher", None) for module in self.modules):
            for name in ("sort_input_by_local_experts", "restore_output_by_local_experts"):
                if hasattr(dispatcher, name):
                    indices = getattr(dispatcher, name)
                    self._set([dispatcher], name, indices.cuda() if fused else indices.cpu())
            if (point := getattr(dispatcher, "cuda_sync_point", None)) is not None:
                self._set([dispatcher], "cuda_sync_point", point)

    def _export(self, variables: Mapping[str, str | None]) -> None:
        for name, value in variables.items():
            self.environment.setdefault(name, os.environ.get(name))
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if any(name in ATTENTION for name in variables):
            self.choose_attention()

    def _collect(self, how: str) -> None:
        if how == "on" or not gc.isenabled():
            return
        gc.collect()
        if how == "off":
            gc.disable()
            self.undo.append(gc.enable)
        else:
            gc.freeze()
            self.undo.append(gc.unfreeze)
