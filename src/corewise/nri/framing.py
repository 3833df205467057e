"""How bytes become messages: two layers of frames, decoded without any I/O.

The connection between runtime and plugin (the trunk) carries two byte streams, in frames of

    stream u32, length u32, payload

Stream 1 is the plugin's service, where the runtime calls and the plugin answers; stream 2 is the runtime's,
the other way about. Other streams are ignored, as the runtime does. Each stream carries ttrpc messages:

    length u32, call u32, type u8, flags u8, payload

All numbers are big-endian. A message's payload has at most 4 MiB, a frame's at most that and a ttrpc header.
A call's number is odd, since only the side that calls counts, and grows with every request.

The runtime's reader has a buffer of 4096 bytes, and gives the connection up when a frame is larger than the
space it reads into: that buffer, or, for what is left of a message, its length if that is 4096 or more.
:func:`encode` cuts a message accordingly: 4096 bytes with the header, then the rest.

Sources: containerd/ttrpc PROTOCOL.md and channel.go; containerd/nri pkg/net/multiplex/mux.go.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from corewise.nri.errors import ProtocolViolation, TooLarge

LARGEST_PAYLOAD = 4 << 20
_FRAME = struct.Struct(">II")
_MESSAGE = struct.Struct(">IIBB")
_LARGEST_FRAME = LARGEST_PAYLOAD + _MESSAGE.size
_READ_BUFFER = 4096


class Stream(IntEnum):
    """The byte streams that share the trunk."""

    PLUGIN = 1
    RUNTIME = 2


class Kind(IntEnum):
    """The types of messages that calls without streaming use."""

    REQUEST = 1
    RESPONSE = 2


@dataclass(frozen=True, slots=True)
class Message:
    """One ttrpc message of a stream, its payload still encoded."""

    stream: Stream
    call: int
    kind: Kind
    payload: bytes


def encode(message: Message) -> bytes:
    """Return the frames that carry a message.

    Raises:
        TooLarge: if its payload is larger than the protocol allows.
    """
    if len(message.payload) > LARGEST_PAYLOAD:
        raise TooLarge(f"a message of {len(message.payload)} bytes, and {LARGEST_PAYLOAD} is the most")
    header = _MESSAGE.pack(len(message.payload), message.call, message.kind, 0)
    head = _READ_BUFFER - len(header)
    frames = _frame(message.stream, header + message.payload[:head])
    if rest := message.payload[head:]:
        frames += _frame(message.stream, rest)
    return frames


def _frame(stream: Stream, payload: bytes) -> bytes:
    return _FRAME.pack(stream, len(payload)) + payload


@dataclass(slots=True)
class Decoder:
    """Takes the trunk's bytes in pieces of any size and returns the messages they complete.

    It holds at most one incomplete frame, and one incomplete message for each stream. After it has raised it
    is of no more use.
    """

    _trunk: bytearray = field(default_factory=bytearray)
    _streams: dict[Stream, bytearray] = field(
        default_factory=lambda: {stream: bytearray() for stream in Stream}
    )

    def feed(self, data: bytes) -> Iterator[Message]:
        """Return the messages that are complete now.

        Raises:
            ProtocolViolation: on a length beyond the limits, or a header that makes no sense.
        """
        self._trunk += data
        for number, payload in self._frames():
            try:
                stream = Stream(number)
            except ValueError:
                continue
            buffer = self._streams[stream]
            buffer += payload
            yield from _messages(stream, buffer)

    @property
    def pending(self) -> int:
        """How many bytes wait for the rest of their frame or message: 0 where a connection may well end."""
        return len(self._trunk) + sum(len(buffer) for buffer in self._streams.values())

    def _frames(self) -> Iterator[tuple[int, bytes]]:
        while len(self._trunk) >= _FRAME.size:
            number, length = _FRAME.unpack_from(self._trunk)
            if length > _LARGEST_FRAME:
                raise ProtocolViolation(f"a frame of {length} bytes, and {_LARGEST_FRAME} is the most")
            if (payload := _taken(self._trunk, _FRAME.size, length)) is None:
                return
            yield number, payload


def _messages(stream: Stream, buffer: bytearray) -> Iterator[Message]:
    while len(buffer) >= _MESSAGE.size:
        length, call, kind, _flags = _MESSAGE.unpack_from(buffer)
        if length > LARGEST_PAYLOAD:
            raise ProtocolViolation(f"a message of {length} bytes, and {LARGEST_PAYLOAD} is the most")
        expected = Kind.REQUEST if stream is Stream.PLUGIN else Kind.RESPONSE
        if kind != expected:
            raise ProtocolViolation(f"a message of type {kind} on stream {stream}, where {expected} is due")
        if call % 2 == 0:
            raise ProtocolViolation(f"call number {call} on stream {stream}, where only odd ones are used")
        if (payload := _taken(buffer, _MESSAGE.size, length)) is None:
            return
        yield Message(stream, call, expected, payload)


def _taken(buffer: bytearray, header: int, length: int) -> bytes | None:
    """Take header and payload off the buffer; None, and nothing taken, if they are not all there yet."""
    if len(buffer) < header + length:
        return None
    payload = bytes(memoryview(buffer)[header : header + length])
    del buffer[: header + length]
    return payload
