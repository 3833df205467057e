"""A container runtime's side of NRI, behaving as containerd's Go code does, and a handler that tests lead.

The reader checks what Go's reader cannot take: a frame that is larger than the space it is read into.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from corewise.nri import codec
from corewise.nri.codec import MESSAGES
from corewise.nri.connection import RUNTIME_SERVICE
from corewise.nri.messages import (
    ContainerAdjustment,
    ContainerUpdate,
    CPUResources,
    LifecycleEvent,
    NRIContainer,
    PodSandbox,
    RequestOutcome,
)
from corewise.nri.plugin import PLUGIN_SERVICE, NRIPlugin, PluginOptions

PLUGIN, RUNTIME = 1, 2
REQUEST, RESPONSE = 1, 2
GO_BUFFER = 4096


def frame(stream: int, payload: bytes) -> bytes:
    return struct.pack(">II", stream, len(payload)) + payload


def ttrpc(call: int, kind: int, payload: bytes, *, length: int | None = None) -> bytes:
    return struct.pack(">IIBB", len(payload) if length is None else length, call, kind, 0) + payload


def envelope(
    method: str, payload: bytes = b"", *, service: str = PLUGIN_SERVICE, allowed: float = 2.0
) -> bytes:
    return codec.encode(
        "Request", service=service, method=method, payload=payload, timeout_nano=int(allowed * 10**9)
    )


def pod(uid: str = "uid-1", **fields: Any) -> Any:
    linux = MESSAGES["LinuxPodSandbox"](cgroup_parent=f"/kubepods/pod{uid}")
    return MESSAGES["PodSandbox"](id=f"sandbox-{uid}", uid=uid, name="web", linux=linux, **fields)


def resources(quota: int | None = None, period: int | None = None) -> Any:
    cpu = MESSAGES["LinuxCPU"]()
    if quota is not None:
        cpu.quota.value = quota
    if period is not None:
        cpu.period.value = period
    return MESSAGES["LinuxResources"](cpu=cpu)


def container(name: str = "c-1", *, quota: int | None = None, period: int | None = None) -> Any:
    linux = MESSAGES["LinuxContainer"](resources=resources(quota, period))
    return MESSAGES["Container"](id=name, pod_sandbox_id="sandbox-uid-1", name=name, linux=linux)


class RuntimeSide:
    """One accepted connection of a plugin."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.requests: asyncio.Queue[tuple[int, Any]] = asyncio.Queue()
        self.ended = asyncio.Event()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last_call = -1
        self._buffers = {PLUGIN: b"", RUNTIME: b""}
        self._reading = asyncio.create_task(self._read())

    async def start(self, *, pods: Sequence[Any] = (), containers: Sequence[Any] = ()) -> list[Any]:
        """Accept the registration, configure and synchronize; the updates that the plugin wants."""
        await self.accept_registration()
        await self.call(
            "Configure", codec.encode("ConfigureRequest", runtime_name="fake", runtime_version="1")
        )
        request = codec.encode("SynchronizeRequest", pods=pods, containers=containers)
        answer = await self.call("Synchronize", request)
        return list(codec.decode("SynchronizeResponse", answer.payload).update)

    async def accept_registration(self) -> Any:
        number, request = await self.requests.get()
        assert (request.service, request.method) == (RUNTIME_SERVICE, "RegisterPlugin")
        self.answer(number)
        return codec.decode("RegisterPluginRequest", request.payload)

    def answer(self, number: int, payload: bytes = b"", *, code: int = 0, message: str = "") -> None:
        status = {"code": code, "message": message}
        response = codec.encode("Response", status=status, payload=payload)
        self.send(frame(RUNTIME, ttrpc(number, RESPONSE, response)))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def request(self, method: str, payload: bytes = b"", *, allowed: float = 2.0) -> asyncio.Future[Any]:
        self._last_call += 2
        waiting = self._waiting[self._last_call] = asyncio.get_running_loop().create_future()
        self.send(frame(PLUGIN, ttrpc(self._last_call, REQUEST, envelope(method, payload, allowed=allowed))))
        return waiting

    async def call(self, method: str, payload: bytes = b"", *, allowed: float = 2.0) -> Any:
        """Call the plugin; as Go's client does, give up after the time that was allowed."""
        async with asyncio.timeout(allowed):
            return await self.request(method, payload, allowed=allowed)

    async def create(self, name: str = "c-1", *, quota: int | None = None, allowed: float = 2.0) -> Any:
        request = codec.encode(
            "EventRequest", pod=pod(), container=container(name, quota=quota, period=100_000)
        )
        return await self.call("CreateContainer", request, allowed=allowed)

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()
        await self._reading

    async def _read(self) -> None:
        try:
            while True:
                stream, length = struct.unpack(">II", await self.reader.readexactly(8))
                self._take(stream, await self.reader.readexactly(length))
        except (asyncio.IncompleteReadError, OSError):
            for waiting in self._waiting.values():
                waiting.cancel()
            self.ended.set()

    def _take(self, stream: int, payload: bytes) -> None:
        buffer = self._buffers[stream]
        left = struct.unpack(">I", buffer[:4])[0] + 10 - len(buffer) if len(buffer) >= 10 else 0
        assert len(payload) <= max(GO_BUFFER, left), "Go's reader has no space for this frame"
        buffer += payload
        while len(buffer) >= 10 and len(buffer) >= 10 + (length := struct.unpack(">I", buffer[:4])[0]):
            call, kind = struct.unpack(">IB", buffer[4:9])
            self._message(stream, call, kind, buffer[10 : 10 + length])
            buffer = buffer[10 + length :]
        self._buffers[stream] = buffer

    def _message(self, stream: int, call: int, kind: int, payload: bytes) -> None:
        assert (stream, kind) in {(PLUGIN, RESPONSE), (RUNTIME, REQUEST)}
        if kind == REQUEST:
            self.requests.put_nowait((call, codec.decode("Request", payload)))
        elif (waiting := self._waiting.pop(call, None)) and not waiting.done():
            waiting.set_result(codec.decode("Response", payload))


class FakeRuntime:
    """Listens at the socket."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._sides: asyncio.Queue[RuntimeSide] = asyncio.Queue()
        self._open: list[RuntimeSide] = []

    async def accepted(self) -> RuntimeSide:
        """The next connection."""
        return await self._sides.get()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        side = RuntimeSide(reader, writer)
        self._open.append(side)
        self._sides.put_nowait(side)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        server = await asyncio.start_unix_server(self._accept, self.socket)
        try:
            yield
        finally:
            server.close()
            for side in self._open:
                await side.close()
            self._open.clear()
            self.socket.unlink(missing_ok=True)


class ScriptedHandler:
    """Notes what it is told, and decides what the test says."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.updates: list[ContainerUpdate] = []
        self.decide: Callable[[CPUResources], Awaitable[ContainerAdjustment | None]] = self.nothing

    async def nothing(self, _requested: CPUResources) -> ContainerAdjustment | None:
        return None

    async def on_synchronize(
        self, pods: Sequence[PodSandbox], containers: Sequence[NRIContainer]
    ) -> Sequence[ContainerUpdate]:
        self.seen.append(("synchronize", [p.uid for p in pods], [c.id for c in containers]))
        return self.updates

    async def on_run_pod_sandbox(self, pod: PodSandbox) -> None:
        self.seen.append(("run", pod.uid))

    async def on_create(self, pod: PodSandbox, container: NRIContainer) -> ContainerAdjustment | None:
        self.seen.append(("create", pod.uid, container.id))
        return await self.decide(container.cpu)

    async def on_update(
        self, pod: PodSandbox, container: NRIContainer, requested: CPUResources
    ) -> ContainerAdjustment | None:
        self.seen.append(("update", pod.uid, container.id))
        return await self.decide(requested)

    async def on_event(self, event: LifecycleEvent, pod: PodSandbox, container: NRIContainer | None) -> None:
        self.seen.append((event.name, pod.uid, container.id if container else None))


class Noting:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, RequestOutcome]] = []
        self.synchronizations: list[bool] = []

    def request(self, method: str, outcome: RequestOutcome) -> None:
        self.requests.append((method, outcome))

    def synchronized(self, *, now: bool) -> None:
        self.synchronizations.append(now)


class Scene:
    """A plugin, the runtime it looks for, and both ends' views."""

    def __init__(self, directory: Path) -> None:
        self.runtime = FakeRuntime(directory / "nri.sock")
        self.handler = ScriptedHandler()
        self.observer = Noting()
        options = PluginOptions(socket=str(self.runtime.socket))
        self.plugin = NRIPlugin(self.handler, options, observer=self.observer)

    @asynccontextmanager
    async def plugged(self) -> AsyncIterator[None]:
        """The plugin runs, and did not crash by the end."""
        running = asyncio.create_task(self.plugin.run())
        try:
            yield
        finally:
            crashed = running.done()
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            assert not crashed

    @asynccontextmanager
    async def started(self) -> AsyncIterator[RuntimeSide]:
        """The runtime listens, and the plugin is registered and synchronized."""
        async with self.runtime.listening(), self.plugged():
            side = await self.runtime.accepted()
            await side.start()
            yield side
