"""Command lines, configurations and credentials of the control plane."""

import base64
import json
from pathlib import Path

import pytest

from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.processes import coredns, credentials, managers
from tests.e2e.cluster.processes.control_plane import ControlPlane

LAYOUT = Layout(home=Path("/home/someone/checkout/.tools/cluster"))
PROGRAMS = ControlPlane(layout=LAYOUT).programs


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_program_listens_anywhere_but_on_the_clusters_own_bridge(name: str) -> None:
    words = [str(word) for word in PROGRAMS[name].argv]
    outside = json.dumps(managers.outside_config(LAYOUT, "kueue"))
    text = " ".join(words) + coredns.corefile(LAYOUT) + outside
    assert "0.0.0.0" not in text
    assert "127.0.0.1" not in text
    listening = [word for word in words if "bind-address" in word or "listen-" in word]
    assert all("10.201.0.1" in word for word in listening)
    if name.startswith("kube-"):
        assert f"--bind-address={LAYOUT.gateway}" in words


def test_access_files_are_for_root_and_no_token_serves_two(tmp_path: Path) -> None:
    layout = Layout(home=tmp_path, size=2)
    layout.pki.mkdir(parents=True)
    (layout.pki / "ca.crt").write_bytes(b"authority")
    credentials.write_kubeconfigs(layout)
    lines = layout.tokens.read_text().splitlines()
    tokens = {line.split(",")[0] for line in lines}
    assert len(tokens) == len(lines) == len(credentials.users(layout))
    config = json.loads(layout.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"authority"
    secret = [layout.tokens, layout.kubeconfig_of("node-1"), layout.kubeconfig]
    assert {file.stat().st_mode & 0o777 for file in secret} == {0o600}
