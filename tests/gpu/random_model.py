"""Write a Qwen3-MoE with random weights in Hugging Face format, of any size, on GPU or CPU.

Run it as ``python3 -m tests.gpu.random_model FOLDER --layers 24``; the defaults are the widths of
Qwen3-30B-A3B. The tokenizer is copied from a folder that has one.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SHARD = 5_000_000_000
"""Bytes of one safetensors file, as ms-swift writes them."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The sizes of ``config.json``; the defaults are Qwen3-30B-A3B's."""

    num_hidden_layers: int = 48
    hidden_size: int = 2048
    num_attention_heads: int = 32
    num_key_value_heads: int = 4
    head_dim: int = 128
    num_experts: int = 128
    num_experts_per_tok: int = 8
    moe_intermediate_size: int = 768
    vocab_size: int = 151936


TINY = Shape(
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


def weights(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the name and shape of each weight, in Hugging Face's spelling."""
    s, head = shape, shape.head_dim
    yield "model.embed_tokens.weight", (s.vocab_size, s.hidden_size)
    for layer in range(s.num_hidden_layers):
        at = f"model.layers.{layer}"
        yield f"{at}.self_attn.q_proj.weight", (s.num_attention_heads * head, s.hidden_size)
        yield f"{at}.self_attn.k_proj.weight", (s.num_key_value_heads * head, s.hidden_size)
        yield f"{at}.self_attn.v_proj.weight", (s.num_key_value_heads * head, s.hidden_size)
        yield f"{at}.self_attn.o_proj.weight", (s.hidden_size, s.num_attention_heads * head)
        for norm in ("self_attn.q_norm", "self_attn.k_norm"):
            yield f"{at}.{norm}.weight", (head,)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{at}.{norm}.weight", (s.hidden_size,)
        yield f"{at}.mlp.gate.weight", (s.num_experts, s.hidden_size)
        for expert in range(s.num_experts):
            for name in ("gate_proj", "up_proj"):
                size = (s.moe_intermediate_size, s.hidden_size)
                yield f"{at}.mlp.experts.{expert}.{name}.weight", size
            size = (s.hidden_size, s.moe_intermediate_size)
            yield f"{at}.mlp.experts.{expert}.down_proj.weight", size
    yield "model.norm.weight", (s.hidden_size,)
    yield "lm_head.weight", (s.vocab_size, s.hidden_size)


def config(shape: Shape) -> dict[str, Any]:
    """Return ``config.json``."""
    return {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        **asdict(shape),
        "intermediate_size": 3 * shape.hidden_size,
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
        "initializer_range": 0.02,
        "bos_token_id": None,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
    }


def write(folder: Path, shape: Shape, tokenizer: Path, seed: int = 7) -> int:
    """Write the model; return its number of parameters."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(seed)
    index: dict[str, str] = {}
    shard: dict[str, Any] = {}
    total = count = size = 0

    def flush() -> None:
        nonlocal count, size
        count += 1
        name = f"model-{count:05d}.safetensors"
        save_file(shard, folder / name, metadata={"format": "pt"})
        index.update(dict.fromkeys(shard, name))
        shard.clear()
        size = 0

    for name, shape_of in weights(shape):
        tensor = torch.ones(shape_of, device=device, dtype=torch.bfloat16)
        if len(shape_of) == 2:
            tensor.normal_(0, 0.02)
        shard[name] = tensor.cpu()
        total += tensor.numel()
        size += 2 * tensor.numel()
        if size >= SHARD:
            flush()
    flush()
    header = {"metadata": {"total_size": 2 * total}, "weight_map": index}
    (folder / "model.safetensors.index.json").write_text(json.dumps(header))
    (folder / "config.json").write_text(json.dumps(config(shape), indent=1))
    for file in tokenizer.iterdir():
        if "token" in file.name or file.suffix == ".jinja":
            shutil.copy(file, folder / file.name)
    return total


def main() -> None:
    """Write the model that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--tiny", action="store_true", help="0.01 B parameters instead")
    options = parser.parse_args()
    shape = TINY if options.tiny else Shape(num_hidden_layers=options.layers)
    print(f"parameters={write(options.folder, shape, options.tokenizer)}")


if __name__ == "__main__":
    main()
