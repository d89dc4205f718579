"""A dense Qwen3 of about 0.6 M parameters with random weights, and its tokenizer, as HF files.

The tokenizer is a byte-level BPE with Qwen's chat markers, trained on the demo's own text. Every
word has a leading space, also the first: its tokens do not depend on its place, so a shuffled text
has exactly the tokens of the original in another order.

Usage, in the training environment: python -m scripts.demo.model PAIRS.jsonl FOLDER
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scripts.demo.pairs import Pair, read_jsonl

SEED = 20
MODEL_CONFIG = {
    "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}  # fmt: skip

END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
VOCABULARY = 2048

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def texts(pairs: list[Pair]) -> list[str]:
    """Return the texts to train the tokenizer on: those of the training pairs."""
    return [text for pair in pairs for text in (pair.prompt, pair.chosen)]


def train_tokenizer(texts: Iterable[str]) -> Any:
    """Return a `PreTrainedTokenizerFast` of at most `VOCABULARY` tokens; deterministic."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r" ?\S+|\s"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT, TURN_START, TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        additional_special_tokens=[TURN_START],
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def make_model(pairs: list[Pair], folder: Path) -> int:
    """Write model and tokenizer into `folder`; return the number of parameters."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(texts(pairs))
    torch.manual_seed(SEED)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
        **MODEL_CONFIG,
    )
    model = Qwen3ForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def main() -> None:
    """Create the model for the command line arguments."""
    if len(sys.argv) != 3:
        sys.exit("usage: python -m scripts.demo.model PAIRS.jsonl FOLDER")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    print(make_model(read_jsonl(Path(sys.argv[1])), Path(sys.argv[2])))


if __name__ == "__main__":
    main()
