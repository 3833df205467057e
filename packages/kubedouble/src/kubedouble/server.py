"""The server itself: certificates, the listening socket, kubeconfigs.

    async with serve() as server:
        server.write_kubeconfig(path)

Everything is in memory unless a state directory is given. Clients show certificates of the server's own
authority; who shows none is anonymous.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import logging
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from kubedouble.autoscaling import Autoscaler
from kubedouble.bootstrap import bootstrap
from kubedouble.certificates import Authority
from kubedouble.cluster import Cluster, utc_now
from kubedouble.controllers import Controllers
from kubedouble.definitions import serve_definitions
from kubedouble.expressions import MISSING_LIBRARY, is_available
from kubedouble.housekeeping import Housekeeper
from kubedouble.resources import Registry
from kubedouble.routes import Router, request_of
from kubedouble.state import StateDirectory, StateError
from kubedouble.store import HISTORY, Store

ADMINISTRATOR, ADMINISTRATORS = "admin", ("system:masters",)
NEW_IN_1_36 = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
"""Resources that Kubernetes serves by default from 1.36 on."""
_SHUTDOWN_SECONDS = 1.0
_ACCEPT_PAUSE = 1.0
_RESTART_SECONDS = 1.0
_BACKLOG = 128
_NO_IPV6 = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})

log = logging.getLogger(__name__)


class ListenError(ValueError):
    """The address cannot be listened on; the message names it and says why."""


@dataclass(frozen=True, slots=True)
class LocalAPIServer:
    """A running server, for coroutines of the event loop that it runs in.

    ``name`` is that of the cluster in kubeconfigs; ``url`` is the address, such as ``https://127.0.0.1:40123``.
    """

    name: str
    url: str
    authority: Authority
    cluster: Cluster
    failure: asyncio.Future[StateError]
    """Done when a change could not be kept in the state directory. No change is taken from then on: end."""

    @property
    def store(self) -> Store:
        return self.cluster.store

    @property
    def ca_pem(self) -> str:
        """The certificate of the server's authority, which clients trust."""
        return self.authority.certificate_pem

    def kubeconfig(self, user: str = ADMINISTRATOR, groups: Sequence[str] | None = None) -> dict[str, Any]:
        """Return a kubeconfig with a new client certificate for a user, valid for a year.

        The default is an administrator; other users may do what RBAC grants to the name and the groups,
        which are none by default.
        """
        if groups is None:
            groups = ADMINISTRATORS if user == ADMINISTRATOR else ()
        pair = self.authority.issue_client(user, groups, now=self.cluster.clock())
        cluster = {"server": self.url, "certificate-authority-data": _base64(self.ca_pem)}
        credentials = {
            "client-certificate-data": _base64(pair.certificate_pem),
            "client-key-data": _base64(pair.key_pem),
        }
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": self.name, "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": user}}],
            "current-context": self.name,
        }

    def write_kubeconfig(
        self, path: str | Path, user: str = ADMINISTRATOR, groups: Sequence[str] | None = None
    ) -> None:
        """Write a kubeconfig that only its owner can read, whole or not at all.

        Raises:
            OSError: if it cannot be written; a device or a pipe would not be written but replaced.
        """
        path = Path(path)
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        text = msgspec.json.format(msgspec.json.encode(self.kubeconfig(user, groups)), indent=2)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            file.write(text + b"\n")
        Path(file.name).replace(path)


@contextlib.asynccontextmanager
async def serve(
    *,
    listen: str = "127.0.0.1:0",
    state_dir: str | Path | None = None,
    authorize: bool = True,
    name: str = "kubedouble",
    without: Collection[str] = (),
    history: int = HISTORY,
) -> AsyncIterator[LocalAPIServer]:
    """Run a server in the current event loop until the block ends.

    ``listen`` is HOST:PORT, where port 0 picks a free one. Objects are in memory, or in the directory
    ``state_dir`` too. Without ``authorize`` everybody may do everything. ``name`` is the cluster's in
    kubeconfigs, and the build's in the version: ``v1.36.0+kubedouble``. ``without`` names resources that are
    not served, such as those of :data:`NEW_IN_1_36`. These are not served either without the library that
    evaluates expressions; the version is then 1.35. ``history`` is how many changes of each kind are
    remembered at least.

    Raises:
        StateError: if the state directory cannot be used.
        ListenError: if the address cannot be listened on.
    """
    with contextlib.ExitStack() as stack:
        failure: asyncio.Future[StateError] = asyncio.get_running_loop().create_future()
        state = StateDirectory(state_dir, on_failure=failure.set_result) if state_dir else None
        if state:
            stack.callback(state.close)
        cluster = _cluster(state, name, history, authorize=authorize, without=without)
        now = cluster.clock()
        authority = state.authority(name, now) if state else Authority.create(name, now=now)
        sockets = await asyncio.to_thread(_bind, listen)
        for each in sockets:
            stack.callback(each.close)
        host = listen.rpartition(":")[0].strip("[]")
        context = _ssl_context(authority, [host, "localhost", "127.0.0.1"], now)
        async with _housekeeping(cluster), _listening(cluster, sockets, context) as address:
            yield LocalAPIServer(name, f"https://{address}", authority, cluster, failure)


def _cluster(
    state: StateDirectory | None, name: str, history: int, *, authorize: bool, without: Collection[str]
) -> Cluster:
    if not is_available():  # a policy that cannot be evaluated would fail every write that it concerns
        without = {*without, *NEW_IN_1_36}
        log.warning(
            "%s; without it no mutating policy is served, and no matchCondition of a webhook is read",
            MISSING_LIBRARY,
        )
    store, registry = Store(history=history), Registry(without=without)
    if state:
        state.load(store)
    serve_definitions(store, registry, utc_now)
    cluster = Cluster(store, registry, utc_now, authorize=authorize, name=name)
    bootstrap(cluster)
    return cluster


@contextlib.asynccontextmanager
async def _housekeeping(cluster: Cluster) -> AsyncIterator[None]:
    controllers = Controllers(cluster)
    loops = (Housekeeper(cluster).run, controllers.run, Autoscaler(cluster, controllers.change).run)
    tasks = [asyncio.create_task(_supervise(loop), name="apiserver-housekeeping") for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _supervise(loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a loop until canceled; one that fails is logged and starts again after a pause.

    Without it deletions would stay unfinished, or workloads get no pods.
    """
    while True:
        try:
            await loop()
        except Exception:
            log.exception("the API server: %s failed and starts again in %g s", loop, _RESTART_SECONDS)
        await asyncio.sleep(_RESTART_SECONDS)


@contextlib.asynccontextmanager
async def _listening(
    cluster: Cluster, sockets: Sequence[socket.socket], context: ssl.SSLContext
) -> AsyncIterator[str]:
    """Serve, and yield the address as it stands in a URL."""
    server = web.Server(
        Router(cluster), request_factory=request_of, handler_cancellation=True, auto_decompress=False
    )
    accepting = [asyncio.create_task(_accept(each, server, context)) for each in sockets]
    try:
        yield _netloc(sockets[0].getsockname())
    finally:
        for task in accepting:
            task.cancel()
        await asyncio.wait(accepting)
        for each in sockets:
            each.close()
        server.pre_shutdown()
        for watch in list(cluster.watches):
            watch.close()
        transports = [each.transport for each in server.connections if each.transport]
        await server.shutdown(_SHUTDOWN_SECONDS)
        for transport in transports:
            with contextlib.suppress(AttributeError):  # Python before 3.11.4: it has closed meanwhile
                transport.abort()  # closing alone waits for the peer to close TLS too, beyond the loop's end
        await cluster.admission.close()
        await asyncio.sleep(0)


def _bind(listen: str) -> list[socket.socket]:
    """Return listening sockets, one for each address that the host stands for, all of one port."""
    host, _, digits = listen.rpartition(":")
    if not digits.isdecimal() or int(digits) > 65535:
        raise ListenError(f"cannot listen on {listen}: write HOST:PORT, such as 127.0.0.1:6443")
    bound, port = list[socket.socket](), int(digits)
    problem: OSError | None = None
    try:
        found = socket.getaddrinfo(
            host.strip("[]") or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, where in dict.fromkeys((each[0], each[4]) for each in found):
            try:
                opened = socket.create_server((where[0], port, *where[2:]), family=family, backlog=_BACKLOG)
            except OSError as error:
                if family == socket.AF_INET6 and (not host or error.errno in _NO_IPV6):
                    problem = (
                        error  # without IPv6 on the machine, the host stands for its IPv4 addresses alone
                    )
                    continue
                raise
            opened.setblocking(False)
            bound.append(opened)
            port = opened.getsockname()[1]
        if problem is not None and not bound:
            raise problem
    except (socket.gaierror, UnicodeError) as error:  # UnicodeError: a label of the name is empty or too long
        raise ListenError(f"cannot listen on {listen}: no such host") from error
    except OSError as error:
        for each in bound:
            each.close()
        raise ListenError(f"cannot listen on {listen}: {os.strerror(error.errno or 0).lower()}") from error
    return bound


async def _accept(listening: socket.socket, server: web.Server, context: ssl.SSLContext) -> None:
    """Serve connections until canceled."""
    loop = asyncio.get_running_loop()

    async def serve_one(accepted: socket.socket) -> None:
        with contextlib.suppress(OSError):  # no TLS is spoken, or not ours
            await loop.connect_accepted_socket(server, accepted, ssl=context)

    async with asyncio.TaskGroup() as tasks:
        failing = False
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:
                # No file descriptor is left. asyncio's own server would try, and log, without a pause.
                if not failing:
                    log.warning("the API server: cannot accept connections: %s", error)
                failing = True
                await asyncio.sleep(_ACCEPT_PAUSE)
            else:
                failing = False
                tasks.create_task(serve_one(accepted))


def _ssl_context(authority: Authority, hosts: list[str], now: datetime) -> ssl.SSLContext:
    pair = authority.issue_server(_named(hosts), now=now)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.certificate_pem)
    context.verify_mode = ssl.CERT_OPTIONAL
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "server.pem")
        file.write_text(pair.certificate_pem + pair.key_pem)
        context.load_cert_chain(file)
    return context


def _named(hosts: list[str]) -> Iterator[str]:
    """Yield each host that a client can name, once."""
    return (host for host in dict.fromkeys(hosts) if host and host not in {"0.0.0.0", "::"})  # noqa: S104 - not bound


def _netloc(address: tuple[Any, ...]) -> str:
    host, port = address[0], address[1]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - not bound
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
