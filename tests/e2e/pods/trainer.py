"""Stand-in for torchrun, controlled by files on the workspace, in tests that need no training.

Mounted as ``torch/distributed/run.py``. With ``STANDIN=hold`` it waits for the file
``orders/<run>/<attempt>-<rank>`` or, for all, ``orders/<run>/all``; its text is ``succeed``, ``fail
LAST LINE OF THE RANK'S STDERR``, or ``kill SIGNAL`` (prints torchrun's message about a rank killed
by a signal). Otherwise it succeeds at once, and rank 0 writes a complete checkpoint. For the
conversion (``--to_mcore``) it waits for ``orders/<run>/convert`` and writes a file.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    """Parse torchrun's arguments and execute the order."""
    parser = argparse.ArgumentParser()
    for flag in ("nnodes", "nproc-per-node", "node-rank", "master-addr", "master-port"):
        parser.add_argument(f"--{flag}", required=True)
    for flag in ("max-restarts", "log-dir", "redirects", "tee"):
        parser.add_argument(f"--{flag}", required=True)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    output = Path(word_after(options.program, "--output_dir"))
    print("the stand-in for torchrun has started", flush=True)
    if "--to_mcore" in options.program:
        order("convert")
        (output / "latest_checkpointed_iteration.txt").write_text("0\n", encoding="utf-8")
        return
    ranks = Path(options.log_dir) / "none_x" / "attempt_0" / "0"
    ranks.mkdir(parents=True)
    (ranks / "argv.json").write_text(json.dumps(sys.argv[1:]), encoding="utf-8")
    attempt = Path(options.log_dir).parent.name
    act, _, word = order(f"{attempt}-{options.node_rank}").partition(" ")
    if act == "fail":
        (ranks / "stderr.log").write_text(f"Traceback\n{word}\n", encoding="utf-8")
        sys.exit(1)
    if act == "kill":
        print(f"Root Cause (first observed failure):\n  exitcode  : -{word} (pid: 1)", flush=True)
        sys.exit(1)
    if options.node_rank == "0":
        save(output / f"checkpoint-{attempt}", int(attempt))
        record = {"step": int(attempt), "planned": int(attempt), "reason": "finished"}
        (Path(options.log_dir).parent / "trained.json").write_text(json.dumps(record))


def order(own: str) -> str:
    """Wait for the order of this name or for all; return it."""
    folder = Path(os.environ["DPO_WORKSPACE"]) / "orders" / os.environ["DPO_RUN"]
    while os.environ.get("STANDIN") == "hold":
        for name in (own, "all"):
            if (folder / name).exists():
                return (folder / name).read_text(encoding="utf-8").strip()
        time.sleep(0.1)
    return "succeed"


def save(folder: Path, step: int) -> None:
    """Write a complete checkpoint like the trainer with the seal plugin."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"model.safetensors": b"weights", "config.json": b"{}", "optimizer.pt": b"moments"}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    sizes = {name: len(content) for name, content in files.items()}
    manifest = json.dumps({"step": step, "files": sizes})
    (folder / "COMPLETE.json").write_text(manifest, encoding="utf-8")


def word_after(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


if __name__ == "__main__":
    main()
