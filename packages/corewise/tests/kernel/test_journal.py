"""The journal keeps every entry that was made, whatever ends its writer, and stays within its bound."""

from __future__ import annotations

import os
import resource
import signal
import tracemalloc
from pathlib import Path

import pytest
from msgspec.structs import replace

from corewise.kernel.errors import JournalError, JournalHeld
from corewise.kernel.writing.entries import Amount, Damaged, Entry, Failed, Held, Opened, Released, Wrote
from corewise.kernel.writing.journal import LONGEST_LINE, Journal, damage_text, read_history
from corewise.kernel.writing.quota_claims import QuotaClaims
from kernel.cgroup_trees import killed_child

HELD = Held(1.0, "/a", Amount(100_000, 100_000), 0, {"normalization": Amount(66_667, 100_000)})
WROTE = Wrote(2.0, "/a", "cpu.max", "100000", "66667", "RatioFromModel", "ratio 1.50")
ENTRIES: list[Entry] = [HELD, WROTE, Failed(3.0, "/a", "cpu.max", "66667", "EBUSY"), Released(4.0, "/a")]


def journal(directory: Path, *, boot: str = "one", limit: int = 1 << 20) -> Journal:
    return Journal.open(directory, boot=boot, now=lambda: 0.0, limit=limit)


def told(directory: Path) -> list[Entry | None]:
    """Return the entries of the journal, without headers; None stands for a damaged line."""
    lines = [None if isinstance(line, Damaged) else line for line in read_history(directory)]
    return [line for line in lines if not isinstance(line, Opened)]


def test_entries_come_back_in_order_and_typed(tmp_path: Path) -> None:
    with journal(tmp_path / "made/on/the/way") as log:
        log.append(ENTRIES)
        assert [entry for entry in log.entries() if not isinstance(entry, Opened)] == ENTRIES
    assert told(tmp_path / "made/on/the/way") == ENTRIES


def test_second_process_is_refused_and_learns_the_holder(tmp_path: Path) -> None:
    with journal(tmp_path):
        with pytest.raises(JournalHeld, match=f"process {os.getpid()}") as caught:
            journal(tmp_path)
        assert "other agent" in caught.value.hint
    journal(tmp_path).close()


def test_killed_writer_leaves_its_entries_and_no_lock(tmp_path: Path) -> None:
    def work() -> None:
        journal(tmp_path).append(ENTRIES[:2])
        os.kill(os.getpid(), signal.SIGKILL)

    assert killed_child(work) == signal.SIGKILL
    with journal(tmp_path) as log:
        assert told(tmp_path) == ENTRIES[:2]
        assert "/a" in QuotaClaims.of(log.entries())


@pytest.mark.parametrize("ends", [True, False])
def test_line_of_any_length_is_skipped_without_memory(tmp_path: Path, ends: bool) -> None:
    with journal(tmp_path) as log:
        log.append(ENTRIES[:1])
    with (tmp_path / "journal").open("ab") as file:
        for _ in range(64):
            file.write(b"x" * LONGEST_LINE)
        file.write(b"\n" if ends else b"")
    with journal(tmp_path) as log:
        log.append(ENTRIES[1:])
        tracemalloc.start()
        try:
            (damaged,) = log.damage()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert damaged.why == f"longer than {LONGEST_LINE} bytes"
    assert damaged.number == 3
    assert peak < 8 * LONGEST_LINE
    assert told(tmp_path) == [ENTRIES[0], None, *ENTRIES[1:]]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_partial_final_line_is_skipped_later_entries_kept(tmp_path: Path, cut: int) -> None:
    with journal(tmp_path) as log:
        log.append(ENTRIES[:2])
    file = tmp_path / "journal"
    file.write_bytes(file.read_bytes()[:-cut])
    with journal(tmp_path) as log:
        log.append(ENTRIES[3:])
    last = [WROTE] if cut == 1 else [None]
    assert told(tmp_path) == [HELD, *last, ENTRIES[3]]


NINES = b"9" * 30
DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"\x00\xff", "malformed"),
        (b"{}", "missing"),
        (b'{"kind":"unheard-of"}', "Invalid value"),
        (b"[1]", "Expected"),
        (b"null", "Expected"),
        (b'{"kind":1}', "Expected"),
        (b'{"kind":"released","time":1,"cgroup":"/\xff"}', "not UTF-8"),
        (b'{"kind":"released","time":1,"cgroup":"/\xed\xa0\x80"}', "not UTF-8"),
        (b'{"kind":"released","time":1,"cgroup":"\\ud800"}', "truncated"),
        (b'{"kind":"\xff"}', "not UTF-8"),
        (b'{"kind":"opened","time":1,"boot":"one","more":' + DEEP + b"}", "nested too deeply"),
        (b'{"kind":"opened","time":1,"boot":"one","more":' + DEEP[:100_000], "nested too deeply"),
        (b'{"kind":"opened","time":1e300,"boot":"one"}', "time"),
        (b'{"kind":"opened","time":-1,"boot":"one"}', "time"),
        (b'{"kind":"opened","time":' + NINES + b',"boot":"one"}', "time"),
        (b'{"kind":"held","time":1,"cgroup":"/b","base":[' + NINES + b",100000]}", "base"),
        (b'{"kind":"held","time":1,"cgroup":"/b","base":[-5,100000]}', "base"),
        (b'{"kind":"held","time":1,"cgroup":"/b","base":[1000,0]}', "base"),
        (b'{"kind":"held","time":1,"cgroup":"/b","base":[1000,' + NINES * 200 + b"]}", "base"),
        (b'{"kind":"held","time":1,"cgroup":"/b","base":"1000"}', "base"),
        (b'{"kind":"rel', "cut off"),
    ],
    ids=lambda value: value[:60] if isinstance(value, bytes) else None,
)
def test_invalid_line_is_skipped_and_reported_with_place(tmp_path: Path, line: bytes, why: str) -> None:
    with journal(tmp_path) as log:
        log.append([HELD])
    with (tmp_path / "journal").open("ab") as file:
        file.write(line + b"\n")
    with journal(tmp_path) as log:
        log.append([replace(HELD, cgroup="/c")])
        assert list(QuotaClaims.of(log.entries())) == ["/a", "/c"]
        (damaged,) = log.damage()
        assert (damaged.file, damaged.number) == (tmp_path / "journal", 3)
        assert why in damaged.why
        assert damage_text([damaged]).startswith("1 line of the journal cannot be read")
        assert damage_text([damaged] * 7).startswith("7 lines of the journal cannot be read")
        assert f"{tmp_path}/journal, line 3: {damaged.why}" in damage_text([damaged] * 7)
        log.begin_anew()
        assert log.damage() == []
        assert list(QuotaClaims.of(log.entries())) == ["/a", "/c"]


def test_entries_held_by_an_earlier_boot_are_dropped(tmp_path: Path) -> None:
    with journal(tmp_path) as log:
        log.append([HELD])
    with journal(tmp_path, boot="one") as log:
        assert set(QuotaClaims.of(log.entries())) == {"/a"}
    with journal(tmp_path, boot="two") as log:
        assert not QuotaClaims.of(log.entries())
    assert HELD in told(tmp_path)


def test_full_journal_restarts_with_held_and_keeps_old(tmp_path: Path) -> None:
    with journal(tmp_path, limit=2000) as log:
        log.append([HELD])
        for number in range(200):
            log.append([Wrote(float(number), "/a", "cpu.max", "1", "2", "RatioFromModel", "")])
            if log.full:
                log.begin_anew()
        assert "/a" in QuotaClaims.of(log.entries())
    assert {path.name for path in tmp_path.iterdir()} == {"journal", "journal.1", "lock"}
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2 * 2000 + 1000
    times = [entry.time for entry in told(tmp_path) if isinstance(entry, Wrote)]
    assert times == sorted(times)
    assert times[-1] == 199


def test_kill_during_restart_neither_repeats_nor_loses_entries(tmp_path: Path) -> None:
    with journal(tmp_path) as log:
        log.append([HELD, WROTE])
    (tmp_path / "journal.next").write_bytes(b'{"kind":"opened","ti')
    assert told(tmp_path) == [HELD, WROTE]
    (tmp_path / "journal.1").hardlink_to(tmp_path / "journal")
    assert told(tmp_path) == [HELD, WROTE]
    with journal(tmp_path) as log:
        log.append([WROTE])
        log.begin_anew()
    assert told(tmp_path) == [HELD, WROTE, WROTE, replace(HELD, wrote={"cpu.max": (WROTE.old, WROTE.new)})]


def test_unwritable_journal_is_reported_with_path_and_errno(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match=r"ENOTDIR|EEXIST"):
        journal(tmp_path / "file")
    (tmp_path / "journal").mkdir()
    with pytest.raises(JournalError, match="EISDIR"):
        journal(tmp_path)
    (tmp_path / "journal").rmdir()
    journal(tmp_path).close()


def test_full_disk_fails_before_any_cgroup_write(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with journal(tmp_path) as log:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, log._descriptor)
        os.close(full)
        with pytest.raises(JournalError, match="ENOSPC"):
            log.append([HELD])


def test_entry_after_half_a_write_is_read(tmp_path: Path) -> None:
    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with journal(tmp_path) as log:
            log.append([HELD])
            room, most = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "journal").stat().st_size + 20, most))
            with pytest.raises(JournalError, match="ENOSPC"):
                log.append([WROTE])
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))
            log.append(ENTRIES[3:])

    assert killed_child(work) == 0
    assert told(tmp_path) == [HELD, ENTRIES[3]]


def test_a_history_without_files_is_empty(tmp_path: Path) -> None:
    assert list(read_history(tmp_path / "none")) == []
