"""Versions of JobSet, Kueue and Kubernetes, pinned by the go.mod files of ``tests/e2e/tools``."""

import re
from collections.abc import Mapping

from scripts.helm import ROOT
from scripts.problem import Problem

TOOLS = ROOT / "tests" / "e2e" / "tools"
MODULES: Mapping[str, str] = {
    "jobset": "sigs.k8s.io/jobset",
    "kind": "sigs.k8s.io/kind",
    "kubernetes": "k8s.io/kubernetes",
    "kueue": "sigs.k8s.io/kueue",
}
"""Go module by the name of its folder in ``TOOLS``."""


def pinned(tool: str) -> str:
    """Return the pinned version of a tool in ``MODULES``, with its ``v``."""
    text = (TOOLS / tool / "go.mod").read_text(encoding="utf-8")
    return required(text, MODULES[tool])


def minor(version: str) -> str:
    """Return major and minor of a version; empty for an empty one.

    >>> minor("v1.34.4"), minor("1.37"), minor("")
    ('1.34', '1.37', '')
    """
    return ".".join(version.removeprefix("v").split(".")[:2])


def required(go_mod: str, module: str) -> str:
    r"""Return the version of a module that a go.mod requires.

    >>> required("require (\n\tsigs.k8s.io/kueue v0.19.2 // indirect\n)", "sigs.k8s.io/kueue")
    'v0.19.2'
    """
    match = re.search(rf"^(?:require)?\s*{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    if match is None:
        raise Problem(f"no version of {module} in its go.mod below tests/e2e/tools")
    return match[1]
