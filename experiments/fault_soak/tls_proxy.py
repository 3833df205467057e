"""A proxy between two programs that speak TLS: it can delay, cut and swallow what passes, and not read it.

For kube-scheduler's calls of each scheduler, and the API server's calls of each manager's webhook.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final, Self

from experiments.fault_soak.links import SLOW, Fault, Link

_PIECE: Final = 1 << 16
_LOSSES: Final = 0.2


class _Cut(Exception):  # noqa: N818 - what is to be done
    """The connection is to be cut."""


@dataclass
class TLSProxy:
    """The proxy of one link to a port of this machine, which :attr:`target` names before the first call."""

    link: Link
    target: int = 0
    url: str = ""
    _connections: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._connections:
            task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._connect(reader, writer)
        except _Cut:
            writer.transport.abort()
        except (OSError, asyncio.CancelledError):
            pass  # the other side is gone, or the run is over
        finally:
            writer.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect to the target, and pass on both ways until one of them ends.

        Raises:
            _Cut: if a fault is to end it.
        """
        if self.link.fault is Fault.REFUSED:
            self.link.note("refused")
            raise _Cut
        source, sink = await asyncio.open_connection("127.0.0.1", self.target)
        ways = {
            asyncio.ensure_future(self._pass_on(reader, sink, answers=False)),
            asyncio.ensure_future(self._pass_on(source, writer, answers=True)),
        }
        try:
            ended, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ended:
                way.result()
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            sink.close()

    async def _pass_on(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        link = self.link
        while piece := await source.read(_PIECE):
            link.passed += 1
            match link.fault:
                case Fault.SLOW_READS if answers:
                    link.note("slow")
                    await asyncio.sleep(link.draw.uniform(*SLOW))
                case Fault.LOSSES if link.strikes(_LOSSES):
                    link.note("answer lost" if answers else "lost")
                    raise _Cut
                case Fault.REFUSED:
                    link.note("refused")
                    raise _Cut
                case Fault.SILENT:
                    link.note("silent")
                    await link.until_over()
                    raise _Cut
            sink.write(piece)
            await sink.drain()
