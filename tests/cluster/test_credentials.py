"""One certificate serves the API server, etcd and both webhooks."""

import pytest

from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.processes import credentials


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    made = Layout(home=tmp_path_factory.mktemp("cluster"))
    credentials.write_certificates(made)
    return made


def test_keys_are_for_root_only_and_kueue_finds_its_own_copy(layout: Layout) -> None:
    copied = credentials.webhook_certificates(layout)
    keys = [*layout.pki.glob("*.key"), copied / "tls.key"]
    assert len(keys) == 4
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}
    assert (copied / "tls.crt").read_bytes() == (layout.pki / "server.crt").read_bytes()
