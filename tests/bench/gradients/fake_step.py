"""Fake torchrun of the tests of ``tests.bench.gradients``: writes the probe's files of two ranks.

``fake_step.py NAME MODE FOLDER``. The gradients of every NAME but ``exact`` have errors of their
own. MODE ``apart`` makes one kind of parameter wrong, ``scaled`` all by 3 %, ``loads`` has loaded
one of the launcher's modules, ``lacks`` has no part of rank 1, ``dies`` ends before the step.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

SIZES = {"mlp.router.weight": 512, "self_attention.linear_proj.weight": 1024}
EXPERTS, EXPERT = 2, 300
"""Experts of a rank, and elements of an expert's weight."""
LAYERS = 3


def gradients(side: str, mode: str) -> dict[str, np.ndarray]:
    """Return the gradients of both ranks by the name over all of them."""
    chance, own = np.random.default_rng(1), np.random.default_rng(sum(side.encode()))
    found = {}
    for layer in range(LAYERS):
        experts = [f"mlp.experts.linear_fc1.weight{n}" for n in range(2 * EXPERTS)]
        for name, size in {**SIZES, **dict.fromkeys(experts, EXPERT)}.items():
            right = chance.standard_normal(size).astype(np.float32)
            is_wrong = mode == "apart" and "router" in name
            error = 0.0 if side == "exact" else 0.2 if is_wrong else 0.02
            noise = error * own.standard_normal(size).astype(np.float32)
            scale = 1.03 if mode == "scaled" else 1.0
            found[f"decoder.layers.{layer}.{name}"] = (right + noise) * scale
    return found


def main() -> None:
    side, mode, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    if mode == "dies":
        print("torch.OutOfMemoryError: CUDA out of memory")
        sys.exit(1)
    kind = "torch.float32" if side == "exact" else "torch.bfloat16"
    for rank in (0, 1):
        parts = {}
        for name, whole in gradients(side, mode).items():
            head, is_expert, number = name.partition("fc1.weight")
            if is_expert:  # as its rank names it
                if int(number) // EXPERTS == rank:
                    local = f"{head}{is_expert}{int(number) % EXPERTS}"
                    parts[f"0:{whole.size}:{whole.size}:{local}"] = whole
                continue
            cut = whole.size // 3
            begin, end = ((0, cut), (cut, whole.size))[rank]
            parts[f"{begin}:{end}:{whole.size}:{name}"] = whole[begin:end].copy()
        path = folder / f"gradients-{rank}.json"
        save_file({} if mode == "lacks" and rank else parts, path.with_suffix(".safetensors"))
        about: dict[str, Any] = {"loss": 9.25, "grad_norm": 1.0, "weights": kind, "gradients": kind}
        about |= {"expert_rank": rank, "local_experts": EXPERTS}
        about |= {"launchers": ["launchers.training.loading"] if mode == "loads" else []}
        path.write_text(json.dumps(about))


if __name__ == "__main__":
    main()
