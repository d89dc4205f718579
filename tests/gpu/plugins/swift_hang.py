"""Loaded into ms-swift's Megatron trainer: one fault in each attempt, in the last rank.

Registers the callback ``hang_fault``. What it does at which step of which attempt is in ``FAULTS``,
which ``launcher/hangs.py`` reads, too; ``attempts/<n>/fault.json`` gets the time.
"""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import torch.distributed as dist
from swift.megatron.callbacks.base import MegatronCallback
from swift.megatron.callbacks.mapping import megatron_callbacks_map

FAULTS = {1: ("stop", 5), 2: ("skip", 7), 3: ("save", 8), 4: ("slow", 9)}
"""Fault and step by attempt: even steps are saved, so that each attempt gets further. The first one
comes after four steps, of which the first is long, so that their median is not."""
SLOW_SECONDS = 5.0
FOREVER = 3600.0
FOLDER = Path(os.environ.get("DPO_ATTEMPT_FOLDER", "0"))
NAME, STEP = FAULTS.get(int(FOLDER.name), ("", 0))


class HangFaultCallback(MegatronCallback):  # type: ignore[misc]
    """Injects the fault."""

    def on_train_begin(self) -> None:
        """Wrap the save if it is to block."""
        if NAME == "save" and self._is_last:
            self.trainer.save_checkpoint = self._block

    def on_step_begin(self) -> None:
        """Inject the other faults."""
        step = self.state.iteration + 1
        if not self._is_last or step != STEP:
            return
        if NAME == "stop":
            self._note()
            os.kill(os.getpid(), signal.SIGSTOP)
        if NAME == "skip":
            dist.all_reduce = self._skip
        if NAME == "slow":
            self._note()
            time.sleep(SLOW_SECONDS)

    @property
    def _is_last(self) -> bool:
        return bool(dist.get_rank() == dist.get_world_size() - 1)

    def _skip(self, *_: Any, **__: Any) -> None:
        """Stand for a collective that this rank does not enter."""
        self._note()
        time.sleep(FOREVER)

    def _block(self) -> None:
        """Stand for a save to storage that does not answer: nobody reads the pipe."""
        if self.state.iteration != STEP:
            type(self.trainer).save_checkpoint(self.trainer)
            return
        self._note()
        pipe = FOLDER / "blocked"
        os.mkfifo(pipe)
        pipe.open("wb").close()

    def _note(self) -> None:
        fault = {"name": NAME, "rank": dist.get_rank(), "time": time.time()}
        (FOLDER / "fault.json").write_text(json.dumps(fault))


megatron_callbacks_map["hang_fault"] = HangFaultCallback
