"""The parts of the schema that are Kubernetes' own have its fields, and no others."""

import shutil

import pytest

from tests.chart.test_kubeconform import definitions
from tests.chart.test_values import SCHEMA

OURS = SCHEMA["definitions"]["kubernetes"]["definitions"]
TYPES = sorted(name for name in OURS if name[0].isupper())
NEWER = {
    "EnvVarSource": {"fileKeyRef"},
    "Lifecycle": {"stopSignal"},
    "VolumeProjection": {"podCertificate"},
}
"""Fields of feature gates that are off in the lowest supported Kubernetes."""
MERGED = {"PodSpec"}
"""Types whose required fields the chart sets itself."""
LEFT_OUT = {
    "ContainerPort",  # ports of the host
    "ObjectMeta",  # of a claim's template: labels and annotations
    "PodSecurityContext",  # options of Windows
    "SecurityContext",
    "Volume",  # kinds that Kubernetes keeps for old objects
}

pytestmark = pytest.mark.skipif(shutil.which("go") is None, reason="no go for the schemas")


@pytest.mark.parametrize("name", TYPES)
def test_a_type_has_the_fields_of_kubernetes(name: str) -> None:
    apis = ("io.k8s.api.core.v1", "io.k8s.api.networking.v1")
    groups = (*apis, "io.k8s.apimachinery.pkg.apis.meta.v1")
    [theirs] = [d for g in groups if (d := definitions().get(f"{g}.{name}"))]
    ours = OURS[name]
    assert ours["additionalProperties"] is False
    fields, known = set(ours["properties"]), set(theirs["properties"])
    assert fields < known if name in LEFT_OUT else known - fields == NEWER.get(name, set())
    required = set() if name in MERGED else set(theirs.get("required", []))
    assert set(ours.get("required", [])) >= required
