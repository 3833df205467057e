"""Who may call the extender: whoever shows a client certificate, and where that comes from.

caller shows                                    what happens
no certificate                                  401 and a log line; /explain takes its token as ever
the client certificate from the Secret          is answered, from either replica, before and after a renewal
a certificate of other authorities              no connection, and a log line
the extender's own serving certificate          no connection: it is none for clients
one of --client-ca                              is answered; no certificate is made then
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from click.testing import CliRunner, Result

from corewise.cli import corewise
from corewise.cli.errors import Failure
from corewise.kube.certificates import Authority, KeyPair, is_issued_by
from corewise.kube.errors import NotFound
from corewise.kube.resources import SECRETS
from corewise.scheduler.installation import CLIENT_SECRET_NAME, SECRET_NAME
from corewise.scheduler.program import LIFETIMES, Scheduler
from corewise.service.certificates import SETTLE, Lifetimes, certificates_in, renewed, renewed_client
from corewise.service.options import OptionsError
from corewise.vocabulary.metrics import CLIENT_CERTIFICATE_EXPIRY
from corewise.vocabulary.names import CONFIG_NAMESPACE
from manager.world import eventually
from scheduler.program_world import READER, SchedulerWorld, caller, pod_document, shown_by

VERBS = ("filter", "prioritize")
MINUTES = timedelta(minutes=1)


@pytest.fixture(autouse=True)
async def node(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)


async def asked(scheduler: Scheduler, context: ssl.SSLContext | bool, verb: str = "filter") -> int:
    """Call the extender over a new connection; return the status."""
    url = f"https://{scheduler.service.address}/{verb}"
    body = {"Pod": pod_document("p"), "NodeNames": ["n1"]}
    async with aiohttp.ClientSession() as session:
        if verb == "explain":
            got = session.get(url, ssl=context, headers={"Authorization": f"Bearer {READER}"})
        else:
            got = session.post(url, ssl=context, json=body)
        async with got as response:
            await response.read()
            return response.status


def showing(tmp_path: Path, pair: KeyPair) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    (tmp_path / "client.pem").write_text(pair.certificate_pem + pair.key_pem)
    context.load_cert_chain(tmp_path / "client.pem")
    return context


async def secret(world: SchedulerWorld, name: str = CLIENT_SECRET_NAME) -> dict[str, bytes]:
    return dict((await world.client.get(SECRETS, name, CONFIG_NAMESPACE)).data)


async def test_missing_certificate_refuses_every_verb_and_logs_minutely(
    world: SchedulerWorld, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.scheduler() as scheduler:
        assert [await asked(scheduler, False, verb) for verb in VERBS * 3] == [401] * 6
        lines = [each.getMessage() for each in caplog.records if "refused 127.0.0.1" in each.getMessage()]
        assert len(lines) == 1
        assert "POST /filter: show a client certificate" in lines[0]
        assert "--write-certificates" in lines[0]
        assert await asked(scheduler, False, "explain") == 200
        assert await asked(scheduler, await shown_by(world.client)) == 200


async def test_foreign_or_server_certificate_makes_no_connection(
    world: SchedulerWorld, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.scheduler() as scheduler:
        await shown_by(world.client)
        own = certificates_in(await secret(world, SECRET_NAME))
        others = Authority.create("others", now=datetime.now(UTC)).issue_client("a", now=datetime.now(UTC))
        for pair in (others, own.serving):
            with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
                await asked(scheduler, showing(tmp_path, pair))
        await eventually_logged(caplog, "refused 127.0.0.1: client certificate: unable to get local issuer")


async def eventually_logged(caplog: pytest.LogCaptureFixture, text: str) -> None:
    async def there() -> bool:
        return text in caplog.text

    with caplog.at_level(logging.WARNING):
        await eventually(there)


async def test_replicas_share_one_client_certificate(world: SchedulerWorld) -> None:
    async with world.scheduler() as first, world.scheduler() as second:
        context = await shown_by(world.client)
        before = await secret(world)
        assert await asked(first, context) == await asked(second, context) == 200
        world.clock.skip(30)
        await asyncio.sleep(0.5)
        assert await secret(world) == before


async def test_certificate_renews_in_time_and_copy_stays_good(world: SchedulerWorld) -> None:
    lifetimes = Lifetimes(client=6 * MINUTES)
    async with world.scheduler(lifetimes=lifetimes) as scheduler:
        context = await shown_by(world.client)
        before = await secret(world)
        assert await asked(scheduler, context) == 200
        expiry = scheduler.metrics.value(CLIENT_CERTIFICATE_EXPIRY)
        assert expiry is not None
        assert abs(expiry - datetime.now(UTC).timestamp() - 360) < 60
        world.clock.skip(4.2 * 60)

        async def changed() -> bool:
            return (await secret(world))["tls.crt"] != before["tls.crt"]

        await eventually(changed)
        assert await asked(scheduler, context) == 200
        assert await asked(scheduler, await shown_by(world.client)) == 200


def test_new_authority_signs_once_copies_without_it_expire() -> None:
    """kube-scheduler's copy of the authorities is renewed with its client certificate, and no sooner."""
    life, at = LIFETIMES, datetime(2026, 1, 1, tzinfo=UTC)
    stored = renewed(None, hosts=("h",), installed_bundle="", now=at, lifetimes=life)
    at += life.authority * 0.7
    announced = renewed(stored, hosts=("h",), installed_bundle="", now=at, lifetimes=life)
    assert announced.bundle.count("BEGIN") == 2
    copied = renewed_client(None, stored.authority, now=at - timedelta(seconds=1), lifetimes=life)
    for now in (at + SETTLE, copied.not_after - timedelta(hours=1), copied.not_after + timedelta(hours=1)):
        later = renewed(announced, hosts=("h",), installed_bundle=announced.bundle, now=now, lifetimes=life)
        assert (later.authority == announced.authority) == (now < copied.not_after)


def test_certificate_renews_with_third_left_or_new_authority() -> None:
    life, at = LIFETIMES, datetime(2026, 1, 1, tzinfo=UTC)
    first, second = (Authority.create("a", now=at).key_pair for _ in range(2))
    client = renewed_client(None, first, now=at, lifetimes=life)
    assert renewed_client(client, first, now=at + life.client * 0.6, lifetimes=life) is client
    later = renewed_client(client, first, now=at + life.client * 0.7, lifetimes=life)
    assert later.not_after > client.not_after
    other = renewed_client(client, second, now=at, lifetimes=life)
    assert is_issued_by(other.certificate_pem, second.certificate_pem)


async def test_damaged_or_deleted_client_certificate_is_recreated(world: SchedulerWorld) -> None:
    async with world.scheduler() as scheduler:
        await shown_by(world.client)
        patch = {"data": {"tls.key": None}}
        await world.client.patch(SECRETS, CLIENT_SECRET_NAME, patch, namespace=CONFIG_NAMESPACE)
        await eventually(lambda: _has_key(world))
        await world.client.delete(SECRETS, CLIENT_SECRET_NAME, CONFIG_NAMESPACE)
        assert await asked(scheduler, await shown_by(world.client)) == 200


async def _has_key(world: SchedulerWorld) -> bool:
    return "tls.key" in await secret(world)


async def test_client_ca_option_accepts_certificates_but_creates_none(
    world: SchedulerWorld, tmp_path: Path
) -> None:
    outside = Authority.create("outside", now=datetime.now(UTC))
    (tmp_path / "ca.crt").write_text(outside.certificate_pem)
    shown = showing(tmp_path, outside.issue_client("kube-scheduler", now=datetime.now(UTC)))
    async with world.scheduler(client_ca=str(tmp_path / "ca.crt")) as scheduler:
        assert await asked(scheduler, False) == 401
        assert await asked(scheduler, shown) == 200
        with pytest.raises(NotFound):
            await secret(world)


async def test_serving_files_need_an_authority_of_callers(world: SchedulerWorld, tmp_path: Path) -> None:
    files: dict[str, Any] = {"tls_cert": str(tmp_path / "tls.crt"), "tls_key": str(tmp_path / "tls.key")}
    with pytest.raises(OptionsError, match="--client-ca"):
        async with world.scheduler(wait=False, **files):
            pass


async def test_kube_schedulers_call_with_the_certificate_is_answered(world: SchedulerWorld) -> None:
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        status, answer = await call("filter", {"Pod": pod_document("p"), "NodeNames": ["n1"]})
        assert (status, answer["NodeNames"]) == (200, ["n1"])


async def test_command_writes_and_renews_what_kube_scheduler_needs(
    world: SchedulerWorld, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "administrator"
    world.server.write_kubeconfig(kubeconfig)
    folder = tmp_path / "made" / "certificates"

    async def written(*more: str) -> Result:
        command = [
            "scheduler",
            "config",
            "--kubeconfig",
            str(kubeconfig),
            "--write-certificates",
            str(folder),
            *more,
        ]
        return await asyncio.to_thread(CliRunner().invoke, corewise, command)

    missing = await written()
    assert isinstance(missing.exception, Failure)
    assert "Secret corewise-system/corewise-scheduler-client holds no client certificate" in str(
        missing.exception
    )
    assert not folder.exists()
    async with world.scheduler() as scheduler:
        await shown_by(world.client)
        answer = await written()
        assert answer.exit_code == 0, answer.output
        (extender,) = yaml.safe_load(answer.stdout)["extenders"]
        files = extender["tlsConfig"]
        assert [Path(files[each]) for each in ("caFile", "certFile", "keyFile")] == [
            folder / "ca.crt",
            folder / "client.crt",
            folder / "client.key",
        ]
        assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert len(list(folder.iterdir())) == 3
        assert "run this again between these days" in answer.stderr
        context = ssl.create_default_context(cafile=files["caFile"])
        context.load_cert_chain(files["certFile"], files["keyFile"])
        assert await asked(scheduler, context) == 200

        assert "kube-scheduler will refuse the extender: its certificate is for" in answer.stderr
        right = await written("--url", "https://127.0.0.1:1")
        assert "refuse" not in right.stderr
        assert "restart kube-scheduler" not in right.stderr
        (folder / "ca.crt").write_text("another")
        assert "restart kube-scheduler, which reads it only when it starts" in (await written()).stderr
