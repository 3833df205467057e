"""The plugin finds its runtime again, whatever ended the connection, and never ends itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corewise.nri import codec
from corewise.nri.errors import CallRefused, ConnectionLost, NRIError
from corewise.nri.messages import ContainerUpdate
from corewise.quantities import Microseconds
from nri.fake_runtime import (
    PLUGIN,
    REQUEST,
    RESPONSE,
    RUNTIME,
    Scene,
    container,
    envelope,
    frame,
    pod,
    ttrpc,
)
from tally import fault
from virtual_time import VirtualLoop, run_virtual


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """Yield the warnings; the list is filled as the test goes on."""
    caplog.set_level(logging.INFO)
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    listener = Listener(logging.WARNING)
    logging.getLogger("corewise.nri").addHandler(listener)
    yield said
    logging.getLogger("corewise.nri").removeHandler(listener)


async def still_serves(scene: Scene) -> None:
    side = await scene.runtime.accepted()
    await side.start()
    assert (await side.create()).status.code == 0


def test_a_socket_that_appears_later_is_found(scene: Scene, warnings: list[str]) -> None:
    async def story() -> None:
        async with scene.plugged():
            await asyncio.sleep(600)
            async with scene.runtime.listening():
                await still_serves(scene)

    run_virtual(story())
    [said] = warnings
    assert str(scene.runtime.socket) in said
    assert "No such file or directory" in said
    assert "is NRI enabled" in said


def test_socket_is_polled_at_least_every_five_seconds(scene: Scene) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with scene.plugged():
            for _ in range(20):
                before = loop.time()
                async with scene.runtime.listening():
                    await scene.runtime.accepted()
                    assert loop.time() - before <= 5.0

    run_virtual(story())


def test_a_path_that_is_no_socket_is_named(scene: Scene, warnings: list[str]) -> None:
    scene.runtime.socket.write_text("not a socket")

    async def story() -> None:
        async with scene.plugged():
            await asyncio.sleep(60)

    run_virtual(story())
    [said] = warnings
    assert "Connection refused" in said


def test_plugin_registers_with_restarted_runtime_within_a_second(scene: Scene) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with scene.plugged():
            for _ in range(5):
                async with scene.runtime.listening():
                    before = loop.time()
                    await still_serves(scene)
                    assert loop.time() - before < 1.0
                    await asyncio.sleep(100)

    run_virtual(story())
    assert [seen[0] for seen in scene.handler.seen] == ["synchronize", "create"] * 5
    assert scene.observer.synchronizations == [True, False] * 5


@pytest.mark.parametrize(("stopped", "registrations"), [(0.9, 1), (2.1, 2)])
def test_paused_plugin_registers_again_on_a_surviving_connection(
    scene: Scene, warnings: list[str], stopped: float, registrations: int
) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        async with scene.started():
            await asyncio.sleep(100)
            loop.stop_the_process(stopped)
            await asyncio.sleep(2)
            if registrations == 2:
                await still_serves(scene)

    run_virtual(story())
    assert scene.observer.synchronizations == [True, False] * registrations
    assert len(warnings) == registrations - 1
    assert all("this process was stopped for 2." in each for each in warnings)


def test_runtime_that_repeatedly_drops_plugin_is_not_flooded(scene: Scene) -> None:
    async def story() -> int:
        dropped = 0
        async with scene.runtime.listening(), scene.plugged():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(60):
                    while True:
                        await (await scene.runtime.accepted()).close()
                        dropped += 1
        return dropped

    assert 12 <= run_virtual(story()) <= 36


def test_runtime_that_ignores_registration_is_abandoned(scene: Scene, warnings: list[str]) -> None:
    async def story() -> None:
        async with scene.runtime.listening(), scene.plugged():
            side = await scene.runtime.accepted()
            await side.ended.wait()
            await still_serves(scene)

    run_virtual(story())
    assert "did not answer RegisterPlugin within 5 s" in warnings[0]


def test_a_refused_registration_is_logged_and_tried_again(scene: Scene, warnings: list[str]) -> None:
    async def story() -> None:
        async with scene.runtime.listening(), scene.plugged():
            side = await scene.runtime.accepted()
            number, _ = await side.requests.get()
            side.answer(number, code=2, message="invalid plugin index")
            await still_serves(scene)

    run_virtual(story())
    assert "refused RegisterPlugin: invalid plugin index (code 2)" in warnings[0]


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a frame of"),
        (frame(PLUGIN, ttrpc(1, REQUEST, b"", length=5 << 20)), "a message of 5242880 bytes"),
        (frame(PLUGIN, ttrpc(2, REQUEST, envelope("Configure"))), "call number 2"),
        (frame(PLUGIN, ttrpc(1, RESPONSE, b"")), "type 2"),
        (frame(PLUGIN, ttrpc(1, REQUEST, b"\xff\xff")), "cannot decode a Request"),
        (
            frame(PLUGIN, ttrpc(1, REQUEST, envelope("CreateContainer", b"\xff"))),
            "cannot decode a EventRequest",
        ),
        (
            frame(PLUGIN, ttrpc(3, REQUEST, envelope("X"))) + frame(PLUGIN, ttrpc(3, REQUEST, envelope("X"))),
            "request 3 after 3",
        ),
        (frame(RUNTIME, ttrpc(9, RESPONSE, b"")), "an answer to call 9, which was never made"),
        (
            b"".join(frame(PLUGIN, ttrpc(2 * n + 1, REQUEST, envelope("X"))) for n in range(200)),
            "more than 64 requests",
        ),
    ],
)
def test_non_nri_data_ends_connection_and_opens_another(
    scene: Scene, warnings: list[str], sent: bytes, said: str
) -> None:
    async def story() -> None:
        async with scene.runtime.listening(), scene.plugged():
            side = await scene.runtime.accepted()
            await side.accept_registration()
            side.send(sent)
            await side.ended.wait()
            await still_serves(scene)

    run_virtual(story())
    assert any(said in warning for warning in warnings)
    assert not any("bug" in warning for warning in warnings)


def test_a_message_that_is_cut_off_is_named(scene: Scene, warnings: list[str]) -> None:
    async def story() -> None:
        async with scene.runtime.listening(), scene.plugged():
            side = await scene.runtime.accepted()
            await side.accept_registration()
            side.send(frame(PLUGIN, ttrpc(1, REQUEST, b"half", length=100)))
            await side.close()
            await still_serves(scene)

    run_virtual(story())
    assert "within a message (14 bytes)" in warnings[0]


fields = st.sampled_from([PLUGIN, RUNTIME, 0, 3])
garbage = st.one_of(
    st.binary(max_size=100),
    st.builds(frame, fields, st.binary(max_size=60)),
    st.builds(
        lambda stream, call, kind, payload: frame(stream, ttrpc(call, kind, payload)),
        fields,
        st.integers(0, 20),
        st.integers(0, 4),
        st.binary(max_size=60),
    ),
    st.builds(
        lambda call, method, payload: frame(PLUGIN, ttrpc(call, REQUEST, envelope(method, payload))),
        st.integers(1, 20),
        st.sampled_from(
            ["Configure", "Synchronize", "CreateContainer", "UpdateContainer", "StateChange", "X"]
        ),
        st.binary(max_size=60),
    ),
)


@given(st.lists(garbage, min_size=1, max_size=6))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_comes_the_plugin_serves_the_next_connection(tmp_path: Path, sent: list[bytes]) -> None:
    scene = Scene(tmp_path)

    async def story() -> None:
        async with scene.runtime.listening(), scene.plugged():
            side = await scene.runtime.accepted()
            await side.accept_registration()
            for data in sent:
                fault("garbage message")
                side.send(data)
            await asyncio.sleep(5)
            await side.close()
            await still_serves(scene)

    run_virtual(story())


def test_many_updates_fit_the_runtimes_reader(scene: Scene) -> None:
    scene.handler.updates = [ContainerUpdate(f"{n:064x}", Microseconds(50_000)) for n in range(500)]

    async def story() -> None:
        async with scene.runtime.listening(), scene.plugged():
            side = await scene.runtime.accepted()
            containers = [container(f"{n:064x}", quota=100_000) for n in range(500)]
            assert len(await side.start(pods=[pod()], containers=containers)) == 500

    run_virtual(story())


def test_canceled_plugin_stops_despite_a_pending_decision(scene: Scene) -> None:
    async def story() -> None:
        running = asyncio.create_task(scene.plugin.run())
        async with scene.runtime.listening():
            side = await scene.runtime.accepted()
            await side.start()
            scene.handler.decide = lambda _requested: asyncio.sleep(3600)
            waiting = side.request("CreateContainer", codec.encode("EventRequest", pod=pod()))
            await asyncio.sleep(0.1)
            running.cancel()
            await side.ended.wait()
            assert waiting.cancelled()
        assert running.cancelled()

    run_virtual(story())


def test_every_error_has_message_and_most_a_hint() -> None:
    assert issubclass(ConnectionLost, NRIError)
    assert str(CallRefused("X", 3, "why")) == "the runtime refused X: why (code 3)"
