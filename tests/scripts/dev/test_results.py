"""Raw results in one file a visit."""

import json
from pathlib import Path

from scripts.dev import results

ABOUT = {"when": "2026-11-22T07:00:00+00:00", "gpus": ["NVIDIA H200, 580.1"] * 4}


def test_a_result_takes_the_place_of_one_of_its_name_and_keeps_the_others(tmp_path: Path) -> None:
    files = [f"{results.ROOT}/values/a.yaml"]
    for name, value in (("a", 1), ("b", 2), ("a", 3)):
        path = results.put(tmp_path, name, {**ABOUT, "value": value, "files": files})
    assert path.name == "2026-11-22-4xh200.json"
    assert list(tmp_path.iterdir()) == [path]
    found = results.read(tmp_path)
    assert {name: each["value"] for name, each in found.items()} == {"a": 3, "b": 2}
    assert found["a"]["files"] == ["values/a.yaml"]
    assert len(path.read_text().splitlines()) == 4, "one line a result"


def test_of_two_visits_the_later_one_counts(tmp_path: Path) -> None:
    results.put(tmp_path, "a", {**ABOUT, "when": "2026-11-23T07:00:00+00:00", "value": 2})
    results.put(tmp_path, "a", {**ABOUT, "value": 1})
    results.put(tmp_path, "a-b", {**ABOUT, "value": 3})
    assert [each["value"] for each in results.read(tmp_path).values()] == [3, 2]
    assert list(results.read(tmp_path, "a-")) == ["a-b"]


def test_committed_results_are_in_the_files_of_their_visits() -> None:
    names: list[str] = []
    for path in results.FOLDER.iterdir():
        found = json.loads(path.read_text(encoding="utf-8"))
        names += found
        assert {results.visit_of(record) for record in found.values()} == {path.stem}
    assert len(names) == len(set(names)) > 80
