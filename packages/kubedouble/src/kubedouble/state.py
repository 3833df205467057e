"""A store that outlives its process: a snapshot, and a journal of the changes since.

The snapshot is replaced as a whole (written beside, synced, renamed). Each change is one line of the
journal with a checksum, appended before the change is made. A last line that is only half there was never
acknowledged and is dropped; damage anywhere else is refused with the file and line, since what comes after
it cannot be trusted. When the journal has grown longer than the state deserves, and at every start, a new
snapshot is taken.

After a write that failed (a full disk) nothing more is appended, also when there is room again: every further
change is refused, and ``on_failure`` is called, for the server to end.

The certificate authority lives in the same directory, so that kubeconfigs stay good. One server at a time
may use a directory.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from kubedouble.certificates import Authority, CertificateError
from kubedouble.errors import UNREADABLE
from kubedouble.store import Change, Store

FORMAT = 1
JOURNAL_LINES = 20_000
"""A journal is folded when it is longer than this, and than four times the number of objects."""


_FILES = ("lock", "snapshot", ".snapshot.new", "journal", "authority.pem", ".authority.pem.new")


class StateError(Exception):
    """A state directory cannot be used; the message names the file and the remedy."""

    exit_code = 1


class StateWriteError(StateError):
    """A file of a state directory cannot be written, as on a full disk."""

    exit_code = os.EX_IOERR

    def __init__(self, file: Path, error: OSError) -> None:
        super().__init__(
            f"{file}: cannot be written: {error.strerror or error}; changes that cannot be kept are refused, "
            "and the API server ends: make sure there is space, and start it again"
        )


class Record(msgspec.Struct, array_like=True):
    """One change, or one object of a snapshot: its place, version and value (``None``: deleted)."""

    version: int
    storage: str
    namespace: str
    name: str
    object: dict[str, Any] | None


class Header(msgspec.Struct):
    """The first line of a snapshot."""

    format: int
    version: int
    objects: int


_encode = msgspec.json.Encoder().encode
_decode_record = msgspec.json.Decoder(Record).decode
_decode_header = msgspec.json.Decoder(Header).decode


class StateDirectory:
    """Keeps one store on disk, from :meth:`load` to :meth:`close`."""

    def __init__(
        self, path: str | Path, *, on_failure: Callable[[StateWriteError], None] = lambda _: None
    ) -> None:
        self._path = Path(path)
        self._on_failure = on_failure
        self._failure: StateWriteError | None = None
        with _writing(self._path / "lock"):
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._refuse_special_files()
            self._lock = (self._path / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise StateError(
                f"{self._path}: another API server is using this directory; stop it first"
            ) from None
        self._journal = self._open_journal(os.O_APPEND)
        self._lines = 0

    def load(self, store: Store) -> None:
        """Fill an empty store from disk, and write down its changes from now on.

        Raises:
            StateError: if a file is damaged or of another format, or cannot be written.
        """
        for record in self._snapshot(store):
            store.restore(record.storage, (record.namespace, record.name), record.object, record.version)
        version = store.version = max(store.version, self._snapshot_version)
        for record in self._changes():
            if record.version > version:
                store.restore(record.storage, (record.namespace, record.name), record.object, record.version)
        store.forget()
        self._fold(store)
        store.record(lambda storage, change: self._append(store, storage, change))

    def authority(self, name: str, now: datetime) -> Authority:
        """Return the directory's certificate authority, made now if there is none.

        Raises:
            StateError: if it is damaged or cannot be written.
        """
        file = self._path / "authority.pem"
        if not file.exists():
            made = Authority.create(name, now=now)
            _replace(file, (made.certificate_pem + made.key_pem).encode())
        try:
            text = _content(file).decode()
            return Authority.from_pem(text, text)
        except (CertificateError, UnicodeDecodeError) as error:
            raise StateError(
                f"{file}: {error}; remove it to get a new authority and new kubeconfigs"
            ) from error

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self._journal)
        self._lock.close()

    def _refuse_special_files(self) -> None:
        """Refuse a FIFO, a device or a directory in place of a file: to open it might never end.

        Raises:
            StateError: if there is one.
        """
        for name in _FILES:
            file = self._path / name
            if file.exists() and not file.is_file():
                raise StateError(f"{file}: not a regular file; remove it, or keep the state elsewhere")

    def _snapshot(self, store: Store) -> Iterator[Record]:
        self._snapshot_version = 0
        file = self._path / "snapshot"
        if not file.exists():
            return
        lines = _content(file).splitlines()
        try:
            header = _decode_header(lines[0])
            if header.format != FORMAT:
                raise StateError(f"{file}: format {header.format} is not known here, only {FORMAT}")
            records = [_decode_record(line) for line in lines[1:]]
        except (*UNREADABLE, IndexError) as error:
            raise _damaged(file, str(error)) from error
        if len(records) != header.objects:
            raise _damaged(file, f"{header.objects} objects expected, {len(records)} found")
        self._snapshot_version = header.version
        yield from records

    def _changes(self) -> Iterator[Record]:
        """Read the journal; the last line may be half written."""
        file = self._path / "journal"
        if not file.exists():
            return
        *whole, _ = _content(file).split(b"\n")
        for number, line in enumerate(whole, 1):
            record = _unsealed(line)
            if record is None:
                raise _damaged(file, f"line {number} does not match its checksum")
            yield record

    def _append(self, store: Store, storage: str, change: Change) -> None:
        """Write a change down that is about to be made.

        Raises:
            StateWriteError: if that cannot be done, or could not once before.
        """
        if self._failure is not None:
            raise self._failure
        namespace, name = change.stored.key
        obj = None if change.type == "DELETED" else dict(change.stored.object)
        line = _sealed(Record(change.version, storage, namespace, name, obj))
        try:
            if self._lines >= max(JOURNAL_LINES, 4 * sum(len(table) for table in store.tables())):
                self._fold(store)
            with _writing(self._path / "journal"):
                _write_whole(self._journal, line)
        except StateWriteError as error:
            self._failure = error
            self._on_failure(error)
            raise
        self._lines += 1

    def _fold(self, store: Store) -> None:
        """Write a snapshot of the store and begin an empty journal."""
        records = [
            Record(stored.version, table.storage, *stored.key, dict(stored.object))
            for table in store.tables()
            for stored in table.scan()
        ]
        records.sort(key=lambda record: record.version)
        header = Header(FORMAT, store.version, len(records))
        _replace(self._path / "snapshot", b"\n".join(map(_encode, [header, *records])) + b"\n")
        os.close(self._journal)
        self._journal = self._open_journal(os.O_APPEND | os.O_TRUNC)
        self._lines = 0

    def _open_journal(self, flags: int) -> int:
        file = self._path / "journal"
        with _writing(file):
            return _private(str(file), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise StateError(f"{file}: cannot be read: {error.strerror or error}") from error


def _sealed(record: Record) -> bytes:
    line = _encode(record)
    return b"%08x %s\n" % (zlib.crc32(line), line)


def _unsealed(line: bytes) -> Record | None:
    checksum, _, body = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(body):
        return None
    try:
        return _decode_record(body)
    except UNREADABLE:
        return None


def _replace(file: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    beside = file.with_name(f".{file.name}.new")
    with _writing(file):
        try:
            with open(beside, "wb", opener=_private) as new:
                new.write(content)
                new.flush()
                os.fsync(new.fileno())
            beside.replace(file)
        except OSError:
            with suppress(OSError):
                beside.unlink()
            raise


def _write_whole(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateWriteError(file, error) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _damaged(file: Path, why: str) -> StateError:
    return StateError(
        f"{file}: damaged ({why}); restore it from a copy, or remove the directory to start empty"
    )
