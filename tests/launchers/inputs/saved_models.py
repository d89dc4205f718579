"""Saves a small model of each family with transformers: ``saved_models FOLDER``.

Runs in the training Python.
"""

import sys
from pathlib import Path

TEXT = {"hidden_size": 64, "num_hidden_layers": 4, "vocab_size": 128, "pad_token_id": None}
TEXT |= {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
TEXT |= {"intermediate_size": 96, "moe_intermediate_size": 48, "num_experts_per_tok": 2}
LOCAL: dict[str, object] = {"num_local_experts": 4}
ROUTED: dict[str, object] = {"n_routed_experts": 4, "first_k_dense_replace": 1}
VISION = {"depth": 1, "num_hidden_layers": 1, "hidden_size": 32, "out_hidden_size": 64}
VISION |= {"num_heads": 2, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
FAMILIES: dict[str, dict[str, object]] = {
    "qwen3": {"tie_word_embeddings": True},
    "qwen3_moe": LOCAL,
    "qwen3_next": {"num_experts": 4},
    "qwen3_vl_moe": {**LOCAL, "tie_word_embeddings": False},
    "glm4_moe": ROUTED,
    "deepseek_v3": {**ROUTED, "n_group": 1, "topk_group": 1},
    "gpt_oss": LOCAL,
    "mixtral": LOCAL,
    "llama": {},
    "phi3": {},
    "gemma3": {},
}
"""Sizes beyond ``TEXT`` by model type; those with images have them in ``text_config``."""


def main() -> None:
    """Save each model in files of 200 kB."""
    import torch
    import transformers
    from transformers import CONFIG_MAPPING
    from transformers.models.auto import modeling_auto as auto

    for kind, more in FAMILIES.items():
        sizes = {**TEXT, **more}
        name = auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.get(kind)
        if name:
            sizes = {"text_config": sizes, "vision_config": VISION}
        model = getattr(transformers, name or auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind])
        made = model(CONFIG_MAPPING[kind](**sizes)).to(torch.bfloat16)
        made.save_pretrained(Path(sys.argv[1]) / kind, max_shard_size="200KB")


if __name__ == "__main__":
    main()
