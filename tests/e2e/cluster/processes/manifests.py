"""Released Kubernetes objects of JobSet and Kueue, adapted to managers outside the cluster.

They are built from the kustomization in each Go module, once per version, and cached in
``.tools/cluster/objects``. The managers are processes, so Deployments and Services are dropped and
webhooks are called by URL.
"""

import copy
import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from launchers.yaml_file import LOADER
from scripts.problem import Problem
from tests.e2e.cluster import kubectl, modules, versions
from tests.e2e.cluster.layout import Layout

CONTROLLERS = ("jobset", "kueue")
DROPPED = {"APIService", "ConfigMap", "Deployment", "Secret", "Service"}
HOOKS = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}

Object = dict[str, Any]


def released(layout: Layout, tool: str) -> list[Object]:
    """Return all objects that the release of ``jobset`` or ``kueue`` installs."""
    file = layout.home / "objects" / f"{tool}-{versions.pinned(tool)}.json"
    if not file.exists():
        module = modules.folder(versions.MODULES[tool], versions.TOOLS / tool)
        text = _kustomize(layout, module / "config" / "default")
        # Cache as JSON: PyYAML takes 3 s to parse Kueue's CRDs.
        objects = [item for item in yaml.load_all(text, LOADER) if item]
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(objects), encoding="utf-8")
        partial.replace(file)
    content: list[Object] = json.loads(file.read_text(encoding="utf-8"))
    return content


def cache(layout: Layout) -> None:
    """Build and cache the objects, so that nothing is fetched while the cluster starts."""
    for tool in CONTROLLERS:
        released(layout, tool)


def shipped_config(objects: Iterable[Object]) -> Object:
    """Return the manager's configuration that the release ships in a ConfigMap."""
    for item in objects:
        if item["kind"] == "ConfigMap" and item["metadata"]["name"].endswith("manager-config"):
            content: Object = yaml.safe_load(item["data"]["controller_manager_config.yaml"])
            return content
    raise Problem(
        "no ConfigMap *manager-config in the release's objects; the release's layout has changed"
    )


def rewrite(objects: Iterable[Object], url: str, authority: str) -> list[Object]:
    """Return the objects for managers outside the cluster, with webhooks at ``url``.

    ``authority`` is the base64 of the CA certificate of the webhooks. The conversion of a CRD with
    a single version is removed: it converts nothing.
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
    """Return the objects that the managers need to start, and the webhooks that need them."""
    hooks = [item for item in objects if item["kind"] in HOOKS]
    return [item for item in objects if item["kind"] not in HOOKS], hooks


def served(objects: Iterable[Object]) -> dict[str, set[str]]:
    """Return the plural names of the CRDs by the API path that lists them."""
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


def _kustomize(layout: Layout, folder: Path) -> str:
    # Run inside the folder: kustomize takes an argument that contains @ for a git URL.
    argv = [str(kubectl.binary(layout)), "kustomize", "."]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no error message"]
        raise Problem(f"kubectl kustomize failed in {folder}: {lines[-1]}")
    return done.stdout
