import json
from pathlib import Path

import pytest

from launchers.stages.statement import licence_of
from scripts.export import statement
from scripts.problem import Problem
from tests.scripts.export.exports import FILES, RECIPE, make


def test_a_statement_names_files_inputs_software_and_steps(tmp_path: Path) -> None:
    found = statement.read(make(tmp_path))
    assert set(found.subjects) == set(FILES)
    built = found.predicate["buildDefinition"]
    assert built["externalParameters"]["recipe"]["digest"] == RECIPE.digest
    assert built["internalParameters"]["versions"] == {"ms-swift": "4.4.1"}
    assert built["internalParameters"]["patches"] == {"seal": {"state": "read"}}
    base, image = built["resolvedDependencies"]
    assert base["name"] == "models/acme--base@main"
    assert base["annotations"] == {"source": RECIPE.model, "commit": "c0ffee", "license": "mit"}
    assert image["digest"] == {"sha256": "a" * 64}
    training = found.predicate["megatron_dpo_training"]
    assert (training["step"], training["total"], training["losses"]) == (7, 7, [0.69, 0.31])
    assert training["evaluations"][-1]["accuracy"] == 0.9


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlicense: apache-2.0\n---\n", "apache-2.0"),
        ("---\nlanguage:\n- en\nlicense: other\n---\nlicense: mit\n", "other"),
        ("---\nlanguage: en\n---\nlicense: mit\n", ""),
        ("license: mit\n", ""),
        (None, ""),
    ],
)
def test_the_licence_is_that_of_the_base_models_card(
    tmp_path: Path, card: str | None, licence: str
) -> None:
    if card is not None:
        (tmp_path / "README.md").write_text(card)
    assert licence_of(tmp_path) == licence


def test_a_folder_without_a_statement_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"has no statement\.json"):
        statement.read(tmp_path)


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "a/../b", "a//b", "./a", "", "a\\b"])
def test_no_subject_lies_outside_of_the_export(tmp_path: Path, name: str) -> None:
    folder = make(tmp_path)
    found = json.loads((folder / "statement.json").read_text())
    found["subject"][0]["name"] = name
    with pytest.raises(Problem, match="is not the path of a file in the export"):
        statement.parse(json.dumps(found).encode(), "here")
