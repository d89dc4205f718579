"""Model folders as users bring them: each is accepted, or refused with what to write."""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from launchers.config.recipe import Recipe
from launchers.exits import Exit, FailureClass, LaunchError
from launchers.inputs import model_files
from tests.launchers import model_folder
from tests.launchers.model_folder import EMBEDDING, INDEX, POINTER, VOCABULARY, WHOLE

Change = Callable[[Path], object]
BOM, UTF16 = "\ufeff", "utf-16"
QUERY = "model.layers.0.self_attn.q_proj.weight"
CONFIG, TOKENIZER, SETTINGS = "config.json", "tokenizer.json", "tokenizer_config.json"
DAMAGED = "model-tokenizer-damaged"
CODE = {"AutoConfig": "configuration_x.XConfig"}
ADAPTER = {f"{QUERY[:-6]}lora_A.default.weight": bytes(16)}
FAR = {"id": VOCABULARY, "content": "<pad>"}


def write(file: str, text: str | bytes) -> Change:
    def act(model: Path) -> None:
        (model / file).parent.mkdir(parents=True, exist_ok=True)
        (model / file).write_bytes(text.encode() if isinstance(text, str) else text)

    return act


def move(old: str, new: str) -> Change:
    return lambda model: (model / old).rename(model / new)


def config(**keys: Any) -> Change:
    return lambda model: model_folder.write(model, **keys)


def only(*changes: Change) -> Change:
    """Return the change that leaves nothing but what other changes write."""

    def act(model: Path) -> None:
        for file in model.iterdir():
            file.unlink()
        for change in changes:
            change(model)

    return act


def both(*changes: Change) -> Change:
    return lambda model: [change(model) for change in changes]


def tensors(change: Callable[[dict[str, bytes]], Mapping[str, bytes]]) -> Change:
    return lambda model: model_folder.write(model, change(model_folder.tensors()))


def wrapped(prefix: str) -> Change:
    return renamed("", prefix)


def renamed(old: str, new: str) -> Change:
    """Return the change of the first place of ``old`` in the tensors' names."""
    return tensors(lambda held: {name.replace(old, new, 1): data for name, data in held.items()})


def layers(kinds: str, without: str = "", **keys: Any) -> Change:
    """Return the change to a model with a layer for each letter.

    Args:
        kinds: e for two experts, d for a dense MLP, k for one that takes another's keys.
        without: the end of the names of tensors that are left out.
        keys: of config.json.
    """
    own = {
        "e": ("self_attn.k_proj", "mlp.gate", "mlp.experts.0.up_proj", "mlp.experts.1.up_proj"),
        "d": ("self_attn.k_proj", "mlp.up_proj"),
        "k": ("mlp.up_proj",),
    }
    names = [
        f"model.layers.{at}.{part}.weight"
        for at, kind in enumerate(kinds)
        for part in ("self_attn.q_proj", *own[kind])
    ]
    held = {EMBEDDING: model_folder.tensors()[EMBEDDING]}
    held |= {name: bytes(16) for name in names if not without or not name.endswith(without)}
    sizes = {"num_experts": 2, "num_experts_per_tok": 1, "num_hidden_layers": len(kinds)}
    return lambda model: model_folder.write(model, held, **{**sizes, **keys})


def entry(change: Callable[[dict[str, Any]], object], tensor: str = QUERY) -> Change:
    def act(model: Path) -> None:
        data = (model / WHOLE).read_bytes()
        end = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:end])
        change(header[tensor])
        text = json.dumps(header).encode()
        (model / WHOLE).write_bytes(len(text).to_bytes(8, "little") + text + data[end:])

    return act


def typed(dtype: str) -> Change:
    return entry(lambda e: e.update(dtype=dtype, shape=[16, 8]))


def broken(file: str, target: str = "") -> Change:
    def act(model: Path) -> None:
        (model / file).unlink(missing_ok=True)
        (model / file).symlink_to(target or f"../../blobs/{file}")

    return act


def index(file: str, text: str = "") -> Change:
    named = {"metadata": {}, "weight_map": dict.fromkeys(model_folder.tensors(), file)}
    return both(move(WHOLE, "a.safetensors"), write(INDEX, text or json.dumps(named)))


def added(settings: Mapping[str, object]) -> Change:
    made = {**json.loads(model_folder.TOKENIZER), "added_tokens": [FAR]}
    return both(write(TOKENIZER, json.dumps(made)), write(SETTINGS, json.dumps(settings)))


def without(file: str) -> Change:
    return lambda model: (model / file).unlink()


BASED = '{"base_model_name_or_path": "Q/B"}'
CACHED = "hub/models--o--m/snapshots/c0"
MEGATRONS = "iter_0000100/mp_rank_00/model_optim_rng.pt"
LFS = "is a git-lfs pointer"
MERGES = both(write("vocab.json", "{}"), write("merges.txt", POINTER))
REFUSED: list[tuple[str, Change, str, str]] = [
    ("empty", only(), "model-config-missing", "o/m"),
    ("config cut", write(CONFIG, "{broken"), "model-config-json", "o/m"),
    ("config a list", write(CONFIG, "[]"), "model-type-missing", "o/m"),
    ("adapter", only(write("adapter_config.json", BASED)), "model-is-adapter", "Q/B"),
    ("output", only(write("v0/checkpoint-9/config.json", "{}")), "model-is-output", "v0/check"),
    ("snapshot", only(write("snapshots/c/config.json", "{}")), "model-is-output", "snapshots/c"),
    ("Megatron", only(write(MEGATRONS, "")), "model-is-megatron", "Mega"),
    ("step", only(write("common.pt", "9")), "model-is-megatron", "Megatron"),
    ("gguf alone", only(write("model.Q4.gguf", "")), "model-is-other-format", "gguf"),
    ("no weights", without(WHOLE), "model-weights-missing", "o/m"),
    ("a layer more", config(num_hidden_layers=3), "model-layers-missing", "1 of 3 layers"),
    ("no tokenizer", without(TOKENIZER), "model-tokenizer-missing", "o/m"),
    ("tokenizer pointer", write(TOKENIZER, POINTER), DAMAGED, f"{TOKENIZER} {LFS}"),
    ("merges pointer", both(without(TOKENIZER), MERGES), DAMAGED, f"merges.txt {LFS}"),
    ("piece model pointer", write("tokenizer.model", POINTER), DAMAGED, f"tokenizer.model {LFS}"),
    ("settings cut", write(SETTINGS, "{"), DAMAGED, SETTINGS),
    ("config empty", write(CONFIG, ""), "model-config-json", "is empty"),
    ("config pointer", write(CONFIG, POINTER), "model-config-json", "git lfs pull"),
    ("config page", write(CONFIG, "<html>"), "model-config-json", "web page"),
    ("config mark", write(CONFIG, BOM + "{}"), "model-config-json", "without that mark"),
    ("config utf-16", write(CONFIG, "{}".encode(UTF16)), "model-config-json", "UTF-8"),
    ("config deep", write(CONFIG, "[" * 100_000), "model-config-json", "not JSON"),
    ("code missing", config(auto_map=CODE), "model-code-missing", "configuration_x.py"),
    (
        "code elsewhere",
        config(auto_map={"AutoConfig": "org/code--configuration_x.XConfig"}),
        "model-code-missing",
        "configuration_x.py of org/code",
    ),
    (
        "code of the tokenizer",
        write(SETTINGS, '{"auto_map": {"AutoTokenizer": ["tokenization_x.X", null]}}'),
        "model-code-missing",
        "AutoTokenizer in tokenization_x.py",
    ),
    ("class a number", write(SETTINGS, '{"tokenizer_class": 3}'), DAMAGED, "tokenizer_class"),
    ("tokenizer list", write(TOKENIZER, "[]"), DAMAGED, "not a map"),
    ("tokenizer null", write(TOKENIZER, "null"), DAMAGED, "not a map"),
    ("tokenizer empty map", write(TOKENIZER, "{}"), DAMAGED, "a model"),
    ("tokenizer mark", write(TOKENIZER, BOM + "{}"), DAMAGED, "without that mark"),
    ("tokenizer latin-1", write(TOKENIZER, b'{"\xe9": 1}'), DAMAGED, "not JSON"),
    ("settings utf-16", write(SETTINGS, "{}".encode(UTF16)), DAMAGED, "UTF-8"),
    ("settings list", write(SETTINGS, "[]"), DAMAGED, SETTINGS),
    ("added broken", write("added_tokens.json", "{"), DAMAGED, "added_tokens.json"),
    ("empty piece model", write("tokenizer.model", ""), DAMAGED, "tokenizer.model is empty"),
    ("pad beyond", added({"pad_token": "<pad>"}), "model-tokens-beyond", "resize_token"),
    ("pad map beyond", added({"pad_token": FAR}), "model-tokens-beyond", "<pad>"),
    ("link to tokenizer", broken(TOKENIZER), "model-link-broken", "cp -rL"),
    ("link to config", broken(CONFIG), "model-link-broken", CONFIG),
    ("link to weights", broken(WHOLE), "model-link-broken", WHOLE),
    ("link to itself", broken(WHOLE, WHOLE), "model-link-broken", WHOLE),
    ("hub's cache", only(write(f"{CACHED}/config.json", "{}")), "model-is-output", CACHED),
    (
        "two snapshots",
        only(
            write("snapshots/0aaa/config.json", "{}"),
            write("snapshots/c9/config.json", "{}"),
            write("refs/main", "0aaa"),
        ),
        "model-is-output",
        "snapshots/0aaa",
    ),
    ("archive", only(write("m.zip", "")), "model-is-other-format", "m.zip"),
    ("gguf", move(WHOLE, "m-Q4.gguf"), "model-is-other-format", "m-Q4.gguf"),
    ("consolidated", move(WHOLE, "consolidated.safetensors"), "model-is-other-format", "consol"),
    ("pth", move(WHOLE, "consolidated.00.pth"), "model-is-other-format", "consolidated.00.pth"),
    ("unfinished", move(WHOLE, f"{WHOLE}.incomplete"), "model-unfinished", "unfinished"),
    (
        "Megatron with a config",
        move(WHOLE, "latest_checkpointed_iteration.txt"),
        "model-is-megatron",
        "megatron export",
    ),
    ("DeepSpeed", move(WHOLE, "zero_to_fp32.py"), "model-is-output", "run its zero_to_fp32.py"),
    ("other name", move(WHOLE, "model(1).safetensors"), "model-index-missing", f"to {WHOLE}"),
    ("an adapter too", write("adapter_config.json", "{}"), "model-with-adapter", "move adapter"),
    ("index pointer", index("a.safetensors", POINTER), "model-index", "git lfs pull"),
    ("index mark", index("a.safetensors", BOM + "{}"), "model-index", "without that mark"),
    ("index outside", index("/elsewhere/a.safetensors"), "model-shard-missing", "/elsewhere"),
    ("index above", index("../a.safetensors"), "model-shard-missing", "../a"),
    ("PEFT", wrapped("base_model.model."), "model-tensor-names", "remove base_model.model."),
    ("compiled", wrapped("_orig_mod."), "model-tensor-names", "_orig_mod."),
    ("PEFT twice", wrapped("model.base_model.model."), "model-tensor-names", "merge_and_unload"),
    ("adapter within", tensors(lambda held: held | ADAPTER), "model-tensor-names", "merge_and_unl"),
    ("DDP", wrapped("module."), "model-tensor-names", "module."),
    ("LoRA", renamed("proj", "proj.base_layer"), "model-tensor-names", "merge_and_unload"),
    (
        "Meta",
        renamed("model.embed_tokens", "tok_embeddings"),
        "model-tensor-prefix",
        "AutoModelForCausalLM",
    ),
    ("no tensors", tensors(lambda _: {}), "model-tensors-missing", "embeddings"),
    (
        "no embeddings",
        tensors(lambda held: {n: held[n] for n in held if n != EMBEDDING}),
        "model-tensors-missing",
        "embeddings",
    ),
    ("F8 without method", typed("F8_E4M3"), "model-quantized", "F8_E4M3"),
    (
        "unknown method",
        both(config(quantization_config={"quant_method": "FP8"}), typed("U8")),
        "model-quantized",
        "FP8|U8",
    ),
    ("offset text", entry(lambda e: e.update(data_offsets="x")), "model-file-damaged", WHOLE),
    ("no shape", entry(lambda e: e.pop("shape")), "model-file-damaged", WHOLE),
    (
        "a tensor of a layer",
        layers("eee", "1.mlp.gate.weight"),
        "model-tensors-missing",
        "model.layers.1.mlp.gate.weight, which its other layers have",
    ),
    (
        "an expert of a layer",
        layers("dedee", "3.mlp.experts.1.up_proj.weight", mlp_only_layers=[0, 2]),
        "model-tensors-missing",
        "model.layers.3.mlp.experts.1.up_proj.weight",
    ),
    (
        "one of two dense layers",
        layers("ddee", "1.mlp.up_proj.weight", first_k_dense_replace=2),
        "model-tensors-missing",
        "model.layers.1.mlp.up_proj.weight",
    ),
    (
        "rows added",
        tensors(lambda held: {**held, EMBEDDING: held[EMBEDDING][:16] * 18}),
        "model-vocabulary",
        "vocab_size: 18",
    ),
    ("fewer experts", layers("ee", num_experts=4), "model-experts", "4 experts"),
    ("more experts", layers("de", num_experts=1), "model-experts", "weights of 2"),
    (
        "embeddings alone",
        tensors(lambda held: {EMBEDDING: held[EMBEDDING]}),
        "model-layers-missing",
        "2 of 2 layers",
    ),
    (
        "EXL2",
        both(
            config(quantization_config={"quant_method": "exl2"}),
            tensors(lambda held: {EMBEDDING: held[EMBEDDING], QUERY[:-6] + "q_weight": bytes(16)}),
            entry(lambda e: e.update(dtype="I32", shape=[4]), QUERY[:-6] + "q_weight"),
        ),
        "model-quantized",
        "exl2|I32",
    ),
    ("tie not said", config(tie_word_embeddings=None), "model-head-missing", "means"),
    (
        "reward model",
        config(architectures=["Qwen3ForSequenceClassification"], tie_word_embeddings=False),
        "model-head-missing",
        "reward model",
    ),
]


def check(model: Path, backend: Any = "megatron", **args: Any) -> None:
    recipe = Recipe(backend=backend, task="rlhf", model="file:///m", dataset=(), args=args)
    model_files.check_folder(model, "o/m", recipe)


def refused(model: Path, backend: str = "megatron", **args: Any) -> LaunchError:
    with pytest.raises(LaunchError) as no:
        check(model, backend, **args)
    assert (no.value.code, no.value.failure_class) == (Exit.DATA, FailureClass.MODEL)
    assert no.value.remedy and any(name in no.value.cause for name in ("o/m", "file:///m"))
    return no.value


@pytest.mark.parametrize("backend", ["megatron", "transformers"])
@pytest.mark.parametrize(
    "change, id, says", [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED]
)
def test_a_folder_is_refused_with_what_to_write(
    model: Path, backend: str, change: Change, id: str, says: str
) -> None:
    change(model)
    error = refused(model, backend)
    text = f"{error.cause}; {error.remedy}"
    assert error.id == id and any(each in text for each in says.split("|")), text


@pytest.mark.parametrize(
    "change",
    [
        write("consolidated.safetensors", "x"),
        config(num_hidden_layers=None, layers_block_type=["mamba", "attention"]),
        write(f"{WHOLE}.aria2", "x"),
        write("generation_config.json", POINTER),
        write(".cache/huggingface/download/x.incomplete", "x"),
        both(write("chat_template.jinja", "{% for"), write("args.json", "[")),
        config(tie_word_embeddings=None, model_type="gemma3_text"),
        both(write("configuration_x.py", ""), config(auto_map=CODE)),
        index("a.safetensors"),
        broken("LICENSE"),
        entry(lambda e: e.update(dtype="I64", shape=[2, 8])),
        layers("dee", first_k_dense_replace=1),
        layers("eee", num_hidden_layers=2, num_nextn_predict_layers=1),
        layers("dede", decoder_sparse_step=2),
        layers("eded", mlp_only_layers=[1, 3]),
        layers("ddkk", num_kv_shared_layers=2),
        layers("dkdk", layer_types=["full", "linear"] * 2),
    ],
)
def test_what_trainers_do_not_read_refuses_nothing(model: Path, change: Change) -> None:
    change(model)
    check(model)


def test_the_outer_tie_counts_in_transformers_and_the_inner_one_in_megatron(model: Path) -> None:
    inner = {**model_folder.CONFIG, "tie_word_embeddings": False}
    model_folder.write(model, tie_word_embeddings=True, text_config=inner)
    check(model, "transformers")
    assert refused(model).id == "model-head-missing"


NAMED = dict.fromkeys(model_folder.tensors(), "a.safetensors")
FEWER = {name: file for name, file in NAMED.items() if name != QUERY}


@pytest.mark.parametrize(
    ("held", "backend", "id"),
    [
        ({"weight_map": NAMED}, "transformers", "model-index-metadata"),
        ({"weight_map": NAMED, "metadata": None}, "transformers", "model-index-metadata"),
        ({"weight_map": FEWER, "metadata": {}}, "megatron", "model-layers-missing"),
    ],
)
def test_an_index_is_refused_where_it_is_read(
    model: Path, held: dict[str, Any], backend: str, id: str
) -> None:
    index("", json.dumps(held))(model)
    check(model, "megatron" if backend == "transformers" else "transformers")
    assert refused(model, backend).id == id


def test_other_tokens_beyond_the_embeddings_are_a_warning(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    added({"pad_token": "x"})(model)
    with caplog.at_level(logging.WARNING):
        check(model)
    assert "beyond the embeddings" in caplog.text
    added({"pad_token": "<pad>"})(model)
    check(model, new_special_tokens="more.txt")


def test_layers_beyond_the_configs_number_are_a_warning(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        layers("eee", num_hidden_layers=2, num_nextn_predict_layers=1)(model)
        check(model)
        assert "left out" not in caplog.text
        config(num_hidden_layers=1)(model)
        check(model)
    assert "1 by num_hidden_layers: 1" in caplog.text
