"""Who may read /explain and /metrics: tokens, reviewed by the local API server.

| the caller shows | is answered |
|---|---|
| nothing, another scheme, no token, one beyond 8 KB or of other bytes | 400 or 401, not asked |
| a token the API server does not know, or one that has expired | 401 |
| a token of a user who may not get the path | 403 |
| a token of a user who may get this path, and no other | 200 |
| an unknown token, after 48 rejected ones of the same address or 64 in all within 10 s | 429, not asked |
| any token, while reviews are refused or the API server is away | 503 |
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import Resource
from corewise.prometheus.exposition import Exposition
from corewise.service.health import (
    AT_A_TIME,
    REJECTED_OF_ONE_ADDRESS,
    REMEMBERED_SECONDS,
    HealthServer,
    PathAccess,
    TokenAccess,
)
from corewise.service.http_servers import HEALTH, RefusalCause, RefusedError
from corewise.service.options import Address
from corewise.vocabulary.metrics import HTTP_REFUSED, METRICS
from kubedouble import LocalAPIServer, serve
from kubedouble.authentication import User, service_account
from manager.world import MovableClock

READER = service_account("monitoring", "prometheus")
ROLE: dict[str, Any] = {
    "metadata": {"name": "metrics-reader"},
    "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
}
BINDING: dict[str, Any] = {
    "metadata": {"name": "metrics-reader"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics-reader"},
    "subjects": [{"kind": "ServiceAccount", "namespace": "monitoring", "name": "prometheus"}],
}


def rbac(plural: str, kind: str) -> Resource[dict[str, Any]]:
    return Resource("rbac.authorization.k8s.io", "v1", plural, kind, namespaced=False, type=dict)


@dataclass
class Scene:
    """An API server with a reader of metrics, and what reviews tokens at it."""

    server: LocalAPIServer
    client: Client
    clock: MovableClock = field(default_factory=MovableClock)
    reviews: int = 0

    def __post_init__(self) -> None:
        self.access = TokenAccess(self.client, self.clock)

    def token(self, user: User = READER, **options: Any) -> str:
        return self.server.cluster.authenticator.tokens.issue(user, **options)

    async def status(self, token: str, path: str = "/metrics") -> int:
        """Return the status that the caller gets."""
        try:
            await self.access.require(token, PathAccess(path))
        except RefusedError as error:
            return error.status
        return 200


@asynccontextmanager
async def scene(tmp_path: Path, user: str = "", groups: tuple[str, ...] = ()) -> AsyncIterator[Scene]:
    async with serve() as server:
        server.write_kubeconfig(tmp_path / "admin")
        async with Client(load_config(str(tmp_path / "admin"))) as admin:
            await admin.create(rbac("clusterroles", "ClusterRole"), ROLE)
            await admin.create(rbac("clusterrolebindings", "ClusterRoleBinding"), BINDING)
            yield Scene(server, admin.as_user(user, groups) if user else admin)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as found:
        yield found


def count_reviews(world: Scene, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the reviews that the API server is asked for from now on."""
    asked: list[str] = []
    create = world.client.create

    async def recorded(resource: Resource[Any], *rest: Any, **options: Any) -> Any:
        asked.append(resource.kind)
        return await create(resource, *rest, **options)

    monkeypatch.setattr(world.client, "create", recorded)
    return asked


async def test_a_reader_gets_its_path_and_no_other(world: Scene) -> None:
    token = world.token()
    assert await world.status(token) == 200
    assert await world.status(token, "/explain") == 403
    assert await world.status(world.token(service_account("default", "default"))) == 403
    assert await world.status(world.token(User("root", ("system:masters",))), "/explain") == 200


async def test_unknown_and_expired_tokens_are_401(world: Scene) -> None:
    assert await world.status("nonsense") == 401
    assert await world.status(world.token(expires=world.clock.now() - timedelta(seconds=1))) == 401


async def test_answers_are_remembered_for_seconds_refusals_too(
    world: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = count_reviews(world, monkeypatch)
    token = world.token()
    for _ in range(3):
        assert await world.status(token) == 200
        assert await world.status("nonsense") == 401
    assert asked == ["TokenReview", "SubjectAccessReview", "TokenReview"]
    await world.client.delete(rbac("clusterrolebindings", "ClusterRoleBinding"), "metrics-reader")
    world.clock.skip(REMEMBERED_SECONDS)
    assert await world.status(token) == 403


async def test_random_tokens_cost_a_bounded_number_of_reviews(
    world: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = world.token()
    assert await world.status(token) == 200
    asked = count_reviews(world, monkeypatch)
    found = await asyncio.gather(*(world.status(f"random-{number}") for number in range(2000)))
    assert set(found) == {401, 429}
    assert len(asked) < REJECTED_OF_ONE_ADDRESS + AT_A_TIME
    assert len(world.access._rejected) == len(asked)
    assert await world.status("yet-another") == 429
    world.clock.skip(REMEMBERED_SECONDS)
    assert await world.status("yet-another") == 401
    assert await world.status(token) == 200


async def test_concurrent_uses_of_a_token_share_one_review(
    world: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = count_reviews(world, monkeypatch)
    assert await asyncio.gather(*(world.status("nonsense") for _ in range(100))) == [401] * 100
    assert len(asked) <= 4


async def test_missing_review_permission_answer_names_the_role(tmp_path: Path) -> None:
    async with scene(tmp_path, "system:serviceaccount:default:poor") as found:
        with pytest.raises(RefusedError, match="system:auth-delegator") as refusal:
            await found.access.require(found.token(), PathAccess("/metrics"))
        assert (refusal.value.status, refusal.value.cause) == (503, RefusalCause.UNAVAILABLE)


@asynccontextmanager
async def served(world: Scene) -> AsyncIterator[HealthServer]:
    """Serve metrics to who has a token."""
    exposition = Exposition(METRICS)
    health = HealthServer(
        Address("127.0.0.1", 0),
        alive=lambda: (),
        ready=lambda: ("not yet",),
        text=exposition.text,
        metrics=exposition,
        access=world.access,
    )
    task = asyncio.create_task(health.run())
    await health.listening.wait()
    try:
        yield health
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


STRANGE = {
    "a MiB": (b"x" * 2**20, 400),
    "8 KiB and a byte": (b"x" * 8193, 400),
    "a NUL": (b"a\0b", 400),
    "a line": (b"a\r\n b", 400),
    "not UTF-8": (b"\xff\xfe", 401),
    "letters beyond ASCII": ("t\u00f6ken".encode(), 401),
    "a tab": (b"a\tb", 401),
    "two words": (b"a b", 401),
    "nothing": (b"", 401),
}


@pytest.mark.parametrize("what", STRANGE)
async def test_strange_tokens_are_refused_without_a_review(
    world: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    token, status = STRANGE[what]
    asked = count_reviews(world, monkeypatch)
    async with served(world) as health:
        reading, writing = await asyncio.open_connection(health.address.host, health.address.port)
        writing.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + b"\r\n\r\n")
        assert int((await reading.readline()).split()[1]) == status
        writing.close()
    assert asked == []
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    ("header", "status"),
    [(None, 401), ("Basic cm9vdDpyb290", 401), ("Bearer", 401), ("Bearer  ", 401), ("Bearer bad", 401)],
)
async def test_metrics_need_a_token_and_probes_need_none(
    world: Scene, header: str | None, status: int
) -> None:
    async with served(world) as health, ClientSession(f"http://{health.address}") as session:
        answer = await session.get("/metrics", headers={"Authorization": header} if header else {})
        assert answer.status == status
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        good = await session.get("/metrics", headers={"Authorization": f"Bearer {world.token()}"})
        assert good.status == 200
        assert (
            f'{HTTP_REFUSED.name}{{cause="unauthenticated",server="{HEALTH.name}"}} 1.0' in await good.text()
        )
        assert (await session.get("/livez")).status == 200
        assert (await session.get("/readyz")).status == 503
        assert (await session.head("/livez")).status == 200
