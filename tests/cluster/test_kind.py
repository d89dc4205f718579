"""The kind backend, as far as it can be tested without a container engine."""

import json
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.helm import find_helm
from scripts.problem import Problem
from tests.e2e.cluster import modules, versions
from tests.e2e.cluster.kind import config as kind_config
from tests.e2e.cluster.kind.backend import Kind
from tests.e2e.cluster.kind.engine import engine, too_old
from tests.e2e.cluster.layout import Layout

PROGRAM = Layout().bin / "kind"


def config() -> dict[str, Any]:
    image = kind_config.versions({}).image
    return kind_config.config(Layout(size=3), image, [Path("/checkout/.tools/train")])


@lru_cache(maxsize=2)
def rendered(name: str) -> list[dict[str, Any]]:
    """Return what helm makes of a controller's chart, with the arguments that kind is given."""
    if shutil.which("go") is None:
        pytest.skip("no go command to fetch the charts of JobSet and Kueue")
    module = modules.folder(versions.MODULES[name], versions.TOOLS / name)
    chart = module / "charts" / name
    verb, release, address, *words = kind_config.helm_install(name, versions.pinned(name)[1:])
    assert address.startswith("oci://")
    argv = [str(find_helm()), verb, release, str(chart), *words, "--dry-run=client"]
    done = subprocess.run([*argv, "--output", "json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    text = json.loads(done.stdout)["manifest"]
    return [content for content in yaml.safe_load_all(text) if content]


def test_the_versions_are_those_of_the_cluster_of_processes() -> None:
    found = kind_config.versions({})
    assert f"v{found.jobset}" == versions.pinned("jobset")
    assert f"v{found.kueue}" == versions.pinned("kueue")
    assert found.image.startswith(f"kindest/node:v{found.kubernetes}.")


def test_the_image_of_a_node_is_pinned_by_its_digest() -> None:
    for minor in kind_config.IMAGES:
        image = kind_config.versions({"E2E_KUBERNETES": f"v{minor}.9"}).image
        version, _, digest = image.partition("@sha256:")
        assert version.startswith(f"kindest/node:v{minor}.")
        assert len(digest) == 64 and set(digest) <= set("0123456789abcdef")


def test_an_untested_kubernetes_is_refused_with_those_that_are_there() -> None:
    with pytest.raises(Problem, match=r"Kubernetes 1\.33; known: 1\.34, 1\.35, 1\.36, 1\.37"):
        kind_config.versions({"E2E_KUBERNETES": "1.33"})


def test_nodes_see_the_hosts_folders_at_their_own_paths_and_know_their_racks() -> None:
    first, *workers = config()["nodes"]
    assert first["role"] == "control-plane" and "extraMounts" not in first
    racks = [worker["labels"]["cloud.provider.com/topology-block"] for worker in workers]
    assert racks == ["rack-1", "rack-1", "rack-2"]
    for worker in workers:
        shared, train = worker["extraMounts"]
        assert shared["hostPath"] == shared["containerPath"] == str(Layout().shared)
        assert train["hostPath"] == train["containerPath"] == "/checkout/.tools/train"
        assert (shared["readOnly"], train["readOnly"]) == (False, True)


def test_the_names_of_the_workers_are_kinds() -> None:
    assert Kind(Layout(size=2)).nodes == ("megatron-dpo-worker", "megatron-dpo-worker2")


@pytest.mark.skipif(not PROGRAM.exists(), reason="no kind: `scripts/tools/go.sh kind` builds it")
def test_kind_reads_the_configuration_and_misses_the_engine_only(tmp_path: Path) -> None:
    def stderr_of(content: dict[str, Any]) -> str:
        file = tmp_path / "config.yaml"
        file.write_text(json.dumps(content), encoding="utf-8")
        argv = [str(PROGRAM), "create", "cluster", "--config", str(file)]
        argv += ["--kubeconfig", str(tmp_path / "kubeconfig")]
        nothing = {"PATH": str(tmp_path), "KIND_EXPERIMENTAL_PROVIDER": "docker"}
        done = subprocess.run(argv, env=nothing, capture_output=True, text=True, timeout=60)
        assert done.returncode != 0
        return done.stderr

    assert '"docker": executable file not found' in stderr_of(config())
    assert "extraMountz" in stderr_of({**config(), "extraMountz": []})


def test_without_an_engine_the_other_way_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Problem, match="docker, podman.*BACKEND=processes"):
        engine()


def test_the_kind_that_is_built_is_new_enough() -> None:
    assert not too_old(f"kind {versions.pinned('kind')} go1.26")


def test_the_charts_have_the_objects_that_faults_and_settings_are_done_to() -> None:
    found = {
        name: {(it["kind"], it["metadata"]["name"]) for it in rendered(name)}
        for name in ("jobset", "kueue")
    }
    assert ("ConfigMap", "kueue-manager-config") in found["kueue"]
    for names in found.values():
        assert len([name for kind, name in names if kind == "Deployment"]) == 1
    [config] = [it for it in rendered("kueue") if it["metadata"]["name"] == "kueue-manager-config"]
    content = yaml.safe_load(config["data"]["controller_manager_config.yaml"])
    assert content["apiVersion"] == "config.kueue.x-k8s.io/v1beta2"
    assert "jobset.x-k8s.io/jobset" in content["integrations"]["frameworks"]
