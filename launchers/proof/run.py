"""Runs cases in a process that has imported ms-swift: ``run FOLDER JOBS``, one fork for each rank.

JOBS is a file with a list of jobs (``trace.train``) of one backend. The trace of a rank is in
``FOLDER/<job>/trace-<rank>.pt``, what it printed is next to it.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import shutil
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launchers.preflight.gang_probes import free_port
from launchers.proof.cases import PAIRS

AT_ONCE = 2
"""Jobs that run at the same time: one for each core of a small host."""
LIMIT_SECONDS = 600.0
"""A job ends by then, also on a busy machine; it takes about 5 s."""
TEXT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def inputs(folder: Path) -> None:
    """Write a Qwen3 of 40,000 weights, one with experts, and pairs of random words."""
    import tokenizers
    import torch
    import transformers

    draw, words = random.Random(3), [f"w{number}" for number in range(40)]
    rows = []
    for _ in range(PAIRS):
        ask, good, bad = (" ".join(draw.choices(words, k=draw.randint(2, 12))) for _ in range(3))
        texts = [{"role": "user", "content": ask}, {"role": "assistant", "content": good}]
        rows.append(json.dumps({"messages": texts, "rejected_response": bad}))
    (folder / "pairs.jsonl").write_text("\n".join(rows) + "\n")
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "user", "assistant", "\n", *words]
    model = tokenizers.models.WordLevel({w: n for n, w in enumerate(marks)}, "<|endoftext|>")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"\n|\S+"), "isolated")
    made.add_special_tokens(marks[:3])
    ends = {"eos_token": marks[2], "pad_token": marks[0]}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made, **ends)
    tokenizer.chat_template = TEXT
    for name, kind, more in (
        ("dense", "Qwen3", {}),
        (
            "experts",
            "Qwen3Moe",
            {"num_experts": 4, "moe_intermediate_size": 16} | {"num_experts_per_tok": 2},
        ),
    ):
        torch.manual_seed(1)
        config = getattr(transformers, f"{kind}Config")(
            **{"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "head_dim": 8},
            **{"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
            **{"bos_token_id": None, "eos_token_id": 2, "pad_token_id": 0, "dtype": "float32"},
            **{"tie_word_embeddings": False, "max_position_embeddings": 512, **more},
        )
        getattr(transformers, f"{kind}ForCausalLM")(config).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)


def main() -> None:
    """Import, then run each job; print its name, exit code and seconds."""
    folder, jobs = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    if jobs[0]["backend"] == "megatron":
        importlib.import_module("launchers.proof.on_cpu").train_in_fp32()
        importlib.import_module("swift.megatron.pipelines.train.rlhf")
    importlib.import_module("swift.pipelines.train.rlhf")
    importlib.import_module("swift.rlhf_trainers.dpo_trainer")
    importlib.import_module("launchers.proof.trace")
    if not (folder / "pairs.jsonl").exists():
        inputs(folder)
    unfinished = {job["name"]: job for job in jobs}
    running: dict[str, Running] = {}
    while unfinished:
        for name, job in unfinished.items():
            text = json.dumps(job)
            needs_another = any(each in text for each in unfinished if each != name)
            if name not in running and not needs_another and len(running) < AT_ONCE:
                running[name] = start(job, folder)
        for name in [name for name, each in running.items() if each.has_ended()]:
            found = running.pop(name)
            del unfinished[name]
            print("JOB", name, found.code, f"{time.monotonic() - found.begun:.1f}", flush=True)
        time.sleep(0.05)


@dataclass
class Running:
    """The ranks of a job."""

    children: list[int]
    begun: float = field(default_factory=time.monotonic)
    code: int = 0
    """The greatest exit code so far; 124 after too long."""

    def has_ended(self) -> bool:
        """Return whether all ranks have ended; end those that hang, or outlive an error."""
        limit = 5.0 if self.code else LIMIT_SECONDS
        for child in list(self.children):
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended and time.monotonic() - self.begun < limit:
                continue
            if not ended:
                os.kill(child, 9)
                os.waitpid(child, 0)
            self.children.remove(child)
            code = abs(os.waitstatus_to_exitcode(status)) if ended else 124
            self.code = max(self.code, code)
        return not self.children


def start(job: dict[str, Any], folder: Path) -> Running:
    """Start a job's ranks."""
    home, port, children = folder / job["name"], str(free_port()), []
    home.mkdir()
    if base := job.get("damages"):
        shutil.copytree(folder / base / "out" / "checkpoint-2", home / "damaged")
        shards = (home / "damaged").rglob("*.distcp")
        os.truncate(max(shards, key=lambda path: path.stat().st_size), 1000)
        job["flags"]["mcore_model"] = str(home / "damaged")
    for rank in range(job["ranks"]):
        child = os.fork()
        if not child:
            os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_PORT": port}
            os.environ |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(job["ranks"]))
            os._exit(_rank(job, home, rank))
        children.append(child)
    return Running(children)


def _rank(job: dict[str, Any], home: Path, rank: int) -> int:
    import torch

    log = os.open(home / f"log-{rank}", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 0
    try:
        trace = importlib.import_module("launchers.proof.trace")
        torch.save(trace.train(job, home), home / f"trace-{rank}.pt")
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    main()
