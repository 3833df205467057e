"""Several replicas, their leader, their certificates, and what they say about their health."""

from __future__ import annotations

import asyncio
import logging
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import corewise
from corewise.kube.certificates import Authority, KeyPair, load
from corewise.kube.config import load_config
from corewise.kube.objects import KubeObject
from corewise.kube.resources import LEASES, MUTATING_WEBHOOKS, SECRETS
from corewise.manager.options import MUTATING_NAME
from corewise.manager.program import Manager
from corewise.manager.snapshot import Snapshot
from corewise.manager.webhooks import SECRET_NAME
from corewise.service.certificates import Lifetimes, certificates_in
from corewise.service.logs import LineFormatter, LogFormat
from corewise.service.options import OptionsError
from corewise.vocabulary import metrics
from corewise.vocabulary.names import CONFIG_NAMESPACE, MANAGER_COMPONENT
from identities import kubeconfig_of
from manager.world import World, eventually, normalization, until

MINUTES = timedelta(minutes=1)


async def fetch(manager: Manager, path: str) -> tuple[int, str]:
    assert manager.program.health
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{manager.program.health.address}{path}") as response,
    ):
        return response.status, await response.text()


def expiry_of(manager: Manager) -> datetime | None:
    assert manager.webhooks
    return manager.webhooks.expires


async def served_certificate(manager: Manager, bundle: str) -> bytes:
    """Shake hands with the webhooks as the API server does, and return what they show."""
    assert manager.webhooks
    context = ssl.create_default_context(cadata=bundle)
    address = manager.webhooks.address
    _, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    try:
        shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return shown
    finally:
        writer.close()
        await writer.wait_closed()


async def test_health_metrics_and_readiness_are_served(world: World) -> None:
    async with world.manager() as manager:
        await until(manager.program.leading.is_set)
        assert await fetch(manager, "/livez") == (200, "ok\n")
        assert await fetch(manager, "/readyz") == (200, "ok\n")
        status, text = await fetch(manager, "/metrics")
        assert status == 200
        assert "corewise_leader 1.0" in text


async def test_manager_logs_its_start_and_whom_it_awaits(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    alone: dict[str, Any] = {"leader_elect": True, "webhook_listen": None, "manage_webhooks": False}
    with caplog.at_level(logging.INFO, "corewise"):
        async with world.manager(identity="a", **alone) as leader:
            await until(leader.program.leading.is_set)
            async with world.manager(identity="b", **alone):
                waits = f"b waits: a leads, it holds lease {CONFIG_NAMESPACE}/{MANAGER_COMPONENT}"
                await until(lambda: waits in caplog.messages)
    assert f"corewise manager {corewise.__version__} begins" in caplog.messages
    begun = next(record for record in caplog.records if "begins" in record.getMessage())
    line = LineFormatter(LogFormat.TEXT).format(begun)
    config = load_config(str(await kubeconfig_of("manager", world.administrator)))
    assert f'server="{config.server} ({config.source})"' in line
    assert "identity=a" in line


async def test_one_replica_leads_and_the_other_takes_over(world: World) -> None:
    await world.add_node("fast")
    await world.configure(normalization=normalization())
    async with world.manager(leader_elect=True, identity="b") as follower:
        async with world.manager(
            leader_elect=True, identity="a", webhook_listen=None, manage_webhooks=False
        ) as other:
            await until(lambda: follower.program.leading.is_set() or other.program.leading.is_set())
            await world.kubelet_gets("fast", "16")
            assert follower.program.leading.is_set() != other.program.leading.is_set()
            first = follower if follower.program.leading.is_set() else other
        if first is other:
            await until(follower.program.leading.is_set)
        lease = await world.client.get(LEASES, MANAGER_COMPONENT, CONFIG_NAMESPACE)
        assert lease.spec.holder_identity == "b"
        assert follower.metrics.value(metrics.LEADER) == 1
    lease = await world.client.get(LEASES, MANAGER_COMPONENT, CONFIG_NAMESPACE)
    assert not lease.spec.holder_identity


async def test_followers_serve_the_webhooks_with_the_same_certificate(world: World) -> None:
    async with (
        world.manager(leader_elect=True, identity="a") as first,
        world.manager(leader_elect=True, identity="b") as second,
    ):
        secret = await world.client.get(SECRETS, SECRET_NAME, CONFIG_NAMESPACE)
        bundle = certificates_in(secret.data).bundle
        assert await served_certificate(first, bundle) == await served_certificate(second, bundle)


async def test_serving_certificate_renewal_drops_no_review(world: World) -> None:
    await world.add_node("fast")
    await world.configure(normalization=normalization())
    lifetimes = Lifetimes(serving=6 * MINUTES)
    async with world.manager(lifetimes=lifetimes) as manager:
        await world.shows_cpu("fast", "16")
        first = expiry_of(manager)
        world.clock.skip(4.2 * 60)
        while expiry_of(manager) == first:
            assert (await world.kubelet_writes("fast"))["status"]["capacity"]["cpu"] == "16"
        assert (await world.kubelet_writes("fast"))["status"]["capacity"]["cpu"] == "16"
        assert not list(manager.program.problems())


async def test_authority_is_succeeded_only_when_successor_is_trusted(world: World) -> None:
    await world.add_node("fast")
    await world.configure(normalization=normalization())
    lifetimes = Lifetimes(authority=4.5 * MINUTES, serving=4 * MINUTES)

    async def shared() -> bytes:
        secret = await world.client.get(SECRETS, SECRET_NAME, CONFIG_NAMESPACE)
        return secret.data["authority.crt"]

    async with world.manager(lifetimes=lifetimes):
        await world.shows_cpu("fast", "16")
        old = await shared()
        world.clock.skip(3.1 * 60)

        async def trusted() -> bool:
            installed = await world.client.get(MUTATING_WEBHOOKS, MUTATING_NAME)
            return installed.webhooks[0].client_config.ca_bundle.count(b"BEGIN") == 2

        await eventually(trusted)
        assert await shared() == old
        world.clock.skip(61)

        async def succeeded() -> bool:
            assert (await world.kubelet_writes("fast"))["status"]["capacity"]["cpu"] == "16"
            return await shared() != old

        await eventually(succeeded)
        assert (await world.kubelet_writes("fast"))["status"]["capacity"]["cpu"] == "16"


async def test_a_damaged_secret_is_made_anew(world: World) -> None:
    async with world.manager() as manager:
        first = expiry_of(manager)
        patch = {"data": {"tls.key": None}}
        await world.client.patch(SECRETS, SECRET_NAME, patch, namespace=CONFIG_NAMESPACE)
        world.clock.skip(2)
        await until(lambda: expiry_of(manager) != first)


def write_pair(directory: Path, pair: KeyPair) -> dict[str, Any]:
    (directory / "tls.crt").write_text(pair.certificate_pem)
    (directory / "tls.key").write_text(pair.key_pem)
    return {"tls_cert": str(directory / "tls.crt"), "tls_key": str(directory / "tls.key")}


async def test_expired_certificate_makes_replica_unready_until_renewed(world: World, tmp_path: Path) -> None:
    authority = Authority.create("test", now=datetime.now(UTC))
    expired = authority.issue_server(
        ["127.0.0.1"], now=datetime.now(UTC) - timedelta(days=2), lifetime=timedelta(days=1)
    )
    files = write_pair(tmp_path, expired)
    async with world.manager(manage_webhooks=False, wait=False, **files) as manager:
        await until(lambda: manager.webhooks is not None and manager.webhooks.listening)
        status, text = await fetch(manager, "/readyz")
        assert status == 503
        assert "the serving certificate expired at" in text
        fresh = authority.issue_server(["127.0.0.1"], now=datetime.now(UTC))
        write_pair(tmp_path, fresh)
        await until(lambda: not list(manager.program.problems()))
        shown = await served_certificate(manager, authority.certificate_pem)
        assert load(ssl.DER_cert_to_PEM_cert(shown)) == load(fresh.certificate_pem)


async def test_broken_certificate_file_never_replaces_a_good_one(world: World, tmp_path: Path) -> None:
    authority = Authority.create("test", now=datetime.now(UTC))
    good = authority.issue_server(["127.0.0.1"], now=datetime.now(UTC))
    async with world.manager(manage_webhooks=False, **write_pair(tmp_path, good)) as manager:
        (tmp_path / "tls.key").write_text("half a key")
        world.clock.skip(60)
        assert await served_certificate(manager, authority.certificate_pem)
        assert not list(manager.program.problems())


async def test_address_in_use_is_named_and_ends_program(world: World) -> None:
    async with world.manager() as manager:
        assert manager.program.health
        with pytest.raises(OptionsError, match=f"{manager.program.health.address}: address already in use"):
            async with world.manager(metrics_listen=manager.program.health.address):
                pass


async def test_webhooks_are_installed_for_certificates_from_files_too(world: World, tmp_path: Path) -> None:
    authority = Authority.create("test", now=datetime.now(UTC))
    pair = authority.issue_server(["127.0.0.1"], now=datetime.now(UTC))
    async with world.manager(**write_pair(tmp_path, pair)):
        await world.installed()
        installed = await world.client.get(MUTATING_WEBHOOKS, MUTATING_NAME)
        assert not installed.webhooks[0].client_config.ca_bundle


async def test_webhooks_without_any_certificate_are_a_wrong_call(world: World) -> None:
    with pytest.raises(OptionsError, match="--tls-cert"):
        async with world.manager(manage_webhooks=False):
            pass


async def test_node_crashing_view_makes_manager_unready_until_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison = True
    tell = Snapshot._notify_node

    def told(snapshot: Snapshot, old: KubeObject | None, new: KubeObject | None) -> None:
        if poison and new is not None and new.metadata.name == "poison":
            raise ZeroDivisionError
        tell(snapshot, old, new)

    monkeypatch.setattr(Snapshot, "_notify_node", told)
    async with world.manager() as manager:

        async def stale() -> bool:
            return await fetch(manager, "/readyz") == (
                503,
                "the view of nodes is stale: a change of poison could not be taken in (see the log)\n",
            )

        async def current() -> bool:
            return await fetch(manager, "/readyz") == (200, "ok\n")

        await eventually(current)
        await world.add_node("poison")
        await eventually(stale)
        poison = False
        await eventually(current)
        assert manager.metrics.value(metrics.LOOP_RESTARTS, "caches") >= 1
