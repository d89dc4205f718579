"""Model states of the transformers trainer on each GPU: weights, gradients, optimizer, reference.

Arithmetic after Rajbhandari et al. 2020 (arXiv 1910.02054) with the dtypes of the trainers: a lower
bound of the memory, since activations, logits and buffers are not predicted.
"""

from dataclasses import dataclass, replace

from launchers.config.recipe import Recipe
from launchers.plan.model_config import ModelConfig
from launchers.units import GIB, count_text

ADAM = 12
"""Bytes of a trained parameter in fp32: master weight and both moments (DeepSpeed
``runtime/bf16_optimizer.py``; accelerate ``fsdp_utils.py: fsdp2_prepare_model`` makes trained
weights fp32)."""
PURE = 4
"""Bytes of both moments in bf16: without ZeRO and FSDP torch's AdamW keeps them, as autograd the
gradients, in the type of the weights."""
QUANTIZED = {"4": 0.53, "8": 1.0}
"""Bytes of a quantized weight by ``quant_bits``; 4 bits with constants of double quantization
(Dettmers et al. 2023, arXiv 2305.14314: 0.127 bits)."""
MEGATRON_RATIO = "9.6 s a step, not 91.2, for SFT of Qwen3-30B-A3B on 16 A800 (published)"
"""ms-swift ``docs/source_en/Megatron-SWIFT/Quick-start.md``."""


@dataclass(frozen=True, kw_only=True)
class States:
    """GiB of one GPU."""

    weights: float
    gradients: float
    optimizer: float
    reference: float
    sharding: str
    """In words, such as ``ZeRO-3 over 16 GPUs``."""
    host: float = 0.0
    """GiB of the host for each GPU, at least: what is offloaded."""

    @property
    def total(self) -> float:
        """Return the sum: what a GPU needs at least."""
        return self.weights + self.gradients + self.optimizer + self.reference


def sharding(recipe: Recipe) -> str:
    """Return ``zero0`` to ``zero3``, also with ``_offload``, ``fsdp2``, or ``ddp``.

    Empty for a user's own file, whose contents are not known here.
    """
    zero, fsdp = recipe.arg("deepspeed"), recipe.arg("fsdp")
    if "deepspeed" in recipe.args:
        return zero if zero.startswith("zero") and "." not in zero and "/" not in zero else ""
    if "fsdp" in recipe.args:
        return fsdp if fsdp == "fsdp2" else ""
    return "ddp"


def gathers(recipe: Recipe) -> bool:
    """Return whether weights are divided among the GPUs, and gathered for each layer."""
    return sharding(recipe)[:5] in ("zero3", "fsdp2")


def predict(recipe: Recipe, model: ModelConfig, *, world: int) -> States | None:
    """Return the model states of one GPU; None where the sharding is not known.

    >>> from launchers.plan.model_config import ModelConfig
    >>> model = ModelConfig(layers=80, hidden=8192, heads=64, kv_heads=8, head_dim=128, ffn=29568,
    ...                     vocab=152064, tied=False)
    >>> full = Recipe(backend="transformers", task="sft", model="m", dataset=("d",),
    ...               args={"tuner_type": "full", "deepspeed": "zero3"})
    >>> round(predict(full, model, world=16).total)
    68
    """
    kind = sharding(recipe)
    if not kind:
        return None
    stage = 3 if kind == "fsdp2" else int(kind[4]) if kind[:4] == "zero" else -1
    is_full = not recipe.trains_adapter
    trained = float(model.parameters) if is_full else _adapter(recipe, model)
    is_wide = recipe.arg("torch_dtype") == "float32"
    plain = 4.0 if is_wide else 2.0
    frozen = _frozen(recipe, model, plain)
    wide, pure = ADAM - 4, 2 * PURE if is_wide else PURE
    moments = pure if kind == "ddp" else wide if kind == "fsdp2" else ADAM
    compares = recipe.preference in ("dpo", "kto") and is_full

    weights = 4.0 * model.parameters if kind == "fsdp2" and is_full else frozen

    def share(size: float, least: int) -> float:
        return size / (world if stage >= least else 1) / GIB

    held = States(
        weights=share(weights, 3),
        gradients=share((4 if kind == "fsdp2" or (kind == "ddp" and is_wide) else 2) * trained, 2),
        optimizer=share(moments * trained, 1),
        reference=share(compares * plain * model.parameters, 3),
        sharding=_words(kind, world),
    )
    if not kind.endswith("_offload"):
        return held
    # DeepSpeed stage_1_and_2.py, stage3.py: self.device; trl prepare_deepspeed for the reference
    here = replace(held, gradients=0.0, optimizer=0.0)
    if stage == 3:
        here = replace(here, weights=0.0, reference=0.0)
    return replace(here, host=held.total - here.total)


def _frozen(recipe: Recipe, model: ModelConfig, plain: float) -> float:
    """Return the bytes of all weights; embedding and head are never quantized (bitsandbytes)."""
    if not recipe.arg("quant_method"):
        return plain * model.parameters
    kept = model.vocab * model.hidden * (1 if model.tied else 2)
    quantized = QUANTIZED.get(recipe.arg("quant_bits"), 1.0) * (model.parameters - kept)
    return quantized + 2.0 * kept


def _adapter(recipe: Recipe, model: ModelConfig) -> float:
    """Return the parameters of a LoRA adapter on all linear layers: rank times the sum of sides."""
    rank = int(recipe.arg("lora_rank", "8")) if recipe.arg("lora_rank", "8").isdecimal() else 8
    hidden = model.hidden
    attention = 2 * (hidden + model.q_width) + 2 * (hidden + model.kv_width)
    plain = model.layers - model.moe_layers
    mlp = plain * 3 * (hidden + model.ffn)
    mlp += model.moe_layers * model.experts * 3 * (hidden + model.expert_ffn)
    return float(rank * (model.layers * attention + mlp))


def _words(kind: str, world: int) -> str:
    """Return the sharding in words.

    >>> _words("zero3_offload", 16), _words("ddp", 2)
    ('ZeRO-3 with offload over 16 GPUs', 'DDP on 2 GPUs')
    """
    gpus = count_text(world, "GPU")
    if kind == "ddp":
        return f"DDP on {gpus}"
    name = "FSDP2" if kind == "fsdp2" else f"ZeRO-{kind[4]}"
    return f"{name}{' with offload' if kind.endswith('_offload') else ''} over {gpus}"
