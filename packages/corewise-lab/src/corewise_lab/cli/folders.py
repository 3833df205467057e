"""The folder of a run: a temporary one, or the directory that ``--state`` names, for one run at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from corewise.cli.errors import ExitCode, Failure
from corewise.cli.files import make_folder
from corewise_lab.control_plane import Folder

_MEMORY = "/dev/shm"  # noqa: S108 - mkdtemp makes a private directory in it
_PLENTY = 2 << 30
_OBJECTS = "objects"
REPLACED = (
    *("machines", "kubeconfig", "manager.kubeconfig", "scheduler.kubeconfig", "scheduler.yaml"),
    *("apiserver.log", "manager.log", "scheduler.log", "web.log"),
)
"""What a run removes or overwrites in its folder."""


@contextmanager
def run_folder(state: Path | None) -> Iterator[Folder]:
    """Provide the folder of a cluster: the one of ``--state``, or a temporary one without it.

    Raises:
        Failure: if it cannot be used: another run uses it, or it has files of somebody else.
    """
    if state is not None:
        make_folder(state)
        _refuse_others_files(state)
        with locked(state):
            yield Folder(state, state=state / _OBJECTS)
        return
    path = temporary_folder(_scratch())
    failed = False
    try:
        yield Folder(path)
    except Failure as failure:
        failed = failure.exit_code == ExitCode.CONNECTION  # its message may name a log
        raise
    finally:
        clear(path, keep_logs=failed)


@contextmanager
def locked(state: Path) -> Iterator[None]:
    """Keep other runs out of the directory of ``--state`` until the block ends.

    Raises:
        Failure: if another run uses it.
    """
    file = state / "lock"
    with ExitStack() as stack:
        try:
            lock = stack.enter_context(file.open("ab"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "end it first (Ctrl-C), or name another directory"
            raise Failure(f"another corewise up uses {state}", hint=hint) from None
        except OSError as error:
            raise Failure(f"{file} cannot be locked: {error.strerror}") from error
        yield


def temporary_folder(parent: str | None = None) -> Path:
    """Make a directory that only this user may enter, in the default place without ``parent``.

    Raises:
        Failure: if there is no place for one.
    """
    try:
        return Path(tempfile.mkdtemp(prefix="corewise-", dir=parent))
    except OSError as error:
        hint = "name a directory that you can write to: TMPDIR=DIRECTORY corewise up"
        raise Failure(f"cannot make a temporary directory: {error.strerror}", hint=hint) from error


def clear(folder: Path, *, keep_logs: bool = False) -> None:
    """Remove a run's folder, or everything in it except the programs' logs."""
    for each in list(folder.iterdir()):
        if each.is_dir():
            shutil.rmtree(each)
        elif not keep_logs or each.suffix != ".log":
            each.unlink()
    if not keep_logs:
        folder.rmdir()


def _refuse_others_files(state: Path) -> None:
    """Refuse a directory in which a run would replace what no earlier run made.

    A run's objects have a snapshot before it makes any other file, except the API server's log, empty then.
    """
    if (state / _OBJECTS / "snapshot").exists():
        return
    for file in (state / name for name in REPLACED):
        if file.exists() and file.stat().st_size:
            hint = f"name another directory, or remove {file} if nothing needs it"
            raise Failure(f"{file} would be replaced, but {state} is not of an earlier run", hint=hint)


def _scratch() -> str | None:
    """Return a folder in memory for a run's many small files, or None for the default folder."""
    try:
        roomy = shutil.disk_usage(_MEMORY).free > _PLENTY and os.access(_MEMORY, os.W_OK | os.X_OK)
    except OSError:
        return None
    return _MEMORY if roomy and not os.environ.get("TMPDIR") else None
