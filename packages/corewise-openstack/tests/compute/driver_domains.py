"""Domains of libvirt's own test driver, which starts no process and pins to 8 CPUs of its host's 16."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from compute.compute_world import guest
from corewise_openstack.openstack.libvirt_pins import DomainChange

URI = "test:///default"


class Domains:
    """The domains of the driver; they stay while this connection is open."""

    def __init__(self) -> None:
        library = importlib.import_module("libvirt")
        self._there = library.open(URI)
        for each in self._there.listAllDomains():
            each.destroy()
            each.undefine()

    def define(
        self, number: int, pins: Mapping[int, int], *, vcpus: int = 4, more: str = "", tune: str = ""
    ) -> None:
        tune += "".join(f"<vcpupin vcpu='{own}' cpuset='{cpu}'/>" for own, cpu in pins.items())
        self._there.defineXML(
            f"<domain type='test'><name>g{number}</name><uuid>{guest(number)}</uuid>"
            f"<memory unit='MiB'>64</memory><vcpu>{vcpus}</vcpu>{more}<cputune>{tune}</cputune>"
            "<os><type>hvm</type></os></domain>"
        )

    def undefine(self, number: int) -> None:
        self._there.lookupByUUIDString(guest(number)).undefine()

    def start(self, number: int) -> None:
        self._there.lookupByUUIDString(guest(number)).create()

    def stop(self, number: int) -> None:
        self._there.lookupByUUIDString(guest(number)).destroy()

    def pin_by_hand(self, number: int, vcpu: int, cpu: int) -> None:
        """Pin a guest CPU of a running domain, as virsh vcpupin does."""
        cpus = tuple(each == cpu for each in range(8))
        self._there.lookupByUUIDString(guest(number)).pinVcpu(vcpu, cpus)

    def xml(self, number: int, *, stored: bool = False) -> str:
        text: str = self._there.lookupByUUIDString(guest(number)).XMLDesc(2 if stored else 0)
        return text

    def close(self) -> None:
        self._there.close()


def driver() -> Iterator[Domains]:
    """Give a test the driver; the fixture of the tests that want one."""
    pytest.importorskip("libvirt", reason="needs the extra libvirt: make libvirt")
    there = Domains()
    yield there
    there.close()


def _killed() -> None:
    raise KeyboardInterrupt


def dies_after(
    monkeypatch: pytest.MonkeyPatch, calls: int, die: Callable[[], None] = _killed
) -> Callable[[], None]:
    """Have the next write die after some calls of live settings; the answer ends that."""
    from corewise_openstack.openstack import libvirt as adapter  # noqa: PLC0415 - what is replaced

    real = adapter._write_live
    left = [calls]

    def write(found: Any, change: DomainChange) -> None:
        if not left[0]:
            die()
        left[0] -= 1
        real(found, change)

    monkeypatch.setattr(adapter, "_write_live", write)
    return lambda: monkeypatch.setattr(adapter, "_write_live", real)
