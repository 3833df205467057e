"""A store on disk: what was acknowledged is there again, and damage is told and never guessed over."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubedouble import serve
from kubedouble.state import StateDirectory, StateError, StateWriteError
from kubedouble.store import Expired, Store

NOW = datetime(2024, 5, 1, tzinfo=UTC)


def content(store: Store) -> dict[Any, Any]:
    return {(table.storage, s.key): s.object for table in store.tables() for s in table.scan()}


def opened(path: Path) -> tuple[StateDirectory, Store]:
    directory, store = StateDirectory(path), Store()
    try:
        directory.load(store)
    except StateError:
        directory.close()
        raise
    return directory, store


def reopened(path: Path) -> Store:
    directory, store = opened(path)
    directory.close()
    return store


def put(store: Store, name: str, **more: Any) -> None:
    store.put("nodes", ("", name), {"metadata": {"name": name}, **more})


def filled(path: Path) -> list[dict[Any, Any]]:
    """Make a directory with three changes in its journal; return the states before and after each."""
    directory, store = opened(path)
    states = [content(store)]
    put(store, "a", spec={"taints": []})
    states.append(content(store))
    put(store, "b")
    states.append(content(store))
    store.remove("nodes", ("", "a"))
    states.append(content(store))
    directory.close()
    return states


def test_objects_and_versions_survive(tmp_path: Path) -> None:
    states = filled(tmp_path)
    store = reopened(tmp_path)
    assert content(store) == states[-1]
    assert store.version == Store().version + 3
    assert content(reopened(tmp_path)) == states[-1]


def test_versions_continue_after_restart_and_past_has_expired(tmp_path: Path) -> None:
    filled(tmp_path)
    directory, store = opened(tmp_path)
    before = store.version
    with pytest.raises(Expired):
        store.table("nodes").since(before - 1)
    put(store, "c")
    directory.close()
    assert store.version == reopened(tmp_path).version == before + 1


def test_crash_at_any_journal_byte_loses_only_unacknowledged(tmp_path: Path) -> None:
    states = filled(tmp_path / "whole")
    journal = (tmp_path / "whole" / "journal").read_bytes()
    snapshot = (tmp_path / "whole" / "snapshot").read_bytes()
    for length in range(len(journal) + 1):
        torn = tmp_path / str(length)
        torn.mkdir()
        (torn / "snapshot").write_bytes(snapshot)
        (torn / "journal").write_bytes(journal[:length])
        assert content(reopened(torn)) == states[journal[:length].count(b"\n")]


def test_crash_between_new_snapshot_and_journal_repeats_nothing(tmp_path: Path) -> None:
    states = filled(tmp_path)
    journal = (tmp_path / "journal").read_bytes()
    reopened(tmp_path)
    (tmp_path / "journal").write_bytes(journal)
    assert content(reopened(tmp_path)) == states[-1]


@settings(max_examples=40)
@given(position=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_a_damaged_line_is_refused_and_named(
    tmp_path_factory: pytest.TempPathFactory, position: int, flip: int
) -> None:
    path = tmp_path_factory.mktemp("state")
    filled(path)
    journal = bytearray((path / "journal").read_bytes())
    second_line = journal.index(b"\n") + 1
    journal[position % second_line] ^= flip
    (path / "journal").write_bytes(bytes(journal))
    with pytest.raises(StateError, match=r"journal: damaged \(line \d .*checksum"):
        opened(path)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda text: text[:-20], "damaged"),
        (lambda _: b"", "damaged"),
        (lambda text: text.replace(b'"format":1', b'"format":9'), "format 9 is not known"),
        (lambda text: b"\n".join(text.splitlines()[:-1]) + b"\n", "1 objects expected, 0 found"),
        (lambda text: b"\x00" * len(text), "damaged"),
        (lambda text: text.replace(b'"name":"', b'"name":"\xff'), "damaged"),
        (lambda text: text.replace(b'"name":', b'"x":' + b"[" * 2000 + b"]" * 2000 + b',"name":'), "damaged"),
    ],
)
def test_a_damaged_snapshot_is_refused(tmp_path: Path, damage: Any, told: str) -> None:
    filled(tmp_path)
    reopened(tmp_path)
    snapshot = tmp_path / "snapshot"
    snapshot.write_bytes(damage(snapshot.read_bytes()))
    with pytest.raises(StateError, match=told):
        opened(tmp_path)


def test_refused_directory_opens_once_it_is_repaired(tmp_path: Path) -> None:
    states = filled(tmp_path)
    journal = (tmp_path / "journal").read_bytes()
    (tmp_path / "journal").write_bytes(b"x" + journal)
    with pytest.raises(StateError):
        opened(tmp_path)
    (tmp_path / "journal").write_bytes(journal)
    assert content(reopened(tmp_path)) == states[-1]


def test_two_servers_cannot_share_a_directory(tmp_path: Path) -> None:
    directory, _ = opened(tmp_path)
    with pytest.raises(StateError, match="another API server is using this directory"):
        StateDirectory(tmp_path)
    directory.close()
    reopened(tmp_path)


def test_a_long_journal_is_folded_into_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubedouble.state.JOURNAL_LINES", 10)
    directory, store = opened(tmp_path)
    for number in range(100):
        put(store, "a", spec={"number": number})
        assert (tmp_path / "journal").read_bytes().count(b"\n") <= 10
    directory.close()
    assert content(reopened(tmp_path)) == content(store)


def test_authority_stays_the_same_with_private_files(tmp_path: Path) -> None:
    directory, _ = opened(tmp_path)
    first, second = directory.authority("test", NOW), directory.authority("test", NOW)
    assert first.certificate_pem == second.certificate_pem
    directory.close()
    assert {file.stat().st_mode & 0o077 for file in tmp_path.iterdir() if file.name != "lock"} == {0}


def test_a_damaged_authority_is_refused(tmp_path: Path) -> None:
    directory, _ = opened(tmp_path)
    (tmp_path / "authority.pem").write_text("no certificate")
    with pytest.raises(StateError, match=r"authority\.pem: .*remove it"):
        directory.authority("test", NOW)
    directory.close()


async def test_a_server_finds_its_objects_again(tmp_path: Path) -> None:
    async with serve(state_dir=tmp_path) as server:
        put(server.store, "n1")
        version = server.store.version
        authority = server.ca_pem
    async with serve(state_dir=tmp_path) as server:
        assert server.store.get("nodes", "", "n1")
        assert server.store.version == version
        assert server.ca_pem == authority


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size: to the writer that is as a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 1, 20])
def test_failed_write_stops_all_later_ones_despite_space(tmp_path: Path, room: int) -> None:
    failures: list[StateWriteError] = []
    directory, store = StateDirectory(tmp_path, on_failure=failures.append), Store()
    directory.load(store)
    heard: list[str] = []
    store.listen(lambda _, change: heard.append(change.stored.key[1]))
    put(store, "kept")
    kept = content(store)
    with largest_file((tmp_path / "journal").stat().st_size + room):
        for _ in range(2):
            with pytest.raises(
                StateWriteError, match=r"journal: cannot be written: .*make sure there is space"
            ):
                put(store, "lost")
    with pytest.raises(StateWriteError):
        put(store, "later")
    assert content(store) == kept
    assert heard == ["kept"]
    assert len(failures) == 1
    directory.close()
    assert content(reopened(tmp_path)) == kept


def test_failed_snapshot_leaves_the_state_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubedouble.state.JOURNAL_LINES", 10)
    directory, store = opened(tmp_path)
    for number in range(10):
        put(store, "a", spec={"number": number})
    kept = content(store)
    with largest_file(20), pytest.raises(StateWriteError, match="snapshot: cannot be written"):
        put(store, "a", spec={"number": 10})
    assert content(store) == kept
    directory.close()
    assert {path.name for path in tmp_path.iterdir()} == {"journal", "lock", "snapshot"}
    assert content(reopened(tmp_path)) == kept


def test_unwritable_directory_is_refused_at_the_start(tmp_path: Path) -> None:
    filled(tmp_path)
    with largest_file(20), pytest.raises(StateWriteError, match="snapshot: cannot be written"):
        opened(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StateWriteError, match="cannot be written: Not a directory"):
        StateDirectory(tmp_path / "file" / "state")


@pytest.mark.parametrize("name", ["lock", "snapshot", ".snapshot.new", "journal", "authority.pem"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "directory"])
def test_irregular_file_is_refused_without_waiting(
    tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    make(tmp_path / name)
    with pytest.raises(StateError, match=f"{tmp_path / name}: not a regular file; remove it"):
        StateDirectory(tmp_path)


def test_authority_other_than_text_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "authority.pem").write_bytes(b"\xff\xfe")
    state = StateDirectory(tmp_path)
    with pytest.raises(StateError, match=r"authority\.pem: .*; remove it to get a new authority"):
        state.authority("local", datetime.now(UTC))
    state.close()
