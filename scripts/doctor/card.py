"""Whether the nodes have the GPU that the values name (`gpuModel`)."""

from __future__ import annotations

from launchers.config.gpu_models import CARDS
from scripts.doctor.finding import Finding, fail, names, ok, warn
from scripts.doctor.kinds import NODES
from scripts.doctor.nodes import holds
from scripts.doctor.release import Release
from scripts.doctor.seen import Seen
from scripts.doctor.selectors import labels

PRODUCT = "nvidia.com/gpu.product"
"""Label of NVIDIA's GPU feature discovery: what nvidia-smi prints, with - for blanks."""

ENV = "GPU_MODEL"
"""The chart's `gpuModel`, in the gang's environment."""


def wanted(release: Release) -> tuple[str, ...]:
    """Names that nvidia-smi prints for the release's `gpuModel`; none without one."""
    env = release.gang.spec["containers"][0].get("env") or []
    model = next((str(item.get("value", "")) for item in env if item["name"] == ENV), "")
    return CARDS[model].smi if model in CARDS else ()


def check(release: Release, seen: Seen, smi: tuple[str, ...]) -> list[Finding]:
    """The product label of the nodes that could hold the gang.

    Args:
        release: the release.
        seen: the cluster.
        smi: names that nvidia-smi prints for the card (launchers/config/gpu_models.py); none if none is wanted.
    """
    answer = seen.all(NODES)
    if not smi or not answer.found:
        return []
    wanted = {name.replace(" ", "-") for name in smi}
    fitting = [node for node in answer.items if holds(release.gang, node)]
    products = {labels(node)[PRODUCT] for node in fitting if PRODUCT in labels(node)}
    subject = "GPU model"
    if not fitting:
        return []
    if not products:
        found = f"not checked, because no node has the label {PRODUCT}"
        return [warn(subject, found, "the preflight in the pods looks at the GPUs themselves")]
    others = {each for each in products if not _is_a(each, wanted)}
    if others == products:
        remedy = "write the card that is there in gpuModel, or choose nodes with nodeSelector"
        return [fail(subject, f"nodes have {names(others)}, not {names(wanted)}", remedy)]
    if others:
        remedy = f"nodeSelector: {{{PRODUCT}: {sorted(products - others)[0]}}}"
        return [warn(subject, f"some nodes have {names(others)}", remedy)]
    return [ok(subject, names(products))]


def _is_a(product: str, wanted: set[str]) -> bool:
    """Whether a label is one of the names; sharing and MIG append to it (`-SHARED`)."""
    return any(product == name or product.startswith(f"{name}-") for name in wanted)
