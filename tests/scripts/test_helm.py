"""The chart is rendered by the real Helm, and its refusals are passed on."""

from pathlib import Path

import pytest

from scripts import helm
from scripts.problem import Problem
from tests.chart.helm import CALL


@pytest.fixture(autouse=True)
def _by_helm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helm.Release, "_call", CALL)


def test_a_values_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"absent.yaml is not a file"):
        helm.template("run", [tmp_path / "absent.yaml"])


def test_the_charts_own_message_is_passed_on_without_helms_noise(tmp_path: Path) -> None:
    values = tmp_path / "bad.yaml"
    values.write_text("nods: 2\n")
    with pytest.raises(Problem) as caught:
        helm.template("run", [values])
    assert "nods" in str(caught.value) and "symbolic link" not in str(caught.value)


@pytest.mark.parametrize("name", ["--help", "Bad Name"])
def test_a_name_that_helm_would_take_for_a_flag_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(Problem) as caught:
        helm.template(name, [helm.ROOT / "values" / "demo-cpu.yaml"])
    [head, line] = str(caught.value).splitlines()
    assert f'release name "{name}": invalid release name' in line


def test_no_helm_and_an_old_one_are_refused_with_both_ways_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(helm, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Problem, match="no helm on PATH"):
        helm.find_helm()
    old = tmp_path / "helm"
    old.write_text("#!/bin/sh\necho v3.8.0\n")
    old.chmod(0o755)
    with pytest.raises(Problem, match=r"version v3.8.0; run `make setup`.*install Helm >= 3.17"):
        helm.find_helm()
