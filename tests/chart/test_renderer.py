"""The renderer prints what Helm 4 prints, and Helm 3 refuses and renders the same.

``RENDERED`` is how many cases of tests/refusals are compared: `make test-renderer` takes all.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from launchers.system.process import kill_descendants
from scripts.helm import Release
from tests.chart import helm
from tests.chart.helm import BY_SCHEMA, CHART, Refused, merged, objects, template
from tests.fuzz.layers import SOUND
from tests.refusals.cases import load
from tests.refusals.pod import placed

COUNT = int(os.environ.get("RENDERED", "5"))
CASES = load()
VALUES: dict[str, Mapping[str, Any]] = {
    "values that render": merged(SOUND[1]),
    "all options": merged(*SOUND[:1]),
    "a text with surrogates": merged({"extraEnv": {"A": "\U0001f60d\x7f"}}),
    "no number": merged({"recipe": {"args": {"lr": float("nan")}}}),
    **{
        case.name: merged(placed(case, Path("/w")) if case.where == "launcher" else case.values)
        for case in CASES[:: max(1, len(CASES) // COUNT)]
    },
}


@pytest.fixture(autouse=True)
def _built() -> None:
    if helm.running() is None:
        pytest.skip("no .tools/cluster/bin/renderer, or another Helm than its own: `make setup`")


def said(values: Mapping[str, Any], **options: Any) -> tuple[bool, str]:
    try:
        return False, template(values, **options)
    except Refused as refused:
        text = str(refused)
        if BY_SCHEMA not in text:
            return True, text
        # Go prints the mistakes in the order of a map; each Helm logs its warnings in its own form
        return True, "\n".join(sorted(x for x in text.splitlines() if "warning: " not in x))


@pytest.mark.parametrize("name", VALUES)
def test_it_prints_what_helm_prints(name: str) -> None:
    answer = said(VALUES[name])
    assert answer == said(VALUES[name], helm="helm")
    is_refused, text = said(VALUES[name], helm="helm3")
    assert is_refused == answer[0]
    if is_refused:
        assert _message(text) == _message(answer[1])
    else:
        assert objects(text) == objects(answer[1])


def _message(text: str) -> str:
    """Return the chart's lines, or those of the schema; Helm's own words differ between 3 and 4."""
    return text if BY_SCHEMA in text else text.partition("the values cannot work:")[2]


def test_it_lays_files_and_assignments_as_helm_does(tmp_path: Path) -> None:
    layers = [merged(SOUND[1]), {"nodes": 3, "recipe": {"args": {"beta": 5e-6}}, "image": None}]
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for file, layer in zip(files, layers, strict=True):
        file.write_text(json.dumps(layer))
    sets = ["nodes=4", "recipe.args.lr=1e-6"]
    release = Release(helm=Path(helm.require("helm")), name="run", files=files, sets=sets)
    answer, expected = helm.call_of_release(release, CHART), helm.CALL(release, CHART)
    assert answer.stdout == expected.stdout
    assert answer.returncode == expected.returncode


@pytest.mark.parametrize("name", ["Upper", "a" * 54, "1.a", ""])
def test_it_refuses_a_release_name_as_helm_does(name: str) -> None:
    assert said(merged(), name=name) == said(merged(), name=name, helm="helm")


@pytest.mark.parametrize(
    "file, before, after",
    [
        ("templates/jobset.yaml", "kind: JobSet", "kind: {{ .Values.no.where }}"),
        ("templates/jobset.yaml", "kind: JobSet", "kind: {{ end }}"),
        ("templates/jobset.yaml", "kind: JobSet", "kind: JobSet: x"),
        ("Chart.yaml", "type: application", "type: library"),
        ("Chart.yaml", "version:", "versions:"),
    ],
)
def test_a_fault_of_the_chart_reads_the_same_also_after_a_sound_chart(
    file: str, before: str, after: str, tmp_path: Path
) -> None:
    faulty = helm.stubbed(tmp_path / "chart")
    assert said(merged(), chart=faulty) == said(merged(), chart=faulty, helm="helm")
    text = (faulty / file).read_text(encoding="utf-8")
    assert before in text
    (faulty / file).write_text(text.replace(before, after, 1), encoding="utf-8")
    values = merged({"ttlSecondsAfterFinished": 5})
    answer = said(values, chart=faulty)
    assert answer == said(values, chart=faulty, helm="helm")
    assert answer[0]


def test_it_is_started_again_where_something_killed_it() -> None:
    values = merged({"ttlSecondsAfterFinished": 7})
    own = helm.running()
    assert own is not None
    own.ask(json.dumps(merged()), CHART)
    kill_descendants()
    assert own.ask(json.dumps(values), CHART).text == template(values, helm="helm")
