"""The chart as a dependency of an umbrella chart: one release is one run."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests.chart.helm import BASE, CHART, Document, rejected, template

HELMS = (None, "helm3")


def umbrella(folder: Path, *aliases: str) -> Path:
    """Write a chart that depends on this one once for each alias; empty for none."""
    shutil.copytree(CHART, folder / "charts" / "megatron-dpo")
    chart: Document = {"apiVersion": "v2", "name": "umbrella", "version": "0.1.0"}
    chart["dependencies"] = [
        {"name": "megatron-dpo", "version": "*", "condition": f"{alias or 'megatron-dpo'}.enabled"}
        | ({"alias": alias} if alias else {})
        for alias in aliases
    ]
    (folder / "Chart.yaml").write_text(yaml.safe_dump(chart))
    return folder


@pytest.mark.parametrize("helm", HELMS)
@pytest.mark.parametrize("aliases", [("one", "two"), ("", "two")])
def test_two_runs_of_one_release_are_refused(
    helm: str | None, aliases: tuple[str, str], tmp_path: Path
) -> None:
    values = {alias or "megatron-dpo": BASE for alias in aliases}
    chart = umbrella(tmp_path, *aliases)
    said = rejected(values, helm=helm, chart=chart)
    assert "[release-name-twice]" in said
    for alias in aliases:
        assert f"umbrella/charts/{alias or 'megatron-dpo'}" in said


@pytest.mark.parametrize("helm", HELMS)
@pytest.mark.parametrize("alias", ["", "training"])
def test_one_run_of_an_umbrella_renders(helm: str | None, alias: str, tmp_path: Path) -> None:
    name, chart = alias or "megatron-dpo", umbrella(tmp_path, alias)
    text = template({name: BASE}, helm=helm, chart=chart)
    assert template({name: BASE | {"enabled": True}}, helm=helm, chart=chart) == text
    assert not template({name: BASE | {"enabled": False}}, helm=helm, chart=chart).strip()
    kinds = [each["kind"] for each in yaml.safe_load_all(text) if each]
    assert (kinds.count("JobSet"), set(kinds)) == (1, {"ConfigMap", "JobSet", "Pod"})


@pytest.mark.parametrize("helm", HELMS)
def test_helm_applies_the_schema_below_the_alias(helm: str | None, tmp_path: Path) -> None:
    wrong = {**BASE, "nodes": "two", "gpuPerNode": 8}
    values = {"training": wrong, "global": {"a": 1}}
    said = rejected(values, helm=helm, chart=umbrella(tmp_path, "training"))
    assert "specifications of the schema" in said
    assert "at '/nodes': " in said and "'gpuPerNode' not allowed" in said
    assert "global" not in said
