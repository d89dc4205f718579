"""The pairs of ``data.py`` encoded and packed as in training; run by the training Python.

``python -m tests.bench.gradients.packs_edge TOKENIZER FOLDER``.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.bench.gradients import data, plan


def lengths(tokenizer: Path, folder: Path) -> list[int]:
    """Return the tokens of each pair."""
    from swift import get_processor, get_template

    data.write(folder / "pairs.jsonl", tokenizer)
    template = get_template(
        get_processor(str(tokenizer), model_type="qwen3_moe"), template_type="qwen3_nothinking"
    )
    template.set_mode("rlhf")
    found = []
    for line in (folder / "pairs.jsonl").read_text(encoding="utf-8").splitlines():
        row = template.encode(json.loads(line))
        texts = [len(row[f"{side}_input_ids"]) for side in ("chosen", "rejected")]
        assert max(texts) <= int(_flag("max_length")), texts
        found.append(sum(texts))
    return found


def _flag(name: str) -> Any:
    return plan.read(2, ["ours"])[0].values()["recipe"]["args"][name]


def main() -> None:
    binpacking: Any = importlib.import_module("binpacking")
    tokens = lengths(Path(sys.argv[1]), Path(sys.argv[2]))
    assert len(tokens) == data.PAIRS
    wanted = Counter({each.per_pack: each.pairs // each.per_pack for each in data.CLASSES})
    for seed in range(5):
        order = random.Random(seed).sample(tokens, len(tokens))
        items = list(enumerate(order))
        made = binpacking.to_constant_volume(items, int(_flag("packing_length")), weight_pos=1)
        assert Counter(map(len, made)) == wanted, (made, wanted)
    assert sum(wanted.values()) == data.PACKS == int(_flag("global_batch_size"))
    print(f"pairs have {min(tokens)} to {max(tokens)} tokens")
    print("each pack has the pairs of one class")


if __name__ == "__main__":
    main()
