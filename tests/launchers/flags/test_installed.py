"""Flags read from source are those of the real dataclasses."""

import json
import re
from pathlib import Path

import pytest

from launchers.flags import installed
from launchers.flags.renames import OWNED, RENAMED
from scripts.dev import flags as generator
from scripts.helm import ROOT
from tests.launchers import warm
from tests.launchers.training_environment import STACKS, needs_training, swift_classes

REAL = """
import dataclasses, json
from swift.arguments import PretrainArguments, RLHFArguments, SftArguments

def plain(field):
    default = field.default
    return default if isinstance(default, (str, int, float, bool)) else None

classes = (PretrainArguments, RLHFArguments, SftArguments)
fields = {c.__name__: [f for f in dataclasses.fields(c) if f.init] for c in classes}
print(json.dumps({name: {f.name: plain(f) for f in found} for name, found in fields.items()}))

from swift.utils.utils import HfArgumentParser, _patch_get_type_hints

def takes(action):
    if action.choices:
        return [str(choice) for choice in action.choices]
    return getattr(action.type, "__name__", "")

with _patch_get_type_hints():
    parsers = {c.__name__: HfArgumentParser([c]) for c in classes}
scalar = {n: [a for a in p._actions if a.nargs in (None, "?")] for n, p in parsers.items()}
print(json.dumps({n: {a.dest: takes(a) for a in found} for n, found in scalar.items()}))
"""
TYPES = {"string_to_bool": "switch", "int": "whole", "float": "number"}
READ_BY_BASE = {
    "lr_scheduler_type": (
        *("linear", "cosine", "cosine_with_restarts", "polynomial", "constant"),
        *("constant_with_warmup", "inverse_sqrt", "reduce_lr_on_plateau", "cosine_with_min_lr"),
        *("cosine_warmup_with_min_lr", "warmup_stable_decay", "greedy"),
    ),
}
"""Texts for ms-swift's parser, and enumerations where transformers' own arguments read them."""


@pytest.fixture(scope="module")
def classes() -> installed.Classes:
    return swift_classes()


def package(folder: Path, text: str) -> installed.Classes:
    folder.mkdir()
    (folder / "arguments.py").write_text(text, encoding="utf-8")
    return installed.read({"swift": folder})


@needs_training
def test_the_transformers_flags_are_the_real_ones(classes: installed.Classes) -> None:
    defaults, parsers = map(json.loads, warm.printed("-c", REAL).splitlines()[-2:])
    for entry, real in defaults.items():
        read = installed.flags(classes, entry)
        assert set(read) == set(real), entry
        # transformers computes this default when it is imported.
        assert {n for n in real if real[n] != read[n]} <= {"optim"}, entry
        types = installed.types(classes, entry)
        assert len(types) > 200
        for name, flag_type in types.items():  # as ms-swift's own parser takes them
            taken = parsers[entry][name]
            if name in READ_BY_BASE:
                assert taken == "str" and flag_type.choices == READ_BY_BASE[name]
                continue
            assert (list(flag_type.choices) or flag_type.type) == TYPES.get(str(taken), taken), name
        unread = {n for n, t in parsers[entry].items() if str(t) in TYPES} - set(types)
        assert unread & set(read) <= {"include_num_input_tokens_seen"}  # str | bool


@needs_training
def test_the_megatron_flags_hold_what_the_recipes_use(classes: installed.Classes) -> None:
    read = installed.flags(classes, installed.ENTRIES["megatron"]["rlhf"])
    assert 350 < len(read) < 500
    expected = {"rlhf_type": "dpo", "finetune": True, "save_steps": 500}
    expected |= {"tensor_model_parallel_size": 1, "expert_tensor_parallel_size": 1}
    expected |= {"truncation_strategy": None}
    assert expected.items() <= read.items()


@pytest.mark.skipif(
    not all(stack.python.exists() for stack in STACKS.values()), reason="run `make setup`"
)
def test_the_charts_tables_are_generated_from_ms_swift() -> None:
    sites = [generator.site_packages(stack.train) for stack in STACKS.values()]
    folder = ROOT / "chart" / "charts" / "library" / "flags"
    files = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert files == generator.render(sites), "run `make flags`"
    schema = (ROOT / "chart" / "values.schema.json").read_text(encoding="utf-8")
    assert generator.render_schema(sites, schema) == schema
    with pytest.raises(ValueError, match=r"no definitions\.flags"):
        generator.render_schema(sites, "{}")


@needs_training
@pytest.mark.parametrize("backend", ["megatron", "transformers"])
def test_renames_lead_from_flags_that_are_gone_to_flags_that_are_there(
    classes: installed.Classes, backend: str
) -> None:
    known = {n for e in installed.ENTRIES[backend].values() for n in installed.flags(classes, e)}
    assert set(RENAMED[backend]) & known == set()
    found = (re.match(r"use (\w+)", advice) for advice in RENAMED[backend].values())
    assert {each[1] for each in found if each} - known == set()
    foreign = {"megatron": {"resume_from_checkpoint"}, "transformers": set[str]()}[backend]
    assert OWNED[backend] - known <= {"mcore_model", "mcore_ref_model", *foreign}


def test_own_fields_win_over_inherited_ones_as_in_python(tmp_path: Path) -> None:
    text = """
from dataclasses import dataclass, field
from typing import ClassVar
@dataclass
class Root:
    lr: float = 1.0
    seen: int = field(default=3, metadata={})
    made: list = field(default_factory=list)
    hidden: int = field(default=3, init=False)
    shared: ClassVar[int] = 3
@dataclass
class Left(Root):
    pass
@dataclass
class Right(Root):
    lr: float = 2.0
class Plain:
    no_flag: int = 1
@dataclass
class MyArguments(Left, Right, Plain):
    beta: str = "a"
"""
    found = installed.flags(package(tmp_path / "swift", text), "MyArguments")
    assert found == {"lr": 2.0, "seen": 3, "made": None, "beta": "a"}


def test_a_class_that_is_not_there_is_named(tmp_path: Path) -> None:
    text = "from x import Base\n@dataclass\nclass MyArguments(Base):\n    a: int = 1\n"
    classes = package(tmp_path / "swift", text)
    with pytest.raises(LookupError, match="no class Base in package x"):
        installed.flags(classes, "MyArguments")
    with pytest.raises(LookupError, match="no class Missing in package swift"):
        installed.flags(classes, "Missing")


def test_unknown_flags_name_the_nearest_and_renamed_ones_the_new() -> None:
    given = ["save_interval", "lrr", "lr", "load"]
    found = installed.check_flags(given, {"lr", "save_steps"}, RENAMED["megatron"])
    assert [each.id for each in found] == ["flag-renamed", "flag-unknown", "flag-renamed"]
    named = [each.path.removeprefix("recipe.args.") for each in found]
    assert named == ["load", "lrr", "save_interval"]
    assert found[1].says.endswith(" lr")
    assert found[2].says.endswith(" save_steps")


@pytest.mark.parametrize(
    ("backend", "name", "says"),
    [
        ("megatron", "leraning_rate", "if you mean learning_rate: use lr"),
        ("transformers", "leraning_rate", "the nearest is learning_rate"),
        ("megatron", "deepspeed", "it is a flag of recipe.backend transformers"),
        ("transformers", "tensor_model_parallel_size", "a flag of recipe.backend megatron"),
        ("megatron", "zzz", "ms-swift has no such flag"),
        ("megatron", "max_steps_per_epoch", "use train_iters (with num_train_epochs: null)"),
        ("megatron", "quantization_bit", "remove it (the Megatron trainers load no "),
        ("transformers", "quantization_bit", "use quant_bits (with quant_method)"),
        ("megatron", "sft_type", "use tuner_type"),
        ("megatron", "dtype", "use torch_dtype"),
        ("transformers", "precompute_ref_log_probs", "the reference runs in each step"),
        ("megatron", "etp", "use expert_tensor_parallel_size"),
        ("megatron", "vpp", "use virtual_pipeline_model_parallel_size"),
        ("megatron", "no_masked_softmax_fusion", "use masked_softmax_fusion (inverted: false)"),
        ("megatron", "min_learning_rate", "use min_lr"),
        ("megatron", "eval_batch_size", "use micro_batch_size"),
        ("megatron", "batch_size", "use micro_batch_size (and global_batch_size)"),
        ("megatron", "moe_token_dispatcher", "the nearest is moe_token_dispatcher_type"),
        ("megatron", "rpo_alhpa", "the nearest is rpo_alpha"),
        ("megatron", "use_lora", "use tuner_type (with the value lora)"),
        ("transformers", "lora_target_modules", "use target_modules (all-linear for ALL)"),
        ("transformers", "train_dataset", "set recipe.dataset)"),
        ("transformers", "preprocess_num_proc", "use dataset_num_proc"),
        ("transformers", "resume_from_ckpt", "resume_from_checkpoint: the launcher sets it"),
        ("transformers", "lora_lr_ratio", "use lorap_lr_ratio"),
        ("transformers", "num_epochs", "use num_train_epochs"),
        ("transformers", "model_path", "set recipe.model)"),
        ("transformers", "val_dataset_sample", "write NAME#ROWS for a part of a dataset)"),
    ],
)
@needs_training
def test_advice_names_what_was_meant_or_nothing(backend: str, name: str, says: str) -> None:
    entries = installed.ENTRIES.items()
    flags = {each: installed.flags(swift_classes(), of["rlhf"]) for each, of in entries}
    known = flags.pop(backend)
    [found] = installed.check_flags([name], known, RENAMED[backend], flags)
    assert found.says.endswith(says) or says in found.says.partition(";")[2]


@pytest.mark.parametrize(
    ("backend", "names"),
    [
        ("megatron", "exp_name mtp neftune train_batch_size use_loss_scale"),
        ("transformers", "adapter_path ds_config mcore_adapters revision train_iter"),
    ],
)
@needs_training
def test_a_name_of_another_meaning_is_not_advised(backend: str, names: str) -> None:
    known = installed.flags(swift_classes(), installed.ENTRIES[backend]["rlhf"])
    found = installed.check_flags(names.split(), known, RENAMED[backend])
    assert [each.says for each in found] == ["ms-swift has no such flag"] * 5


def test_nothing_installed_is_nothing_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert installed.installed() == {}
