"""Fake torchrun of the tests of ``tests.gpu.variants``: writes the files of the probes.

``fake_variant.py MODE FOLDER PAIRS``; each of two ranks writes half of the pairs. MODE ``apart``
changes one text by 3e-3 per token, ``drops`` loses a row, ``dies`` ends with 1 before the first
step.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    mode, folder, pairs = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    if mode == "dies":
        print("torch.OutOfMemoryError: CUDA out of memory")
        sys.exit(1)
    for rank in range(2):
        names = [f"pair-{number}" for number in range(rank, pairs, 2)]
        both = [[-1200.0] * len(names), [-1300.0] * len(names)]
        row = {"step": 1, "names": names, "tokens": [[400] * len(names)] * 2}
        moved = [[*both[0][:-1], both[0][-1] + 1.2], both[1]] if mode == "apart" else both
        row |= {"policy": moved, "reference": moved}
        later = {**row, "step": 2, "policy": [[0.0] * len(names)] * 2}
        lines = [json.dumps(each) for each in (row, later)]
        (folder / f"logps-{rank}.jsonl").write_text("\n".join([*lines, ""]))
        logs = [{"step": 1, "loss": 0.69314718, "grad_norm": 2.5}, {"step": 2, "loss": 0.68}]
        text = "\n".join([*map(json.dumps, logs), ""])
        (folder / f"probe-{rank}.jsonl").write_text(text if rank else '{"step": 1}\n')
        counts = {"wanted": 800, "chosen": 800, "computed": 800 - rank * (mode == "drops")}
        (folder / f"experts-{rank}.json").write_text(json.dumps(counts))


if __name__ == "__main__":
    main()
