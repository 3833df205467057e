"""A connection to libvirt: the host's machine and guests, and the CPUs that a guest gets from its next start.

The package of the extra ``libvirt`` is imported when a connection opens, so that reading documents
(:mod:`libvirt_xml`) needs none. libvirt would also print each error on stderr; here an error is only raised.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from corewise.openstack.errors import ExtraMissing, LibvirtError
from corewise.openstack.libvirt_xml import CPUTuning, Domain, read_domain, read_host, tuned
from corewise.topology import Host

T = TypeVar("T")

SYSTEM = "qemu:///system"

_SECURE, _INACTIVE = 1, 2
"""VIR_DOMAIN_XML_SECURE and VIR_DOMAIN_XML_INACTIVE."""

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
        """Return what the host is called; nova-compute names its provider so (hypervisor_hostname)."""
        name: str = self._call(self._connection.getHostname)
        return name

    def domains(self) -> tuple[Domain, ...]:
        """Return all guests, running or not, by name."""
        every = self._call(self._connection.listAllDomains)
        texts = [text for each in every if (text := self._text_unless_gone(each)) is not None]
        return tuple(sorted(map(read_domain, texts), key=lambda each: each.name))

    def tune(self, uuid: str, tuning: CPUTuning) -> Domain:
        """Give a guest its CPUs from its next start on, and return it as libvirt then has it.

        Raises:
            LibvirtError: if there is no such guest, or libvirt refuses these CPUs.
        """
        found = self._call(lambda: self._connection.lookupByUUIDString(uuid))
        text = tuned(self._call(lambda: found.XMLDesc(_INACTIVE | _SECURE)), tuning)
        defined = self._call(lambda: self._connection.defineXML(text))
        return read_domain(self._call(lambda: defined.XMLDesc(_INACTIVE)))

    def _text_unless_gone(self, guest: Any) -> str | None:
        """Return a guest's document, or None if it was deleted since it was listed."""
        try:
            text: str = guest.XMLDesc()
        except self._refused as error:
            if getattr(error, "get_error_code", int)() == _NO_DOMAIN:
                return None
            raise LibvirtError(f"{self.uri}: {error}") from error
        return text

    def _call(self, request: Callable[[], T]) -> T:
        try:
            return request()
        except self._refused as error:
            raise LibvirtError(f"{self.uri}: {error}") from error


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
        raise ExtraMissing("libvirt", "libvirt-python") from error
    library.registerErrorHandler(lambda *_: None, None)
    try:
        connection = library.open(uri)
    except library.libvirtError as error:
        raise LibvirtError(f"{uri}: {error}") from error
    try:
        yield Libvirt(uri, connection, library.libvirtError)
    finally:
        connection.close()
