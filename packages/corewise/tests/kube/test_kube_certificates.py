"""Certificates chain to their authority, name their hosts and users, and can be joined in a bundle."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from corewise.kube.certificates import (
    Authority,
    CertificateError,
    KeyPair,
    bundle,
    hosts_of,
    load,
    not_after,
    without_expired,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("test authority", now=NOW)


def test_a_server_certificate_names_dns_names_and_addresses(authority: Authority) -> None:
    pair = authority.issue_server(["hooks.ns.svc", "127.0.0.1", "[::1]"], now=NOW)
    assert hosts_of(pair.certificate_pem) == {"hooks.ns.svc", "127.0.0.1", "::1"}
    load(pair.certificate_pem).verify_directly_issued_by(authority.certificate)


def test_a_server_certificate_without_hosts_is_refused(authority: Authority) -> None:
    with pytest.raises(ValueError, match="at least one host"):
        authority.issue_server([], now=NOW)


def test_host_name_longer_than_common_name_is_served(authority: Authority) -> None:
    host = "-".join(["webhooks"] * 8) + ".example"
    assert hosts_of(authority.issue_server([host], now=NOW).certificate_pem) == {host}


def test_a_client_certificate_names_user_and_groups(authority: Authority) -> None:
    pair = authority.issue_client("system:node:n1", ["system:nodes"], now=NOW)
    subject = load(pair.certificate_pem).subject
    assert subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "system:node:n1"
    assert [g.value for g in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["system:nodes"]


def test_validity_starts_early_and_lasts_the_whole_lifetime(authority: Authority) -> None:
    pair = authority.issue_server(["h"], now=NOW, lifetime=HOUR)
    assert pair.not_after == not_after(pair.certificate_pem) == NOW + HOUR
    assert load(pair.certificate_pem).not_valid_before_utc < NOW


def test_serial_numbers_differ(authority: Authority) -> None:
    serials = {load(authority.issue_server(["h"], now=NOW).certificate_pem).serial_number for _ in range(3)}
    assert len(serials) == 3


def test_an_authority_is_taken_up_from_its_pem(authority: Authority) -> None:
    again = Authority.from_pem(authority.certificate_pem, authority.key_pem)
    load(again.issue_server(["h"], now=NOW).certificate_pem).verify_directly_issued_by(authority.certificate)


def test_a_key_of_another_authority_is_refused(authority: Authority) -> None:
    other = Authority.create("other", now=NOW)
    with pytest.raises(CertificateError, match="does not belong"):
        Authority.from_pem(authority.certificate_pem, other.key_pem)


@pytest.mark.parametrize(
    "text", ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_text_that_is_no_certificate_is_an_error(text: str, authority: Authority) -> None:
    with pytest.raises(CertificateError, match="not a PEM certificate"):
        not_after(text)
    with pytest.raises(CertificateError):
        Authority.from_pem(authority.certificate_pem, text)


def test_bundle_holds_each_certificate_once_and_drops_expired(authority: Authority) -> None:
    short = Authority.create("short", now=NOW, lifetime=HOUR)
    both = bundle(authority.certificate_pem, short.certificate_pem, authority.certificate_pem)
    assert len(x509.load_pem_x509_certificates(both.encode())) == 2
    assert without_expired(both, now=NOW + 2 * HOUR) == authority.certificate_pem
    assert bundle("", authority.certificate_pem) == authority.certificate_pem


def test_the_private_key_stays_out_of_representations() -> None:
    assert "secret" not in repr(KeyPair("certificate", "secret"))


def test_a_tls_handshake_between_our_certificates_succeeds(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    authority = Authority.create("handshake", now=now)
    pair = authority.issue_server(["localhost"], now=now)
    (tmp_path / "pair.pem").write_text(pair.certificate_pem + pair.key_pem)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(tmp_path / "pair.pem")
    client = ssl.create_default_context(cadata=authority.certificate_pem)
    _shake_hands(client, server)


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    done: set[int] = set()
    for step in range(10):
        try:
            ends[step % 2].do_handshake()
            done.add(step % 2)
        except ssl.SSLWantReadError:
            continue
    assert done == {0, 1}
