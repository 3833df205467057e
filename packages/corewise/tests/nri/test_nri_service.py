"""What the runtime asks is answered in time, whatever the handler does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from corewise.nri import codec
from corewise.nri.messages import (
    ContainerAdjustment,
    ContainerUpdate,
    CPUResources,
    LifecycleEvent,
    RequestOutcome,
)
from corewise.quantities import Microseconds
from nri.fake_runtime import RuntimeSide, Scene, container, pod, resources
from virtual_time import run_virtual

EVERY_RELEASE = (1 << 11) - 1
"""The events of NRI 0.6, whose runtime refuses a plugin that subscribes to any other."""


async def halve(requested: CPUResources) -> ContainerAdjustment | None:
    return ContainerAdjustment(Microseconds(requested.quota // 2)) if requested.quota else None


async def never(_requested: CPUResources) -> ContainerAdjustment | None:
    await asyncio.sleep(3600)
    raise AssertionError("no one waits that long")


async def stubborn(requested: CPUResources) -> ContainerAdjustment | None:
    try:
        return await never(requested)
    except asyncio.CancelledError:
        return await never(requested)


async def broken(_requested: CPUResources) -> ContainerAdjustment | None:
    raise ZeroDivisionError("a bug")


async def gives_up(_requested: CPUResources) -> ContainerAdjustment | None:
    raise asyncio.CancelledError


def told(scene: Scene, method: str) -> list[RequestOutcome]:
    return [outcome for name, outcome in scene.observer.requests if name == method]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def started(scene: Scene, story: Callable[[RuntimeSide], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with scene.started() as side:
            await story(side)

    run_virtual(tell())


def test_the_plugin_registers_with_its_name_and_index(scene: Scene) -> None:
    async def story() -> None:
        async with scene.runtime.listening(), scene.plugged():
            registration = await (await scene.runtime.accepted()).accept_registration()
            assert (registration.plugin_name, registration.plugin_idx) == ("corewise", "90")

    run_virtual(story())


def test_only_events_known_to_every_release_are_subscribed(scene: Scene) -> None:
    async def story() -> None:
        async with scene.runtime.listening(), scene.plugged():
            side = await scene.runtime.accepted()
            await side.accept_registration()
            answer = await side.call("Configure", codec.encode("ConfigureRequest", runtime_name="containerd"))
            events = codec.decode("ConfigureResponse", answer.payload).events
            assert events == EVERY_RELEASE

    run_virtual(story())


def test_running_containers_are_reported_at_once_and_updatable(scene: Scene) -> None:
    scene.handler.updates = [ContainerUpdate("c-1", Microseconds(50_000))]

    async def story() -> None:
        async with scene.runtime.listening(), scene.plugged():
            side = await scene.runtime.accepted()
            [update] = await side.start(pods=[pod()], containers=[container("c-1", quota=100_000)])
            assert update.container_id == "c-1"
            assert update.linux.resources.cpu.quota.value == 50_000
            assert not update.linux.resources.cpu.HasField("period")
            assert update.ignore_failure

    run_virtual(story())
    assert scene.handler.seen == [("synchronize", ["uid-1"], ["c-1"])]
    assert scene.observer.synchronizations == [True, False]


def test_what_runs_already_may_come_in_pieces(scene: Scene) -> None:
    async def story() -> None:
        async with scene.runtime.listening(), scene.plugged():
            side = await scene.runtime.accepted()
            await side.accept_registration()
            for number, more in enumerate([True, True, False]):
                request = codec.encode(
                    "SynchronizeRequest",
                    pods=[pod(f"p{number}")],
                    containers=[container(f"c{number}")],
                    more=more,
                )
                answer = codec.decode(
                    "SynchronizeResponse", (await side.call("Synchronize", request)).payload
                )
                assert (answer.more, len(answer.update)) == (more, 0)

    run_virtual(story())
    assert scene.handler.seen == [("synchronize", ["p0", "p1", "p2"], ["c0", "c1", "c2"])]


def test_container_is_created_with_the_decided_quota(scene: Scene) -> None:
    scene.handler.decide = halve

    async def story(side: RuntimeSide) -> None:
        answer = codec.decode("CreateContainerResponse", (await side.create(quota=100_000)).payload)
        cpu = answer.adjust.linux.resources.cpu
        assert cpu.quota.value == 50_000
        assert not cpu.HasField("period")
        assert not cpu.HasField("shares")

    started(scene, story)
    assert told(scene, "CreateContainer") == [RequestOutcome.ANSWERED]


def test_no_decision_is_no_adjustment(scene: Scene) -> None:
    async def story(side: RuntimeSide) -> None:
        answer = await side.create(quota=100_000)
        assert (answer.status.code, answer.payload) == (0, b"")

    started(scene, story)


def test_update_is_answered_for_its_own_container(scene: Scene) -> None:
    scene.handler.decide = halve

    async def story(side: RuntimeSide) -> None:
        request = codec.encode(
            "UpdateContainerRequest",
            pod=pod(),
            container=container("c-7", quota=40_000),
            linux_resources=resources(300_000, 100_000),
        )
        answer = await side.call("UpdateContainer", request)
        [update] = codec.decode("UpdateContainerResponse", answer.payload).update
        assert update.container_id == "c-7"
        assert update.linux.resources.cpu.quota.value == 150_000
        assert not update.ignore_failure

    started(scene, story)


def test_kubelets_zeros_count_as_unstated_numbers(scene: Scene) -> None:
    seen: list[CPUResources] = []

    async def note(requested: CPUResources) -> ContainerAdjustment | None:
        seen.append(requested)
        return None

    scene.handler.decide = note

    async def story(side: RuntimeSide) -> None:
        request = codec.encode(
            "UpdateContainerRequest", pod=pod(), container=container(), linux_resources=resources(0, 0)
        )
        answer = await side.call("UpdateContainer", request)
        assert answer.payload == b""

    started(scene, story)
    assert seen == [CPUResources()]


@pytest.mark.parametrize("decide", [never, stubborn])
def test_a_slow_handler_is_not_waited_for(
    scene: Scene,
    decide: Callable[[CPUResources], Awaitable[ContainerAdjustment | None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene.handler.decide = decide

    async def story(side: RuntimeSide) -> None:
        assert (await side.create(quota=100_000)).payload == b""
        assert asyncio.get_running_loop().time() == pytest.approx(1.0)
        scene.handler.decide = halve
        assert (await side.create(quota=100_000)).payload

    started(scene, story)
    assert told(scene, "CreateContainer") == [RequestOutcome.LATE, RequestOutcome.ANSWERED]
    assert "answered CreateContainer without a change: no decision within 1 s" in caplog.text


def test_impatient_runtime_is_answered_in_half_its_time(scene: Scene) -> None:
    scene.handler.decide = never

    async def story(side: RuntimeSide) -> None:
        await side.create(allowed=0.5)
        assert asyncio.get_running_loop().time() == pytest.approx(0.25)

    started(scene, story)


def test_queued_requests_are_answered_in_their_own_time(scene: Scene) -> None:
    scene.handler.decide = never

    async def story(side: RuntimeSide) -> None:
        request = codec.encode("EventRequest", pod=pod(), container=container())
        waiting = [side.request("CreateContainer", request) for _ in range(5)]
        for answer in await asyncio.gather(*waiting):
            assert answer.payload == b""
        assert asyncio.get_running_loop().time() == pytest.approx(1.0)

    started(scene, story)


@pytest.mark.parametrize("decide", [broken, gives_up])
def test_a_handler_that_raises_costs_one_answer(
    scene: Scene, decide: Callable[[CPUResources], Awaitable[ContainerAdjustment | None]]
) -> None:
    scene.handler.decide = decide

    async def story(side: RuntimeSide) -> None:
        answer = await side.create(quota=100_000)
        assert (answer.status.code, answer.payload) == (0, b"")
        scene.handler.decide = halve
        assert (await side.create(quota=100_000)).payload

    started(scene, story)
    assert told(scene, "CreateContainer") == [RequestOutcome.FAILED, RequestOutcome.ANSWERED]


def test_handler_bug_is_logged_with_its_traceback(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.handler.decide = broken

    async def story(side: RuntimeSide) -> None:
        await side.create()

    started(scene, story)
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "this is a bug" in record.getMessage()
    assert record.exc_info


@pytest.mark.parametrize(
    "event", sorted(set(LifecycleEvent) - {LifecycleEvent.UNKNOWN, LifecycleEvent.RUN_POD_SANDBOX})
)
def test_an_event_by_state_change_reaches_the_handler(scene: Scene, event: LifecycleEvent) -> None:
    async def story(side: RuntimeSide) -> None:
        request = codec.encode("StateChangeEvent", event=event, pod=pod(), container=container())
        answer = await side.call("StateChange", request)
        assert (answer.status.code, answer.payload) == (0, b"")

    started(scene, story)
    assert scene.handler.seen[-1] == (event.name, "uid-1", "c-1")


@pytest.mark.parametrize(
    ("method", "seen"),
    [
        ("RunPodSandbox", ("run", "uid-1")),
        ("StopPodSandbox", ("STOP_POD_SANDBOX", "uid-1", None)),
        ("PostCreateContainer", ("POST_CREATE_CONTAINER", "uid-1", None)),
        ("StopContainer", ("STOP_CONTAINER", "uid-1", None)),
        ("RemoveContainer", ("REMOVE_CONTAINER", "uid-1", None)),
    ],
)
def test_event_with_its_own_method_reaches_the_handler(
    scene: Scene, method: str, seen: tuple[Any, ...]
) -> None:
    async def story(side: RuntimeSide) -> None:
        assert (await side.call(method, codec.encode("EventRequest", pod=pod()))).payload == b""

    started(scene, story)
    assert scene.handler.seen[-1] == seen


def test_starting_pod_is_also_reported_by_state_change(scene: Scene) -> None:
    async def story(side: RuntimeSide) -> None:
        await side.call("StateChange", codec.encode("StateChangeEvent", event=1, pod=pod()))

    started(scene, story)
    assert scene.handler.seen[-1] == ("run", "uid-1")


def test_events_of_later_releases_are_unknown(scene: Scene) -> None:
    async def story(side: RuntimeSide) -> None:
        request = codec.encode("StateChangeEvent", event=99, pod=pod(), container=container())
        assert (await side.call("StateChange", request)).status.code == 0

    started(scene, story)
    assert scene.handler.seen[-1] == ("UNKNOWN", "uid-1", "c-1")


def test_fields_of_later_releases_are_ignored(scene: Scene) -> None:
    scene.handler.decide = halve
    unknown_field = bytes([0xF2, 0x3F, 3]) + b"new"

    async def story(side: RuntimeSide) -> None:
        request = codec.encode("EventRequest", pod=pod(), container=container(quota=100_000)) + unknown_field
        assert (await side.call("CreateContainer", request)).payload

    started(scene, story)


@pytest.mark.parametrize("method", ["ValidateContainerAdjustment", "", "configure"])
def test_an_unknown_method_is_said_to_be_unimplemented(scene: Scene, method: str) -> None:
    async def story(side: RuntimeSide) -> None:
        answer = await side.call(method)
        assert answer.status.code == 12
        assert method in answer.status.message
        assert (await side.create()).status.code == 0

    started(scene, story)


def test_shutdown_is_answered(scene: Scene) -> None:
    async def story(side: RuntimeSide) -> None:
        assert (await side.call("Shutdown")).status.code == 0

    started(scene, story)
