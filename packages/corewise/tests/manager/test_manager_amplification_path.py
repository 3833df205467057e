"""The policy or the webhook: which one amplifies, and that no write is raw or doubled in a switch-over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path as FilePath
from typing import Any

import pytest
from msgspec.structs import replace

from corewise.amplification.policy import amplification_policy, static_policy
from corewise.kube.errors import KubeError, NotFound
from corewise.kube.resources import MUTATING_POLICY_BINDINGS, MUTATING_WEBHOOKS, Resource
from corewise.manager.amplification_path import policy_in_file, policy_works
from corewise.manager.options import (
    KUBELET_USER,
    LARGEST_AMPLIFICATION,
    MUTATING_NAME,
    AmplifyBy,
    ManagerOptions,
)
from corewise.manager.program import Manager
from corewise.manager.snapshot import Listeners, Snapshot
from corewise.service.installation import GRACE
from corewise.service.webhooks import rule
from corewise.vocabulary.metrics import AMPLIFICATION_PATH
from corewise.workload.nodes import WORKLOAD_NODES
from kubedouble.server import NEW_IN_1_36, serve
from manager.world import World, eventually, normalization, small_cluster, until

POLICY, WEBHOOK, FILE = AmplifyBy.POLICY, AmplifyBy.WEBHOOK, "file"


def paths(manager: Manager) -> set[str]:
    """The paths that the metric shows."""
    return {
        str(each) for each in (POLICY, WEBHOOK, FILE) if manager.metrics.value(AMPLIFICATION_PATH, str(each))
    }


async def shows(manager: Manager, *wanted: str) -> None:
    await until(lambda: paths(manager) == set(wanted))


async def amplified(world: World) -> None:
    await world.add_node("fast")
    await world.configure(normalization=normalization())


@asynccontextmanager
async def a_kubelet_that_writes_raw_all_the_time(world: World) -> AsyncIterator[list[str]]:
    """Every write, with the amounts of a machine that grows and shrinks, must be stored doubled exactly once.

    A write that is refused, while no manager answers the webhook, stores nothing and is no fault.
    """
    stored: list[str] = []

    async def write() -> None:
        while True:
            for cpu in ("8", "8", "7", "8"):
                beat = world.clock.now() + timedelta(seconds=len(stored))
                try:
                    status = (await world.kubelet_writes("fast", cpu=cpu, beat=beat))["status"]
                except KubeError:
                    status = (await world.node("fast"))["status"]
                    doubled = {"16", "14"}
                else:
                    doubled = {str(2 * int(cpu))}
                assert {status[field]["cpu"] for field in ("capacity", "allocatable")} <= doubled
                stored.append(cpu)
                await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(write())
        yield stored
        task.cancel()


def has_grown(stored: list[str], to: int) -> bool:
    return len(stored) >= to


@pytest.mark.parametrize(("old", "new"), [(WEBHOOK, POLICY), (POLICY, WEBHOOK)])
async def test_switch_over_never_stores_raw_or_doubled_writes(
    world: World, old: AmplifyBy, new: AmplifyBy
) -> None:
    await amplified(world)
    async with world.manager(amplify_by=old) as manager:
        await shows(manager, old)
        await world.shows_cpu("fast", "16")
        await world.kubelet_gets("fast", "16")
    async with (
        a_kubelet_that_writes_raw_all_the_time(world) as stored,
        world.manager(amplify_by=new) as manager,
    ):
        await shows(manager, old, new)
        await until(partial(has_grown, stored, len(stored) + 20))
        world.clock.skip(GRACE)
        await shows(manager, new)
        await until(partial(has_grown, stored, len(stored) + 20))


async def test_the_policy_amplifies_while_no_manager_runs(world: World) -> None:
    await amplified(world)
    async with world.manager(amplify_by=AmplifyBy.AUTO) as manager:
        await shows(manager, POLICY)
        await world.shows_cpu("fast", "16")
    for cpu, doubled in (("8", "16"), ("7", "14"), ("8", "16")):
        status = (await world.kubelet_writes("fast", cpu=cpu))["status"]
        assert (status["capacity"]["cpu"], status["allocatable"]["cpu"]) == (doubled, doubled)
    with pytest.raises(NotFound):
        await world.client.get(MUTATING_WEBHOOKS, MUTATING_NAME)


async def test_policy_amplifies_while_the_manager_lacks_a_certificate(
    world: World, tmp_path: FilePath
) -> None:
    await amplified(world)
    files: dict[str, Any] = {
        "tls_cert": str(tmp_path / "absent.crt"),
        "tls_key": str(tmp_path / "absent.key"),
    }
    async with world.manager(amplify_by=AmplifyBy.AUTO, wait=False, **files) as manager:
        await world.shows_cpu("fast", "16")
        await shows(manager, POLICY)
        assert list(manager.program.problems())


async def test_webhook_stays_until_the_policy_amplifies(world: World) -> None:
    await amplified(world)
    async with world.manager() as manager:
        await world.shows_cpu("fast", "16")
        await shows(manager, WEBHOOK)
    policies = world.server.cluster.admission
    working, policies._mutating_policies = policies._mutating_policies, None
    async with world.manager(amplify_by=AmplifyBy.AUTO) as manager:
        await shows(manager, WEBHOOK, POLICY)
        world.clock.skip(GRACE)
        await asyncio.sleep(1)
        assert paths(manager) == {WEBHOOK, POLICY}
        policies._mutating_policies = working
        await shows(manager, POLICY)
        assert (await world.kubelet_writes("fast"))["status"]["allocatable"]["cpu"] == "16"


async def test_before_kubernetes_1_36_the_webhook_amplifies(tmp_path: FilePath) -> None:
    async with serve(without=NEW_IN_1_36) as server, small_cluster(server, tmp_path) as world:
        await amplified(world)
        async with world.manager(amplify_by=AmplifyBy.AUTO) as manager:
            await shows(manager, WEBHOOK)
            await world.shows_cpu("fast", "16")


async def test_policy_yields_at_once_to_koordinators_webhook(world: World) -> None:
    await amplified(world)
    async with world.manager(amplify_by=AmplifyBy.AUTO) as manager:
        await shows(manager, POLICY)
        hook = {
            "name": "mnode-status.koordinator.sh",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [rule("nodes/status", "UPDATE", scope="Cluster")],
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        body = {"metadata": {"name": "koordinator"}, "webhooks": [hook]}
        await world.client.create(MUTATING_WEBHOOKS.typed(dict), body)
        await shows(manager, WEBHOOK)

        async def gone() -> bool:
            return not await world.client.list(MUTATING_POLICY_BINDINGS)

        await eventually(gone)


def load_file(world: World, **options: Any) -> None:
    """Have the API server read the policy from a file, as `corewise manager policy --static` prints it."""
    options = {"maximum": LARGEST_AMPLIFICATION, "kubelet_users": (KUBELET_USER,), **options}
    world.server.cluster.admission.load_static(static_policy(amplification_policy(**options)))


async def policy_names(world: World) -> set[str]:
    return {each.metadata.name for each in await world.client.list(MUTATING_POLICY_BINDINGS)}


async def test_policy_in_a_file_amplifies_without_anything_installed(world: World) -> None:
    load_file(world)
    await amplified(world)
    async with world.manager(amplify_by=AmplifyBy.AUTO) as manager:
        await shows(manager, FILE)
        await world.shows_cpu("fast", "16")
        assert not await policy_names(world)
    status = (await world.kubelet_writes("fast", cpu="7"))["status"]
    assert status["allocatable"]["cpu"] == "14"


async def test_policy_gives_way_to_a_file(world: World) -> None:
    await amplified(world)
    async with world.manager(amplify_by=AmplifyBy.AUTO) as manager:
        await shows(manager, POLICY)
        await world.shows_cpu("fast", "16")
        async with a_kubelet_that_writes_raw_all_the_time(world) as stored:
            load_file(world)
            world.clock.skip(10)
            await shows(manager, POLICY, FILE)
            await until(partial(has_grown, stored, len(stored) + 20))
            world.clock.skip(GRACE)
            await shows(manager, FILE)
            await until(partial(has_grown, stored, len(stored) + 20))
        assert not await policy_names(world)


async def test_forced_policy_takes_over_before_the_file_goes(world: World) -> None:
    load_file(world)
    await amplified(world)
    async with world.manager(amplify_by=AmplifyBy.AUTO) as manager:
        await shows(manager, FILE)
        await world.shows_cpu("fast", "16")
    async with (
        a_kubelet_that_writes_raw_all_the_time(world) as stored,
        world.manager(amplify_by=AmplifyBy.POLICY) as manager,
    ):
        await shows(manager, POLICY)
        world.server.cluster.admission.load_static([])
        await until(partial(has_grown, stored, len(stored) + 20))


async def test_file_with_other_options_counts_as_absent(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    load_file(world, quiet_heartbeats=False)
    await amplified(world)
    async with world.manager(amplify_by=AmplifyBy.AUTO) as manager:
        await shows(manager, POLICY)
        await world.shows_cpu("fast", "16")
    assert "corewise manager policy --static" in caplog.text


_GROUP = ("admissionregistration.k8s.io", "v1")
_KIND = "ValidatingAdmissionPolicy"
REFUSING: tuple[tuple[Resource[dict[str, Any]], dict[str, Any]], ...] = (
    (
        Resource(*_GROUP, "validatingadmissionpolicies", _KIND, namespaced=False, type=dict[str, Any]),
        {
            "matchConstraints": {"resourceRules": [rule("nodes/status", "UPDATE", scope="Cluster")]},
            "validations": [{"expression": "object.metadata.name != 'fast'"}],
        },
    ),
    (
        Resource(
            *_GROUP,
            "validatingadmissionpolicybindings",
            f"{_KIND}Binding",
            namespaced=False,
            type=dict[str, Any],
        ),
        {"policyName": "no", "validationActions": ["Deny"]},
    ),
)


async def test_a_node_that_refuses_stops_no_installation(world: World) -> None:
    await amplified(world)
    async with world.manager(amplify_by=AmplifyBy.AUTO) as manager:
        await shows(manager, POLICY)
        await world.shows_cpu("fast", "16")
        for resource, spec in REFUSING:
            await world.client.create(resource, {"metadata": {"name": "no"}, "spec": spec})
        (binding,) = await policy_names(world)
        await world.client.delete(MUTATING_POLICY_BINDINGS, binding)
        world.clock.skip(10)

        async def restored() -> bool:
            return bool(await policy_names(world))

        await eventually(restored)


async def test_a_node_that_is_gone_answers_nothing(world: World) -> None:
    load_file(world)
    await amplified(world)
    async with world.manager(amplify_by=AmplifyBy.AUTO) as manager:
        await shows(manager, FILE)
        await world.shows_cpu("fast", "16")
    there = await world.client.get(WORKLOAD_NODES, "fast")
    gone = replace(there, metadata=replace(there.metadata, name="gone"))
    options = ManagerOptions()
    listeners = Listeners(lambda _name: None, lambda _name: None, lambda: None)
    snapshot = Snapshot(world.client, options, listeners, world.clock)
    snapshot.nodes.items = {"gone": gone, "fast": there}
    assert await policy_in_file(world.client, options, snapshot)
    assert await policy_works(world.client, snapshot)
    snapshot.nodes.items = {"gone": gone}
    assert not await policy_in_file(world.client, options, snapshot)
    assert await policy_works(world.client, snapshot)
