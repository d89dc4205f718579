"""Stands for torchrun: notes how it was called, then does what FAKE_TRAIN of its node says.

``FAKE_TRAIN=<node rank>[.<attempt>]:<act>[:<word>],...`` with the acts ``fail`` (the rank's stderr
gets the word as its last line), ``late-fail`` (the same after half a second), ``kill`` (reports a
rank killed by that signal), ``late-kill`` (the same once the attempt's checkpoint is complete),
``hang``, ``report`` (hangs until a file ``held`` is beside its ``pid``, then prints torchrun's
table of failures), ``save`` (hangs after that checkpoint), ``deaf`` (hangs and ignores SIGTERM),
``orphan`` (hangs, with a process of a session of its own, as torchrun's workers are), ``exit``
(saves and exits with 0, but has not ended its training), ``early`` (ends its training early) and
``rehearse`` (trains the steps of a rehearsal, see ``rehearse`` below); else it succeeds.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.launchers import torchrun_arguments


def main() -> None:
    options = torchrun_arguments.parse()
    acts = dict(a.split(":", 1) for a in os.environ.get("FAKE_TRAIN", "").split(",") if a)
    attempt = Path(options.log_dir).parent.name
    own = (f"{options.node_rank}.{attempt}", options.node_rank)
    act, _, word = next((acts[name] for name in own if name in acts), "succeed").partition(":")
    rank = Path(options.log_dir) / "none_x" / "attempt_0" / "0"
    rank.mkdir(parents=True)
    (rank / "argv.json").write_text(json.dumps(sys.argv[1:]))
    (rank / "env.json").write_text(json.dumps(dict(os.environ)))
    (rank / "starting").write_text(str(os.getpid()))
    (rank / "starting").rename(rank / "pid")
    checkpoints = Path(options.program[options.program.index("--output_dir") + 1])
    saved = checkpoints / f"checkpoint-{3 * int(attempt)}"
    if act == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (rank / "deaf").touch()
        time.sleep(300)
    if act in ("hang", "orphan"):
        if act == "orphan":
            child = subprocess.Popen(["sleep", "300"], start_new_session=True)
            (rank / "orphan").write_text(str(child.pid))
        print("fake hangs", flush=True)
        time.sleep(300)
    if act == "report":
        while not (rank / "held").exists():
            time.sleep(0.02)
        print("Root Cause (first observed failure):\n  exitcode  : -11 (pid: 1)\n====", flush=True)
        time.sleep(300)
    if act == "save":
        save(saved)
        time.sleep(300)
    if act == "late-fail":
        time.sleep(0.5)
    if act == "late-kill":
        while not (saved / "COMPLETE.json").exists():
            time.sleep(0.02)
    if act.endswith("fail"):
        (rank / "stderr.log").write_text(f"Traceback\n{word}\n")
        sys.exit(1)
    if act.endswith("kill"):
        print(f"Root Cause (first observed failure):\n  exitcode  : -{word} (pid: 1)", flush=True)
        sys.exit(1)
    if act == "rehearse":
        sys.exit(rehearse(options.program, options.node_rank))
    if options.node_rank == "0" and "--resume_from_checkpoint" not in options.program:
        save(checkpoints / "checkpoint-3")
    if options.node_rank == "0" and act != "exit":
        trained(3, early=act == "early")


def trained(step: int, *, early: bool = False) -> None:
    """Record that training has ended by itself, as the trainer with the seal plugin does."""
    record: dict[str, object] = {"step": step, "planned": step, "reason": "finished"}
    if early:
        record |= {"planned": 3 * step, "reason": "early stop"}
    (Path(os.environ["DPO_ATTEMPT_FOLDER"]) / "trained.json").write_text(json.dumps(record))


def save(folder: Path) -> None:
    """Leave a complete checkpoint, as the trainer with the seal plugin does; once per run."""
    if folder.exists():
        return
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "config.json").write_text("{}")
    (folder / "optimizer.pt").write_bytes(b"moments")
    files = {"model.safetensors": 7, "config.json": 2, "optimizer.pt": 7}
    step = int(folder.name.removeprefix("checkpoint-"))
    (folder / "COMPLETE.json").write_text(json.dumps({"step": step, "files": files}))


def rehearse(program: list[str], rank: str) -> int:
    """Train four steps: save after the second, lose a process after the fourth, then resume."""
    home = Path(os.environ["DPO_RUN_FOLDER"])
    is_again = "--resume_from_checkpoint" in program
    if rank == "0":
        row(home, *((3, 4) if is_again else (1, 2)))
        save(home / "checkpoints" / f"checkpoint-{4 if is_again else 2}")
        if is_again:
            trained(4)
            return 0
        time.sleep(1.2)  # two readings of the host's memory
        row(home, 3)
        (home / "trained").touch()
        time.sleep(300)
    if is_again:
        return 0
    while not (home / "trained").exists():
        time.sleep(0.05)
    at = os.environ["DPO_REHEARSAL_KILL"]
    record = {"time": time.time(), "step": int(at), "rank": 1}
    (home / "rehearsal-kill.json").write_text(json.dumps(record))
    print("Root Cause (first observed failure):\n  exitcode  : -9 (pid: 1)", flush=True)
    return 1


def row(home: Path, *steps: int) -> None:
    attempt = int(Path(os.environ["DPO_ATTEMPT_FOLDER"]).name)
    with (home / "metrics.jsonl").open("a") as handle:
        for step in steps:
            fields = {"step": step, "total": 4, "attempt": attempt, "time": time.time()}
            fields |= {"seconds": 2.0, "tokens": 4000, "world": 2}
            handle.write(json.dumps(fields) + "\n")


if __name__ == "__main__":
    main()
