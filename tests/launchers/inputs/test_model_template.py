"""Types and tokenizers of models: what transformers in the image lacks is refused."""

from pathlib import Path

import pytest

from launchers.inputs.models import template
from tests.launchers import model_folder
from tests.launchers.inputs import test_brought_folders as brought
from tests.launchers.inputs.test_brought_folders import check, refused, write


def test_a_type_that_the_image_does_not_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package, place in (("transformers", "models/auto"), ("swift", "model/models")):
        (tmp_path / package / place).mkdir(parents=True)
        known = '("qwen3", "Qwen3Config"), ("qwen3", "Qwen2Tokenizer")\n'
        (tmp_path / package / place / "known.py").write_text(known)
    monkeypatch.setattr(template, "package_folder", lambda name: tmp_path / name)
    monkeypatch.setattr(template, "swift_folder", lambda: tmp_path / "swift")
    named = {"model_type": "qwen3", "template": "qwen3"}
    check(model_folder.write(tmp_path / "m"), **named)
    newer = model_folder.write(tmp_path / "m", model_type="qwen9", tie_word_embeddings=True)
    (newer / brought.TOKENIZER).rename(newer / "later")  # config.json alone, before the download
    no = refused(newer, **named)
    assert no.id == "model-type-unknown" and "qwen9" in no.cause
    (newer / "later").rename(newer / brought.TOKENIZER)
    check(newer, **named, external_plugins="mine.py")
    model = model_folder.write(tmp_path / "m")
    write(brought.SETTINGS, '{"tokenizer_class": "FooTokenizer"}')(model)
    check(model, **named)  # which transformers reads from tokenizer.json
    brought.both(brought.move(brought.TOKENIZER, "vocab.json"), write("merges.txt", ""))(model)
    no = refused(model, **named)
    assert no.id == "model-tokenizer-class" and "FooTokenizer" in no.cause
    write(brought.SETTINGS, '{"tokenizer_class": "Qwen2TokenizerFast"}')(model)
    check(model, **named)
    (model / "vocab.json").rename(model / brought.TOKENIZER)
    (newer / "configuration_x.py").write_text("")
    check(model_folder.write(newer, model_type="qwen9", auto_map=brought.CODE), **named)
    (tmp_path / "swift/model/models/known.py").write_text("architectures=['QwenBertModel', '']\n")
    for unknown in (None, ["BertModel"]):  # a part of another name is none that ms-swift knows
        assert (
            refused(model_folder.write(model, architectures=unknown)).id == "model-template-unknown"
        )
