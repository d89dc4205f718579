"""Preference pairs of random words with a real distribution of lengths, in ms-swift's format.

``python3 -m tests.bench.model.pairs TOKENIZER FILE --pairs 4000``. Prompts and answers have
log-normal lengths, as in real data; token frequencies are nearly uniform, so that a random router
sees diverse tokens. Needs the package tokenizers.
"""

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROMPT, ANSWER = 150, 450
"""Median tokens."""
SIGMA = 0.7
"""Standard deviation of the logarithm of a length: the longest of 100 is five times the median."""
TEMPLATE = 40
"""Maximum number of tokens that a chat template adds to a sequence."""
TOKENS = 20_000
"""Maximum number of distinct tokens: diverse enough, found in seconds."""
SPACE = "Ġ"
"""A space in byte-level BPE (Radford et al. 2019, section 2.2)."""
TRIES = 8


@dataclass(frozen=True, kw_only=True)
class Word:
    """Text with a known number of tokens between spaces."""

    text: str
    tokens: int


def words(tokenizer: Path) -> list[Word]:
    """Return words that use each token of a tokenizer once, where text can produce it.

    A token that begins with a space is a word; any other is appended to the first head that the
    tokenizer does not merge with it.
    """
    from tokenizers import Tokenizer

    reader: Any = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    ids: dict[str, int] = reader.get_vocab()
    plain = [token for token in sorted(ids, key=ids.__getitem__) if _is_plain(token)]
    heads = [token for token in plain if token.startswith(SPACE)][:TOKENS]
    tails = [token for token in plain if not token.startswith(SPACE)][: TOKENS - len(heads)]
    found = [Word(text=head[1:], tokens=1) for head in heads if _is(reader, ids, [head])]
    chance = random.Random(0)
    for tail in tails:
        for head in chance.sample(heads, min(TRIES, len(heads))):
            if _is(reader, ids, [head, tail]):
                found.append(Word(text=head[1:] + tail, tokens=2))
                break
    return found


def _is_plain(token: str) -> bool:
    bare = token.removeprefix(SPACE)
    return bare.isascii() and bare.isprintable() and bool(bare) and not bare.startswith("<|")


def _is(reader: Any, ids: dict[str, int], tokens: Sequence[str]) -> bool:
    text = "".join(tokens).replace(SPACE, " ")
    encoded: list[int] = reader.encode(text, add_special_tokens=False).ids
    return encoded == [ids[token] for token in tokens]


def length(chance: random.Random, median: int, longest: int) -> int:
    """Draw a length in tokens: log-normal, at most ``longest``."""
    return max(4, min(longest, round(chance.lognormvariate(0, SIGMA) * median)))


def text(chance: random.Random, known: Sequence[Word], tokens: int) -> str:
    """Return random words with the given number of tokens, or one more."""
    chosen: list[str] = []
    while tokens > 0:
        word = chance.choice(known)
        chosen.append(word.text)
        tokens -= word.tokens
    return " ".join(chosen)


def medians(share: float) -> tuple[int, int]:
    """Return the median tokens of prompts and answers.

    ``share``: of the prompt in the tokens of a pair whose prompt is there once.

    >>> medians(0.4)
    (343, 257)
    """
    both = PROMPT + ANSWER
    return round(both * 2 * share / (1 + share)), round(both * (1 - share) / (1 + share))


def write(
    path: Path,
    tokenizer: Path,
    pairs: int,
    *,
    seed: int = 7,
    pack: int = 8192,
    sizes: tuple[int, int] = (PROMPT, ANSWER),
) -> None:
    """Write pairs; deterministic for the same arguments.

    ``pack`` bounds the tokens of a pair's two sequences; ``sizes`` are medians in tokens.
    """
    known, chance = words(tokenizer), random.Random(seed)
    longest = pack // 4 - TEMPLATE
    with path.open("w", encoding="utf-8") as stream:
        for _ in range(pairs):
            prompt = text(chance, known, length(chance, sizes[0], longest))
            lengths = (length(chance, sizes[1], longest) for _ in range(2))
            chosen, rejected = (text(chance, known, tokens) for tokens in lengths)
            turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": chosen}]
            stream.write(json.dumps({"messages": turns, "rejected_response": rejected}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--pairs", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    write(options.file, options.tokenizer, options.pairs, seed=options.seed)


if __name__ == "__main__":
    main()
