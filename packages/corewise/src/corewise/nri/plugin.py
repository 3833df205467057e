"""The plugin: connects to the runtime, registers, answers, and does so again whenever the connection ends.

Every answer is given in time: within ``patience`` seconds, and within half of what the runtime allows if
that is less. The runtime stops a pod's start if a plugin answers with an error, and closes the connection if
it does not answer at all (2 s by default). So a handler that is late is canceled, one that raises is logged,
and the answer is the empty one, which changes nothing. An empty answer is an empty payload in every method.

Up to NRI 0.10 events come by ``StateChange``, later each by a method of its own; both are served. Only events
that every release knows are subscribed to: a runtime refuses a plugin that asks for more.

A connection ends when the runtime restarts, when it drops the plugin (for answering too late, or because the
plugin was stopped in a debugger), or when what came was not NRI. A plugin that finds itself stopped for a
while ends it too: containerd 1.7 gives a plugin up that does not answer Synchronize in time, but keeps its
connection, on which nothing ever comes. The plugin waits a little longer after each failure, by chance up to
half less, and starts with short waits again after a connection that lasted.

The runtime never waits for a plugin that is not connected: pods start without it, and the first thing a new
connection brings is the list of all that run.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Never, TypeVar

from corewise.nri import codec
from corewise.nri.connection import Connection, NRIRequest, Reply
from corewise.nri.errors import ConnectionLost, NRIError, Unreachable
from corewise.nri.messages import (
    ContainerUpdate,
    LifecycleEvent,
    NRIContainer,
    NRIHandler,
    PluginObserver,
    PodSandbox,
    RequestOutcome,
)

DEFAULT_SOCKET = "/var/run/nri/nri.sock"
PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
_REGISTRATION_PATIENCE = 5.0
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 5.0
_STEADY = 10.0
_TICK, _STOPPED = 1.0, 1.0
"""The interval of checks whether the process was stopped, and the shortest stop that counts: seconds."""
SUBSCRIPTION = frozenset(LifecycleEvent) - {LifecycleEvent.UNKNOWN}
_UNIMPLEMENTED = 12
_EVENT_METHODS: Mapping[str, LifecycleEvent] = MappingProxyType(
    {
        "RunPodSandbox": LifecycleEvent.RUN_POD_SANDBOX,
        "StopPodSandbox": LifecycleEvent.STOP_POD_SANDBOX,
        "RemovePodSandbox": LifecycleEvent.REMOVE_POD_SANDBOX,
        "PostCreateContainer": LifecycleEvent.POST_CREATE_CONTAINER,
        "StartContainer": LifecycleEvent.START_CONTAINER,
        "PostStartContainer": LifecycleEvent.POST_START_CONTAINER,
        "PostUpdateContainer": LifecycleEvent.POST_UPDATE_CONTAINER,
        "StopContainer": LifecycleEvent.STOP_CONTAINER,
        "RemoveContainer": LifecycleEvent.REMOVE_CONTAINER,
    }
)

_Decision = TypeVar("_Decision")
_log = logging.getLogger(__name__)


class Service:
    """Answers the requests of one connection."""

    def __init__(self, handler: NRIHandler, observer: PluginObserver, *, patience: float) -> None:
        self._handler = handler
        self._observer = observer
        self._patience = patience
        self._pods: list[PodSandbox] = []
        self._containers: list[NRIContainer] = []
        self._runtime = "the runtime"
        self.synchronized = False
        self._methods: Mapping[str, Callable[[NRIRequest], Awaitable[Reply]]] = {
            "Configure": self._configure,
            "Synchronize": self._synchronize,
            "CreateContainer": self._create,
            "UpdateContainer": self._update,
            "StateChange": self._state_change,
            "Shutdown": self._shut_down,
        } | dict.fromkeys(_EVENT_METHODS, self._named_event)

    async def answer(self, request: NRIRequest) -> Reply:
        """Answer one request.

        Raises:
            ProtocolViolation: if its payload is not what its method takes.
        """
        method = self._methods.get(request.method)
        if request.service == PLUGIN_SERVICE and method is not None:
            return await method(request)
        _log.warning(
            "%s called %s of %s, which is unknown here", self._runtime, request.method, request.service
        )
        self._observer.request("other", RequestOutcome.UNKNOWN)
        return Reply(code=_UNIMPLEMENTED, message=f"method {request.method} of {request.service} is unknown")

    async def _configure(self, request: NRIRequest) -> Reply:
        asked = codec.decode("ConfigureRequest", request.payload)
        self._runtime = f"{asked.runtime_name} {asked.runtime_version}".strip() or self._runtime
        events = sum(1 << (event - 1) for event in SUBSCRIPTION)
        self._observer.request(request.method, RequestOutcome.ANSWERED)
        return Reply(codec.encode("ConfigureResponse", events=events))

    async def _synchronize(self, request: NRIRequest) -> Reply:
        """Take note of pods and containers, which may come in several requests; decide after the last."""
        asked = codec.decode("SynchronizeRequest", request.payload)
        self._pods += map(codec.pod, asked.pods)
        self._containers += map(codec.container, asked.containers)
        if asked.more:
            self._observer.request(request.method, RequestOutcome.ANSWERED)
            return Reply(codec.encode("SynchronizeResponse", more=True))
        pods, self._pods = self._pods, []
        containers, self._containers = self._containers, []
        wanted = await self._decided(request, self._handler.on_synchronize(pods, containers))
        self.synchronized = True
        self._observer.synchronized(now=True)
        found = (self._runtime, len(pods), len(containers))
        _log.info("registered with %s, which has %d pods and %d containers", *found)
        return Reply(codec.encode("SynchronizeResponse", update=codec.updates(wanted or ())))

    async def _create(self, request: NRIRequest) -> Reply:
        asked = codec.decode("EventRequest", request.payload)
        created = self._handler.on_create(codec.pod(asked.pod), codec.container(asked.container))
        wanted = await self._decided(request, created)
        return Reply(codec.encode("CreateContainerResponse", adjust=codec.adjustment(wanted)))

    async def _update(self, request: NRIRequest) -> Reply:
        asked = codec.decode("UpdateContainerRequest", request.payload)
        container = codec.container(asked.container)
        updated = self._handler.on_update(codec.pod(asked.pod), container, codec.cpu(asked.linux_resources))
        wanted = await self._decided(request, updated)
        if wanted is None:
            return Reply()
        update = ContainerUpdate(container.id, wanted.quota, wanted.period, ignore_failure=False)
        return Reply(codec.encode("UpdateContainerResponse", update=codec.updates([update])))

    async def _state_change(self, request: NRIRequest) -> Reply:
        asked = codec.decode("StateChangeEvent", request.payload)
        return await self._event(request, LifecycleEvent(asked.event), asked)

    async def _named_event(self, request: NRIRequest) -> Reply:
        asked = codec.decode("EventRequest", request.payload)
        return await self._event(request, _EVENT_METHODS[request.method], asked)

    async def _event(self, request: NRIRequest, event: LifecycleEvent, asked: Any) -> Reply:
        """Let the handler take note; there is nothing to answer."""
        pod = codec.pod(asked.pod)
        if event is LifecycleEvent.RUN_POD_SANDBOX:
            await self._decided(request, self._handler.on_run_pod_sandbox(pod))
        else:
            container = codec.container(asked.container) if asked.HasField("container") else None
            await self._decided(request, self._handler.on_event(event, pod, container))
        return Reply()

    async def _shut_down(self, request: NRIRequest) -> Reply:
        _log.info("%s shuts down", self._runtime)
        self._observer.request(request.method, RequestOutcome.ANSWERED)
        return Reply()

    async def _decided(
        self, request: NRIRequest, decision: Coroutine[Any, Any, _Decision]
    ) -> _Decision | None:
        """Return the handler's decision, or None if it fails or takes too long.

        This is the handler's supervisor: a bug in it is logged with its traceback and costs one answer.
        """
        allowed = min(self._patience, request.allowed / 2) if request.allowed else self._patience
        deadline = request.arrived + allowed
        task = asyncio.create_task(decision, name=f"nri-{request.method}")
        try:
            await asyncio.wait({task}, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
        finally:
            task.cancel()
        if not task.done():
            task.add_done_callback(_log_failure)
            _log.warning("answered %s without a change: no decision within %g s", request.method, allowed)
            outcome = RequestOutcome.LATE
        else:
            outcome = RequestOutcome.FAILED if _log_failure(task) else RequestOutcome.ANSWERED
        self._observer.request(request.method, outcome)
        return task.result() if outcome is RequestOutcome.ANSWERED else None


def _log_failure(task: asyncio.Task[Any]) -> bool:
    """Log how the handler failed; False if it did not, True also if it gave up."""
    if task.cancelled():
        return True
    if error := task.exception():
        _log.error("%s failed, nothing is changed: this is a bug", task.get_name(), exc_info=error)
    return error is not None


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """The runtime's socket, and the plugin's identity.

    ``index``, two digits, orders the plugins of a runtime: a lower one is asked first. ``patience`` is how
    long a decision may take, in seconds; the runtime's own limit is 2 s by default.
    """

    socket: str = DEFAULT_SOCKET
    name: str = "corewise"
    index: str = "90"
    patience: float = 1.0


class NRIPlugin:
    """One plugin of one runtime. ``run`` it once, in a task."""

    def __init__(
        self,
        handler: NRIHandler,
        options: PluginOptions,
        *,
        observer: PluginObserver,
    ) -> None:
        self._handler = handler
        self._options = options
        self._observer = observer
        self._rng = random.Random()  # noqa: S311 - spreads retries in time, guards nothing
        self._logged = ""

    async def run(self) -> Never:
        """Serve the runtime until canceled; log operational errors and reconnect."""
        failures = 0
        while True:
            started = asyncio.get_running_loop().time()
            try:
                await self._connect()
            except NRIError as error:
                # Why there is no connection is logged once for each reason in a row.
                message = f"no connection to the container runtime by NRI, retrying: {error}"
                message += f"; {error.hint}" if error.hint else ""
                level = logging.DEBUG if message == self._logged else logging.WARNING
                _log.log(level, "%s", message)
                self._logged = message
            lasted = asyncio.get_running_loop().time() - started
            failures = 1 if lasted >= _STEADY else failures + 1
            wait = min(_LONGEST_WAIT, _FIRST_WAIT * (1 << min(failures - 1, 16)))
            await asyncio.sleep(wait * self._rng.uniform(0.5, 1.0))

    async def _connect(self) -> Never:
        """Serve over one connection until it ends."""
        try:
            reader, writer = await asyncio.open_unix_connection(self._options.socket)
        except OSError as error:
            raise Unreachable(f"{self._options.socket}: {error.strerror or error}") from error
        service = Service(self._handler, self._observer, patience=self._options.patience)
        connection = Connection(reader, writer, service.answer)
        try:
            await connection.run(self._stay_registered(connection))
        finally:
            if service.synchronized:
                self._logged = ""
                self._observer.synchronized(now=False)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _stay_registered(self, connection: Connection) -> Never:
        request = codec.encode(
            "RegisterPluginRequest", plugin_name=self._options.name, plugin_idx=self._options.index
        )
        await connection.call("RegisterPlugin", request, patience=_REGISTRATION_PATIENCE)
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(_TICK)
            stopped = loop.time() - before - _TICK
            if stopped > _STOPPED:
                raise ConnectionLost(
                    f"this process was stopped for {stopped:.1f} s: the runtime may have dropped the plugin"
                )
