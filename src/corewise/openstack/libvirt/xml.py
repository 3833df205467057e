"""libvirt's XML: read strictly, so that a broken document is an error that names what is missing.

A document is refused if it is longer than libvirt sends, nested deeper than libvirt itself reads, or has a
DTD: libvirt writes none, and its entities make a document grow. No domain that somebody edits ends a program.

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


_LONGEST = 4 << 20
"""libvirt's REMOTE_STRING_MAX."""
_DEEPEST = 256
"""libxml2's xmlParserMaxDepth."""


class _Builder(ET.TreeBuilder):
    """Builds the tree; ends the reading where it has a DTD, or goes too deep to be walked."""

    def __init__(self) -> None:
        super().__init__()
        self._level = 0

    def start(self, tag: str, attrs: dict[str, str], /) -> ET.Element:
        self._level += 1
        if self._level > _DEEPEST:
            raise LibvirtXMLError(f"nested deeper than {_DEEPEST} levels")
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> ET.Element:
        self._level -= 1
        return super().end(tag)

    def doctype(self, name: str, _public: str | None, _system: str | None) -> None:
        raise LibvirtXMLError(f"it has a document type declaration, <!DOCTYPE {name[:20]}>")


def parsed(text: str, root: str) -> ET.Element:
    """Read a document.

    Raises:
        LibvirtXMLError: if it is not well-formed, beyond the limits, or has another root.
    """
    if len(text) > _LONGEST:
        raise LibvirtXMLError(f"longer than {_LONGEST >> 20} MiB")
    parser = ET.XMLParser(target=_Builder())  # noqa: S314 - the builder refuses what makes it dangerous
    try:
        parser.feed(text)
        document: ET.Element = parser.close()
    except (ET.ParseError, UnicodeEncodeError) as error:
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
