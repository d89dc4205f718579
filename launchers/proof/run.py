"""Runs cases in a process that has imported ms-swift: ``run FOLDER JOBS``, one fork for each rank.

JOBS is a file with a list of jobs (``trace.train``) of one backend. The trace of a rank is in
``FOLDER/<job>/trace-<rank>.pt``, what it printed is next to it.
"""

import contextlib
import importlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
import traceback
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
    with (folder / "pairs.jsonl").open("w") as pairs, (folder / "kto.jsonl").open("w") as kto:
        for number in range(PAIRS):
            texts = [" ".join(draw.choices(words, k=draw.randint(2, 12))) for _ in range(3)]
            of = zip(("user", "assistant"), texts, strict=False)
            row = {"messages": [{"role": role, "content": text} for role, text in of]}
            pairs.write(json.dumps({**row, "rejected_response": texts[2]}) + "\n")
            kto.write(json.dumps({**row, "label": number % 2 == 0}) + "\n")
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "user", "assistant", "\n", *words]
    model = tokenizers.models.WordLevel({w: n for n, w in enumerate(marks)}, "<|endoftext|>")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"\n|\S+"), "isolated")
    made.add_special_tokens(marks[:3])
    ends = {"eos_token": marks[2], "pad_token": marks[0]}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made, **ends)
    tokenizer.chat_template = TEXT
    experts = {"num_experts": 4, "moe_intermediate_size": 16, "num_experts_per_tok": 2}
    models = {
        "dense": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM, {}),
        "experts": (transformers.Qwen3MoeConfig, transformers.Qwen3MoeForCausalLM, experts),
    }
    for name, (config_type, model_type, more) in models.items():
        torch.manual_seed(1)
        config = config_type(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=64,
            head_dim=8,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            bos_token_id=None,
            eos_token_id=2,
            pad_token_id=0,
            dtype="float32",
            tie_word_embeddings=False,
            max_position_embeddings=512,
            **more,
        )
        model_type(config).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)


def main() -> None:
    """Import, then run each job; print its name, exit codes and seconds."""
    folder, jobs = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    if jobs[0]["backend"] == "megatron":
        importlib.import_module("launchers.proof.on_cpu").train_in_fp32()
        importlib.import_module("swift.megatron.pipelines.train.rlhf")
    importlib.import_module("swift.pipelines.train.rlhf")
    importlib.import_module("swift.rlhf_trainers.dpo_trainer")
    importlib.import_module("launchers.proof.trace")
    if not (folder / "pairs.jsonl").exists():
        inputs(folder)
    todo, running = {job["name"]: job for job in jobs}, dict[str, Running]()
    while todo:
        for name, job in todo.items():
            waits = any(each in json.dumps(job) for each in todo if each != name)
            if name not in running and not waits and len(running) < AT_ONCE:
                running[name] = Running(job, folder)
        for name in [name for name, each in running.items() if each.has_ended()]:
            found = running.pop(name)
            del todo[name]
            codes = [each.exitcode for each in found.ranks]
            print("JOB", name, codes, f"{time.monotonic() - found.begun:.1f}", flush=True)
        time.sleep(0.05)


class Running:
    """The ranks of a job."""

    def __init__(self, job: dict[str, Any], folder: Path) -> None:
        """Start them."""
        home, port, self.begun = folder / job["name"], str(free_port()), time.monotonic()
        home.mkdir()
        damaged = Path(job["flags"].get("mcore_model", ""))
        if damaged.name == "damaged":
            shutil.copytree(damaged.parent / "out" / "checkpoint-2", damaged)
            os.truncate(max(damaged.rglob("*.distcp"), key=lambda path: path.stat().st_size), 1000)
        start = multiprocessing.get_context("fork").Process
        self.ranks = [
            start(target=_rank, args=(job, home, port, rank)) for rank in range(job["ranks"])
        ]
        for each in self.ranks:
            each.start()

    def has_ended(self) -> bool:
        """Return whether all ranks have ended; end those that hang, or outlive an error."""
        codes = [each.exitcode for each in self.ranks]
        if is_whole := None in codes and not any(codes):
            is_whole = time.monotonic() - self.begun < LIMIT_SECONDS
        for each in [] if is_whole else self.ranks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid or 0, signal.SIGKILL)  # and what it has started
            each.join()
        return not is_whole


def _rank(job: dict[str, Any], home: Path, port: str, rank: int) -> None:
    os.setpgid(0, 0)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_PORT": port}
    os.environ |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(job["ranks"]))
    log, code = os.open(home / f"log-{rank}", os.O_WRONLY | os.O_CREAT), 1
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        found = importlib.import_module("launchers.proof.trace").train(job, home)
        importlib.import_module("torch").save(found, home / f"trace-{rank}.pt")
        code = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
