"""The plugin: connects to the runtime, registers, serves, and does so again whenever the connection ends.

A connection ends when the runtime restarts, when it drops the plugin (for answering too late, or because the
plugin was stopped in a debugger), or when what came was not NRI. The plugin waits a little longer after each
failure, by chance up to half less, and starts with short waits again after a connection that lasted.

The runtime never waits for a plugin that is not connected: pods start without it, and the first thing a new
connection brings is the list of all that run.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Never

from corewise.nri import codec
from corewise.nri.connection import Connection
from corewise.nri.errors import ConnectionLost, NRIError, Unreachable
from corewise.nri.handler import Handler
from corewise.nri.messages import ContainerUpdate
from corewise.nri.observer import Observer, Unobserved
from corewise.nri.service import Service

DEFAULT_SOCKET = "/var/run/nri/nri.sock"
_REGISTRATION_PATIENCE = 5.0
_UPDATE_PATIENCE = 10.0
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 5.0
_STEADY = 10.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """Where the runtime listens, and who we are.

    ``index``, two digits, orders the plugins of a runtime: a lower one is asked first. ``patience`` is how
    long a decision may take, in seconds; the runtime's own limit is 2 s by default.
    """

    socket: str = DEFAULT_SOCKET
    name: str = "corewise"
    index: str = "90"
    patience: float = 1.0


class Plugin:
    """One plugin of one runtime. ``run`` it once, in a task."""

    def __init__(
        self,
        handler: Handler,
        options: PluginOptions | None = None,
        *,
        observer: Observer | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._handler = handler
        self._options = options or PluginOptions()
        self._observer = observer or Unobserved()
        self._rng = rng or random.Random()  # noqa: S311 - spreads retries in time, guards nothing
        self._connection: Connection | None = None
        self._told = ""

    async def run(self) -> Never:
        """Be the runtime's plugin for ever; operational errors are logged and outlived."""
        failures = 0
        while True:
            started = asyncio.get_running_loop().time()
            try:
                await self._connect()
            except NRIError as error:
                self._tell(error)
            lasted = asyncio.get_running_loop().time() - started
            failures = 1 if lasted >= _STEADY else failures + 1
            await asyncio.sleep(self._wait(failures))

    async def update_containers(self, updates: Iterable[ContainerUpdate]) -> list[str]:
        """Have the runtime update containers now; return the IDs of those that it could not update.

        Not to be awaited by a handler: the runtime answers only after the handler has.

        Raises:
            NRIError: if there is no connection, or the runtime refuses or does not answer.
        """
        if self._connection is None:
            raise ConnectionLost(
                "there is no connection to the runtime", hint="the plugin connects anew by itself"
            )
        request = codec.encode("UpdateContainersRequest", update=codec.updates(updates))
        answer = await self._connection.call("UpdateContainers", request, patience=_UPDATE_PATIENCE)
        return [failed.container_id for failed in codec.decode("UpdateContainersResponse", answer).failed]

    async def _connect(self) -> Never:
        """Serve over one connection until it ends."""
        reader, writer = await self._open()
        try:
            await self._serve(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_unix_connection(self._options.socket)
        except OSError as error:
            raise Unreachable(f"{self._options.socket}: {error.strerror or error}") from error

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Never:
        service = Service(self._handler, self._observer, patience=self._options.patience)
        connection = Connection(reader, writer, service.answer)
        try:
            await connection.run(self._stay_registered(connection))
        finally:
            self._connection = None
            if service.synchronized:
                self._told = ""
                self._observer.synchronized(now=False)

    async def _stay_registered(self, connection: Connection) -> Never:
        request = codec.encode(
            "RegisterPluginRequest", plugin_name=self._options.name, plugin_idx=self._options.index
        )
        await connection.call("RegisterPlugin", request, patience=_REGISTRATION_PATIENCE)
        self._connection = connection
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody ends this wait but by cancelling it")

    def _wait(self, failures: int) -> float:
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * (1 << min(failures - 1, 16)))
        return longest * self._rng.uniform(0.5, 1.0)

    def _tell(self, error: NRIError) -> None:
        """Log why there is no connection, once for each reason in a row."""
        message = f"no container runtime by NRI, trying again: {error}"
        if error.hint:
            message += f"; {error.hint}"
        _log.log(logging.DEBUG if message == self._told else logging.WARNING, "%s", message)
        self._told = message
