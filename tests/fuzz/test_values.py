"""Any values render to valid manifests, or are refused: never a panic of a template.

``FUZZ`` is the number of values files, ``FUZZ_SEED`` where they begin: ``make fuzz FUZZ=20000``.
"""

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from scripts.values import judge, schema
from tests.chart.helm import BY_SCHEMA, Document, merged
from tests.chart.renderer import Renderer
from tests.fuzz.layers import SOUND
from tests.fuzz.values import files
from tests.fuzz.verdict import mistakes
from tests.generated import drawn, parts

COUNT = int(os.environ.get("FUZZ", "250"))
FIRST = int(os.environ.get("FUZZ_SEED", "0"))


def without_nulls(value: Any) -> Any:
    """Return values without the nulls of maps, of which Helm leaves out some."""
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


def disagreement(refusal: str, values: Document) -> str:
    """Return how Helm's refusal by the schema differs from the judge's; empty if not."""
    is_refused, layers = BY_SCHEMA in refusal, (without_nulls(values), values)
    if any(is_refused == bool(schema.mistakes(judge.with_defaults(v))) for v in layers):
        return ""
    return f"the judge {'accepts' if is_refused else 'refuses'} {values}: {refusal}"


def kind_of(refusal: str) -> str:
    if not refusal:
        return "rendered"
    return "value" if BY_SCHEMA in refusal else "relation"


@pytest.mark.parametrize("part", parts(COUNT))
def test_any_values_render_or_are_refused_in_our_words(
    part: int, renderer: Renderer, chart: Path
) -> None:
    seen: Counter[str] = Counter()

    @drawn(part, FIRST, COUNT)
    @given(values=files())
    def fuzz(values: Document) -> None:
        answer = renderer.ask(values, chart)
        seen[kind_of(answer.refusal)] += 1
        assert mistakes(answer, values, chart) == []
        assert disagreement(answer.refusal, values) == ""

    fuzz()
    # Values that never reach the API's schemas, or never a rule, would show nothing.
    shares = {kind: seen[kind] / seen.total() for kind in ("rendered", "relation", "value")}
    least = {"rendered": 0.02, "relation": 0.001, "value": 0.02}  # the schema holds most relations
    assert all(shares[kind] > least[kind] for kind in least), shares


@pytest.mark.parametrize("layer", SOUND, ids=lambda layer: str(layer)[:60])
def test_each_sound_setting_renders(layer: Document, renderer: Renderer, chart: Path) -> None:
    answer = renderer.ask(merged(layer), chart)
    assert (answer.refusal, mistakes(answer, layer, chart)) == ("", [])


@pytest.mark.parametrize(
    "file, before, after, expected",
    [
        ("jobset.yaml", "kind: JobSet", "kind: JobSet\nkind: JobSet", "no YAML"),
        ("jobset.yaml", "\nspec:", "\nspec:\n  suspendd: true", "suspendd"),
        ("validate/_release.tpl", ".Values.recipe.model", ".Values.recipe.model.no", "not ours"),
        ("pod/_pod.tpl", "enableServiceLinks: false", "enableServiceLinks:", "null"),
    ],
)
def test_a_planted_fault_is_found(
    file: str,
    before: str,
    after: str,
    expected: str,
    renderer: Renderer,
    chart: Path,
    tmp_path: Path,
) -> None:
    faulty = tmp_path / "chart"
    shutil.copytree(chart, faulty)
    [path] = faulty.rglob(file)
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
    found = mistakes(renderer.ask(merged(), faulty), {}, faulty)
    assert any(expected in mistake for mistake in found), found
