"""A client that is closed has no connection left, also of requests that were canceled.

aiohttp forgets the connection of a canceled request while TLS waits for the server to close, too. One that is
open when its event loop ends is a ResourceWarning.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from threading import Thread

from corewise.kube.certificates import Authority
from corewise.kube.client import Client
from corewise.kube.config import ClusterConfig
from corewise.kube.resources import NODES


@contextmanager
def silent_server() -> Iterator[ClusterConfig]:
    """A server that answers no request, and does not close TLS when a client does."""
    authority = Authority.create("test", now=datetime.now(UTC))
    pair = authority.issue_server(["127.0.0.1"], now=datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(f"{pair.certificate_pem}\n{pair.key_pem}")
        file.flush()
        context.load_cert_chain(file.name)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            with suppress(OSError), ExitStack() as held:
                while True:
                    accepted = listening.accept()[0]
                    with suppress(OSError):  # canceled in the handshake
                        held.enter_context(context.wrap_socket(accepted, server_side=True))

        thread = Thread(target=accept)
        thread.start()
        url = f"https://127.0.0.1:{listening.getsockname()[1]}"
        try:
            yield ClusterConfig(url, ca_pem=authority.certificate_pem.encode(), source="a test")
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


async def cancel_after(seconds: float, config: ClusterConfig) -> None:
    async with Client(config) as client:
        requests = [asyncio.create_task(client.list(NODES)) for _ in range(3)]
        await asyncio.sleep(seconds)
        for each in requests:
            each.cancel()
        await asyncio.wait(requests)


def test_canceled_requests_leave_no_connection_open() -> None:
    """Some are canceled while they connect, some in the handshake, and the late ones after it."""
    with silent_server() as config, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        for milliseconds in range(40):
            asyncio.run(cancel_after(milliseconds / 1000, config))
        gc.collect()
    assert [str(each.message) for each in told] == []
