"""The experts' all-to-all beside computation, and not.

``python3 -m tests.gpu.overlap TOKENIZER RESULTS``: two runs of the bench on two or more GPUs, on
the same model, data and packs, nothing recomputed: ``off`` and ``on``; with ``--delayed`` a third,
which also delays the weights' gradients. Words of the bench's own may follow (``--gpus 2``).
RESULTS/bench-overlap.json gets the verdict beside the runs. The first loss must be the same, and
losses and norms of the gradients of the next steps as near as runs of one recipe are; else it ends
with 1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from launchers.flags.overlap import SWITCH
from tests.gpu import host
from tests.gpu.bench import command as bench
from tests.gpu.bench import options as bench_options

FILES = "values/a100-2node.yaml,values/hardware/h200-4.yaml"
STEPS = 5
"""Steps that are compared; later ones of two runs of one recipe go ways of their own."""
FIRST, LOSS, NORM = 1e-6, 2e-3, 0.02
"""Bounds of the first loss, of the others, and of a norm, relative: sums of atomic adds differ."""
PACKS = 4
"""Microbatches of a step on each GPU: of one alone nothing overlaps."""


def profiles(gpus: int, *, delayed: bool) -> dict[str, str]:
    """Return the bench's profiles by name; the first is what the others are judged by."""
    base = {
        "rpo_alpha": "null",
        "expert_model_parallel_size": gpus,
        "global_batch_size": PACKS * gpus,
        "lr": "1e-6",
        "moe_token_dispatcher_type": "alltoall",
        "recompute_granularity": "none",
        "recompute_method": "null",
        "recompute_num_layers": "null",
    }
    more = {f"recipe.args.{SWITCH}": "true", "extraEnv.CUDA_DEVICE_MAX_CONNECTIONS": 32}
    late = {"recipe.args.megatron_extra_kwargs.delay_wgrad_compute": "true"}
    chosen: dict[str, dict[str, Any]] = {"off": base, "on": base | more}
    if delayed:
        chosen["delayed"] = base | more | late
    return {name: f"{name}:{FILES},{_spelt(changes)}" for name, changes in chosen.items()}


def _spelt(changes: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={value}" for key, value in changes.items())


def compare(off: Mapping[str, Any], on: Mapping[str, Any]) -> dict[str, Any]:
    """Return how far two runs are apart, step by step, and how fast one is over the other."""
    found: dict[str, Any] = {}
    for name in ("loss", "grad_norm"):
        one, other = (run.get("log", {}).get(name, []) for run in (off, on))
        pairs = list(zip(one, other, strict=False))[:STEPS]
        known = [(float(a), float(b)) for a, b in pairs if a is not None and b is not None]
        scale = [abs(a) if name == "grad_norm" else 1.0 for a, _ in known]
        found[name] = [abs(a - b) / s for (a, b), s in zip(known, scale, strict=True) if s]
    found["same"] = (
        min(len(found["loss"]), len(found["grad_norm"])) == STEPS
        and found["loss"][0] <= FIRST
        and max(found["loss"]) <= LOSS
        and max(found["grad_norm"]) <= NORM
    )
    if off.get("steps") and on.get("steps"):
        found["faster"] = round(off["seconds"]["median"] / on["seconds"]["median"], 3)
    found["reserved_gib"] = [off.get("reserved_gib"), on.get("reserved_gib")]
    return found


def main(words: Sequence[str]) -> int:
    """Run the bench, judge what it left, and say so."""
    given = [word for word in words if word != "--delayed"]
    options = bench_options.arguments(given)
    gpus = options.gpus or len(host.about()["gpus"])
    chosen = profiles(gpus, delayed="--delayed" in words)
    told = [word for text in chosen.values() for word in ("--profile", text)]
    # few pairs: the pass for the reference goes over all of them
    defaults = ["--label", "overlap", "--layers", "8", "--steps", "12", "--pairs", "1500"]
    code = bench.main([*given[:2], *told, *defaults, *given[2:]])
    path = options.results / f"bench-{options.label or 'overlap'}.json"
    if not path.exists():
        return code
    record = json.loads(path.read_text(encoding="utf-8"))
    first, *others = chosen
    verdict = {name: compare(record["runs"][first], record["runs"][name]) for name in others}
    record["verdict"] = verdict
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(verdict, indent=1))
    return code or int(not all(each["same"] for each in verdict.values()))


if __name__ == "__main__":
    sys.exit(host.run(lambda: main(sys.argv[1:])))
