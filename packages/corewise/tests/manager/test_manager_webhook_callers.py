"""Who may call the manager's webhooks, with the API server as the caller.

| --client-ca | the API server shows | a bad configuration is |
|---|---|---|
| given | a certificate of these authorities | refused by the webhook |
| given | none, as without --admission-control-config-file | stored: there is no connection |
| none | none | refused by the webhook; the log says that everyone is answered |
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from corewise.kube.certificates import Authority
from corewise.kube.errors import Invalid
from corewise.service.http_servers import RefusalCause
from corewise.vocabulary.metrics import HTTP_REFUSED
from manager.world import World, until

FRONT_PROXY = Authority.create("front-proxy-ca", now=datetime.now(UTC))
BAD = '{"enable": 1}'


@pytest.fixture
def authorities(tmp_path: Path) -> str:
    file = tmp_path / "ca.crt"
    file.write_text(FRONT_PROXY.certificate_pem)
    return str(file)


@pytest.fixture
def certificate(tmp_path: Path) -> str:
    """The API server's client certificate, with its key."""
    pair = FRONT_PROXY.issue_client("front-proxy-client", now=datetime.now(UTC))
    file = tmp_path / "front-proxy-client.pem"
    file.write_text(pair.certificate_pem + pair.key_pem)
    return str(file)


async def test_an_api_server_with_the_certificate_is_answered(
    world: World, authorities: str, certificate: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await world.server.cluster.admission.show(certificate)
    async with world.manager(client_ca=authorities):
        await world.installed()
        with pytest.raises(Invalid, match="enable"):
            await world.configure(normalization=BAD)
    assert "only callers with a client certificate" in caplog.text


async def test_an_api_server_without_a_certificate_is_not(world: World, authorities: str) -> None:
    async with world.manager(client_ca=authorities) as manager:
        await world.installed()
        await world.configure(normalization=BAD)
        handshakes = ("webhooks", RefusalCause.HANDSHAKE)
        await until(lambda: manager.metrics.value(HTTP_REFUSED, *handshakes) > 0)


async def test_without_client_ca_everyone_is_answered(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with world.manager():
        await world.installed()
        with pytest.raises(Invalid, match="enable"):
            await world.configure(normalization=BAD)
    assert "answer everyone who can connect" in caplog.text
