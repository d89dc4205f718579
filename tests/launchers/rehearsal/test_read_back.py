"""Why an export is not compared."""

import errno
import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from launchers.config.settings import from_env
from launchers.rehearsal import load_export
from launchers.rehearsal.export_settings import ends, other_settings, unended, unserved
from launchers.rehearsal.load_export import zeros
from launchers.rehearsal.read_back import read_back
from launchers.system.atomic_file import replace
from tests.launchers import model_folder


@pytest.mark.parametrize(("began", "says"), [(True, "between the save"), (False, "only DPO")])
def test_a_step_without_a_record_says_why(began: bool, says: str, tmp_path: Path) -> None:
    env = {"DPO_RUN": "r", "DPO_WORKSPACE": str(tmp_path), "DPO_MASTER_ADDR": "localhost"}
    launch = from_env(env).launch
    launch.work.home.mkdir(parents=True)
    if began:  # the first record is made before the first step
        replace(launch.work.probe(0), "{}")
    found = read_back(launch, launch.work.export, tmp_path, 7, {}, "transformers")
    assert says in found["not_compared"] and not found["problems"]


@pytest.mark.parametrize(
    ("error", "is_problem"),
    [
        (OSError(errno.ESTALE, "Stale file handle", "/w/export/config.json"), False),
        (OSError("Can't load it: I/O error: Stale file handle (os error 116)"), False),
        (OSError("the folder has no file named config.json"), True),  # as transformers says it
        (FileNotFoundError(errno.ENOENT, "No such file", "/w/export/config.json"), True),
    ],
)
def test_an_export_that_cannot_be_read_is_none_that_differs(
    error: OSError, is_problem: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_export, "load", Mock(side_effect=error))
    load_export.main([*map(str, (tmp_path, tmp_path, tmp_path / "result"))])
    found = json.loads((tmp_path / "result").read_text())
    assert (bool(found["problems"]), bool(found["not_compared"])) == (is_problem, not is_problem)


def test_a_model_of_pickled_weights_has_no_shapes_to_compare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_export, "_place", lambda *_: "")  # it is not loaded
    export, model = (model_folder.write(tmp_path / name) for name in ("export", "model"))
    (model / model_folder.WHOLE).rename(model / "pytorch_model.bin")
    assert not load_export.load(export, model).problems


@pytest.mark.parametrize(
    ("ends", "token", "is_problem"),
    [([1], "a", False), ([2, 3], "a", False), ([3], "a", True), ([3], "b", False)],
)
def test_an_export_ends_texts_at_a_token_of_the_model_or_of_a_new_tokenizer(
    ends: list[int], token: str, is_problem: bool, tmp_path: Path
) -> None:
    for name, ids, text in (("model", [1, 2], "a"), ("export", ends, token)):
        _write(tmp_path / name / "generation_config.json", eos_token_id=ids)
        _write(tmp_path / name / "tokenizer_config.json", eos_token=text)
    assert bool(unended(tmp_path / "export", tmp_path / "model")) is is_problem


@pytest.mark.parametrize(
    ("named", "before", "is_problem"),
    [("New", "Old", False), ("Old", "Old", False), ("Other", "Old", True)],
)
def test_a_config_may_name_the_class_that_is_loaded_or_that_it_named_before(
    named: str, before: str, is_problem: bool, tmp_path: Path
) -> None:
    for name, written in (("export", named), ("model", before)):
        _write(tmp_path / name / "config.json", architectures=[written])
    assert bool(unserved("New", tmp_path / "export", tmp_path / "model")) is is_problem


@pytest.mark.parametrize(
    ("file", "given", "before", "number"),
    [
        ("config", {"max_position_embeddings": 8}, {"max_position_embeddings": 9}, 1),
        (
            "config",
            {"max_position_embeddings": 8, "rope_parameters": {"factor": 2}},
            {"max_position_embeddings": 4},
            0,
        ),
        (
            "tokenizer_config",
            {"pad_token": "a", "add_bos_token": True},
            {"pad_token": {"content": "b"}, "add_bos_token": False},
            2,
        ),
        ("tokenizer_config", {"pad_token": "a"}, {"pad_token": {"content": "a"}}, 0),
        ("tokenizer_config", {"pad_token": "a"}, {"pad_token": None}, 0),
    ],
)
def test_settings_that_servers_use_are_those_of_the_model(
    file: str,
    given: dict[str, object],
    before: dict[str, object],
    number: int,
    tmp_path: Path,
) -> None:
    for name, fields in (("model", before), ("export", given)):
        _write(tmp_path / name / f"{file}.json", **fields)
    assert len(other_settings(tmp_path / "export", tmp_path / "model")) == number


def test_a_file_of_an_export_is_read_once(tmp_path: Path) -> None:
    _write(tmp_path / "config.json", architectures=["Old"], eos_token_id=1)
    assert ends(tmp_path) == {1}
    (tmp_path / "config.json").unlink()
    assert unserved("New", tmp_path, tmp_path / "no model")


def _write(file: Path, **fields: object) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(fields))


def test_an_export_that_ends_in_zeros_is_a_problem(tmp_path: Path) -> None:
    model = model_folder.write(tmp_path, model_folder.tensors() | {"x": bytes(1 << 18)})
    assert [each.partition(" ")[0] for each in zeros(model)] == [model_folder.WHOLE]
