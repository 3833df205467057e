"""Keystone and Placement over HTTPS with a private authority, by every kind of credentials.

============================== =========================================================================
what happens                   then
============================== =========================================================================
the authority is named         the request is answered, with a password or an application credential
it is not, or another one is   PlacementUntrusted: nothing is sent, and it is said where to name it
its file is missing            CredentialsError, which names the file
the token has expired          a new one is issued and the request sent again; the caller sees nothing
new tokens are refused too     PlacementUnauthorized
Keystone answers 503           it is asked again a few times, and nothing is sent to Placement twice
it goes on with that           PlacementDown, which names Keystone; the same client goes on afterwards
============================== =========================================================================
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from corewise.kube.certificates import Authority
from corewise.vocabulary import metrics
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.options import ComputeOptions
from corewise_openstack.compute.program import HostAgent, Passed
from corewise_openstack.openstack import placement_http
from corewise_openstack.openstack.embedded import served, start
from corewise_openstack.openstack.errors import (
    CredentialsError,
    PlacementDown,
    PlacementUnauthorized,
    PlacementUntrusted,
)
from corewise_openstack.openstack.nova_conf import read_nova_conf
from corewise_openstack.openstack.placement_access import (
    cloud_client,
    endpoint_client,
    nova_conf_client,
    quietly,
)
from corewise_openstack.openstack.placement_client import PlacementClient
from keystone_server import CREDENTIAL, PASSWORD, SECRET, Keystone, running_identity
from virtual_time import VirtualClock, run_virtual

NOW = datetime.now(UTC)
OURS, ANOTHER = Authority.create("ours", now=NOW), Authority.create("another", now=NOW)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the authorities; no cloud of the person who runs the tests."""
    with quietly():
        monkeypatch.setattr("openstack.config.defaults._defaults", None)
    monkeypatch.setattr(placement_http, "KEYSTONE_WAITS", (0.0, 0.0))
    for name in ("OS_CACERT", "OS_CLOUD", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    (tmp_path / "ours.pem").write_text(OURS.certificate_pem)
    (tmp_path / "another.pem").write_text(ANOTHER.certificate_pem)
    return tmp_path


@pytest.fixture
def keystone(placement: PlacementClient, tmp_path: Path) -> Iterator[Keystone]:
    """Keystone and Placement by HTTPS; Placement has the host n1."""
    placement.create_provider("n1")
    pair = OURS.issue_server(["127.0.0.1"], now=NOW)
    certificate = tmp_path / "server.pem"
    certificate.write_text(pair.certificate_pem + pair.key_pem)
    with served(start()) as behind, running_identity(behind, certificate) as running:
        yield running


PROOFS = {
    "password": f"""
auth_type = password
username = nova
password = {PASSWORD}
project_name = service
user_domain_name = Default
project_domain_name = Default""",
    "application_credential": f"""
auth_type = v3applicationcredential
application_credential_id = {CREDENTIAL}
application_credential_secret = {SECRET}""",
}


def by_nova_conf(
    keystone: Keystone, folder: Path, proof: str = "password", authority: str = "ours"
) -> PlacementClient:
    file = folder / "nova.conf"
    cafile = f"cafile = {folder}/{authority}.pem" if authority else ""
    file.write_text(f"""
[placement]{PROOFS[proof]}
auth_url = {keystone.address}
region_name = r
valid_interfaces = public
{cafile}
""")
    return nova_conf_client(read_nova_conf([file]))


def by_cloud(
    keystone: Keystone, folder: Path, proof: str = "password", authority: str = "ours"
) -> PlacementClient:
    stated = dict(line.split(" = ") for line in PROOFS[proof].strip().splitlines())
    kind = stated.pop("auth_type")
    auth = "".join(f"      {name}: {value}\n" for name, value in stated.items())
    cacert = f"    cacert: {folder}/{authority}.pem\n" if authority else ""
    (folder / "clouds.yaml").write_text(
        f"clouds:\n  here:\n    auth_type: {kind}\n    region_name: r\n{cacert}"
        f"    auth:\n      auth_url: {keystone.address}\n{auth}"
    )
    return cloud_client("here")


WAYS = [by_nova_conf, by_cloud]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("proof", sorted(PROOFS))
def test_each_kind_of_credentials_leads_to_placement(
    keystone: Keystone, folder: Path, way: Callable[..., PlacementClient], proof: str
) -> None:
    assert [each.name for each in way(keystone, folder, proof).providers()] == ["n1"]
    assert keystone.asked == [proof]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("authority", ["", "another"])
def test_foreign_certificate_is_refused_before_password_is_sent(
    keystone: Keystone, folder: Path, way: Callable[..., PlacementClient], authority: str
) -> None:
    with pytest.raises(PlacementUntrusted, match="CERTIFICATE_VERIFY_FAILED") as caught:
        way(keystone, folder, authority=authority).providers()
    assert "cafile in [placement]" in caught.value.hint
    assert not caught.value.retryable
    assert keystone.asked == []


def test_endpoint_without_keystone_takes_authority_from_environment(
    keystone: Keystone, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keystone.tokens.add("admin")  # what a client of noauth2 shows
    with pytest.raises(PlacementUntrusted):
        endpoint_client(keystone.placement).providers()
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(folder / "ours.pem"))
    assert [each.name for each in endpoint_client(keystone.placement).providers()] == ["n1"]


@pytest.mark.parametrize("way", WAYS)
def test_a_missing_file_of_authorities_is_named(
    keystone: Keystone, folder: Path, way: Callable[..., PlacementClient]
) -> None:
    with pytest.raises(CredentialsError, match=r"gone\.pem") as caught:
        way(keystone, folder, authority="gone").providers()
    assert "cafile" in caught.value.hint


@pytest.mark.parametrize("proof", sorted(PROOFS))
def test_expired_token_is_renewed_and_the_request_resent(
    keystone: Keystone, folder: Path, proof: str
) -> None:
    client = by_nova_conf(keystone, folder, proof)
    client.providers()
    keystone.tokens.clear()
    assert client.create_provider("n2").name == "n2"
    assert keystone.asked == [proof, proof]


def test_credentials_whose_new_tokens_are_refused_are_unauthorized(
    keystone: Keystone, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keystone, "issue", lambda: "never-good")
    with pytest.raises(PlacementUnauthorized) as caught:
        by_nova_conf(keystone, folder).providers()
    assert "renew" in caught.value.hint


@pytest.mark.parametrize("proof", sorted(PROOFS))
@pytest.mark.parametrize("way", WAYS)
def test_a_wrong_secret_names_keystone(
    keystone: Keystone,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: Callable[..., PlacementClient],
    proof: str,
) -> None:
    for secret in (PASSWORD, SECRET):
        monkeypatch.setitem(PROOFS, proof, PROOFS[proof].replace(secret, "wrong"))
    with pytest.raises(PlacementUnauthorized, match="Keystone"):
        way(keystone, folder, proof).providers()


@pytest.mark.parametrize("way", WAYS)
def test_keystone_503_is_named_and_client_recovers(
    keystone: Keystone, folder: Path, way: Callable[..., PlacementClient]
) -> None:
    client = way(keystone, folder)
    keystone.down = True
    with pytest.raises(PlacementDown, match="Keystone: under maintenance") as caught:
        client.providers()
    assert caught.value.retryable
    keystone.down = False
    assert [each.name for each in client.providers()] == ["n1"]
    keystone.tokens.clear()
    keystone.down = True
    with pytest.raises(PlacementDown, match="Keystone: under maintenance"):
        client.providers()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("failures", [1, 2])
def test_briefly_failing_keystone_is_asked_again(
    keystone: Keystone,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: Callable[..., PlacementClient],
    failures: int,
) -> None:
    client = way(keystone, folder)
    left = iter([True] * failures)
    monkeypatch.setattr(Keystone, "down", property(lambda _: next(left, False)))
    assert client.create_provider("n2").name == "n2"
    assert next(left, None) is None


def test_the_agent_outlives_a_keystone_that_is_away(keystone: Keystone, folder: Path) -> None:
    client = by_nova_conf(keystone, folder)
    keystone.down = True

    async def inline(work: Callable[[], Passed]) -> Passed:
        return work()

    async def main() -> HostAgent:
        agent = HostAgent(ComputeOptions("n1"), client, clock=VirtualClock(), blocking=inline)
        asyncio.get_running_loop().call_at(150.0, lambda: setattr(keystone, "down", False))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(250.0):
                await agent.run()
        return agent

    agent = run_virtual(main())
    assert agent.metrics.value(metrics.COMPUTE_PASSES, Reason.PLACEMENT_DOWN) == 3
    assert agent.metrics.value(metrics.COMPUTE_PASSES, "done") == 2
    assert client.find_provider("n1") is not None
