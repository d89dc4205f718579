"""The pairs: from any folder of Python files, deterministic, without a leak between splits."""

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from scripts.demo.pairs import (
    MAX_WORDS,
    MIN_WORDS,
    collect,
    pairs_of,
    read_jsonl,
    shuffled,
    split,
    write_jsonl,
)

SOURCE = '''
class Box:
    """Keep one thing until somebody asks for it.

    A second paragraph.
    """

    def open(self):
        """Return the thing that the
        box keeps inside."""
        def inner():
            """An inner function is documented here too."""

def short():
    """Too short."""
'''


def test_a_pair_is_the_first_paragraph_and_its_words_in_another_order() -> None:
    pairs = list(pairs_of(SOURCE, "tools.box"))
    names = ("Box", "Box.open", "Box.open.inner")
    assert [pair.name for pair in pairs] == [f"tools.box.{name}" for name in names]
    assert pairs[0].chosen == "Keep one thing until somebody asks for it."
    assert pairs[1].chosen == "Return the thing that the box keeps inside."
    assert pairs[1].prompt == "What does tools.box.Box.open do?"
    assert {pair.module for pair in pairs} == {"tools"}


def test_a_file_that_is_no_python_gives_no_pairs() -> None:
    assert list(pairs_of("print 'old'", "old")) == []


def test_a_text_that_two_modules_share_is_taken_once(tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "test/c.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('def f():\n    """Return the same words every time."""\n')
    assert [pair.module for pair in collect(tmp_path)] == ["a"]


@given(st.text(st.sampled_from("ab \n"), max_size=40), st.text(max_size=4))
def test_shuffling_keeps_the_words_and_changes_their_order(text: str, seed: str) -> None:
    mixed = shuffled(text, seed)
    if mixed is None:
        assert len(set(text.split())) < 2
        return
    assert Counter(mixed.split()) == Counter(text.split())
    assert mixed.split() != text.split()
    assert mixed == shuffled(text, seed)


def test_the_standard_library_gives_thousands_of_pairs_split_by_module() -> None:
    pairs = collect()
    train, held_out = split(pairs)
    assert len(pairs) > 4000
    assert 300 < len(held_out) < len(pairs) / 4
    assert not {pair.module for pair in train} & {pair.module for pair in held_out}
    assert not {pair.chosen for pair in train} & {pair.chosen for pair in held_out}
    for pair in pairs:
        assert MIN_WORDS <= len(pair.chosen.split()) <= MAX_WORDS
        assert pair.rejected != pair.chosen
    assert pairs == collect()


def test_pairs_survive_the_file(tmp_path: Path) -> None:
    pairs = list(pairs_of(SOURCE, "tools.box"))
    write_jsonl(pairs, tmp_path / "pairs.jsonl")
    assert read_jsonl(tmp_path / "pairs.jsonl") == pairs
