"""Simulate Adam's second moments in narrow types, as Transformer Engine keeps them.

``-m tests.launchers.training.optimizer.second_moments``: prints a line of JSON for each type and
``adam_beta2``. Moments in bf16 are stored as they are; of fp16 and fp8 (e4m3) each tensor has one
scale, by which its largest value is the largest of the range (FusedAdam: ``_apply_scale``).
"""

import json

import torch

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.float8_e4m3fn}
LARGEST = {"fp16": 65504.0 / 2, "fp8": 448.0}
BETAS = (0.95, 0.98, 0.99, 0.999, 0.9999)
STEPS, WEIGHTS = 700, 1024
EPS, BETA1 = 1e-8, 0.9


def narrow(moments: torch.Tensor, name: str) -> torch.Tensor:
    """Return what is read back of moments that were stored in a type."""
    if name not in LARGEST:
        return moments.to(TYPES[name]).float()
    scale = moments.max() / LARGEST[name]
    return (moments / scale).to(TYPES[name]).float() * scale


def too_large(name: str, beta2: float) -> float:
    """Return how much too large second moments are, 700 steps after gradients fall to a tenth.

    Those of one half of a tensor fall, so that its largest moment, and with it the scale, stays.
    """
    chance = torch.Generator().manual_seed(0)
    exact = stored = torch.zeros(2 * WEIGHTS)
    for step in range(2 * STEPS):
        gradients = torch.randn(2 * WEIGHTS, generator=chance)
        gradients[:WEIGHTS] *= 1.0 if step < STEPS else 0.1
        grown = (1 - beta2) * gradients.square()
        exact = beta2 * exact + grown
        stored = narrow(beta2 * stored + grown, name)
    return float(stored[:WEIGHTS].mean() / exact[:WEIGHTS].mean())


def largest_step(name: str, beta2: float) -> float:
    """Return the largest step of a weight in units of the learning rate.

    The gradients of half of a tensor are a thousandth of the others'; Adam's steps do not depend on
    their scale as long as their second moments are not rounded to 0.
    """
    chance = torch.Generator().manual_seed(0)
    first = second = torch.zeros(2 * WEIGHTS)
    largest = 0.0
    for step in range(1, STEPS + 1):
        gradients = 1e-2 * torch.randn(2 * WEIGHTS, generator=chance)
        gradients[:WEIGHTS] *= 1e-3
        first = BETA1 * first + (1 - BETA1) * gradients
        second = beta2 * second + (1 - beta2) * gradients.square()
        ready = (second / (1 - beta2**step)).sqrt() + EPS
        if step > STEPS // 2:
            largest = max(largest, (first / (1 - BETA1**step) / ready).abs().max().item())
        second = narrow(second, name)
    return largest


if __name__ == "__main__":
    for name in TYPES:
        for beta2 in BETAS:
            figures = {"too_large": too_large(name, beta2), "step": largest_step(name, beta2)}
            print(json.dumps({"type": name, "beta2": beta2, **figures}))
