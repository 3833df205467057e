"""libvirt's XML: read strictly, so that a broken document is an error that names what is missing.

Documents come from the host's own libvirt, which is trusted with the host; and expat, since 2.4.1, stops
documents that grow when their entities are expanded.

Source: https://libvirt.org/format.html.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from corewise.openstack.errors import LibvirtXMLError
from corewise.quantities import Bytes
from corewise.topology import CPUSet, CPUSetError

_UNITS = {
    "b": 1,
    "bytes": 1,
    "KB": 10**3,
    "k": 2**10,
    "KiB": 2**10,
    "MB": 10**6,
    "M": 2**20,
    "MiB": 2**20,
    "GB": 10**9,
    "G": 2**30,
    "GiB": 2**30,
    "TB": 10**12,
    "T": 2**40,
    "TiB": 2**40,
}


def parsed(text: str, root: str) -> ET.Element:
    """Read a document.

    Raises:
        LibvirtXMLError: if it is not well-formed, or has another root.
    """
    try:
        document = ET.fromstring(text)  # noqa: S314 - see above
    except ET.ParseError as error:
        raise LibvirtXMLError(f"not XML: {error}") from error
    if document.tag != root:
        raise LibvirtXMLError(f"a document <{document.tag}> stands where <{root}> is expected")
    return document


def child(element: ET.Element, path: str) -> ET.Element:
    """Return the first element at a path.

    Raises:
        LibvirtXMLError: if there is none.
    """
    found = element.find(path)
    if found is None:
        raise LibvirtXMLError(f"<{element.tag}> has no <{path}>")
    return found


def attribute(element: ET.Element, name: str) -> str:
    """Return an attribute.

    Raises:
        LibvirtXMLError: if it is not there.
    """
    value = element.get(name)
    if value is None:
        raise LibvirtXMLError(f"<{element.tag}> has no {name}")
    return value


def number(element: ET.Element, name: str) -> int:
    """Return an attribute that is a whole number, 0 and up.

    Raises:
        LibvirtXMLError: if it is not there, or is something else.
    """
    return _whole(attribute(element, name), f"<{element.tag} {name}>")


def content_number(element: ET.Element) -> int:
    """Return an element's text, which is a whole number, 0 and up.

    Raises:
        LibvirtXMLError: if it is something else.
    """
    return _whole((element.text or "").strip(), f"<{element.tag}>")


def cpus(text: str, where: str) -> CPUSet:
    """Return a list of CPUs.

    Raises:
        LibvirtXMLError: if it is not one.
    """
    try:
        return CPUSet.parse(text)
    except CPUSetError as error:
        raise LibvirtXMLError(f"{where}: {error}") from error


def size(element: ET.Element, amount: int) -> Bytes:
    """Return an amount in the unit that the element states (KiB if none).

    Raises:
        LibvirtXMLError: if the unit is unknown.
    """
    unit = element.get("unit", "KiB")
    if unit not in _UNITS:
        raise LibvirtXMLError(f"<{element.tag}> has the unknown unit {unit[:20]!r}")
    return Bytes(amount * _UNITS[unit])


def _whole(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise LibvirtXMLError(f"{where} is {text[:40]!r}, not a whole number")
    return int(text)
