"""Write a Qwen3-MoE with random weights and balanced routers in Hugging Face format, of any size.

Run it as ``python3 -m tests.bench.model.random_model FOLDER --tokenizer FOLDER --layers 48``; the
defaults are the widths of Qwen3-30B-A3B. The tokenizer is copied from a folder that has one.

Reason for the scales: a router sees the normalised residual stream. With N(0, 0.02) everywhere (the
embedding too) a few layers outweigh the token's own embedding, all tokens share most of their
stream and every router prefers the same experts: a load-balancing loss of 3.5 where 1 is balanced.
Here the embedding has a deviation of 1, layer outputs are scaled by
1 / sqrt(2 layers) (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners",
section 2.3) and the rows of a router are orthonormal, so that no expert is preferred.
"""

import argparse
import json
import math
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tests.bench.model.shards import Sizes, save
from tests.bench.model.weights import DEVIATION, draw

WRITERS = 12
"""Threads; each holds one layer of 1.25 GB at the real widths."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes in ``config.json``; the defaults are Qwen3-30B-A3B's."""

    num_hidden_layers: int = 48
    hidden_size: int = 2048
    num_attention_heads: int = 32
    num_key_value_heads: int = 4
    head_dim: int = 128
    num_experts: int = 128
    num_experts_per_tok: int = 8
    moe_intermediate_size: int = 768
    vocab_size: int = 151936


TINY = Config(
    num_hidden_layers=4,
    hidden_size=256,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
    num_experts=8,
    num_experts_per_tok=2,
    moe_intermediate_size=128,
    vocab_size=2048,
)


def parts(model: Config) -> Iterator[tuple[str, Sizes]]:
    """Yield the files of a model: the weights outside the layers, then one file per layer."""
    embedding = (model.vocab_size, model.hidden_size)
    yield (
        "model-outside",
        {
            "model.embed_tokens.weight": embedding,
            "model.norm.weight": (model.hidden_size,),
            "lm_head.weight": embedding,
        },
    )
    for layer in range(model.num_hidden_layers):
        yield f"model-{layer:05d}", _layer(model, f"model.layers.{layer}")


def _layer(s: Config, at: str) -> Sizes:
    attention, query = f"{at}.self_attn", s.num_attention_heads * s.head_dim
    kv = s.num_key_value_heads * s.head_dim
    sizes: Sizes = {
        f"{attention}.q_proj.weight": (query, s.hidden_size),
        f"{attention}.k_proj.weight": (kv, s.hidden_size),
        f"{attention}.v_proj.weight": (kv, s.hidden_size),
        f"{attention}.o_proj.weight": (s.hidden_size, query),
        f"{attention}.q_norm.weight": (s.head_dim,),
        f"{attention}.k_norm.weight": (s.head_dim,),
        f"{at}.input_layernorm.weight": (s.hidden_size,),
        f"{at}.post_attention_layernorm.weight": (s.hidden_size,),
        f"{at}.mlp.gate.weight": (s.num_experts, s.hidden_size),
    }
    for expert in range(s.num_experts):
        name = f"{at}.mlp.experts.{expert}"
        sizes[f"{name}.gate_proj.weight"] = (s.moe_intermediate_size, s.hidden_size)
        sizes[f"{name}.up_proj.weight"] = (s.moe_intermediate_size, s.hidden_size)
        sizes[f"{name}.down_proj.weight"] = (s.hidden_size, s.moe_intermediate_size)
    return sizes


def config(model: Config) -> dict[str, Any]:
    return {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        **asdict(model),
        "intermediate_size": 3 * model.hidden_size,
        "max_position_embeddings": 32768,
        "rope_theta": 1000000.0,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "router_aux_loss_coef": 0.001,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "initializer_range": DEVIATION,
        "bos_token_id": None,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
    }


def vocabulary(tokenizer: Path) -> int:
    """Return the embedding rows for a tokenizer: a multiple of 128."""
    words = json.loads((tokenizer / "tokenizer.json").read_text(encoding="utf-8"))
    added = (token["id"] for token in words["added_tokens"])
    ids: list[int] = [*words["model"]["vocab"].values(), *added]
    return -(-(max(ids) + 1) // 128) * 128


def write(folder: Path, model: Config, tokenizer: Path, seed: int = 7) -> int:
    """Write the model, deterministic for a seed and device type; return its parameter count."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    devices = [f"cuda:{n}" for n in range(torch.cuda.device_count())] or ["cpu"]
    files = list(parts(model))

    def one(number: int) -> None:
        name, sizes = files[number]
        device = devices[number % len(devices)]
        whole = draw(sizes, model.num_hidden_layers, seed * 1000 + number, device)
        save(folder / f"{name}.safetensors", sizes, whole)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(one, range(len(files))))
    total = sum(math.prod(size) for _, sizes in files for size in sizes.values())
    index = {weight: f"{name}.safetensors" for name, sizes in files for weight in sizes}
    header = {"metadata": {"total_size": 2 * total}, "weight_map": index}
    (folder / "model.safetensors.index.json").write_text(json.dumps(header))
    (folder / "config.json").write_text(json.dumps(config(model), indent=1))
    for file in tokenizer.iterdir():
        if "token" in file.name or file.suffix == ".jinja":
            shutil.copy(file, folder / file.name)
    return total


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--experts", type=int, default=Config.num_experts)
    parser.add_argument("--tiny", action="store_true", help="0.01 B parameters instead")
    parser.add_argument("--vocab", type=int, default=0, help="of the tiny one; 2,048 by default")
    return parser.parse_args(words)


def sizes_of(options: argparse.Namespace) -> Config:
    if options.tiny:
        return replace(TINY, vocab_size=options.vocab or TINY.vocab_size)
    return Config(num_hidden_layers=options.layers, num_experts=options.experts)


def main() -> None:
    options = arguments()
    begin = time.monotonic()
    count = write(options.folder, sizes_of(options), options.tokenizer)
    print(f"parameters={count} seconds={time.monotonic() - begin:.1f}")


if __name__ == "__main__":
    main()
