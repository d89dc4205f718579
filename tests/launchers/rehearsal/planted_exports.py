"""Exports of a tiny mixture of experts with an error each; prints one JSON object a case.

``python planted_exports.py FOLDER`` makes a model, the same after training, the trainer's
log-probabilities by its own arithmetic, and the exports, and compares them as a run does.
"""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen3MoeConfig, Qwen3MoeForCausalLM

from launchers.rehearsal import load_export

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"
PAIRS = 6
NORM, QUERY = "model.norm.weight", "model.layers.0.self_attn.q_proj.weight"
Change = Callable[[dict[str, torch.Tensor]], object]


def model_of(seed: int) -> Any:
    config = Qwen3MoeConfig(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=8,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=8,
        tie_word_embeddings=False,
        dtype="float32",
        eos_token_id=38,
        initializer_range=0.3,  # so that each part of the model counts
    )
    torch.manual_seed(seed)
    return Qwen3MoeForCausalLM(config).eval()


def save(model: Any, folder: Path) -> None:
    model.save_pretrained(folder, max_shard_size="12KB")
    words = Tokenizer(models.WordLevel({f"w{n}": n for n in range(38)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<|im_end|>")
    tokenizer.add_tokens([AddedToken("<|im_start|>", special=True)])
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)


def pairs(model: Any) -> list[dict[str, Any]]:
    """Return pairs with the trainer's sums: float64, all texts padded into one batch."""
    chance = torch.Generator().manual_seed(3)
    rows = []
    for _ in range(PAIRS):
        prompt, *both = (torch.randint(40, (n,), generator=chance).tolist() for n in (5, 7, 4))
        row: dict[str, Any] = {"sums": []}
        for side, answer in zip(load_export.SIDES, both, strict=True):
            ids, labels = prompt + answer, [-100] * len(prompt) + answer
            row |= {f"{side}_input_ids": ids, f"{side}_labels": labels}
            padded = torch.tensor([ids + [0] * (12 - len(ids))])
            mask = (torch.arange(12) < len(ids)).long()[None]
            with torch.no_grad():
                logits = model(input_ids=padded, attention_mask=mask).logits[0].double()
            table = logits.log_softmax(-1)
            row["sums"].append(sum(float(table[n - 1, ids[n]]) for n in range(5, len(ids))))
        rows.append(row)
    return rows


def probe(folder: Path, model: Any, step: int) -> dict[str, Any]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = ["w1 <|im_start|> w2 <|im_end|>", "w3 w4"]
    described = load_export.describe(tokenizer, texts)
    found = {"step": step, "held_out": True, "weights": "float32", "narrow": False}
    return {**found, "pairs": pairs(model), "tokenizer": described}


def tensors(folder: Path, change: Change) -> None:
    """Change the tensors of an export; they are saved as one file."""
    found: dict[str, torch.Tensor] = {}
    for path in folder.glob("*.safetensors"):
        found |= load_file(path)
        path.unlink()
    (folder / "model.safetensors.index.json").unlink(missing_ok=True)
    change(found)
    held = {name: tensor.contiguous() for name, tensor in found.items()}
    save_file(held, folder / "model.safetensors", metadata={"format": "pt"})


def of_tensors(change: Change) -> Callable[[Path, Path], None]:
    return lambda folder, base: tensors(folder, change)


def in_json(name: str, **changed: Any) -> Callable[[Path, Path], None]:
    def act(folder: Path, base: Path) -> None:
        found = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**found, **changed}))

    return act


def drop_layer(folder: Path, base: Path) -> None:
    """Leave the last layer out, of weights and configuration alike: it loads without a word."""
    tensors(folder, lambda t: [t.pop(name) for name in list(t) if ".layers.2." in name])
    in_json("config.json", num_hidden_layers=2)(folder, base)


def skip_layer(t: dict[str, torch.Tensor]) -> None:
    """Write a layer twice, in place of the next one: no name or shape is missing."""
    for name in list(t):
        if ".layers.1." in name:
            t[name] = t[name.replace(".layers.1.", ".layers.0.")].clone()


def permute_experts(t: dict[str, torch.Tensor]) -> None:
    """Exchange two experts of a layer without their rows of the router."""
    for name in list(t):
        if ".layers.1.mlp.experts.0." in name:
            other = name.replace("experts.0.", "experts.1.")
            t[name], t[other] = t[other], t[name]


def narrow(t: dict[str, torch.Tensor]) -> None:
    for name in t:
        t[name] = t[name].bfloat16()


def tie(folder: Path, base: Path) -> None:
    tensors(folder, lambda t: t.pop("lm_head.weight"))
    in_json("config.json", tie_word_embeddings=True)(folder, base)


def unmerged(folder: Path, base: Path) -> None:
    for path in base.glob("model*"):
        shutil.copy(path, folder / path.name)


def stale_shard(folder: Path, base: Path) -> None:
    """Keep one file of an earlier step."""
    name = sorted(path.name for path in folder.glob("model-*.safetensors"))[1]
    shutil.copy(base / name, folder / name)


def forget_token(folder: Path, base: Path) -> None:
    path = folder / "tokenizer.json"
    found = json.loads(path.read_text())
    found["added_tokens"] = [t for t in found["added_tokens"] if t["content"] != "<|im_start|>"]
    path.write_text(json.dumps(found))


def unlisted_shard(folder: Path, base: Path) -> None:
    """Add a file that the index does not name: transformers ignores it, other servers do not."""
    save_file({NORM: torch.zeros(16)}, folder / "model-0.safetensors", metadata={"format": "pt"})


ROPE = {"rope_type": "default", "rope_theta": 500.0}
PLANTED: dict[str, Callable[[Path, Path], object]] = {
    "whole": lambda folder, base: None,
    "a layer dropped": drop_layer,
    "a layer written twice": of_tensors(skip_layer),
    "a tied head": tie,
    "weights in bf16": of_tensors(narrow),
    "dtype in config.json": in_json("config.json", dtype="float16"),
    "an adapter not merged": unmerged,
    "another chat template": lambda folder, base: (folder / "chat_template.jinja").write_text(
        TEMPLATE.replace("<|im_start|>", "w5")
    ),
    "no chat template": lambda folder, base: (folder / "chat_template.jinja").unlink(),
    "experts permuted": of_tensors(permute_experts),
    "a matrix transposed": of_tensors(lambda t: t.update({QUERY: t[QUERY].T})),
    "a stale shard": stale_shard,
    "a token of the tokenizer missing": forget_token,
    "another end of a text": in_json("tokenizer_config.json", eos_token="w7"),
    "a norm scaled by 1.01": of_tensors(lambda t: t[NORM].mul_(1.01)),
    "positions with another base": in_json("config.json", rope_parameters=ROPE),
    "one expert a token": in_json("config.json", num_experts_per_tok=1),
    "a norm dropped": of_tensors(lambda t: t.pop(NORM)),
    "a norm of 17": of_tensors(lambda t: t.update({NORM: torch.zeros(17)})),
    "not a number": of_tensors(lambda t: t[NORM][3:4].fill_(float("nan"))),
    "a shard that the index lacks": unlisted_shard,
    "another end of an answer": in_json("generation_config.json", eos_token_id=[7]),
    "another class": in_json("config.json", architectures=["Qwen3MoeModel"]),
}


def main() -> None:
    root = Path(sys.argv[1])
    base, tuned = model_of(1), model_of(1)
    with torch.no_grad():
        torch.manual_seed(9)
        for weight in tuned.parameters():
            weight += 0.05 * torch.randn_like(weight)
    save(base, root / "base")
    save(tuned, root / "tuned")
    probes = []
    for step, model in ((7, tuned), (0, base)):
        probes.append(root / f"probe-{step}.json")
        probes[-1].write_text(json.dumps(probe(root / "base", model, step)))
    found = {}
    for name, plant in PLANTED.items():
        folder = root / name.replace(" ", "-")
        shutil.copytree(root / "tuned", folder)
        plant(folder, root / "base")
        result = root / "result.json"
        words = [str(folder), str(root / "base"), str(result), *map(str, probes)]
        load_export.main(words)
        found[name] = json.loads(result.read_text())
    found["alone"] = asdict(load_export.load(root / "whole", root / "base"))
    load_export.RUN_BYTES, load_export.ROOM = 0, 1e9
    found["read"] = asdict(load_export.load(root / "whole", root / "base"))
    found["large"] = asdict(load_export.load(root / "whole", root / "base", probes))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
