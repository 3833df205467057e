"""Listening sockets: where they are bound, and how connections are accepted while descriptors run out."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import AsyncIterator

from corewise.service.options import Address, OptionsError

log = logging.getLogger(__name__)

_USED_HINT = "another program listens there: stop it, or choose another port"
_NO_IPV6 = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
_BACKLOG = 128
_ACCEPT_PAUSE = 1.0


def bind(address: Address) -> list[socket.socket]:
    """Return listening sockets, one for each address that the host stands for.

    Raises:
        OptionsError: if none can be opened.
    """
    port, bound = address.port, list[socket.socket]()
    problem = "no such host"
    try:
        found = socket.getaddrinfo(
            address.host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, where in dict.fromkeys((each[0], each[4]) for each in found):
            try:
                opened = socket.create_server((where[0], port, *where[2:]), family=family, backlog=_BACKLOG)
            except OSError as error:
                # Without IPv6 on the machine, the host stands for its IPv4 addresses alone.
                problem = _why(error)
                if family == socket.AF_INET6 and (not address.host or error.errno in _NO_IPV6):
                    continue
                raise
            opened.setblocking(False)
            bound.append(opened)
            port = opened.getsockname()[1]
    except OSError as error:
        for each in bound:
            each.close()
        hint = _USED_HINT if error.errno == errno.EADDRINUSE else ""
        raise OptionsError(f"cannot listen on {address}: {_why(error)}", hint=hint) from error
    except UnicodeError as error:  # a label of the host is empty or too long
        raise OptionsError(f"cannot listen on {address}: {problem}") from error
    if not bound:
        raise OptionsError(f"cannot listen on {address}: {problem}")
    return bound


def _why(error: OSError) -> str:
    known = error.errno is not None and not isinstance(error, socket.gaierror)
    return (os.strerror(error.errno or 0) if known else str(error.strerror or error)).lower()


async def connections(listening: socket.socket, name: str) -> AsyncIterator[socket.socket]:
    """Yield connections as they are accepted.

    Where that fails (no file descriptor is left), it pauses before each new attempt, and logs that once.
    asyncio's own server tries as often as its backlog is long, logs each time, and schedules as many retries.
    """
    loop = asyncio.get_running_loop()
    failing = False
    while True:
        try:
            accepted, _ = await loop.sock_accept(listening)
        except OSError as error:
            if not failing:
                log.warning("%s: cannot accept connections: %s", name, error)
            failing = True
            await asyncio.sleep(_ACCEPT_PAUSE)
            continue
        failing = False
        yield accepted
