"""Weights of a random Qwen3-MoE with balanced routers; ``random_model.py`` explains the scales."""

import math
from typing import Any

from tests.bench.model.shards import Sizes

DEVIATION = 0.02
"""Standard deviation of the weights; ``initializer_range`` of Qwen3-MoE's configuration."""


def draw(sizes: Sizes, layers: int, seed: int, device: str) -> Any:
    """Return a file's weights as one flat bf16 tensor, in the order of ``sizes``."""
    import torch

    source = torch.Generator(device).manual_seed(seed)
    whole = torch.empty(sum(map(math.prod, sizes.values())), dtype=torch.bfloat16, device=device)
    whole.normal_(0, DEVIATION, generator=source)
    at = 0
    for name, size in sizes.items():
        each = whole[at : at + math.prod(size)]
        at += each.numel()
        if "norm" in name:
            each.fill_(1)
        elif name.endswith("embed_tokens.weight"):
            each.mul_(1 / DEVIATION)
        elif name.endswith(("o_proj.weight", "down_proj.weight")):
            each.mul_(1 / math.sqrt(2 * layers))
        elif name.endswith("mlp.gate.weight"):
            # rows of length 1: each logit has a deviation of 1, as at DEVIATION and 2048 wide
            columns = torch.linalg.qr(each.float().cpu().view(size).T).Q
            each.copy_(columns.T.reshape(-1))
    return whole
