"""The random model and the pairs of GPU measurements."""

import json
from pathlib import Path

import pytest
from safetensors import safe_open

from tests.bench.model import random_model
from tests.launchers import warm


@pytest.fixture(scope="session")
def tiny(tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    arguments = [str(folder), "--tokenizer", str(tokenizer), "--tiny"]
    assert "parameters=" in warm.printed("-m", "tests.bench.model.random_model", *arguments)
    return folder


def test_each_weight_of_the_index_is_in_its_file_with_its_shape(tiny: Path) -> None:
    index = json.loads((tiny / "model.safetensors.index.json").read_text())["weight_map"]
    parts = random_model.parts(random_model.TINY)
    wanted = {name: size for _, part in parts for name, size in part.items()}
    assert index.keys() == wanted.keys()
    for file in set(index.values()):
        with safe_open(tiny / file, framework="np") as opened:
            for name in opened.keys():  # noqa: SIM118 (no mapping)
                assert tuple(opened.get_slice(name).get_shape()) == wanted[name]
                assert index[name] == file


COUNT = """
import json, sys
from transformers import AutoTokenizer
reader = AutoTokenizer.from_pretrained(sys.argv[1])
seen = []
ids = set()
for line in open(sys.argv[2]):
    row = json.loads(line)
    texts = [turn["content"] for turn in row["messages"]] + [row["rejected_response"]]
    encoded = [reader(text)["input_ids"] for text in texts]
    ids.update(each for one in encoded for each in one)
    seen.append([len(one) for one in encoded])
print(json.dumps({"lengths": seen, "ids": len(ids), "vocabulary": len(reader)}))
"""


def test_pairs_have_the_lengths_and_the_diversity_that_they_promise(
    tokenizer: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    for file in (first, second):
        warm.printed("-m", "tests.bench.model.pairs", str(tokenizer), str(file), "--pairs", "600")
    assert first.read_bytes() == second.read_bytes()
    said = json.loads(warm.printed("-c", COUNT, str(tokenizer), str(first)))
    prompts, chosen, rejected = (sorted(column) for column in zip(*said["lengths"], strict=True))
    assert len(prompts) == 600
    assert 130 < prompts[300] < 170
    for answers in (chosen, rejected):
        assert 410 < answers[300] < 490
        assert 750 < answers[int(600 * 0.84)] < 1100  # a deviation above the median: 450 * e^0.7
    assert max(2 * p + c + r for p, c, r in said["lengths"]) < 8192 - 80
    assert said["ids"] > 0.6 * said["vocabulary"]
