"""A server for tests that are not coroutines: in a thread, beside kubectl or any client.

    with run_server() as server:
        subprocess.run(["kubectl", "--kubeconfig", server.kubeconfig, "get", "nodes"], check=True)

The pytest fixture ``kubedouble`` (:mod:`kubedouble.pytest_plugin`) is such a server for one test.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from kubedouble.server import ADMINISTRATOR, LocalAPIServer, serve

if TYPE_CHECKING:
    from kubernetes.client import ApiClient


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server in a thread of this process; all methods may be called from any thread.

    ``url`` is its address, such as ``https://127.0.0.1:40123``; ``kubeconfig`` is an administrator's file,
    with the certificates that a client needs.
    """

    url: str
    kubeconfig: Path
    _server: LocalAPIServer
    _clients: ExitStack

    def kubeconfig_for(self, user: str, groups: Sequence[str] | None = None) -> Path:
        """Write a kubeconfig for a user, who may do what RBAC grants to the name and the groups.

        ``groups`` is none by default, and the administrators' for the user admin.

        Returns:
            A new file, deleted when the server ends.
        """
        path = Path(tempfile.mkdtemp(dir=self.kubeconfig.parent), "kubeconfig")
        self._server.write_kubeconfig(path, user, groups)
        return path

    def client(self, user: str = ADMINISTRATOR, groups: Sequence[str] | None = None) -> ApiClient:
        """Return a client of the package ``kubernetes`` for a user, closed when the server ends.

        ``groups`` is none by default, and the administrators' for the user admin.

        Raises:
            ImportError: if the package ``kubernetes`` is not installed.
        """
        kubernetes: Any = import_module("kubernetes")  # optional, and only partly typed
        settings = kubernetes.client.Configuration()
        kubeconfig = str(self.kubeconfig_for(user, groups))
        kubernetes.config.load_kube_config(kubeconfig, client_configuration=settings)
        settings.proxy = None  # HTTPS_PROXY may be set; the server is on this machine
        client: ApiClient = kubernetes.client.ApiClient(settings)
        self._clients.callback(client.rest_client.pool_manager.clear)
        self._clients.callback(client.close)
        return client


@contextmanager
def run_server(
    *, name: str = "kubedouble", authorize: bool = True, without: Collection[str] = ()
) -> Iterator[RunningServer]:
    """Run a server in a thread until the block ends, on a free port of 127.0.0.1.

    It is empty but for what a new cluster has, and keeps its objects in memory. The options are those of
    :func:`kubedouble.serve`.
    """
    started = Future[tuple[LocalAPIServer, Callable[[], object]]]()
    serving = serve(name=name, authorize=authorize, without=without)
    thread = Thread(target=_run, args=(serving, started), daemon=True, name="kubedouble")
    thread.start()
    server, stop = started.result()
    try:
        with tempfile.TemporaryDirectory(prefix="kubedouble-") as directory, ExitStack() as clients:
            kubeconfig = Path(directory, "kubeconfig")
            server.write_kubeconfig(kubeconfig)
            yield RunningServer(server.url, kubeconfig, server, clients)
    finally:
        stop()
        thread.join()


def _run(
    serving: AbstractAsyncContextManager[LocalAPIServer],
    started: Future[tuple[LocalAPIServer, Callable[[], object]]],
) -> None:
    """Serve until stopped. ``started`` gets the server and what stops it, or the error if it cannot start."""

    async def main() -> None:
        async with serving as server:
            loop, stopped = asyncio.get_running_loop(), asyncio.Event()
            started.set_result((server, lambda: loop.call_soon_threadsafe(stopped.set)))
            await stopped.wait()

    try:
        asyncio.run(main())
    except BaseException as error:
        if started.done():
            raise
        started.set_exception(error)
