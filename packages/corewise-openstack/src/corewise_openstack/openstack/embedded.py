"""A whole Placement in this process: the real ``openstack-placement`` on SQLite, where there is no other.

It is Placement's own WSGI application, with its own schema and rules; nothing of it is imitated. It
authenticates no caller: every one is an administrator. So it is called in this process without a socket
(:func:`in_process_client`), or served on the loopback interface only (:func:`served`).

- Placement keeps its database in a module: a second one in the same process would silently be the first. So
  the second is refused, and starting the same again returns the one that runs.
- SQLite loses writes when Placement's threads write side by side. So one lock is held from the start of a
  request to the last byte of its answer.
- Two processes on one file would not know of each other's lock. So a lock file beside the database excludes
  the second process: it waits, and is then refused.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import io
import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from corewise_openstack.openstack.errors import EmbeddedError
from corewise_openstack.openstack.placement_access import (
    UncheckedAdmin,
    adapter_client,
    logging_as_it_was,
    quietly,
    silent_without_logging,
)
from corewise_openstack.openstack.placement_client import PlacementClient

with quietly():
    import requests
    from keystoneauth1 import session
    from requests.adapters import BaseAdapter
    from requests.structures import CaseInsensitiveDict
    from webob import Request

LOOPBACK = "127.0.0.1"
LONGEST_WAIT = 10.0
"""Seconds to wait for another process to release the file."""

_POLL = 0.05
"""Seconds between two tries to lock the file, and until the server notices that it is to stop."""

_NOWHERE = "http://placement.embedded"
_MODULES = ("conf", "db_api", "deploy")
_LOGGERS = ("placement", "alembic", "oslo_db", "oslo_policy", "oslo_middleware", "sqlalchemy")
_STARTING = threading.Lock()

Environment = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environment, StartResponse], Iterable[bytes]]


class EmbeddedPlacement:
    """A WSGI application, one per process: :func:`start`."""

    running: EmbeddedPlacement | None = None

    def __init__(self, path: Path | None, application: Application, held: IO[str] | None) -> None:
        self.path = path
        self._application = application
        self._held = held
        self._one_at_a_time = threading.Lock()

    def __call__(self, environ: Environment, start_response: StartResponse) -> list[bytes]:
        with self._one_at_a_time:
            return [b"".join(self._application(environ, start_response))]


def start(path: Path | None = None, *, patience: float = LONGEST_WAIT) -> EmbeddedPlacement:
    """Return the Placement on a file, created if it does not exist; without a path, one in memory.

    Raises:
        EmbeddedError: if this process has another one already, another process has the file, or the file is
            no database that can be used.
    """
    wanted = path.resolve() if path is not None else None
    with _STARTING:
        running = EmbeddedPlacement.running
        if running is None:
            with ExitStack() as on_failure:
                held = None if wanted is None else on_failure.enter_context(_locked(wanted, patience))
                running = EmbeddedPlacement.running = EmbeddedPlacement(wanted, _load(wanted), held)
                on_failure.pop_all()
        if running.path != wanted:
            raise EmbeddedError(
                f"this process has a Placement on {running.path or 'memory'} already, and can have only one",
                hint=f"start another process for {wanted or 'one in memory'}",
            )
        return running


def _locked(path: Path, patience: float) -> IO[str]:
    """Lock the file beside the database, for as long as this process lives."""
    beside = path.with_name(f"{path.name}.lock")
    until = time.monotonic() + patience
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = beside.open("a")
    except OSError as error:
        hint = "name a file in a writable directory"
        raise EmbeddedError(f"{beside}: {error.strerror}", hint=hint) from error
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < until:
                time.sleep(_POLL)
                continue
            held.close()
            raise EmbeddedError(
                f"another process has held {path} for {patience:g} s",
                hint="use the endpoint of that process, or stop it first",
            ) from None
        return held


def _load(path: Path | None) -> Application:
    """Configure Placement, bring the database to its newest schema, and return its application."""
    config, database_error, placement = _imported()
    options = config.ConfigOpts()
    with logging_as_it_was():
        placement["conf"].register_opts(options)
    connection = f"sqlite:///{path}" if path is not None else "sqlite://"
    # Before parsing: the option is required, and parsing asks for it.
    options.set_default("connection", connection, group="placement_database")
    options.set_default("sync_on_startup", default=True, group="placement_database")
    options.set_default("auth_strategy", "noauth2", group="api")
    options([], project="placement", default_config_files=[], default_config_dirs=[])
    silent_without_logging(_LOGGERS)
    with quietly():
        placement["db_api"].configure(options)
        try:
            application: Application = placement["deploy"].loadapp(options)
        except database_error as error:
            why = str(error).partition("\n")[0]
            hint = "put a good copy in its place, or name a file that does not exist yet"
            raise EmbeddedError(f"{path} is not a database that can be used: {why}", hint=hint) from error
    return application


def _imported() -> tuple[Any, type[Exception], dict[str, Any]]:
    """Import Placement late, because it takes longer than all of corewise, and quietly."""
    with quietly():
        modules = {name: importlib.import_module(f"placement.{name}") for name in _MODULES}
        database_error: type[Exception] = importlib.import_module("oslo_db.exception").DBError
        return importlib.import_module("oslo_config.cfg"), database_error, modules


def in_process_client(placement: Application) -> PlacementClient:
    """Return a client that calls the application itself. Each thread needs its own; requests take turns."""
    over = requests.Session()
    over.trust_env = False  # no proxy leads to this process
    over.mount(_NOWHERE, _InProcess(placement))
    return adapter_client(session.Session(auth=UncheckedAdmin(), session=over), _NOWHERE)


class _InProcess(BaseAdapter):
    """Hands each request to the application, and its answer back."""

    def __init__(self, placement: Application) -> None:
        super().__init__()
        self._placement = placement

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        asked = Request.blank(
            request.url, method=request.method, headers=dict(request.headers), body=request.body or b""
        )
        answered = asked.get_response(self._placement)
        response = requests.Response()
        response.status_code = answered.status_code
        response.headers = CaseInsensitiveDict(answered.headers)
        response.raw = io.BytesIO(answered.body)
        response.url = request.url or ""
        response.request = request
        return response

    def close(self) -> None:
        """Nothing is open."""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Bind without asking the resolver for the address' name, which HTTPServer would wait for."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, int(self.server_address[1])
        self.setup_environ()


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in http.server
        """Placement logs each request itself."""


@contextlib.contextmanager
def served(placement: EmbeddedPlacement, port: int = 0) -> Iterator[str]:
    """Serve it until the block ends, and yield its endpoint; port 0 takes any that is free.

    Raises:
        EmbeddedError: if the port is taken.
    """
    try:
        server = _Server((LOOPBACK, port), _Silent)
    except OSError as error:
        raise EmbeddedError(f"{LOOPBACK}:{port}: {error.strerror}", hint="name another port, or 0") from error
    server.set_app(placement)
    thread = threading.Thread(
        target=server.serve_forever, args=(_POLL,), name="embedded-placement", daemon=True
    )
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
