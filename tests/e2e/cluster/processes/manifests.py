"""The released objects of JobSet and Kueue, out of their Go modules, fit for managers outside.

Nothing of theirs is committed: the module's own kustomization is built once a version and kept in
``.tools/cluster/objects``. The managers are processes here, so Deployments and Services go, and
webhooks are called by URL.
"""

from __future__ import annotations

import copy
import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from scripts.helm import ROOT
from scripts.problem import Problem
from tests.e2e.cluster import kubectl
from tests.e2e.cluster.layout import Layout

TOOLS = ROOT / "tests" / "e2e" / "tools"
MODULES: Mapping[str, str] = {"jobset": "sigs.k8s.io/jobset", "kueue": "sigs.k8s.io/kueue"}
DROPPED = {"APIService", "ConfigMap", "Deployment", "Secret", "Service"}
HOOKS = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}

Object = dict[str, Any]


def required(go_mod: str, module: str) -> str:
    r"""Return the version of a module that a go.mod requires.

    >>> required("require (\n\tsigs.k8s.io/kueue v0.19.2 // indirect\n)", "sigs.k8s.io/kueue")
    'v0.19.2'
    """
    match = re.search(rf"^(?:require)?\s*{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    if match is None:
        raise Problem(f"no version of {module} in its go.mod below tests/e2e/tools")
    return match[1]


def version(tool: str) -> str:
    """Return the pinned version of ``jobset`` or ``kueue``."""
    text = (TOOLS / tool / "go.mod").read_text(encoding="utf-8")
    return required(text, MODULES[tool])


def released(layout: Layout, tool: str) -> list[Object]:
    """Return all objects that the release of ``jobset`` or ``kueue`` installs.

    Raises:
        Problem: they are not kept here yet, and Go can't fetch the module.
    """
    file = layout.home / "objects" / f"{tool}-{version(tool)}.json"
    if not file.exists():
        text = _kustomize(layout, _module_folder(tool) / "config" / "default")
        # JSON: PyYAML needs 3 s for Kueue's CRDs each time.
        objects = [item for item in yaml.load_all(text, _loader()) if item]
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(objects), encoding="utf-8")
        partial.replace(file)
    content: list[Object] = json.loads(file.read_text(encoding="utf-8"))
    return content


def keep(layout: Layout) -> None:
    """Keep the objects of this version here, so that nothing is fetched while a cluster starts."""
    for tool in MODULES:
        released(layout, tool)


def shipped_config(objects: Iterable[Object]) -> Object:
    """Return the manager's configuration that the release ships in a ConfigMap."""
    for item in objects:
        if item["kind"] == "ConfigMap" and item["metadata"]["name"].endswith("manager-config"):
            content: Object = yaml.safe_load(item["data"]["controller_manager_config.yaml"])
            return content
    raise Problem("the release's objects hold no manager configuration; its layout has changed")


def rewrite(objects: Iterable[Object], url: str, authority: str) -> list[Object]:
    """Return the objects that serve managers outside the cluster, with webhooks at ``url``.

    ``authority`` is the base64 of the certificate that signed the webhooks' one. The conversion of
    a CRD with one version goes: there is nothing to convert.
    """
    kept = [copy.deepcopy(item) for item in objects if item["kind"] not in DROPPED]
    for item in kept:
        if item["kind"] in HOOKS:
            for hook in item["webhooks"]:
                hook["clientConfig"] = _by_url(hook["clientConfig"], url, authority)
        elif item["kind"] == "CustomResourceDefinition" and "conversion" in item["spec"]:
            if len(item["spec"]["versions"]) == 1:
                del item["spec"]["conversion"]
            else:
                webhook = item["spec"]["conversion"]["webhook"]
                webhook["clientConfig"] = _by_url(webhook["clientConfig"], url, authority)
    return kept


def split(objects: Sequence[Object]) -> tuple[list[Object], list[Object]]:
    """Return what the managers need before they start, and the webhooks, which need them."""
    hooks = [item for item in objects if item["kind"] in HOOKS]
    return [item for item in objects if item["kind"] not in HOOKS], hooks


def served(objects: Iterable[Object]) -> dict[str, set[str]]:
    """Return the resources that the CRDs add, by the path that lists them."""
    paths: dict[str, set[str]] = {}
    for item in objects:
        if item["kind"] == "CustomResourceDefinition":
            spec = item["spec"]
            for entry in spec["versions"]:
                path = f"/apis/{spec['group']}/{entry['name']}"
                paths.setdefault(path, set()).add(spec["names"]["plural"])
    return paths


def _by_url(client: Mapping[str, Any], url: str, authority: str) -> Object:
    return {"url": url + client["service"].get("path", "/"), "caBundle": authority}


def _module_folder(tool: str) -> Path:
    argv = ["go", "mod", "download", "-json", MODULES[tool]]
    try:
        done = subprocess.run(argv, cwd=TOOLS / tool, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Problem(f"no Go on PATH to fetch {tool}'s objects; install Go >= 1.26") from None
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
        raise Problem(f"go could not fetch the module of {tool}: {lines[-1]}")
    return Path(json.loads(done.stdout)["Dir"])


def _kustomize(layout: Layout, folder: Path) -> str:
    # From inside the folder: an @ in an argument would make it a git address.
    argv = [str(kubectl.binary(layout)), "kustomize", "."]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise Problem(f"kubectl kustomize failed in {folder}: {lines[-1]}")
    return done.stdout


def _loader() -> type[yaml.SafeLoader]:
    fast: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return fast
