from pathlib import Path

import pytest
import yaml

from scripts.doctor.api import Api, connect


def write(folder: Path, url: str) -> Path:
    """Write a kubeconfig with two contexts of one server."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "other", "context": {"cluster": "c", "user": "u"}},
        ],
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


def select(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client read a file: it reads KUBECONFIG once, when it is imported."""
    place = "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(place, str(file))


def connected(file: Path, monkeypatch: pytest.MonkeyPatch) -> Api:
    select(file, monkeypatch)
    return connect(None, None)
