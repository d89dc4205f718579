"""The parts of the schema that are Kubernetes' own name its fields, and no others."""

from __future__ import annotations

import shutil

import pytest

from tests.chart.test_kubeconform import definitions
from tests.chart.test_values import SCHEMA

OURS = ("amounts", "devices", "flags", "keyOf")
SHAPES = sorted(set(SCHEMA["definitions"]) - set(OURS))
GONE = {"volume"}
"""Kinds of which we leave out what Kubernetes only keeps for old objects."""

pytestmark = pytest.mark.skipif(shutil.which("go") is None, reason="no go for the schemas")


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_has_the_fields_of_kubernetes(name: str) -> None:
    kind = name[0].upper() + name[1:]
    groups = ("io.k8s.api.core.v1", "io.k8s.apimachinery.pkg.apis.meta.v1")
    [theirs] = [d for g in groups if (d := definitions().get(f"{g}.{kind}"))]
    ours = SCHEMA["definitions"][name]
    assert ours["additionalProperties"] is False
    assert set(ours["properties"]) <= set(theirs["properties"])
    assert name in GONE or set(ours["properties"]) == set(theirs["properties"])
    assert set(ours.get("required", [])) == set(theirs.get("required", []))
