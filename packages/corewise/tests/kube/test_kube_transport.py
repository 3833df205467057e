"""What is sent again and what is not, how credentials are renewed, and whom TLS trusts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest

from corewise.kube.certificates import Authority
from corewise.kube.client import Client, PatchType
from corewise.kube.config import ClusterConfig, UserConfig
from corewise.kube.errors import (
    APIError,
    ConfigError,
    KubeError,
    ServerError,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from corewise.kube.resources import NODES, PODS
from corewise.kube.transport import LONGEST_WAIT, Backoff, retry_delay
from kube.fake_api import (
    FakeAPI,
    InstantClock,
    drop,
    fake_api,
    node,
    refusal,
    reply,
    seeded,
    server_context,
    stream,
)

NOW = datetime.now(UTC)


@pytest.fixture
async def api() -> AsyncIterator[FakeAPI]:
    async with fake_api() as running:
        yield running


@pytest.fixture
def clock() -> InstantClock:
    return InstantClock()


@pytest.fixture
async def client(api: FakeAPI, clock: InstantClock) -> AsyncIterator[Client]:
    async with Client(api.config, clock=clock, rng=seeded()) as opened:
        yield opened


GOOD = reply(node("n1", 1))


async def test_cut_connection_is_retried_where_harmless(api: FakeAPI, client: Client) -> None:
    api.answers(drop, drop, drop, GOOD)
    await client.get(NODES, "n1")
    assert len(api.seen) == 4


@pytest.mark.parametrize("kind", [PatchType.MERGE, PatchType.APPLY])
async def test_patches_that_only_set_are_repeated(api: FakeAPI, client: Client, kind: PatchType) -> None:
    api.answers(drop, GOOD)
    await client.patch(NODES, "n1", {}, type=kind, field_manager="me")
    assert len(api.seen) == 2


@pytest.mark.parametrize("kind", [PatchType.JSON, PatchType.STRATEGIC])
async def test_patches_that_may_add_are_not(api: FakeAPI, client: Client, kind: PatchType) -> None:
    api.answers(drop, GOOD)
    with pytest.raises(TransportError):
        await client.patch(NODES, "n1", [], type=kind)
    assert len(api.seen) == 1


async def test_create_that_may_have_arrived_is_not_repeated(api: FakeAPI, client: Client) -> None:
    api.answers(drop, GOOD)
    with pytest.raises(TransportError) as caught:
        await client.create(NODES, {})
    assert caught.value.sent
    assert caught.value.retryable
    assert len(api.seen) == 1


async def test_refused_connection_is_retried_for_any_request(
    clock: InstantClock,
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        config = ClusterConfig(f"http://127.0.0.1:{unused.getsockname()[1]}")
        async with Client(config, clock=clock) as client:
            with pytest.raises(
                TransportError, match=r"at http://127.*: cannot connect: Connection refused$"
            ) as caught:
                await client.create(NODES, {})
    assert not caught.value.sent
    assert len(clock.slept) == 4
    assert "is the API server up" in caught.value.hint


async def test_waits_grow_and_are_spread(api: FakeAPI, client: Client, clock: InstantClock) -> None:
    api.answers(refusal(503))
    with pytest.raises(ServerError):
        await client.get(NODES, "n1")
    assert len(api.seen) == 5
    for slept, longest in zip(clock.slept, [0.2, 0.4, 0.8, 1.6], strict=True):
        assert longest / 2 <= slept <= longest


@pytest.mark.parametrize("code", [429, 503])
async def test_throttled_request_is_retried_after_the_stated_delay(
    api: FakeAPI, client: Client, clock: InstantClock, code: int
) -> None:
    api.answers(refusal(code, headers={"Retry-After": "7"}), GOOD)
    await client.create(NODES, {})
    assert clock.slept == [7.0]


async def test_retry_delay_may_come_from_the_status(
    api: FakeAPI, client: Client, clock: InstantClock
) -> None:
    api.answers(refusal(429, retryAfterSeconds=3), GOOD)
    await client.get(NODES, "n1")
    assert clock.slept == [3.0]


async def test_disruption_budget_refusal_is_left_to_the_caller(
    api: FakeAPI, client: Client, clock: InstantClock
) -> None:
    api.answers(
        refusal(429, causes=[{"reason": "DisruptionBudget", "message": "The disruption budget b needs"}])
    )
    with pytest.raises(TooManyRequests) as caught:
        await client.evict("a", "default", uid="u1")
    assert caught.value.is_disruption_budget
    assert (len(api.seen), clock.slept) == (1, [])


@pytest.mark.parametrize("code", [429, 503])
async def test_an_eviction_is_never_sent_again(
    api: FakeAPI, client: Client, clock: InstantClock, code: int
) -> None:
    api.answers(refusal(code, headers={"Retry-After": "3"}), GOOD)
    with pytest.raises(APIError):
        await client.evict("a", "default", uid="u1")
    assert (len(api.seen), clock.slept) == (1, [])


async def test_overlong_retry_delay_is_left_to_the_caller(
    api: FakeAPI, client: Client, clock: InstantClock
) -> None:
    api.answers(refusal(429, headers={"Retry-After": "31"}))
    with pytest.raises(TooManyRequests):
        await client.get(NODES, "n1")
    assert clock.slept == []


@pytest.mark.parametrize("code", [400, 403, 404, 409, 410, 422, 500, 501])
async def test_other_refusals_are_final(api: FakeAPI, client: Client, code: int) -> None:
    api.answers(refusal(code))
    with pytest.raises(APIError):
        await client.get(NODES, "n1")
    assert len(api.seen) == 1


async def test_a_slow_answer_is_a_transport_error(api: FakeAPI) -> None:
    api.answers(stream(hang=True))
    async with Client(api.config, timeout=0.05, attempts=1) as client:
        with pytest.raises(TransportError, match="no answer in time"):
            await client.get(NODES, "n1")


async def test_a_close_that_is_cancelled_closes_the_rest(
    api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    close, hanging = aiohttp.ClientSession.close, asyncio.Event()
    asked: list[aiohttp.ClientSession] = []

    async def first_hangs(session: aiohttp.ClientSession) -> None:
        asked.append(session)
        if len(asked) == 1:
            hanging.set()
            await asyncio.Event().wait()
        await close(session)

    client = Client(api.config)
    await client.__aenter__()
    with monkeypatch.context() as patched:
        patched.setattr(aiohttp.ClientSession, "close", first_hangs)
        closing = asyncio.create_task(client.__aexit__(None, None, None))
        await hanging.wait()
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
    assert [session.closed for session in asked] == [False, True]
    await asked[0].close()


@pytest.mark.parametrize("header", ["", "-1", "soon", "1.5", "²", "9" * 400, "Fri, 31 Dec 1999 23:59:59 GMT"])
async def test_non_numeric_retry_after_is_not_obeyed(
    api: FakeAPI, client: Client, clock: InstantClock, header: str
) -> None:
    api.answers(refusal(429, headers={"Retry-After": header}), GOOD)
    await client.get(NODES, "n1")
    assert clock.slept[0] <= 0.2


CASES: list[tuple[str, KubeError, bool, bool]] = [
    ("refused connection, harmful twice", TransportError("x", sent=False), False, True),
    ("cut connection, harmful twice", TransportError("x"), False, False),
    ("cut connection, harmless twice", TransportError("x"), True, True),
    ("bad credentials", ConfigError("x"), True, False),
]


@pytest.mark.parametrize(
    ("error", "repeatable", "again"), [row[1:] for row in CASES], ids=[row[0] for row in CASES]
)
def test_the_table_of_what_is_repeated(error: KubeError, repeatable: bool, again: bool) -> None:
    delay = retry_delay(error, repeatable=repeatable, failures=1, rng=seeded())
    assert (delay is not None) == again


def test_waits_never_exceed_the_longest_however_many_failures() -> None:
    backoff = Backoff(first=0.5, longest=LONGEST_WAIT)
    assert all(backoff.delay(failures, seeded(failures)) <= LONGEST_WAIT for failures in range(1, 5000))


async def test_refused_token_is_renewed_and_the_request_repeated(tmp_path: Path, api: FakeAPI) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    config = replace(api.config, user=UserConfig(token_file=str(token)))
    api.answers(refusal(401, "Unauthorized"), GOOD)
    async with Client(config) as client:
        token.write_text("new")
        await client.create(NODES, {})
    assert [seen.headers["Authorization"] for seen in api.seen] == ["Bearer old", "Bearer new"]


async def test_persistently_refused_token_is_an_error_with_hint(api: FakeAPI) -> None:
    config = replace(api.config, user=UserConfig(token="t"))
    api.answers(refusal(401, "Unauthorized"))
    async with Client(config) as client:
        with pytest.raises(Unauthorized) as caught:
            await client.get(NODES, "n1")
    assert len(api.seen) == 1
    assert "renew the token" in caught.value.hint


async def test_refused_watch_uses_fresh_credentials_next_time(tmp_path: Path, api: FakeAPI) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    config = replace(api.config, user=UserConfig(token_file=str(token)))
    api.answers(refusal(401, "Unauthorized"), stream())
    async with Client(config) as client:
        with pytest.raises(Unauthorized):
            _ = [event async for event in client.watch(PODS)]
        token.write_text("new")
        _ = [event async for event in client.watch(PODS)]
    assert [seen.headers["Authorization"] for seen in api.seen] == ["Bearer old", "Bearer new"]


async def test_unobtainable_credentials_fail_when_the_client_opens(api: FakeAPI) -> None:
    config = replace(api.config, user=UserConfig(token_file="/nonexistent/token"))
    with pytest.raises(ConfigError, match="/nonexistent/token"):
        async with Client(config):
            pass


# TLS


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("test", now=NOW)


async def attempt(api: FakeAPI, **config: object) -> None:
    api.answers(GOOD)
    async with Client(replace(api.config, **config), attempts=1) as client:  # type: ignore[arg-type]
        await client.get(NODES, "n1")


async def test_only_the_configured_authority_is_trusted(tmp_path: Path, authority: Authority) -> None:
    pair = authority.issue_server(["127.0.0.1"], now=NOW)
    other = Authority.create("other", now=NOW).certificate_pem.encode()
    async with fake_api(server_context(pair, tmp_path)) as api:
        await attempt(api, ca_pem=authority.certificate_pem.encode())
        await attempt(api, insecure_skip_tls_verify=True)
        for untrusted in (b"", other):
            with pytest.raises(TransportError, match="CERTIFICATE_VERIFY_FAILED") as caught:
                await attempt(api, ca_pem=untrusted)
            assert "certificate authority in a test" in caught.value.hint


async def test_expected_server_certificate_name_can_be_configured(
    tmp_path: Path, authority: Authority
) -> None:
    pair = authority.issue_server(["kube.example"], now=NOW)
    ca_pem = authority.certificate_pem.encode()
    async with fake_api(server_context(pair, tmp_path)) as api:
        with pytest.raises(TransportError, match="127\\.0\\.0\\.1"):
            await attempt(api, ca_pem=ca_pem)
        await attempt(api, ca_pem=ca_pem, tls_server_name="kube.example")


async def test_an_expired_server_certificate_is_named_as_such(tmp_path: Path, authority: Authority) -> None:
    old = NOW - timedelta(days=10)
    pair = authority.issue_server(["127.0.0.1"], now=old, lifetime=timedelta(days=1))
    async with fake_api(server_context(pair, tmp_path)) as api:
        with pytest.raises(TransportError, match="certificate has expired"):
            await attempt(api, ca_pem=authority.certificate_pem.encode())


async def test_client_certificate_is_presented_and_reloaded_on_change(
    tmp_path: Path, authority: Authority
) -> None:
    users: list[str] = []
    server = server_context(
        authority.issue_server(["127.0.0.1"], now=NOW), tmp_path, client_ca=authority.certificate_pem
    )
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"

    def issue(user: str) -> None:
        pair = authority.issue_client(user, now=NOW)
        certificate.write_text(pair.certificate_pem)
        key.write_text(pair.key_pem)

    clock = InstantClock()
    async with fake_api(server) as api:
        api.answers(GOOD)
        issue("one")
        config = replace(
            api.config,
            ca_pem=authority.certificate_pem.encode(),
            user=UserConfig(certificate_file=str(certificate), key_file=str(key)),
        )
        async with Client(config, clock=clock) as client:
            for user in ("two", "three"):
                await client.get(NODES, "n1")
                issue(user)
                clock.passed += 60
        users = [seen.user for seen in api.seen]
    assert users == ["one", "two"]


async def test_certificate_without_matching_key_keeps_last_good_pair(
    tmp_path: Path, authority: Authority
) -> None:
    context = server_context(
        authority.issue_server(["127.0.0.1"], now=NOW), tmp_path, client_ca=authority.certificate_pem
    )
    one, two = (authority.issue_client(user, now=NOW) for user in ("one", "two"))
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    certificate.write_text(one.certificate_pem)
    key.write_text(one.key_pem)
    clock = InstantClock()
    async with fake_api(context) as api:
        api.answers(GOOD)
        config = replace(
            api.config,
            ca_pem=authority.certificate_pem.encode(),
            user=UserConfig(certificate_file=str(certificate), key_file=str(key)),
        )
        async with Client(config, clock=clock) as client:
            certificate.write_text(two.certificate_pem)
            clock.passed += 60
            await client.get(NODES, "n1")
            key.write_text(two.key_pem)
            await client.get(NODES, "n1")
        assert [seen.user for seen in api.seen] == ["one", "two"]


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (UserConfig(certificate=b"rubbish", key=b"rubbish"), "the client certificate and key cannot be used"),
        (UserConfig(certificate=b"\x00\xff", key=b""), "the client certificate and key cannot be used"),
    ],
)
async def test_invalid_certificate_is_a_config_error(user: UserConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        async with Client(ClusterConfig("https://127.0.0.1:1", user=user)):
            pass


async def test_key_of_another_certificate_is_a_config_error(authority: Authority) -> None:
    one, two = (authority.issue_client("u", now=NOW) for _ in range(2))
    user = UserConfig(certificate=one.certificate_pem.encode(), key=two.key_pem.encode())
    with pytest.raises(ConfigError, match="MISMATCH"):
        async with Client(ClusterConfig("https://127.0.0.1:1", user=user)):
            pass


@pytest.mark.parametrize(
    "ca", [b"rubbish", b"\xff", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"]
)
async def test_invalid_authority_is_a_config_error(ca: bytes) -> None:
    with pytest.raises(ConfigError, match="not a PEM certificate"):
        async with Client(ClusterConfig("https://127.0.0.1:1", ca_pem=ca)):
            pass
