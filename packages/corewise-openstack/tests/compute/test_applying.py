"""The ledger's CPUs in real domains of libvirt's test driver: written, read back, finished, taken back.

``test_libvirt_real`` shows the same on a guest that runs, by what the kernel says of its threads.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compute.compute_world import guest, hosts_in, put_host
from compute.driver_domains import URI, Domains, dies_after
from corewise_openstack.compute.applying import ApplyJournal, apply, journal_of, planned_changes, undo
from corewise_openstack.compute.errors import GuestUnknown, JournalUnusable
from corewise_openstack.compute.hosts import ComputeHost
from corewise_openstack.compute.ledger import GuestRecord, GuestState
from corewise_openstack.guest_pinning.ledger import CellPins
from corewise_openstack.openstack.errors import DomainGone, LibvirtError
from corewise_openstack.openstack.libvirt import Libvirt, connected
from corewise_openstack.openstack.libvirt_pins import DomainChange, SettingKind, settings_in
from corewise_openstack.vocabulary.guests import CPUPolicy

OPTIONS = {"cpu_dedicated_set": "2-7", "cpu_shared_set": "0-1"}
PINNED = {f"vcpupin {own}": f'cpuset="{own + 2}"' for own in range(4)}
EVERYWHERE = 'cpuset="0-7"'
"""What the test driver says of a thread that is not pinned."""


class Applied:
    """A host with guest 1 on CPUs 2-5, by its ledger; its domain is not pinned."""

    def __init__(self, folder: Path, libvirt: Libvirt, domains: Domains) -> None:
        put_host(folder, "n1", OPTIONS, cores=8, threads=1, nodes=1)
        self.libvirt = libvirt
        self.domains = domains
        self.host: ComputeHost = hosts_in(folder).known["n1"]
        self.journal: ApplyJournal = journal_of(folder / "n1" / "ledger.json")
        record = GuestRecord(
            GuestState.HELD,
            {"PCPU": 4},
            4,
            cpu_policy=CPUPolicy.DEDICATED,
            cells=(CellPins(0, {0: 2, 1: 3, 2: 4, 3: 5}, 64),),
        )
        with self.host.ledger.changing() as change:
            change.write({guest(1): record})
        domains.define(1, {})

    def apply(self) -> tuple[DomainChange, ...]:
        return apply(self.libvirt, self.host, guest(1), self.journal).changes

    def stored(self) -> dict[str, str]:
        return dict(settings_in(self.domains.xml(1, stored=True)))

    def live(self) -> dict[str, str]:
        settings = self.libvirt.settings(guest(1)).live
        assert settings is not None
        return {name: value for name, value in settings.items() if name.startswith("vcpupin")}

    @property
    def is_applied(self) -> bool:
        return self.host.guests()[guest(1)].applied


@pytest.fixture
def applied(tmp_path: Path, domains: Domains) -> Iterator[Applied]:
    with connected(URI) as libvirt:
        yield Applied(tmp_path, libvirt, domains)


def test_stopped_domain_gets_ledger_cpus_from_next_start(applied: Applied) -> None:
    changes = applied.apply()
    assert {each.kind for each in changes} == {SettingKind.STORED}
    assert applied.stored() == {
        **PINNED,
        "emulatorpin": 'cpuset="2-5"',
        "memory": 'mode="strict" nodeset="0"',
    }
    assert applied.is_applied
    assert applied.apply() == ()


def test_running_domain_gets_cpus_immediately_and_next_start(applied: Applied) -> None:
    applied.domains.start(1)
    applied.apply()
    assert applied.live() == PINNED
    assert {name: value for name, value in applied.stored().items() if name in PINNED} == PINNED


def test_what_would_change_is_told_and_nothing_changes(applied: Applied) -> None:
    planned = planned_changes(applied.libvirt, applied.host, guest(1))
    assert [each.setting for each in planned.changes] == [*PINNED, "emulatorpin", "memory"]
    assert (applied.stored(), applied.journal.read(), applied.is_applied) == ({}, {}, False)


def test_undo_restores_what_was_there(applied: Applied) -> None:
    applied.domains.define(1, {0: 7}, more="<iothreads>1</iothreads>")
    applied.domains.start(1)
    before = applied.stored(), applied.live()
    applied.apply()
    assert (applied.stored(), applied.live()) != before
    undone = undo(applied.libvirt, applied.host, guest(1), applied.journal)
    assert (applied.stored(), applied.live()) == before
    assert undone.changed_since == ()
    assert (applied.journal.read(), applied.is_applied) == ({}, False)
    with pytest.raises(GuestUnknown, match="nothing was written"):
        undo(applied.libvirt, applied.host, guest(1), applied.journal)


def test_undo_keeps_and_reports_what_others_set_since(applied: Applied) -> None:
    applied.domains.start(1)
    applied.apply()
    applied.domains.pin_by_hand(1, 0, 7)
    undone = undo(applied.libvirt, applied.host, guest(1), applied.journal)
    (left,) = undone.changed_since
    assert (left.setting, left.before, left.after) == ("vcpupin 0", 'cpuset="7"', EVERYWHERE)
    assert applied.live() == {
        **dict.fromkeys(PINNED, EVERYWHERE),
        "vcpupin 0": 'cpuset="7"',
    }


def test_the_first_value_is_restored_after_several_writes(applied: Applied) -> None:
    applied.apply()
    record = applied.host.guests()[guest(1)]
    moved = GuestRecord(
        GuestState.HELD,
        record.resources,
        4,
        cpu_policy=record.cpu_policy,
        cells=(CellPins(0, {0: 3, 1: 4, 2: 5, 3: 6}, 64),),
    )
    with applied.host.ledger.changing() as change:
        change.write({guest(1): moved})
    applied.apply()
    assert applied.stored()["vcpupin 0"] == 'cpuset="3"'
    undo(applied.libvirt, applied.host, guest(1), applied.journal)
    assert applied.stored() == {}


@pytest.mark.parametrize("calls", range(5))
def test_interrupted_write_is_finished_by_the_next_one(
    applied: Applied, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    applied.domains.start(1)
    alive = dies_after(monkeypatch, calls)
    with pytest.raises(KeyboardInterrupt):
        applied.apply()
    assert applied.journal.unfinished() == (guest(1),)
    assert not applied.is_applied
    alive()
    applied.apply()
    assert applied.live() == PINNED
    assert (applied.journal.unfinished(), applied.is_applied) == ((), True)
    undo(applied.libvirt, applied.host, guest(1), applied.journal)
    assert (applied.stored(), applied.live()) == ({}, dict.fromkeys(PINNED, EVERYWHERE))


@pytest.mark.parametrize("calls", range(5))
def test_interrupted_write_is_reverted_by_undo(
    applied: Applied, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    applied.domains.start(1)
    alive = dies_after(monkeypatch, calls)
    with pytest.raises(KeyboardInterrupt):
        applied.apply()
    alive()
    undo(applied.libvirt, applied.host, guest(1), applied.journal)
    assert (applied.stored(), applied.live()) == ({}, dict.fromkeys(PINNED, EVERYWHERE))
    assert applied.journal.read() == {}


def test_refused_libvirt_call_reverts_those_before_it(
    applied: Applied, monkeypatch: pytest.MonkeyPatch
) -> None:
    from corewise_openstack.openstack import libvirt as adapter  # noqa: PLC0415 - what is replaced

    real = adapter._write_live

    def refuse(found: Any, change: DomainChange) -> None:
        if change.setting == "emulatorpin" and change.after != EVERYWHERE:
            found.pinIOThread(99, (True,))  # libvirt's own refusal
        real(found, change)

    monkeypatch.setattr(adapter, "_write_live", refuse)
    applied.domains.start(1)
    with pytest.raises(LibvirtError, match="99"):
        applied.apply()
    assert (applied.stored(), applied.live()) == ({}, dict.fromkeys(PINNED, EVERYWHERE))
    assert (applied.journal.read(), applied.is_applied) == ({}, False)


@pytest.mark.parametrize("calls", range(5))
def test_journal_keeps_failed_write_until_libvirt_is_back(
    applied: Applied, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    library = importlib.import_module("libvirt")

    class Away:
        """A connection whose daemon is gone."""

        def __getattr__(self, name: str) -> Any:
            raise library.libvirtError("End of file while reading data")

    def die() -> None:
        applied.libvirt._connection = Away()
        raise library.libvirtError("End of file while reading data")

    connection = applied.libvirt._connection
    applied.domains.start(1)
    alive = dies_after(monkeypatch, calls, die)
    with pytest.raises(LibvirtError, match="End of file"):
        applied.apply()
    assert (applied.journal.unfinished(), applied.is_applied) == ((guest(1),), False)
    applied.libvirt._connection = connection
    alive()
    undo(applied.libvirt, applied.host, guest(1), applied.journal)
    assert (applied.stored(), applied.live()) == ({}, dict.fromkeys(PINNED, EVERYWHERE))


def test_value_libvirt_accepts_but_drops_is_an_error(applied: Applied) -> None:
    with applied.host.ledger.changing() as change:
        record = change.host.guests[guest(1)]
        far = GuestRecord(
            GuestState.HELD,
            record.resources,
            4,
            cpu_policy=record.cpu_policy,
            cells=(CellPins(0, {0: 12, 1: 3, 2: 4, 3: 5}, 64),),
        )
        change.write({guest(1): far})
    applied.domains.start(1)  # the driver cuts pins of running domains to its first 8 CPUs
    with pytest.raises(LibvirtError):
        applied.apply()
    assert applied.journal.read() == {}


def test_missing_domain_is_a_distinct_error_recording_nothing(applied: Applied) -> None:
    applied.domains.undefine(1)
    with pytest.raises(DomainGone):
        applied.apply()
    assert applied.journal.read() == {}


def test_damaged_journal_is_refused_before_the_domain_changes(applied: Applied, tmp_path: Path) -> None:
    (tmp_path / "n1" / "applied.json").write_text('{"version": 1')
    with pytest.raises(JournalUnusable, match="is damaged"):
        applied.apply()
    assert applied.stored() == {}
