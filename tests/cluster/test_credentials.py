"""One certificate serves the API server, etcd and both webhooks."""

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.processes import credentials


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    made = Layout(home=tmp_path_factory.mktemp("cluster"))
    credentials.write_certificates(made)
    return made


def certificate(file: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(file.read_bytes())


def test_the_authority_signed_the_servers_certificate(layout: Layout) -> None:
    server = certificate(layout.pki / "server.crt")
    server.verify_directly_issued_by(certificate(layout.pki / "ca.crt"))


def test_it_holds_every_address_by_which_it_is_called(layout: Layout) -> None:
    server = certificate(layout.pki / "server.crt")
    alternatives = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = {str(item) for item in alternatives.get_values_for_type(x509.IPAddress)}
    assert {"10.201.0.1", "10.96.0.1"} <= addresses
    assert "kubernetes.default.svc" in alternatives.get_values_for_type(x509.DNSName)


def test_the_kubelets_know_it_as_an_administrator(layout: Layout) -> None:
    subject = certificate(layout.pki / "server.crt").subject
    assert subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:masters"


def test_keys_are_for_root_only_and_kueue_finds_its_own_copy(layout: Layout) -> None:
    keys = [*layout.pki.glob("*.key"), credentials.webhook_certificates(layout) / "tls.key"]
    assert len(keys) == 4
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}
    assert (credentials.webhook_certificates(layout) / "tls.crt").read_bytes() == (
        layout.pki / "server.crt"
    ).read_bytes()
