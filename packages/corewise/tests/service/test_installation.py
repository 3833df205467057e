"""Switching over from a webhook to a policy and back: every write is changed exactly once, at any moment."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path as FilePath
from typing import Any

import pytest

from corewise.kube.client import Client, PatchType
from corewise.kube.config import load_config
from corewise.kube.errors import KubeError
from corewise.kube.resources import (
    CONFIG_MAPS,
    MUTATING_POLICIES,
    MUTATING_POLICY_BINDINGS,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from corewise.service.installation import GRACE, Alternative, Installer, Path
from corewise.service.webhooks import rule, webhook
from kubedouble import LocalAPIServer
from kubedouble.server import NEW_IN_1_36, serve
from manager.world import MovableClock, eventually, until
from service.webhook_server import WebhookServer, webhook_server

MAPS: Resource[dict[str, Any]] = CONFIG_MAPS.typed(dict)
UPDATES = rule("configmaps", "UPDATE", scope="Namespaced")
DOUBLE = """
  !has(object.data.done) || object.data.done != object.data.n
    ? [JSONPatch{op: 'add', path: '/data/twice', value: string(2 * int(object.data.n))},
       JSONPatch{op: 'add', path: '/data/done', value: object.data.n},
       JSONPatch{op: 'add', path: '/data/times',
                 value: string((has(object.data.times) ? int(object.data.times) : 0) + 1)}]
    : []
"""
POLICY: dict[str, Any] = {
    "metadata": {"name": "doubler"},
    "spec": {
        "matchConstraints": {"resourceRules": [UPDATES]},
        "matchConditions": [{"name": "counted", "expression": "has(object.data) && has(object.data.n)"}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": DOUBLE}}],
        "reinvocationPolicy": "Never",
    },
}
BINDING = {"metadata": {"name": "doubler"}, "spec": {"policyName": "doubler"}}
POLICIES = ((MUTATING_POLICIES, POLICY), (MUTATING_POLICY_BINDINGS, BINDING))


def doubled(request: dict[str, Any]) -> dict[str, Any]:
    """The answer of a webhook that does what the policy does."""
    data = request["object"].get("data", {})
    if "n" not in data or data.get("done") == data["n"]:
        return {"allowed": True}
    values = {
        "twice": str(2 * int(data["n"])),
        "done": data["n"],
        "times": str(int(data.get("times", "0")) + 1),
    }
    operations = [{"op": "add", "path": f"/data/{key}", "value": value} for key, value in values.items()]
    patch = b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patch": patch, "patchType": "JSONPatch"}


@dataclass
class Cluster:
    """An API server, a webhook that answers, and an installer that decides between it and the policy."""

    client: Client
    hooks: WebhookServer
    clock: MovableClock = field(default_factory=MovableClock)
    works: bool = True
    stopped: bool = False
    has_certificate: bool = True
    paths: list[frozenset[Path]] = field(default_factory=list)

    @asynccontextmanager
    async def installer(self, forced: Path | None = None) -> AsyncIterator[None]:
        authority = b64decode(self.hooks.client_config()["caBundle"]).decode()

        async def works() -> bool:
            return self.works

        def configuration(config: Any, name: str) -> dict[str, Any]:
            entry = webhook(f"{name}.corewise.io", config("/double"), UPDATES, failure_policy="Fail")
            return {"metadata": {"name": name}, "webhooks": [entry]}

        installer = Installer(
            self.client,
            base=lambda: self.hooks.url,
            bundle=lambda: authority if self.has_certificate else None,
            configurations=lambda config: [(VALIDATING_WEBHOOKS, configuration(config, "checker"))],
            alternatives=[
                Alternative(
                    lambda: POLICIES,
                    lambda config: [(MUTATING_WEBHOOKS, configuration(config, "doubler"))],
                    forced,
                    works,
                    self.paths.append,
                    lambda: self.stopped,
                )
            ],
            field_manager="test",
            clock=self.clock,
            installed=asyncio.Event(),
        )
        task = asyncio.create_task(installer.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def installed(self) -> frozenset[Path]:
        """Which of the two the API server has, by their objects."""
        found = set()
        for path, resource in ((Path.WEBHOOK, MUTATING_WEBHOOKS), (Path.POLICY, MUTATING_POLICY_BINDINGS)):
            with suppress(KubeError):
                await self.client.get(resource.typed(dict), "doubler")
                found.add(path)
        return frozenset(found)

    async def has(self, *paths: Path) -> None:
        """Wait until exactly these are installed, and reported."""

        async def there() -> bool:
            wanted = frozenset(paths)
            return await self.installed() == wanted and self.paths[-1:] == [wanted]

        await eventually(there)

    @asynccontextmanager
    async def written_all_the_time(self) -> AsyncIterator[list[int]]:
        """Count up in an object as fast as possible: every count must be doubled once."""
        await self.client.create(MAPS, {"metadata": {"name": "m"}, "data": {"times": "0"}}, "default")
        counts: list[int] = []

        async def write() -> None:
            while True:
                n = len(counts) + 1
                body = {"data": {"n": str(n)}}
                stored = await self.client.patch(MAPS, "m", body, namespace="default", type=PatchType.MERGE)
                assert stored["data"] == {"n": str(n), "done": str(n), "twice": str(2 * n), "times": str(n)}
                counts.append(n)

        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(write())
            yield counts
            task.cancel()


def is_longer(counts: list[int], than: int) -> bool:
    return len(counts) > than


@asynccontextmanager
async def cluster(server: LocalAPIServer, directory: FilePath) -> AsyncIterator[Cluster]:
    server.write_kubeconfig(directory / "kubeconfig")
    async with (
        Client(load_config(str(directory / "kubeconfig"))) as client,
        webhook_server() as hooks,
    ):
        hooks.answers["/double"] = doubled
        yield Cluster(client, hooks)


@pytest.mark.parametrize(("old", "new"), [(Path.WEBHOOK, Path.POLICY), (Path.POLICY, Path.WEBHOOK)])
async def test_switch_over_changes_every_write_exactly_once(
    api_server: LocalAPIServer, tmp_path: FilePath, old: Path, new: Path
) -> None:
    async with cluster(api_server, tmp_path) as here:
        async with here.installer(old):
            await here.has(old)
        async with here.written_all_the_time() as counts, here.installer(new):
            for paths in ([old, new], [new]):
                await here.has(*paths)
                await until(partial(is_longer, counts, len(counts) + 20))
                here.clock.skip(GRACE)
        assert len(counts) > 40


async def test_fresh_cluster_gets_one_path_by_served_apis(
    api_server: LocalAPIServer, tmp_path: FilePath
) -> None:
    async with cluster(api_server, tmp_path) as here, here.installer():
        await here.has(Path.POLICY)
        assert frozenset({Path.WEBHOOK, Path.POLICY}) not in here.paths


async def test_an_installer_that_ends_reports_no_path(api_server: LocalAPIServer, tmp_path: FilePath) -> None:
    async with cluster(api_server, tmp_path) as here:
        async with here.installer():
            await here.has(Path.POLICY)
        assert here.paths[-1] == frozenset()


@pytest.mark.parametrize("forced", [None, Path.POLICY, Path.WEBHOOK])
async def test_server_without_policies_always_gets_the_webhook(
    tmp_path: FilePath, forced: Path | None
) -> None:
    async with (
        serve(without=NEW_IN_1_36) as server,
        cluster(server, tmp_path) as here,
        here.installer(forced),
        here.written_all_the_time() as counts,
    ):
        await here.has(Path.WEBHOOK)
        await until(lambda: len(counts) > 5)


async def test_webhook_stays_until_the_policy_is_proven_working(
    api_server: LocalAPIServer, tmp_path: FilePath
) -> None:
    async with cluster(api_server, tmp_path) as here:
        async with here.installer(Path.WEBHOOK):
            await here.has(Path.WEBHOOK)
        here.works = False
        async with here.installer():
            await here.has(Path.WEBHOOK, Path.POLICY)
            here.clock.skip(GRACE)
            looks = len(here.paths)
            await until(lambda: len(here.paths) > looks + 2)
            assert here.paths[-1] == frozenset({Path.WEBHOOK, Path.POLICY})
            here.works = True
            await here.has(Path.POLICY)


async def test_grace_period_restarts_when_something_is_reapplied(
    api_server: LocalAPIServer, tmp_path: FilePath
) -> None:
    async with cluster(api_server, tmp_path) as here:
        async with here.installer(Path.WEBHOOK):
            await here.has(Path.WEBHOOK)
        async with here.installer():
            await here.has(Path.WEBHOOK, Path.POLICY)
            here.clock.skip(GRACE - 5)
            await here.client.delete(MUTATING_POLICY_BINDINGS, "doubler")
            await here.has(Path.WEBHOOK, Path.POLICY)
            here.clock.skip(GRACE - 5)
            looks = len(here.paths)
            await until(lambda: len(here.paths) > looks + 2)
            assert here.paths[-1] == frozenset({Path.WEBHOOK, Path.POLICY})
            here.clock.skip(10)
            await here.has(Path.POLICY)


async def test_policy_needs_no_certificate_and_webhooks_follow_it(
    api_server: LocalAPIServer, tmp_path: FilePath
) -> None:
    async with cluster(api_server, tmp_path) as here:
        here.has_certificate = False
        async with here.installer():
            await here.has(Path.POLICY)
            async with here.written_all_the_time() as counts:
                await until(lambda: len(counts) > 5)
            assert not await here.client.list(VALIDATING_WEBHOOKS)
            here.has_certificate = True

            async def validates() -> bool:
                return bool(await here.client.list(VALIDATING_WEBHOOKS))

            await eventually(validates)


async def test_webhook_without_a_certificate_still_yields_to_policy(
    api_server: LocalAPIServer, tmp_path: FilePath
) -> None:
    """No one answers it any more, and its failurePolicy may be Fail."""
    async with cluster(api_server, tmp_path) as here:
        async with here.installer(Path.WEBHOOK):
            await here.has(Path.WEBHOOK)
        here.has_certificate = False
        async with here.installer():
            await here.has(Path.WEBHOOK, Path.POLICY)
            here.clock.skip(GRACE)
            await here.has(Path.POLICY)


async def test_policy_stays_without_certificate_until_webhook_takes_over(
    api_server: LocalAPIServer, tmp_path: FilePath
) -> None:
    async with cluster(api_server, tmp_path) as here:
        async with here.installer(Path.POLICY):
            await here.has(Path.POLICY)
        here.has_certificate = False
        async with here.installer(Path.WEBHOOK):
            here.clock.skip(GRACE)
            await asyncio.sleep(1)
            assert await here.installed() == {Path.POLICY}
            here.stopped = True
            await here.has()


async def test_a_policy_that_somebody_has_changed_is_restored(
    api_server: LocalAPIServer, tmp_path: FilePath
) -> None:
    async with cluster(api_server, tmp_path) as here, here.installer():
        await here.has(Path.POLICY)
        policies = MUTATING_POLICIES.typed(dict)
        await here.client.patch(policies, "doubler", {"spec": {"matchConditions": None}})

        async def restored() -> bool:
            stored = await here.client.get(policies, "doubler")
            return bool(stored["spec"].get("matchConditions") == POLICY["spec"]["matchConditions"])

        await eventually(restored)


async def test_policy_that_must_not_act_is_removed_immediately(
    api_server: LocalAPIServer, tmp_path: FilePath
) -> None:
    async with cluster(api_server, tmp_path) as here, here.installer():
        await here.has(Path.POLICY)
        here.stopped = True
        await here.has(Path.WEBHOOK)
        here.stopped = False
        await here.has(Path.WEBHOOK, Path.POLICY)
