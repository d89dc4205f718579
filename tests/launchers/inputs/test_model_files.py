"""A model's folder is judged by its contents, before it is copied and before GPUs are used."""

import errno
import json
import logging
import math
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from launchers.exits import Exit, LaunchError
from launchers.inputs.models import template
from launchers.storage.seal_check import header, lost, zero_tail
from launchers.system import lookup
from tests.faults.errno_matrix import Seam
from tests.launchers import model_folder
from tests.launchers.inputs.test_brought_folders import (
    Change,
    check,
    entry,
    refused,
    without,
    write,
)
from tests.launchers.model_folder import (
    EMBEDDING,
    HEAD,
    INDEX,
    ONE,
    POINTER,
    TWO,
    WHOLE,
    write_weights,
)

BOTH = ("megatron", "transformers")
STALE = {"metadata": {}, "weight_map": {"x": ONE}}


def test_a_file_is_no_model(tmp_path: Path) -> None:
    (tmp_path / WHOLE).write_text("x")
    assert refused(tmp_path / WHOLE).id == "model-is-file"


@pytest.mark.parametrize("backend", BOTH)
def test_a_whole_model_passes_in_one_file_and_in_two(model: Path, backend: str) -> None:
    check(model, backend)
    check(model_folder.split(model), backend)


def test_the_newest_checkpoint_of_an_output_folder_is_named(tmp_path: Path) -> None:
    for step in (90, 1000):
        model_folder.write(tmp_path / f"checkpoint-{step}")
    assert "o/m/checkpoint-1000" in refused(tmp_path).remedy


def cut(file: str, by: int) -> Change:
    def act(model: Path) -> None:
        data = (model / file).read_bytes()
        (model / file).write_bytes(data[:by] if by < 0 else data + bytes(by))

    return act


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize(
    "change, id",
    [
        (without(TWO), "model-shard-missing"),
        (cut(TWO, -1), "model-file-cut"),
        (cut(TWO, 1), "model-file-cut"),
        (write(TWO, POINTER), "model-lfs-pointer"),
        (write(TWO, "<html>"), "model-file-damaged"),
        (write(TWO, ""), "model-file-damaged"),
        (write(INDEX, "{"), "model-index"),
        (write(INDEX, json.dumps(STALE)), "model-index-differs"),
        (without(INDEX), "model-index-missing"),
    ],
)
def test_weights_that_are_not_whole_are_refused(
    tmp_path: Path, backend: str, change: Change, id: str
) -> None:
    model = model_folder.split(model_folder.write(tmp_path / "m"))
    change(model)
    assert refused(model, backend).id == id


def described(metadata: object) -> Change:
    header = json.dumps({"__metadata__": metadata}).encode()
    return write(WHOLE, len(header).to_bytes(8, "little") + header)


@pytest.mark.parametrize(
    "change",
    [
        entry(lambda each: each.update(data_offsets=[0, 128])),
        entry(lambda each: each.update(data_offsets=[258, 386])),
        entry(lambda each: each.update(data_offsets=[384, 256])),
        entry(lambda each: each.update(shape=[9, 8])),
        entry(lambda each: each.update(dtype="BF17")),
        *map(described, ([], ["pt"], {"format": 1}, "")),
    ],
)
def test_a_header_that_its_reader_refuses_is_damaged(model: Path, change: Change) -> None:
    change(model)
    assert refused(model).id == "model-file-damaged"


ROWS = 16384
"""Of a tensor of 256 KiB, four times what is read of the end of a file."""
QUERY, OUT, LORA = (
    f"model.layers.1.self_attn.{name}.weight" for name in ("q_proj", "o_proj", "lora_B")
)


@pytest.mark.parametrize(
    ("name", "zeros", "is_damaged"),
    [
        (QUERY, 0, False),
        (QUERY, 5000, True),
        (QUERY, ROWS, True),
        (OUT, 5000, True),
        (OUT, ROWS, False),
        (LORA, ROWS, False),
        (HEAD, 12000, True),
        *((name, 5000, False) for name in (HEAD, "transformer.output_layer.weight")),
    ],
)
@pytest.mark.parametrize("is_hole", [False, True])
def test_a_file_that_ends_in_zeros_is_damaged_unless_they_may_be_weights(
    tmp_path: Path, name: str, zeros: int, is_damaged: bool, is_hole: bool
) -> None:
    size = 2 * model_folder.HIDDEN
    path, end = tmp_path / "w", zeros * size
    write_weights(path, {"a": bytes(range(256)) * size, name: bytes(range(size)) * ROWS})
    whole = path.stat().st_size
    os.truncate(path, whole - end)
    if is_hole:
        os.truncate(path, whole)
    else:
        path.write_bytes(path.read_bytes() + bytes(end))
    assert zero_tail(path, header(path, whole)) == (name if is_damaged else "")


@pytest.mark.parametrize("zeros", [0, 1000])
@pytest.mark.parametrize("begin", [4096, 200_704])
def test_a_hole_beside_weights_is_damage_and_one_within_rows_of_zeros_is_none(
    tmp_path: Path, zeros: int, begin: int
) -> None:
    """Zeros in so many rows, which are longer than the hole, in its middle or over two tensors."""
    path, size, end = tmp_path / "w", 2 * model_folder.HIDDEN, begin + 8192
    rows = [bytes(range(1, size + 1))] * ROWS
    first = begin // size - 100
    rows[first : first + zeros] = [bytes(size)] * zeros
    data = b"".join(rows)
    for name in ("a", "ab"):
        write_weights(path, {name: data[:204_800], QUERY: data[204_800:]})
        if (found := header(path, path.stat().st_size)).start % size:  # rows end within blocks
            break
    whole = path.read_bytes()
    path.write_bytes(whole[:begin])
    os.truncate(path, end)
    with path.open("ab") as handle:
        handle.write(whole[end:])
    assert lost(path, found) == ("" if zeros else f"has a hole within {name}")


def test_weights_that_end_in_zeros_are_refused(model: Path) -> None:
    write_weights(model / WHOLE, model_folder.tensors() | {QUERY: bytes(16 * ROWS)})
    assert refused(model).id == "model-file-zeros"


def test_a_missing_file_is_named_and_counted(tmp_path: Path) -> None:
    model = model_folder.split(model_folder.write(tmp_path / "m"), [ONE])
    assert f"1 of 2 files of weights are missing: {TWO}" in refused(model).cause


def test_pickled_weights_are_read_by_transformers_alone(model: Path) -> None:
    (model / WHOLE).unlink()
    with zipfile.ZipFile(model / "pytorch_model.bin", "w") as file:
        file.writestr("archive/data.pkl", b"")
    assert refused(model).id == "model-not-safetensors"
    check(model, "transformers")
    cannot_be_read(model, "pytorch_model.bin", "read", "transformers")


def test_a_stale_index_next_to_a_whole_file_is_refused_where_it_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = model_folder.split(model_folder.write(tmp_path / "m"), [])
    model_folder.write_weights(model / WHOLE, model_folder.tensors())
    assert refused(model).id == "model-index-stale"
    with caplog.at_level(logging.WARNING):
        check(model, "transformers")
    assert "two copies" in caplog.text and f"read={WHOLE}" in caplog.text


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("nested", [False, True])
def test_an_untied_model_without_head_is_refused(
    tmp_path: Path, backend: str, nested: bool
) -> None:
    change: dict[str, Any] = {"tie_word_embeddings": False}
    if nested:  # the innermost value counts
        change = {"tie_word_embeddings": None, "text_config": model_folder.CONFIG | change}
    model = model_folder.write(tmp_path / "m", **change)
    assert refused(model, backend).id == "model-head-missing"
    head = {HEAD: model_folder.tensors()[EMBEDDING]}
    model_folder.write(model, model_folder.tensors() | head, **change)
    check(model, backend)


@pytest.mark.parametrize(
    "keys, args",
    [
        ({"tie_word_embeddings": False}, {"rlhf_type": "rm"}),
        ({"tie_word_embeddings": False}, {"task_type": "seq_cls"}),
        ({"tie_word_embeddings": None, "model_type": "new"}, {}),
    ],
    ids=["reward model", "sequence classification", "a config that does not say it"],
)
def test_no_output_layer_is_needed(tmp_path: Path, keys: Any, args: dict[str, str]) -> None:
    check(model_folder.write(tmp_path / "m", **keys), **args)


def test_a_tied_model_may_hold_a_copy_of_its_embeddings_but_no_other_head(tmp_path: Path) -> None:
    held = model_folder.tensors()
    model = model_folder.write(tmp_path / "m", held | {HEAD: held[EMBEDDING]})
    check(model)
    model_folder.write(model, held | {HEAD: held[EMBEDDING][::-1]})
    assert refused(model).id == "model-head-untied"


@pytest.mark.parametrize(
    "backend, method, args, is_refused",
    [
        ("megatron", {"quant_method": "fp8"}, {}, False),
        ("megatron", {"quant_method": "mxfp4"}, {}, False),
        ("megatron", {"quant_method": "gptq"}, {"tuner_type": "lora"}, True),
        ("megatron", {"quant_method": "bitsandbytes", "load_in_4bit": True}, {}, True),
        ("megatron", {"quant_method": "compressed-tensors", "format": "pack-quantized"}, {}, False),
        ("megatron", {"quant_method": "compressed-tensors", "format": "float-quantized"}, {}, True),
        ("transformers", {"quant_method": "fp8"}, {"tuner_type": "lora"}, True),
        ("transformers", {"quant_method": "nvfp4"}, {"tuner_type": "lora"}, True),
        ("transformers", {"quant_method": "awq"}, {"tuner_type": "full"}, True),
        ("transformers", {"quant_method": "awq"}, {"tuner_type": "lora"}, False),
        ("transformers", {"quant_method": "fp8", "dequantize": True}, {}, False),
    ],
)
def test_quantized_weights_are_refused_where_they_cannot_be_trained(
    tmp_path: Path, backend: str, method: dict[str, Any], args: dict[str, Any], is_refused: bool
) -> None:
    model = model_folder.write(tmp_path / "m", quantization_config=method)
    if is_refused:
        assert refused(model, backend, **args).id == "model-quantized"
    else:
        check(model, backend, **args)


@pytest.fixture
def swift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed ms-swift that knows one model by its name."""
    models = tmp_path / "swift" / "model" / "models"
    models.mkdir(parents=True)
    (models / "qwen.py").write_text("Model('Qwen/Known-8B', 'Qwen/Known-8B')\n")
    monkeypatch.setattr(template, "swift_folder", lambda: tmp_path / "swift")
    return tmp_path


@pytest.mark.parametrize(
    "architecture, args, id, says",
    [
        ("Qwen3ForCausalLM", {}, "model-type-ambiguous", "model_type: one of qwen3, qwen3_emb"),
        ("Qwen3ForCausalLM", {"template": "qwen3"}, "model-type-ambiguous", "qwen3_emb"),
        ("Qwen3ForCausalLM", {"model_type": "qwen3"}, "model-template-ambiguous", "qwen3_thinking"),
        ("Qwen3ForCausalLM", {"model_type": "qwen3", "template": "qwen3"}, "", ""),
        ("Qwen3MoeForCausalLM", {}, "model-template-ambiguous", "qwen3_coder"),
        ("Qwen3MoeForCausalLM", {"template": "qwen3"}, "", ""),
        ("GptOssForCausalLM", {}, "", ""),
        ("NewForCausalLM", {}, "model-template-unknown", "template: dummy"),
        ("NewForCausalLM", {"template": "chatml"}, "", ""),
        ("NewForCausalLM", {"external_plugins": "mine.py"}, "", ""),
    ],
)
def test_a_model_whose_template_ms_swift_cannot_choose_is_refused(
    swift: Path, architecture: str, args: dict[str, Any], id: str, says: str
) -> None:
    model = model_folder.write(swift / "mine", architectures=[architecture])
    if id:
        error = refused(model, **args)
        assert error.id == id and says in error.remedy
    else:
        check(model, **args)
    check(model.rename(swift / "known-8b"), **args)


def test_an_architecture_that_a_newer_ms_swift_knows_is_not_refused(swift: Path) -> None:
    newer = "register_model(ModelMeta(None, [], architectures=['NewForCausalLM']))\n"
    (swift / "swift" / "model" / "models" / "new.py").write_text(newer)
    check(model_folder.write(swift / "mine", architectures=["NewForCausalLM"]))


def test_an_architecture_that_mcore_bridge_lacks_is_for_the_transformers_trainers(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_folder.write(model, architectures=["MixtralForCausalLM"], num_hidden_layers=None)
    assert refused(model).id == "model-not-on-megatron"
    check(model, "transformers")
    model_folder.write(model, architectures=["MixtralForCausalLM"])
    check(model, model_type="llama")
    newer = model / "bridge" / "model" / "gpts"
    newer.mkdir(parents=True)
    (newer / "llm.py").write_text("register_model(ModelMeta('gpt', ['mixtral']))\n")
    monkeypatch.setattr(template, "package_folder", lambda _: model / "bridge")
    check(model)


@pytest.mark.parametrize("file", ["tiktoken.model", "tekken.json", "tokenization_kimi.py"])
def test_other_tokenizers_pass(model: Path, file: str) -> None:
    (model / "tokenizer.json").rename(model / file)
    check(model)


def test_packing_with_a_template_that_has_none_is_refused_without_the_models_rules(
    tmp_path: Path,
) -> None:
    model = model_folder.write(tmp_path / "m", architectures=["GptOssForCausalLM"])
    assert refused(model, "transformers", packing="true").id == "template-packing"
    check(model, "transformers")


def test_the_template_of_a_checkpoint_of_ms_swift_is_in_its_arguments(swift: Path) -> None:
    model = model_folder.write(swift / "mine")
    (model / "args.json").write_text('{"model_type": "qwen3", "template": "qwen3"}')
    check(model)


@pytest.mark.parametrize(
    "file, template, is_there",
    [
        ("x", None, True),
        ("", [{"name": "default", "template": "x"}, {"name": "tool_use", "template": "y"}], True),
        ("", [{"name": "tool_use", "template": "y"}], False),
        ("", "", False),
    ],
)
def test_a_jinja_template_is_one_that_transformers_takes(
    model: Path, file: str, template: object, is_there: bool
) -> None:
    assert refused(model, template_backend="jinja").id == "model-chat-template"
    (model / "chat_template.jinja").write_text(file)
    (model / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    if is_there:
        check(model, template_backend="jinja")
    else:
        assert refused(model, template_backend="jinja").id == "model-chat-template"


def cannot_be_read(model: Path, file: str, call: str, backend: str = "megatron") -> None:
    """Assert that a failed read of a file is not reported as its damage."""
    seam = Seam(model)
    seam.call, seam.path, seam.number, seam.left = call, f"/{file}", errno.EIO, math.inf
    with seam.patched(), pytest.raises(LaunchError) as unknown:
        check(model, backend)
    assert (unknown.value.code, unknown.value.id) == (Exit.IO, lookup.ID)


@pytest.mark.parametrize("file", ["config.json", WHOLE, "tokenizer.json"])
def test_a_file_that_cannot_be_read_is_not_damaged(model: Path, file: str) -> None:
    cannot_be_read(model, file, "open")


BIN_ONE, BIN_TWO = "pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"


def test_pickled_weights_are_judged_like_safetensors(tmp_path: Path) -> None:
    model = model_folder.write(tmp_path / "m")
    (model / WHOLE).unlink()
    for name in (BIN_ONE, BIN_TWO):
        with zipfile.ZipFile(model / name, "w") as file:
            file.writestr("archive/data.pkl", bytes(1000))
    index = {"metadata": {}, "weight_map": {"a": BIN_ONE, "b": BIN_TWO}}
    (model / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    check(model, "transformers")
    (model / BIN_TWO).write_bytes((model / BIN_TWO).read_bytes()[:500])
    assert refused(model, "transformers").id == "model-file-damaged"
    (model / BIN_TWO).write_text(POINTER)
    assert refused(model, "transformers").id == "model-lfs-pointer"
    (model / BIN_TWO).unlink()
    assert refused(model, "transformers").id == "model-shard-missing"
    (model / "pytorch_model.bin.index.json").write_text("{")
    assert refused(model, "transformers").id == "model-index"
