"""The pairs of ``data.py`` encoded and packed as in training; run by the training Python.

``python -m tests.bench.gradients.packs_edge TOKENIZER FOLDER``.
"""

import importlib
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from launchers.training.packs import prompt_layout
from tests.bench.gradients import data, plan

ONCE = "ours-prompt-once"
"""The side whose prompts are computed once."""


def lengths(tokenizer: Path, folder: Path) -> dict[str, list[int]]:
    """Return the tokens of each pair by side: whole, and with its prompt once."""
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
        assert max(texts) <= int(_flag("max_length", ONCE)), texts
        found.append(row)
    rows = importlib.import_module("datasets").Dataset.from_list(found)
    both = zip(rows["chosen_length"], rows["rejected_length"], strict=True)
    whole, cuts = [a + b for a, b in both], prompt_layout.shared(rows)
    return {"ours": whole, ONCE: [n - cut for n, cut in zip(whole, cuts, strict=True)]}


def _flag(name: str, side: str = "ours") -> Any:
    return plan.read(2, [side])[0].values()["recipe"]["args"][name]


def main() -> None:
    binpacking: Any = importlib.import_module("binpacking")
    wanted = Counter({each.per_pack: each.pairs // each.per_pack for each in data.CLASSES})
    assert sum(wanted.values()) == data.PACKS == int(_flag("global_batch_size"))
    for side, tokens in lengths(Path(sys.argv[1]), Path(sys.argv[2])).items():
        assert len(tokens) == data.PAIRS
        capacity = int(_flag("packing_length", side))
        for seed in range(5):
            items = list(enumerate(random.Random(seed).sample(tokens, len(tokens))))
            made = binpacking.to_constant_volume(items, capacity, weight_pos=1)
            assert Counter(map(len, made)) == wanted, (side, made, wanted)
        print(f"{side}: pairs have {min(tokens)} to {max(tokens)} tokens")
    print("each pack has the pairs of one class")


if __name__ == "__main__":
    main()
