"""A connection to libvirt: what it tells about the host and its guests, and the CPUs it is to give them.

The package is imported when a connection is opened, so that reading documents needs no libvirt. libvirt would
print each error on stderr besides raising it; here it is raised only.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from corewise.openstack.errors import ExtraMissing, LibvirtError
from corewise.openstack.libvirt.capabilities import read_host
from corewise.openstack.libvirt.domains import Domain, read_domain
from corewise.openstack.libvirt.tuning import CPUTuning, tuned
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
        return read_host(self._asked(self._connection.getCapabilities))

    def domains(self) -> tuple[Domain, ...]:
        """Return all guests, running or not, by name."""
        every = self._asked(self._connection.listAllDomains)
        texts = [text for each in every if (text := self._text_unless_gone(each)) is not None]
        return tuple(sorted(map(read_domain, texts), key=lambda each: each.name))

    def tune(self, uuid: str, tuning: CPUTuning) -> Domain:
        """Give a guest its CPUs from its next start on, and return it as libvirt has it then.

        Raises:
            LibvirtError: if there is no such guest, or libvirt refuses what it is to have.
        """
        there = self._asked(lambda: self._connection.lookupByUUIDString(uuid))
        text = tuned(self._asked(lambda: there.XMLDesc(_INACTIVE | _SECURE)), tuning)
        defined = self._asked(lambda: self._connection.defineXML(text))
        return read_domain(self._asked(lambda: defined.XMLDesc(_INACTIVE)))

    def _text_unless_gone(self, guest: Any) -> str | None:
        """Return a guest's document, or None if it was deleted since it was listed."""
        try:
            text: str = guest.XMLDesc()
        except self._refused as error:
            if getattr(error, "get_error_code", int)() == _NO_DOMAIN:
                return None
            raise LibvirtError(f"{self.uri}: {error}") from error
        return text

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except self._refused as error:
            raise LibvirtError(f"{self.uri}: {error}") from error


@contextlib.contextmanager
def connected(uri: str = SYSTEM) -> Iterator[Libvirt]:
    """Open a connection for a block.

    Raises:
        ExtraMissing: if libvirt-python is not installed.
        LibvirtError: if nobody answers, or the user may not connect.
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
