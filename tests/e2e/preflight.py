"""Requirements of the chart on a cluster: one line with the first unmet one and its remedy.

Checks the schemas of the CRDs, not their version: Helm never upgrades a chart's CRDs, and an old
CRD silently drops unknown fields.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from scripts.doctor.api import JOBSET
from scripts.doctor.control_plane import INSTALL, NEEDED
from scripts.helm import ROOT, template
from scripts.manifest import KUEUE
from scripts.problem import Problem
from tests.e2e.kubectl import Kubectl, Refused

VERSIONS = {JOBSET: "v1alpha2", KUEUE: "v1beta2"}
VALUES = (ROOT / "values" / "a100-2node.yaml", ROOT / "values" / "e2e.yaml")


def check(kubectl: Kubectl) -> None:
    """Verify that the cluster meets the requirements.

    Raises:
        Problem: it does not; one line.
    """
    groups = _groups(kubectl)
    for group, version in VERSIONS.items():
        name = NEEDED[group].partition(" ")[0]
        if group not in groups:
            raise Problem(f"no {name} in the cluster; install {NEEDED[group]}: {INSTALL[group]}")
        if version not in groups[group]:
            served = ", ".join(groups[group])
            raise Problem(f"{name} is too old: it serves {served}, not {version}; {_newer(group)}")
    dropped = unknown(kubectl, jobset(VALUES))
    if dropped:
        raise Problem(f"the CRD of JobSet is too old: it drops {dropped}; {_newer(JOBSET)}")


def jobset(files: tuple[Path, ...]) -> dict[str, Any]:
    """Return the JobSet that the chart renders from values files."""
    documents = yaml.safe_load_all(template("preflight", files))
    return next(document for document in documents if document["kind"] == "JobSet")


def unknown(kubectl: Kubectl, content: dict[str, Any]) -> str:
    """Return the fields of an object that the API server would drop."""
    words = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
    try:
        kubectl.at("default").run(*words, stdin=yaml.safe_dump(content))
    except Refused as refused:
        fields = re.findall(r'unknown field "([^"]+)"', str(refused))
        if not fields:
            last = str(refused).splitlines()[-1]
            raise Problem(
                f"the cluster refuses the chart's JobSet: {last}; {_newer(JOBSET)}"
            ) from None
        return ", ".join(dict.fromkeys(fields))
    return ""


def _groups(kubectl: Kubectl) -> dict[str, list[str]]:
    """Return the served versions of each API group."""
    try:
        answer = json.loads(kubectl.run("get", "--raw", "/apis", "--request-timeout=10s"))
    except Refused as refused:
        cause = str(refused).splitlines()[-1].partition(": ")[2]
        raise Problem(
            f"no cluster answers ({cause}); run `make cluster`, or correct the kubeconfig"
        ) from None
    return {
        group["name"]: [version["version"] for version in group["versions"]]
        for group in answer["groups"]
    }


def _newer(group: str) -> str:
    return f"install {NEEDED[group]} and apply its CRDs, which Helm leaves as they are"
