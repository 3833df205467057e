"""A connection to libvirt: the host's machine, its guests, and where they run now and from their next start.

The package of the extra ``libvirt`` is imported when a connection opens, so that reading documents
(:mod:`libvirt_xml`) needs none. libvirt would also print each error on stderr; here an error is only raised.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from corewise.topology import CPUSet, Host
from corewise_openstack.openstack.errors import DomainGone, ExtraMissing, LibvirtError, LibvirtXMLError
from corewise_openstack.openstack.libvirt_pins import (
    MEMORY,
    DomainChange,
    DomainSettings,
    SettingKind,
    attribute,
    changes_between,
    possible_live,
    settings_in,
    tuned_settings,
    with_settings,
)
from corewise_openstack.openstack.libvirt_xml import CPUTuning, Domain, read_domain, read_host

T = TypeVar("T")

SYSTEM = "qemu:///system"

_SECURE, _INACTIVE = 1, 2
"""VIR_DOMAIN_XML_SECURE and VIR_DOMAIN_XML_INACTIVE."""

_NO_NODES = CPUSet()
_NO_DOMAIN = 42
"""VIR_ERR_NO_DOMAIN."""


class Libvirt:
    """One host's libvirt, while the block of :func:`connected` lasts."""

    def __init__(self, uri: str, connection: Any, refused: type[Exception]) -> None:
        self.uri = uri
        self._connection = connection
        self._refused = refused

    def host(self) -> Host:
        """Return the machine."""
        return read_host(self._call(self._connection.getCapabilities))

    def host_name(self) -> str:
        """Return the host's name; nova-compute names its provider so (hypervisor_hostname)."""
        name: str = self._call(self._connection.getHostname)
        return name

    def domains(self) -> tuple[Domain, ...]:
        """Return all guests, running or not, by name.

        Raises:
            LibvirtXMLError: if a domain is not what libvirt writes; the message names it.
            LibvirtError: what else libvirt refuses.
        """
        every = self._call(self._connection.listAllDomains)
        found = []
        for each in every:
            text = self._text_unless_gone(each)
            if text is None:
                continue
            try:
                found.append(read_domain(text))
            except LibvirtXMLError as error:
                raise LibvirtXMLError(f"domain {each.name()}: {error.message}", hint=error.hint) from error
        return tuple(sorted(found, key=lambda each: each.name))

    def settings(self, uuid: str) -> DomainSettings:
        """Return where a guest may run, now and from its next start on.

        Raises:
            DomainGone: if there is no such guest.
            LibvirtError: what else libvirt refuses.
        """
        return self._settings(self._found(uuid))

    def differences(
        self, uuid: str, tuning: CPUTuning, nodes: CPUSet = _NO_NODES
    ) -> tuple[list[DomainChange], list[str]]:
        """Return the changes after which a guest runs where it is to run, and notes on what cannot change.

        ``nodes``: the host's NUMA nodes. A running guest that may use all of them has memory on no other.

        Raises:
            DomainGone: if there is no such guest.
            LibvirtError: what else libvirt refuses; the guest lacks one of these CPUs.
        """
        found = self._found(uuid)
        there = self._settings(found)
        changes: list[DomainChange] = []
        notes: list[str] = []
        if there.live is not None:
            wanted = tuned_settings(self._call(found.XMLDesc), tuning)
            if MEMORY not in there.live and attribute(wanted.get(MEMORY, ""), "nodeset") == str(nodes):
                wanted = {name: value for name, value in wanted.items() if name != MEMORY}
            live = changes_between(SettingKind.LIVE, there.live, {**there.live, **wanted})
            changes, notes = possible_live(live)
        if there.stored is not None:
            text = self._call(lambda: found.XMLDesc(_INACTIVE | _SECURE))
            changes += changes_between(SettingKind.STORED, there.stored, tuned_settings(text, tuning))
        return changes, notes

    def write(self, uuid: str, changes: Iterable[DomainChange]) -> None:
        """Change settings of a guest: the stored ones at once, then the live ones one by one.

        Raises:
            DomainGone: if there is no such guest.
            LibvirtError: if libvirt refuses one; those before it are changed.
        """
        found = self._found(uuid)
        every = list(changes)
        stored = {each.setting: each.after for each in every if each.kind is SettingKind.STORED}
        if stored:
            text = with_settings(self._call(lambda: found.XMLDesc(_INACTIVE | _SECURE)), stored)
            self._call(lambda: self._connection.defineXML(text))
        for each in every:
            if each.kind is SettingKind.LIVE:
                self._call(partial(_write_live, found, each))

    def start(self, text: str) -> None:
        """Define a domain and start it."""
        self._call(self._call(lambda: self._connection.defineXML(text)).create)

    def remove(self, uuid: str) -> None:
        """End a domain, and forget it."""
        found = self._found(uuid)
        self._call(found.destroy)
        self._call(found.undefine)

    def _found(self, uuid: str) -> Any:
        try:
            return self._connection.lookupByUUIDString(uuid)
        except self._refused as error:
            kind = DomainGone if _is_gone(error) else LibvirtError
            raise kind(f"{self.uri}: {error}") from error

    def _settings(self, found: Any) -> DomainSettings:
        live = stored = None
        if self._call(found.isActive):
            live = {
                **settings_in(self._call(found.XMLDesc)),
                **{
                    f"vcpupin {vcpu}": _cpuset(cpus)
                    for vcpu, cpus in enumerate(self._call(found.vcpuPinInfo))
                },
                "emulatorpin": _cpuset(self._call(found.emulatorPinInfo)),
                **{f"iothreadpin {number}": _cpuset(cpus) for number, cpus in self._call(found.ioThreadInfo)},
            }
        if self._call(found.isPersistent):
            stored = settings_in(self._call(lambda: found.XMLDesc(_INACTIVE)))
        return DomainSettings(live, stored)

    def _text_unless_gone(self, guest: Any) -> str | None:
        """Return a guest's document, or None if it was deleted since it was listed."""
        try:
            text: str = guest.XMLDesc()
        except self._refused as error:
            if _is_gone(error):
                return None
            raise LibvirtError(f"{self.uri}: {error}") from error
        return text

    def _call(self, request: Callable[[], T]) -> T:
        try:
            return request()
        except self._refused as error:
            raise LibvirtError(f"{self.uri}: {error}") from error


def _is_gone(error: Exception) -> bool:
    return getattr(error, "get_error_code", int)() == _NO_DOMAIN


def _cpuset(cpus: Iterable[bool]) -> str:
    """Return the setting of a thread that may run on these CPUs."""
    return f'cpuset="{CPUSet.of(cpu for cpu, may in enumerate(cpus) if may)}"'


def _write_live(found: Any, change: DomainChange) -> None:
    tag, _, number = change.setting.partition(" ")
    if tag == MEMORY:
        found.setNumaParameters({"numa_nodeset": attribute(change.after, "nodeset")})
        return
    wanted = CPUSet.parse(attribute(change.after, "cpuset"))
    cpus = tuple(cpu in wanted for cpu in range(max(wanted) + 1))
    if tag == "vcpupin":
        found.pinVcpuFlags(int(number), cpus)
    elif tag == "emulatorpin":
        found.pinEmulator(cpus)
    else:
        found.pinIOThread(int(number), cpus)


def host_of(uri: str) -> Host:
    """Return the machine that a libvirt reports (``corewise topology --libvirt``).

    Raises:
        ExtraMissing: if libvirt-python is not installed.
        LibvirtError: if libvirt does not answer, or the user may not connect.
    """
    with connected(uri) as libvirt:
        return libvirt.host()


@contextlib.contextmanager
def connected(uri: str = SYSTEM) -> Iterator[Libvirt]:
    """Open a connection for a block.

    Raises:
        ExtraMissing: if libvirt-python is not installed.
        LibvirtError: if libvirt does not answer, or the user may not connect.
    """
    try:
        library = importlib.import_module("libvirt")
    except ImportError as error:
        raise ExtraMissing from error
    library.registerErrorHandler(lambda *_: None, None)
    try:
        connection = library.open(uri)
    except library.libvirtError as error:
        raise LibvirtError(f"{uri}: {error}") from error
    try:
        yield Libvirt(uri, connection, library.libvirtError)
    finally:
        connection.close()
