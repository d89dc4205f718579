"""Fixtures of the tests of GPU runs."""

from pathlib import Path

import pytest

from tests.launchers import warm


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's tokenizer, trained on the standard library's docstrings."""
    folder = tmp_path_factory.mktemp("tokenizer")
    code = (
        "import json, sys; from pathlib import Path; from scripts.demo import docstring_pairs;"
        "from scripts.demo.model import texts, train_tokenizer;"
        "from scripts.demo.pairs import read_jsonl;"
        "train_tokenizer(texts(read_jsonl(Path(sys.argv[1])))).save_pretrained(sys.argv[2])"
    )
    from scripts.demo import sources

    made = sources.Sources(root=folder / "sources")
    made.root.mkdir()
    sources.make_pairs(made)
    warm.printed("-c", code, str(made.pairs), str(folder))
    return folder
