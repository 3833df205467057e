"""The ledger on disk: whole at every moment, changed by one at a time, refused when it is damaged."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from corewise.topology import CPUSet
from corewise_openstack.compute.errors import LedgerBusy, LedgerDamaged, LedgerUnusable
from corewise_openstack.compute.ledger import GuestRecord, GuestState, HostRecord, LedgerFile
from corewise_openstack.guest_pinning.ledger import CellPins
from corewise_openstack.vocabulary.guests import CPUPolicy, ThreadPolicy

GUEST = GuestRecord(
    state=GuestState.HELD,
    resources={"PCPU": 2, "MEMORY_MB": 1024},
    vcpus=2,
    flavor="db",
    cpu_policy=CPUPolicy.DEDICATED,
    thread_policy=ThreadPolicy.ISOLATE,
    cells=(CellPins(0, {0: 2, 1: 3}, 1024),),
    emulator=4,
    withheld=(26, 27),
)


@pytest.fixture
def ledger(tmp_path: Path) -> LedgerFile:
    return LedgerFile(tmp_path / "ledger.json", "n1")


def enter(ledger: LedgerFile, name: str, guest: GuestRecord = GUEST) -> None:
    with ledger.changing() as change:
        change.write({**change.host.guests, name: guest})


def test_a_host_without_a_ledger_has_no_guests(ledger: LedgerFile) -> None:
    assert ledger.read() == HostRecord("n1")
    assert not ledger.path.exists()


def test_written_records_are_read_back_in_order(ledger: LedgerFile) -> None:
    enter(ledger, "b")
    enter(ledger, "a", replace(GUEST, cells=(CellPins(1, {0: 9}),)))
    assert list(ledger.read().guests) == ["b", "a"]
    assert ledger.read().guests["b"] == GUEST
    assert GUEST.pins.cpus == CPUSet.parse("2-3")
    assert GUEST.pins.held == CPUSet.parse("2-4,26-27")


def test_unchanged_ledger_is_not_written(ledger: LedgerFile) -> None:
    enter(ledger, "a")
    before = ledger.path.stat().st_ino
    enter(ledger, "a")
    assert ledger.path.stat().st_ino == before


def test_truncated_ledger_is_refused_and_nothing_is_written(ledger: LedgerFile) -> None:
    enter(ledger, "a")
    enter(ledger, "b")
    whole = ledger.path.read_bytes()
    for size in {0, 1, len(whole) // 4, len(whole) // 2, *range(len(whole) - 8, len(whole) - 1)}:
        ledger.path.write_bytes(whole[:size])
        with pytest.raises(LedgerDamaged, match=r"ledger\.json cannot be used") as told:
            ledger.read()
        assert "ledger.json.1" in told.value.hint
        with pytest.raises(LedgerDamaged):
            enter(ledger, "c")
        assert ledger.path.read_bytes() == whole[:size]


def test_every_changed_figure_is_noticed(ledger: LedgerFile) -> None:
    enter(ledger, "a")
    document = json.loads(ledger.path.read_text())
    document["host"]["guests"]["a"]["cells"][0]["pins"]["0"] = 7
    ledger.path.write_text(json.dumps(document))
    with pytest.raises(LedgerDamaged, match="does not agree with its digest"):
        ledger.read()


def test_ledgers_of_other_hosts_or_versions_are_refused(ledger: LedgerFile) -> None:
    enter(ledger, "a")
    with pytest.raises(LedgerDamaged, match="the ledger of n1, not of n2"):
        LedgerFile(ledger.path, "n2").read()
    ledger.path.write_text(ledger.path.read_text().replace('"version": 1', '"version": 9'))
    with pytest.raises(LedgerDamaged, match="version 9"):
        ledger.read()


def test_previous_ledger_is_kept_beside_the_current_one(ledger: LedgerFile) -> None:
    enter(ledger, "a")
    before = ledger.path.read_bytes()
    enter(ledger, "b")
    assert ledger.path.with_name("ledger.json.1").read_bytes() == before


def test_leftovers_of_a_dead_writer_are_ignored(ledger: LedgerFile) -> None:
    enter(ledger, "a")
    ledger.path.with_name("ledger.json.next").write_text('{"version": 1, "ser')
    assert list(ledger.read().guests) == ["a"]
    enter(ledger, "b")
    assert list(ledger.read().guests) == ["a", "b"]


def test_full_disk_leaves_the_ledger_unchanged(ledger: LedgerFile, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(ledger, "a")
    whole = ledger.path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LedgerUnusable, match="cannot be written: No space left"):
        enter(ledger, "b")
    assert ledger.path.read_bytes() == whole
    assert not ledger.path.with_name("ledger.json.next").exists()


def test_writers_at_the_same_time_lose_nothing(ledger: LedgerFile) -> None:
    def several(name: str) -> None:
        own = LedgerFile(ledger.path, "n1")
        for number in range(5):
            enter(own, f"{name}{number}")

    writers = [threading.Thread(target=several, args=(name,)) for name in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(ledger.read().guests) == 20


def test_waiting_too_long_for_ledger_names_the_holder(ledger: LedgerFile) -> None:
    impatient = LedgerFile(ledger.path, "n1", longest_wait=0.0)
    with (
        ledger.changing(),
        pytest.raises(LedgerBusy, match=r"ledger\.json\.lock has been held"),
        impatient.changing(),
    ):
        pass


def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnusable, match="cannot be opened: No such file"):
        enter(LedgerFile(tmp_path / "nowhere" / "ledger.json", "n1"), "a")
