"""The catalogue is whole, and the quick faults end as declared."""

from pathlib import Path
from typing import Any

import pytest

from scripts.dev import results
from scripts.helm import ROOT
from tests.bench.launcher import matrix as gpu_matrix
from tests.e2e.chance import VARIABLE, Chance
from tests.faults import __main__ as matrix
from tests.faults import catalogue, damage, strangers
from tests.faults.__main__ import is_runnable, run, summary
from tests.faults.catalogue import LEVELS, Fault

PROCESS = catalogue.load("process")
QUICK = [fault for fault in PROCESS if fault.quick]


@pytest.mark.parametrize("fault", QUICK, ids=lambda fault: fault.name)
def test_a_fault_ends_as_declared(fault: Fault) -> None:
    if not is_runnable(fault):
        pytest.skip("it needs root")
    result = run(fault, seed=0)
    assert result["problems"] == [], result["logs"]


def test_what_is_declared_wrongly_is_found() -> None:
    (fault,) = (each for each in PROCESS if each.name == "setting-misspelt")
    result = run(fault, seed=0)
    wrong = dict(result, problems=["outcome 'failed', not 'resumed'"])
    assert (result["outcome"], result["code"]) == ("failed", 78)
    assert summary([result])["as_declared"] == 1
    assert summary([wrong])["as_declared"] == 0


def test_there_are_enough_faults_and_each_name_is_used_once() -> None:
    names = [fault.name for level in LEVELS for fault in catalogue.load(level)]
    assert len(names) >= 60
    assert len(catalogue.load("gpu")) >= 12


def test_each_fault_of_a_process_that_is_noticed_declares_its_class() -> None:
    noticed = [fault for fault in PROCESS if fault.expect.outcome != "unaffected"]
    assert [fault.name for fault in noticed if fault.expect.failure_class is None] == []


def test_an_unknown_key_or_outcome_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "FOLDER", tmp_path)
    text = "group: {one: {inject: {}, expect: {outcome: survives}, seconds: 1}}"
    (tmp_path / "gpu.yaml").write_text(text)
    with pytest.raises(ValueError, match="survives"):
        catalogue.load("gpu")
    (tmp_path / "gpu.yaml").write_text(text.replace("survives", "failed, color: red"))
    with pytest.raises(TypeError, match="color"):
        catalogue.load("gpu")


def test_each_fault_of_a_cluster_names_a_test_that_exists() -> None:
    for fault in catalogue.load("cluster"):
        file, _, name = str(fault.inject["test"]).partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), fault.name


def test_what_is_injected_is_known() -> None:
    for fault in PROCESS:
        if "damage" in fault.inject:
            assert fault.inject["damage"] in damage.KINDS
        if "strangers" in fault.inject:
            assert fault.inject["strangers"]["kind"] in strangers.KINDS


def test_each_fault_of_gpus_is_one_that_the_plugin_injects() -> None:
    known = gpu_matrix.PLUGIN.read_text(encoding="utf-8")
    for fault in catalogue.load("gpu"):
        assert f'case "{fault.inject["do"]}":' in known
        assert fault.inject["at"] in ("step", "evaluation", "save")


def test_each_fault_of_gpus_was_injected_three_times_and_stands_on_the_page() -> None:
    injected: dict[str, set[tuple[str, int]]] = {}
    for name, record in results.read(prefix="matrix-").items():
        for each in record["runs"]:
            if each.get("outcome") in ("resumed", "failed", "unaffected"):
                injected.setdefault(each["name"], set()).add((name, each["seed"]))
    page = (ROOT / "tests" / "faults" / "results" / "gpu.md").read_text(encoding="utf-8")
    for fault in catalogue.load("gpu"):
        assert len(injected.get(fault.name, ())) >= 3, fault.name
        assert f"| {fault.name} |" in page


def test_the_table_has_a_row_for_each_fault() -> None:
    runs: list[dict[str, Any]] = [
        {"name": "a", "seed": seed, "outcome": "resumed", "problems": []} for seed in (0, 1)
    ]
    assert matrix.table([*runs, {**runs[0], "name": "b"}]).row_count == 2


def test_the_times_of_several_seeds_are_shown_from_the_least_to_the_most() -> None:
    runs = [{"measured": {"a pod deleted": each}} for each in (6.1, 5.7, 7.3)]
    cell = matrix._cell([each["measured"] for each in runs] + [{}])
    assert cell == "a pod deleted 5.7 to 7.3 s"


def test_a_seed_of_a_cluster_chooses_rank_and_moment() -> None:
    chosen = [Chance.of("test_x", {VARIABLE: str(seed)}) for seed in range(20)]
    assert {each.rank for each in chosen} == {0, 1}
    assert len({each.seconds for each in chosen}) > 10
