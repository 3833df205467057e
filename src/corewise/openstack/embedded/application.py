"""Placement's application over one SQLite file, or in memory: one database a process, one request at a time.

- Placement keeps its database in a module: a second one in the same process would silently be the first. So
  the second is refused, and the same again is the one that runs.
- SQLite loses writes when Placement's threads write side by side. So one lock is held from the beginning of
  a request to the last byte of its answer.
- Two processes on one file would not know of each other's lock. So the file has a lock beside it, which is
  waited for, and then refused.
"""

from __future__ import annotations

import fcntl
import importlib
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from corewise.openstack.errors import EmbeddedError, ExtraMissing
from corewise.openstack.quiet import logging_as_it_was, quietly, silent_without_logging

LONGEST_WAIT = 10.0
"""Seconds to wait for another process to let go of the file."""

_POLL = 0.05
_MODULES = ("conf", "db_api", "deploy")
_LOGGERS = ("placement", "alembic", "oslo_db", "oslo_policy", "oslo_middleware", "sqlalchemy")
_STARTING = threading.Lock()

Environment = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environment, StartResponse], Iterable[bytes]]


class EmbeddedPlacement:
    """A WSGI application. There is one a process: :func:`start`."""

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
    """Return the Placement on a file, made if it is not there; without a path, one in memory.

    Raises:
        EmbeddedError: if this process has another one already, another process has the file, or the file is
            no database that can be used.
        ExtraMissing: if openstack-placement is not installed.
    """
    wanted = path.resolve() if path is not None else None
    with _STARTING:
        running = EmbeddedPlacement.running
        if running is None:
            running = EmbeddedPlacement.running = _opened(wanted, patience)
        if running.path != wanted:
            raise EmbeddedError(
                f"this process has a Placement on {running.path or 'memory'} already, and can have one only",
                hint=f"start another process for {wanted or 'one in memory'}",
            )
        return running


def _opened(path: Path | None, patience: float) -> EmbeddedPlacement:
    """Lock the file and load Placement; the lock is let go if that fails."""
    with ExitStack() as on_failure:
        held = None if path is None else on_failure.enter_context(_hold(path, patience))
        loaded = EmbeddedPlacement(path, _load(path), held)
        on_failure.pop_all()
        return loaded


def _hold(path: Path, patience: float) -> IO[str]:
    """Lock the file's lock, for as long as this process lives."""
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
                f"another process has had {path} for {patience:g} s",
                hint="ask that process by its endpoint, or stop it first",
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
            hint = "put a good copy in its place, or name a file that is not there yet"
            raise EmbeddedError(f"{path} is no database that can be used: {why}", hint=hint) from error
    return application


def _imported() -> tuple[Any, type[Exception], dict[str, Any]]:
    """Import Placement late, because it takes longer than all of corewise, and quietly."""
    try:
        with quietly():
            modules = {name: importlib.import_module(f"placement.{name}") for name in _MODULES}
            database_error: type[Exception] = importlib.import_module("oslo_db.exception").DBError
            return importlib.import_module("oslo_config.cfg"), database_error, modules
    except ImportError as error:
        raise ExtraMissing("openstack", "openstack-placement") from error
