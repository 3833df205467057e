"""The protobuf wire format, as far as it takes to write strings, booleans, numbers and messages.

A message is its fields one after another; a field is a tag (number and wire type, as a varint) and a value:
a varint, eight bytes, or a length and as many bytes.

Source: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import struct

_VARINT, _FIXED64, _BYTES = 0, 1, 2


def varint(value: int) -> bytes:
    """Return a non-negative number, seven bits a byte, lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def text(number: int, value: str) -> bytes:
    """Return a string field."""
    return message(number, value.encode())


def message(number: int, body: bytes) -> bytes:
    """Return a field that is a message, or other bytes."""
    return varint(number << 3 | _BYTES) + varint(len(body)) + body


def boolean(number: int, value: bool) -> bytes:  # noqa: FBT001 - the field's value
    """Return a boolean field; false, the default, is not written."""
    return varint(number << 3 | _VARINT) + b"\x01" if value else b""


def integer(number: int, value: int) -> bytes:
    """Return a 64-bit integer field."""
    return varint(number << 3 | _VARINT) + varint(value & 0xFFFFFFFFFFFFFFFF)


def double(number: int, value: float) -> bytes:
    """Return a floating-point field."""
    return varint(number << 3 | _FIXED64) + struct.pack("<d", value)
