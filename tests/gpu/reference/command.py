"""Compare reference modes: ``python3 -m tests.gpu.reference TOKENIZER RESULTS [PP]``.

Two minutes on 1 to 4 GPUs of one host: a tiny random model, packs, experts over 2 GPUs if there are
2. Trains two epochs with ms-swift's own reference and with the precomputed one; then, from its
checkpoint, with the store and without it, and a fresh run with the store.
RESULTS/reference-<N>gpu.json has the differences; one above its bound ends with 1. PP is the number
of pipeline stages.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from launchers.flags import features
from launchers.flags.command_line import flatten
from launchers.system.ms_swift import swift_folder
from launchers.training.reference.run_store import recorded
from tests.gpu import host, side_by_side
from tests.gpu.bench import read as bench_read
from tests.gpu.bench.profiles import ROOT
from tests.gpu.bench.shared import PLUGINS
from tests.gpu.model import random_model
from tests.gpu.reference.judge import PAIRS, SAVED, STEPS, judge

HOME = Path("/data/reference")
LIMIT = 170
"""Time limit of one run in seconds: imports, compilation and a few steps."""
OWN = [str(features.PLUGIN)]
PROBE = [str(PLUGINS / "swift_reference_probe.py")]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run; the runs of a round run concurrently."""

    name: str
    home: str
    """Folder of the run, below the workspace; runs of one folder share their reference store."""
    plugins: list[str]
    flags: dict[str, str]
    port: int


def main() -> int:
    """Run the cases and compare them; return 1 if a difference is above its bound."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.gpu.reference")
    parser.add_argument("tokenizer", type=Path, help="folder with a tokenizer")
    parser.add_argument("results", type=Path, help="folder of the result file")
    parser.add_argument("stages", nargs="?", default="1", help="of the pipeline")
    options = parser.parse_args()
    tokenizer, results, stages = options.tokenizer, options.results, options.stages
    shutil.rmtree(HOME, ignore_errors=True)
    results.mkdir(parents=True, exist_ok=True)
    model_config = replace(random_model.TINY, vocab_size=random_model.vocabulary(tokenizer))
    random_model.write(HOME / "model", model_config, tokenizer)
    write_pairs(HOME / "pairs.jsonl")
    gpus = len(host.about()["gpus"])
    base = flags(gpus, stages)
    saved = HOME / "w/runs/own/out" / f"checkpoint-{SAVED}"
    resumed = base | {"mcore_model": str(saved), "finetune": "false", "no_load_optim": "false"}
    resumed |= {"no_load_rng": "false"}
    seen = together(
        [
            Case(name="online", home="w/runs/online", plugins=PROBE, flags=base, port=29511),
            Case(name="own", home="w/runs/own", plugins=OWN + PROBE, flags=base, port=29521),
        ],
        gpus,
    )
    seen |= together(
        [
            Case(name="resumed", home="w/runs/own", plugins=OWN + PROBE, flags=resumed, port=29531),
            Case(name="lost", home="x/runs/lost", plugins=OWN + PROBE, flags=resumed, port=29541),
            Case(name="again", home="w/runs/b", plugins=OWN + PROBE, flags=base, port=29551),
        ],
        gpus,
    )
    verdict = judge(seen)
    record = {**host.about(), "stages": stages, "flags": base, "verdict": verdict, "runs": seen}
    path = results / f"reference-{gpus}gpu{'' if stages == '1' else '-pp' + stages}.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(verdict, indent=1))
    return 0 if verdict["passed"] else 1


def write_pairs(path: Path) -> None:
    """Write pairs of random words; two or three fill a pack, one pair is duplicated."""
    chance = random.Random(7)
    words = ["return", "value", "list", "string", "number", "name", "of", "the", "file", "a"]

    def text() -> str:
        return " ".join(chance.choices(words, k=chance.randint(60, 300)))

    rows = []
    for _ in range(PAIRS - 1):
        turns = [{"role": "user", "content": "write"}, {"role": "assistant", "content": text()}]
        rows.append(json.dumps({"messages": turns, "rejected_response": text()}))
    path.write_text("\n".join([*rows, rows[0]]) + "\n", encoding="utf-8")


def flags(gpus: int, stages: str) -> dict[str, str]:
    """Return the flags that all cases share."""
    experts = "2" if gpus // int(stages) % 2 == 0 else "1"
    return {
        **{"rlhf_type": "dpo", "model_type": "qwen3_moe", "template": "qwen3_nothinking"},
        **{"tensor_model_parallel_size": "1", "pipeline_model_parallel_size": stages},
        **{"expert_model_parallel_size": experts, "expert_tensor_parallel_size": "1"},
        **{"attention_backend": "auto", "max_length": "1024", "packing": "true"},
        **{"micro_batch_size": "1", "global_batch_size": "4", "train_iters": str(STEPS)},
        **{"lr": "1e-5", "moe_grouped_gemm": "true", "moe_permute_fusion": "true"},
        **{"overlap_grad_reduce": "true", "overlap_param_gather": "true"},
        # as in the profiles; without it TE's training kernels differ from those of the reference
        **{"recompute_granularity": "full", "recompute_method": "uniform"},
        **{"recompute_num_layers": "1", "logging_steps": "1", "save_steps": str(SAVED)},
        **{"no_save_optim": "false", "no_save_rng": "false", "split_dataset_ratio": "0.1"},
        **{"dataset_num_proc": "2", "dataloader_num_workers": "2", "ddp_timeout": "600"},
        **{"eval_steps": str(SAVED), "eval_iters": "1"},
    }


def together(cases: list[Case], gpus: int) -> dict[str, Any]:
    """Run some cases at once, each on all GPUs."""
    commands = [command(case, gpus) for case in cases]
    ended = side_by_side.run(commands, at_once=len(cases), limit=LIMIT)
    seen = {}
    for case in cases:
        code = ended[case.name].code
        folder = HOME / case.home
        text = (folder / f"{case.name}.log").read_text(errors="replace")
        seen[case.name] = {
            "exit": -9 if code is None else code,
            "wall_s": ended[case.name].seconds,
            "log": bench_read.logged(folder / "out"),
            "logps": logps(folder / f"probe-{case.name}"),
            "reference": recorded(folder),
            "errors": [line for line in text.splitlines() if "recipe.reference" in line][:2],
            "tail": "" if code == 0 else text[-1500:],
        }
    return seen


def command(case: Case, gpus: int) -> side_by_side.Command:
    """Return the torchrun command of a case."""
    home = HOME / case.home
    probe = home / f"probe-{case.name}"
    probe.mkdir(parents=True)
    own: dict[str, str | list[str]] = {
        **{"model": str(HOME / "model"), "ref_model": str(HOME / "model")},
        **{"dataset": str(HOME / "pairs.jsonl"), "output_dir": str(home / "out")},
        **{"add_version": "false", "check_model": "false", "external_plugins": case.plugins},
    }
    env = {
        **{**os.environ, **host.ENV},
        "PYTHONPATH": f"{ROOT}:{host.ENV['PYTHONPATH']}",
        features.VARIABLE: "reference",
        **{"PROBE": str(probe), "DPO_RUN_FOLDER": str(home), "HF_HUB_OFFLINE": "1"},
        **{"HF_DATASETS_CACHE": str(probe / "hf"), "MODELSCOPE_CACHE": str(probe / "ms")},
        **{"NPROC_PER_NODE": str(gpus), "CUDA_DEVICE_MAX_CONNECTIONS": "1"},
    }
    entry = swift_folder() / "cli" / "_megatron" / "rlhf.py"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(gpus)]
    words = [*torchrun, "--master-port", str(case.port), str(entry)]
    return side_by_side.Command(
        name=case.name,
        words=[*words, *flatten({**case.flags, **own})],
        env=env,
        log=home / f"{case.name}.log",
    )


def logps(folder: Path) -> dict[str, list[list[float]]]:
    """Return each pair's log-probabilities under the reference, as used by each loss."""
    found: dict[str, list[list[float]]] = {}
    for path in sorted(folder.glob("logps-*.jsonl")):
        for row in map(json.loads, path.read_text().splitlines()):
            for name, *values in zip(row["names"], *row["reference"], strict=True):
                found.setdefault(name, []).append(values)
    return found
