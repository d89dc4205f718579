"""Facts that the reference's numbers depend on, and facts that they do not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launchers.config.workspace import Workspace
from launchers.flags import external_plugins, installed
from launchers.reference import fingerprint
from launchers.reference.fingerprint import differences, digest_of, facts_of, store_name
from launchers.stages.attempt import keep_identity
from launchers.upstream import code_identity
from launchers.upstream.record import PACKAGES
from tests.launchers.reference.references import MACHINE, arguments
from tests.launchers.training_environment import needs_training, swift_classes


@pytest.fixture
def same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the installed code once: the test changes other facts only."""
    found = code_identity.identity(PACKAGES)
    monkeypatch.setattr(code_identity, "identity", lambda *_, **__: dict(found))


Name = Callable[..., str]


@pytest.fixture
def name(tmp_path: Path) -> Name:
    """Return the name of a store with changed arguments."""
    return lambda **changed: store_name(facts_of(arguments(tmp_path, **changed), tmp_path, MACHINE))


@pytest.mark.usefixtures("same_code")
def test_facts_follow_what_the_numbers_follow_from(tmp_path: Path, name: Name) -> None:
    base = name()
    assert base == name(output_dir="/elsewhere", lr=1e-6, pipeline_model_parallel_size=4)
    other = tmp_path / "other.jsonl"
    other.write_text("{ }\n")
    plugin = tmp_path / "code" / "data.py"
    plugin.parent.mkdir()
    plugin.write_text("pass\n")
    seen = [
        name(max_length=4096),
        name(template="other"),
        name(packing=True),
        name(new_special_tokens=["<new>"]),
        name(torch_dtype="torch.float16"),
        name(dataset=[str(other)]),
        name(dataset=[str(tmp_path / "pairs.jsonl#7")]),
        name(val_dataset=[str(other)]),
        name(external_plugins=[str(plugin)]),
        *(name(**{argument: "other"}) for argument in (*fingerprint.ROUNDING, *fingerprint.LATER)),
    ]
    assert len({base, *seen}) == len(seen) + 1


@pytest.mark.usefixtures("same_code")
def test_facts_follow_what_rounds_the_numbers(tmp_path: Path) -> None:
    def name(**changed: Any) -> str:
        return store_name(facts_of(arguments(tmp_path), tmp_path, replace(MACHINE, **changed)))

    base, versions = name(), MACHINE.versions
    neutral = {"NVTE_DEBUG": "1", "NCCL_DEBUG": "INFO", "CUDA_VISIBLE_DEVICES": "0"}
    assert base == name(env=neutral) == name(features=("tokens", "packing"))
    seen = [
        *(name(versions={**versions, package: "9"}) for package in PACKAGES),
        *(name(features=(feature,)) for feature in fingerprint.FEATURES),
        *(name(env={variable: "0"}) for variable in ("NVTE_FUSED_ATTN", "NVTE_FLASH_ATTN")),
        *(name(env={variable: "0"}) for variable in ("NVTE_UNFUSED_ATTN", "NCCL_ALGO")),
        name(gpu="NVIDIA H100 80GB HBM3"),
    ]
    assert len({base, *seen}) == len(seen) + 1


def test_added_facts_are_all_but_the_first_stores_had(tmp_path: Path) -> None:
    facts = facts_of(arguments(tmp_path), tmp_path, MACHINE)
    others = {"model", "downloads", "data", "cached data", "plugins", "ms-swift"}
    assert set(facts) - set(fingerprint.ADDED) == {*fingerprint.ARGUMENTS} | others
    assert set(fingerprint.ADDED) < set(facts)


def test_our_own_plugin_changes_no_pair(name: Name) -> None:
    assert name() == name(external_plugins=[str(external_plugins.PLUGIN)])


def test_a_module_next_to_a_plugin_is_part_of_it(tmp_path: Path, name: Name) -> None:
    plugin = tmp_path / "code" / "data.py"
    plugin.parent.mkdir()
    plugin.write_text("import rows\n")
    seen = set()
    for text in ("1\n", "2\n"):
        (plugin.parent / "rows.py").write_text(text)
        seen.add(name(external_plugins=[str(plugin)]))
    assert len(seen) == 2


def test_the_columns_of_custom_datasets_are_part_of_it(tmp_path: Path, name: Name) -> None:
    info, seen = tmp_path / "info.json", {name()}
    for columns in ("query", "prompt"):
        info.write_text(f'[{{"dataset_path": "pairs.jsonl", "columns": {{"{columns}": "q"}}}}]')
        seen.add(name(custom_dataset_info=[str(info)]))
    assert len(seen) == 3


def test_equal_data_elsewhere_is_the_same_data(tmp_path: Path) -> None:
    first = facts_of(arguments(tmp_path), tmp_path, MACHINE)
    moved = tmp_path / "moved"
    moved.mkdir()
    assert facts_of(arguments(moved), tmp_path, MACHINE) == first


@needs_training
def test_every_argument_is_one_of_ms_swift() -> None:
    known = installed.flags(swift_classes(), "MegatronRLHFArguments")
    assert {*fingerprint.ARGUMENTS, *fingerprint.ROUNDING, *fingerprint.LATER} - set(known) == set()


def test_a_large_file_is_known_by_its_size_and_three_places(tmp_path: Path) -> None:
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(bytes(1000))
    base = digest_of(weights, 100)
    for place in (0, 500, 999):
        data = bytearray(1000)
        data[place] = 1
        weights.write_bytes(data)
        assert digest_of(weights, 100) != base, place
    weights.write_bytes(bytes(1001))
    assert digest_of(weights, 100) != base


def test_a_hash_in_a_file_name_is_no_number_of_samples(tmp_path: Path, name: Name) -> None:
    odd, seen = tmp_path / "a#1.jsonl", set()
    for text in ("1", "2"):
        odd.write_text(text)
        seen |= {name(dataset=[given]) for given in (str(odd), f"{odd}#7")}
    assert len(seen) == 4


def test_only_a_cache_below_a_folder_is_left_out(tmp_path: Path) -> None:
    data = tmp_path / ".cache" / "pairs"
    (data / ".cache").mkdir(parents=True)
    (data / "a.jsonl").write_text("1")
    before = digest_of(data)
    (data / ".cache" / "etag").write_text("x")
    assert digest_of(data) == before
    (data / "a.jsonl").write_text("2")
    assert digest_of(data) != before


def test_models_that_differ_between_the_samples_have_other_download_digests(tmp_path: Path) -> None:
    """A model with few tuned layers has the names and sizes of the one that it was."""
    args, seen = arguments(tmp_path), []
    weights = bytearray(16 * fingerprint.SAMPLE)
    for run, digest in (("one", "a"), ("two", "b")):
        (tmp_path / "model" / "model.safetensors").write_bytes(weights)
        work = Workspace(root=tmp_path, run=run)
        keep_identity(work, {"recipe": run, "download hf://o/m@v": digest})
        seen.append(facts_of(args, work.home, MACHINE))
        weights[4 * fingerprint.SAMPLE] = 1
    assert seen[0]["model"] == seen[1]["model"]
    assert store_name(seen[0]) != store_name(seen[1])
    keep_identity(work, {"recipe": "three", "download hf://o/m@v": "a"})
    assert facts_of(args, work.home, MACHINE) == seen[0]  # of another recipe


def test_differences_are_reported_by_name() -> None:
    assert differences({"a": "1"}, {"a": "1"}) == ""
    said = "a was 1 and is not given, b was not given and is 2"
    assert differences({"a": "1"}, {"b": "2"}) == said
