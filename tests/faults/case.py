"""One fault, once: ``python -m tests.faults.case NAME SEED FOLDER`` prints the result as JSON.

``inject`` has one or more of:

- ``train``: what the stand-in trainer does: ``do``, ``rank``, ``at`` (step, save, seal, sealed,
  end), ``step``, ``word``, ``attempts``
- ``pod``: a signal to launchers once step ``step`` is logged: ``signal``, ``rank`` (-1: all)
- ``successor``: rank 0 is paused with all its processes in ``step``, which lasts, until launchers
  of another cluster have taken the run over and have ended it
- ``clock``: ``seconds`` by which the pods' wall clock is set once ``step`` is logged
- ``stale``: ``count`` of look-ups of rank 0 that lead to rank 0 of another run
- ``storage``: the workspace is away once ``step`` is logged, until the restart
- ``size``: the workspace is a tmpfs of that size; ``read_only``: which cannot be written
- ``owner``: user id that the workspace belongs to; the pods have no right to override it
- ``damage``: what is done to a checkpoint before the restart, see ``damage.py``
- ``mount``: ``seconds`` that each call into the workspace takes, 0 until the trainer stalls it;
  ``limit`` for an answer
- ``hub``: faults of a fake hub by file; the model comes from it
- ``source``: files of the sources to write, by name: a text, or ``bytes``, a number of zeros; null
  removes one
- ``calls``: a system call of the launchers and its error, from their start
- ``strangers``: ``kind`` and ``count`` of connections to the gang port
- ``recipe``, ``env``, ``rank_1``: changes of the recipe, and of the pods' variables
"""

import contextlib
import copy
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from launchers.metrics import reader
from launchers.metrics.rows import Row
from launchers.preflight.gang_probes import free_port
from launchers.storage import manifest, marker
from launchers.system.process import adopt_orphans, descendants, kill_descendants
from tests.faults import catalogue, damage, strangers
from tests.faults.catalogue import Fault
from tests.faults.gang import MAX_RESTARTS, Gang, signal_pod
from tests.faults.trainer.torch.distributed.run import STEPS, WEIGHTS, state_after
from tests.launchers import model_folder
from tests.launchers.fake_hub import serve

SUCCESSOR_SECONDS = 120.0
"""Time in which other launchers take the run over, after the lease, and end it."""
ORPHAN_SECONDS = 5.0
"""Time after the end of all pods in which their processes must be gone."""


@dataclass(kw_only=True)
class Result:
    name: str
    seed: int
    outcome: str
    code: int | None = None
    failure_class: str = ""
    id: str = ""
    restarts: str = "none"
    detect_seconds: float | None = None
    """From the fault to the end of the first pod."""
    next_step_seconds: float | None = None
    """From the fault to the end of the first step that had not been done before."""
    lost_steps: int | None = None
    """Steps that were done again."""
    orphans: int = 0
    seconds: float = 0.0
    problems: tuple[str, ...] = ()


class Case:
    """A fault with the choices of one seed, and the run that it is injected into."""

    def __init__(self, fault: Fault, seed: int, folder: Path) -> None:
        """Choose rank and step by the seed; prepare the run."""
        chance = random.Random(f"{fault.name} {seed}")
        chosen = {key: chance.choice(values) for key, values in fault.spread.items()}
        self.fault, self.seed = fault, seed
        self.inject: dict[str, Any] = {**fault.inject}
        for part in ("train", "pod", "storage", "successor", "clock"):
            if part in self.inject:
                self.inject[part] = {**self.inject[part], **chosen}
        self.chance, self.sign = chance, folder / "sign"
        if "size" in self.inject:
            (folder / "workspace").mkdir(parents=True)
            _mount(folder / "workspace", f"size={self.inject['size']},mode=777")
        self.gang = Gang(folder, nodes=fault.nodes)
        self.gang.variables = {
            "FAULT_TRAIN": json.dumps(self.inject.get("train", {})),
            "FAULT_SIGN": str(self.sign),
            "DPO_HANG_FLOORS": "end=10,step=20",
            **self.inject.get("env", {}),
        }
        self.gang.rank_variables = {1: self.inject.get("rank_1", {})}
        self.gang.watch, self.gang.between = self._watch, self._between
        self._acted, self._wrong = False, ""
        if "clock" in self.inject:
            self.gang.variables["FAULT_CLOCK"] = str(folder / "clock")
        self._mount = folder / "mount"
        if "mount" in self.inject:
            self._prepare_mount(**self.inject["mount"])
        self._prepare_sources()
        self._prepare_storage()

    def _prepare_sources(self) -> None:
        sources = self.gang.folder / "sources"
        for name, text in self.inject.get("source", {}).items():
            if text is None:
                (sources / name).unlink()
            elif isinstance(text, dict):
                (sources / name).write_bytes(bytes(text["bytes"]))
            else:
                (sources / name).write_text(text)
        self.gang.write_recipe(**self.inject.get("recipe", {}))
        if {"source", "env", "rank_1", "calls"} & self.inject.keys():
            self._note()
        if "calls" in self.inject:
            module = [sys.executable, "-m", "tests.faults.syscalls", *self.inject["calls"]]
            self.gang.wrapper = tuple(module)

    def _prepare_mount(self, seconds: float, limit: int) -> None:
        own = {"FAULT_MOUNT": str(self._mount), "DPO_STALL_SECONDS": str(limit)}
        self.gang.variables = {**self.gang.variables, **own}
        if seconds:
            self._note()
            self._mount.write_text(str(seconds))

    def _prepare_storage(self) -> None:
        workspace = self.gang.folder / "workspace"
        if self.inject.get("read_only"):
            self._note()
            subprocess.run(["mount", "-o", "remount,ro", str(workspace)], check=True)
        if "owner" in self.inject:
            self._note()
            workspace.mkdir()
            os.chown(workspace, self.inject["owner"], -1)
            no_override = "--bounding-set=-dac_override,-dac_read_search,-fowner"
            self.gang.wrapper = ("setpriv", no_override)

    def run(self) -> Result:
        begun, earlier = time.monotonic(), descendants(os.getpid())
        with self._surroundings():
            end = self.gang.until_end(begun + self.fault.seconds)
        orphans = _orphans(earlier)
        result = self._result(end, orphans, time.monotonic() - begun)
        return replace(result, problems=tuple(self._problems(result)))

    @contextlib.contextmanager
    def _surroundings(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if "hub" in self.inject:
                self._serve_hub(stack)
            if "strangers" in self.inject:
                wanted = self.inject["strangers"]
                self._note()
                stack.enter_context(strangers.connecting(self.gang.port, **wanted))
            if "stale" in self.inject:
                self._note()
                stale = strangers.stale_address(self.gang.port, **self.inject["stale"])
                own = {"DPO_GANG_PORT": str(stack.enter_context(stale))}
                self.gang.rank_variables = {1: own}
            yield

    def _serve_hub(self, stack: contextlib.ExitStack) -> None:
        hub = stack.enter_context(serve())
        held = {**model_folder.tensors(), "x": random.Random(self.seed).randbytes(300_000)}
        model = model_folder.write(self.gang.folder / "hub", held)
        hub.repos = {"models/o/m": {file.name: file.read_bytes() for file in model.iterdir()}}
        planned = dict(self.inject["hub"])
        hub.token, hub.pause = planned.pop("token", ""), 0.05
        hub.faults = {name: list(faults) for name, faults in planned.items()}
        self.gang.write_recipe(**{"model": "hf://o/m@main", **self.inject.get("recipe", {})})
        own = {"HF_ENDPOINT": hub.url, "HF_HUB_DOWNLOAD_TIMEOUT": "2", "HF_HUB_ETAG_TIMEOUT": "2"}
        self.gang.variables = {**self.gang.variables, **own}
        self._note()

    def _watch(self) -> None:
        parts = ("pod", "storage", "successor", "clock")
        planned = next((self.inject[part] for part in parts if part in self.inject), None)
        if planned is None or self._acted:
            return
        if self._last_step() < int(planned["step"]) - ("successor" in self.inject):
            return
        self._acted = True
        self._note()
        if "pod" in self.inject:
            chosen = self.gang.pods if planned["rank"] < 0 else [self.gang.pods[planned["rank"]]]
            for pod in chosen:
                signal_pod(pod, planned["signal"])
        elif "clock" in self.inject:
            (self.gang.folder / "clock").write_text(str(planned["seconds"]))
        elif "successor" in self.inject:
            self._replace_the_leader()
        else:
            # what is not open is away
            _mount(self.gang.folder / "workspace", "ro")

    def _replace_the_leader(self) -> None:
        """Pause rank 0's pod, let other launchers of the run end it, and continue the pod."""
        pod = self.gang.pods[0].pid
        paused = [pod, *descendants(pod)]
        for pid in paused:
            os.kill(pid, signal.SIGSTOP)
        other = copy.copy(self.gang)
        other.port, other.master_port = free_port(), free_port()
        other.start_all()
        codes = [each.wait(SUCCESSOR_SECONDS) for each in other.pods]
        self._wrong = "" if codes == [0] * len(codes) else f"the successor ended with {codes}"
        self._exported = state_of(self.gang.run)
        for pid in reversed(paused):
            os.kill(pid, signal.SIGCONT)

    def _between(self) -> None:
        if self._acted and "storage" in self.inject:
            subprocess.run(["umount", str(self.gang.folder / "workspace")], check=True)
            self._acted, self.inject["storage"]["step"] = False, 10**6
        if "mount" in self.inject:
            self._mount.unlink(missing_ok=True)
        if "damage" in self.inject and len(self.gang.ends) == 1:
            damage.apply(self.inject["damage"], self.gang.run / "checkpoints", self.chance)

    def _note(self) -> None:
        with self.sign.open("a") as sign:
            sign.write(f"{time.time()}\n")

    def _rows(self) -> list[Row]:
        try:
            lines = (self.gang.run / "metrics.jsonl").read_text().splitlines()
        except OSError:
            return []
        return list(reader.of_kind(lines, Row))

    def _last_step(self) -> int:
        return max((row.step for row in self._rows()), default=0)

    def _result(self, end: str, orphans: int, seconds: float) -> Result:
        gang = self.gang
        root = (gang.ends[-1] if end == "failed" else gang.ends[0]) if gang.ends else None
        message: Mapping[str, Any] = root.message if root else {}
        kinds = {(False, False): "none", (True, False): "counted", (False, True): "free"}
        kind = kinds.get((gang.counted > 0, gang.free > 0), "mixed")
        if end == "failed" and gang.counted > MAX_RESTARTS:
            kind = "all"
        ended_well = "resumed" if gang.counted + gang.free else "unaffected"
        injected = float(self.sign.read_text().split()[0]) if self.sign.exists() else None
        found = Result(
            name=self.fault.name,
            seed=self.seed,
            outcome=ended_well if end == "done" else end,
            code=root.code if root else None,
            failure_class=str(message.get("class", "")),
            id=str(message.get("id", "")),
            restarts=kind,
            orphans=orphans,
            seconds=round(seconds, 1),
        )
        if injected is not None and root is not None:
            found.detect_seconds = round(gang.ends[0].at - injected, 2)
        return self._with_recovery(found, injected)

    def _with_recovery(self, found: Result, injected: float | None) -> Result:
        done = self._rows()
        first = [row.step for row in done if row.attempt == 1]
        later = [row for row in done if row.attempt > 1]
        new = [row for row in later if row.step > max(first, default=0)]
        if injected is not None and new:
            found.next_step_seconds = round(new[0].time - injected, 2)
        if later:
            found.lost_steps = max(0, max(first, default=0) - (later[0].step - 1))
        return found

    def _problems(self, found: Result) -> Iterator[str]:
        expect = self.fault.expect
        wanted: dict[str, object] = {"outcome": expect.outcome, "restarts": expect.restarts}
        if expect.code is not None:
            wanted["code"] = int(expect.code)
        if expect.failure_class is not None:
            wanted["failure_class"] = str(expect.failure_class)
        if expect.id:
            wanted["id"] = expect.id
        for key, value in wanted.items():
            if getattr(found, key) != value:
                yield f"{key} {getattr(found, key)!r}, not {value!r}"
        if self._wrong:
            yield self._wrong
        if "successor" in self.inject and state_of(self.gang.run) != self._exported:
            yield "what the successor has left was changed"
        if found.orphans:
            yield f"{found.orphans} processes were left"
        if expect.outcome != "unaffected" and not self.sign.exists() and "train" in self.inject:
            yield "the fault was not injected"
        logs = "".join(p.read_text(errors="replace") for p in self.gang.folder.glob("pod-*.log"))
        if expect.logged and expect.logged not in logs:
            yield f"no log has {expect.logged!r}"
        yield from self._silent(found)

    def _silent(self, found: Result) -> Iterator[str]:
        """Find results that look whole and are not."""
        export = self.gang.run / "export"
        if found.outcome in ("unaffected", "resumed"):
            if (export / WEIGHTS).read_text() != state_after(STEPS):
                yield "silent success: the exported state is not that of an undisturbed run"
        elif (export / marker.NAME).exists():
            yield "a failed run has a complete export"
        for path in (self.gang.folder / "workspace").glob("*/*"):
            there = marker.read(path)
            if there is not None and manifest.verify(path, there.manifest, full=True):
                yield f"{path.name} has a marker and is damaged"


def state_of(run: Path) -> dict[str, bytes]:
    """Return the content of a run's checkpoints and export, by path."""
    parts = ("checkpoints/checkpoint-*/**/*", "export/**/*")
    found = (path for pattern in parts for path in run.glob(pattern))
    return {str(path): path.read_bytes() for path in found if path.is_file()}


def _mount(folder: Path, options: str) -> None:
    """Mount an empty file system in memory over a folder."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)


def _orphans(earlier: Collection[int]) -> int:
    """Count and kill the processes that the case has left.

    ``earlier``: processes that were there before it: in a test, those of other tests.
    """
    stop = time.monotonic() + ORPHAN_SECONDS
    while (left := descendants(os.getpid(), earlier)) and time.monotonic() < stop:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.1)
    kill_descendants(spare=earlier)
    return len(left)


def main(name: str, seed: str, folder: str) -> int:
    adopt_orphans()
    fault = next(each for each in catalogue.load("process") if each.name == name)
    result = Case(fault, int(seed), Path(folder)).run()
    print(json.dumps(asdict(result)))
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
