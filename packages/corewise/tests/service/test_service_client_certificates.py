"""--client-ca: who shows no certificate of these authorities is refused, and new authorities hold at once."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

from corewise.kube.certificates import Authority, CertificateError
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.prometheus.exposition import Exposition
from corewise.service.certificates import CertificateKeeper, FileCertificates, ServingContext
from corewise.service.http_servers import Listener, RefusalCause, Route, certified
from corewise.service.program import Heartbeats
from corewise.vocabulary.metrics import METRICS
from service.http_servers_world import AUTHORITY, SMALL, calling, opened, refused, serving, size, trusting

CALLERS = Authority.create("callers", now=datetime.now(UTC))
OTHERS = Authority.create("others", now=datetime.now(UTC))


def showing(tmp_path: Path, authority: Authority) -> ssl.SSLContext:
    """Return the TLS context of a client that shows a certificate of an authority."""
    pair = authority.issue_client("kube-apiserver", (), now=datetime.now(UTC))
    file = tmp_path / "client.pem"
    file.write_text(pair.certificate_pem + pair.key_pem)
    context = trusting()
    context.load_cert_chain(file)
    return context


async def accepted(listener: Listener, context: ssl.SSLContext) -> bool:
    """Whether a caller gets an answer. With TLS 1.3 it hears of a refusal only when it reads."""
    try:
        async with calling(listener, ssl=context) as caller:
            await caller.post(b"abc")
            return await caller.answer() == (200, "3")
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        return False


async def test_no_trusted_certificate_means_no_connection(tmp_path: Path) -> None:
    metrics = Exposition(METRICS)
    context = serving(CALLERS.certificate_pem)
    async with opened(metrics=metrics, tls=lambda: context.context) as listener:
        assert await accepted(listener, showing(tmp_path, CALLERS))
        for times, stranger in enumerate((trusting(), showing(tmp_path, OTHERS)), 1):
            assert not await accepted(listener, stranger)
            await refused(metrics, SMALL, RefusalCause.HANDSHAKE, times)


async def test_guard_demands_certificate_beside_routes_accepting_tokens(tmp_path: Path) -> None:
    metrics = Exposition(METRICS)
    context = serving(CALLERS.certificate_pem, demand=False)
    guarded = Route("POST", "/guarded", size, certified)
    request = b"POST /guarded HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
    async with opened(SMALL, guarded, metrics=metrics, tls=lambda: context.context) as listener:
        async with calling(listener, ssl=trusting()) as caller:
            await caller.post(b"abc")
            assert await caller.answer() == (200, "3")
            await caller.say(request)
            status, text = await caller.answer()
            assert (status, "client certificate" in text) == (401, True)
        await refused(metrics, SMALL, RefusalCause.UNAUTHENTICATED)
        async with calling(listener, ssl=showing(tmp_path, CALLERS)) as caller:
            await caller.say(request)
            assert await caller.answer() == (200, "3")


async def test_authorities_are_reloaded_and_unreadable_ones_change_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair = AUTHORITY.issue_server(["127.0.0.1"], now=datetime.now(UTC))
    (tmp_path / "tls.crt").write_text(pair.certificate_pem)
    (tmp_path / "tls.key").write_text(pair.key_pem)
    (tmp_path / "ca.crt").write_text(CALLERS.certificate_pem)
    context, metrics = ServingContext(), Exposition(METRICS)
    keeper = CertificateKeeper(
        FileCertificates(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key")),
        context,
        str(tmp_path / "ca.crt"),
        metrics=metrics,
        heartbeats=Heartbeats(SYSTEM_CLOCK),
        clock=SYSTEM_CLOCK,
    )
    await keeper.look()

    async with opened(tls=lambda: context.context) as listener:
        assert await accepted(listener, showing(tmp_path, CALLERS))
        assert not await accepted(listener, showing(tmp_path, OTHERS))
        (tmp_path / "ca.crt").write_text(OTHERS.certificate_pem)
        await keeper.look()
        assert await accepted(listener, showing(tmp_path, OTHERS))
        assert not await accepted(listener, showing(tmp_path, CALLERS))
        for bad in (
            "",
            "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n",
            "\xff",
            "plain",
        ):
            (tmp_path / "ca.crt").write_text(bad)
            caplog.clear()
            await keeper.look()
            assert "--client-ca" in caplog.text
            assert await accepted(listener, showing(tmp_path, OTHERS))
        (tmp_path / "ca.crt").unlink()
        await keeper.look()
        assert await accepted(listener, showing(tmp_path, OTHERS))


def test_nothing_is_served_before_authorities_are_readable() -> None:
    context = ServingContext()
    with pytest.raises(CertificateError, match="--client-ca"):
        context.load(AUTHORITY.issue_server(["h"], now=datetime.now(UTC)), "nonsense")
    assert not context.loaded.is_set()
