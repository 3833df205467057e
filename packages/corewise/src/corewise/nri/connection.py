"""One connection to the runtime: calls in both directions over the same socket, in two layers of frames.

The connection (the trunk) carries two byte streams, in frames of

    stream u32, length u32, payload

Stream 1 is the plugin's service, where the runtime calls and the plugin answers; stream 2 is the runtime's,
the other way about. Other streams are ignored, as the runtime does. Each stream carries ttrpc messages:

    length u32, call u32, type u8, flags u8, payload

All numbers are big-endian. A message's payload has at most 4 MiB, a frame's at most that and a ttrpc header.
A call's number is odd, since only the side that calls counts, and grows with every request.

The runtime's reader has a buffer of 4096 bytes, and gives the connection up when a frame is larger than the
space it reads into: that buffer, or, for what is left of a message, its length if that is 4096 or more.
:func:`encode` cuts a message accordingly: 4096 bytes with the header, then the rest.

One task reads, one answers. Requests are answered one at a time in the order in which they came, as the
runtime makes them; a handler therefore never sees two at once. Reading goes on meanwhile, so that the end of
the connection and answers to calls of our own are seen at once.

A request's time counts from its arrival, not from when its turn comes. Whatever ends the connection also
ends the calls that wait for an answer.

Sources: containerd/ttrpc PROTOCOL.md and channel.go; containerd/nri pkg/net/multiplex/mux.go.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Never

from corewise.nri import codec
from corewise.nri.errors import CallRefused, ConnectionLost, NoAnswer, NRIError, ProtocolViolation, TooLarge

LARGEST_PAYLOAD = 4 << 20
_FRAME = struct.Struct(">II")
_MESSAGE = struct.Struct(">IIBB")
_LARGEST_FRAME = LARGEST_PAYLOAD + _MESSAGE.size
_READ_BUFFER = 4096


class Stream(IntEnum):
    """The byte streams that share the trunk."""

    PLUGIN = 1
    RUNTIME = 2


class NRIMessageType(IntEnum):
    """The types of messages that calls without streaming use."""

    REQUEST = 1
    RESPONSE = 2


@dataclass(frozen=True, slots=True)
class Message:
    """One ttrpc message of a stream, its payload still encoded."""

    stream: Stream
    call: int
    kind: NRIMessageType
    payload: bytes


def encode(message: Message) -> bytes:
    """Return the frames that carry a message.

    Raises:
        TooLarge: if its payload is larger than the protocol allows.
    """
    if len(message.payload) > LARGEST_PAYLOAD:
        raise TooLarge(f"a message of {len(message.payload)} bytes exceeds the limit of {LARGEST_PAYLOAD}")
    header = _MESSAGE.pack(len(message.payload), message.call, message.kind, 0)
    # A larger frame would not fit the runtime's buffer, and end the connection.
    head = _READ_BUFFER - len(header)
    frames = _frame(message.stream, header + message.payload[:head])
    if rest := message.payload[head:]:
        frames += _frame(message.stream, rest)
    return frames


def _frame(stream: Stream, payload: bytes) -> bytes:
    return _FRAME.pack(stream, len(payload)) + payload


@dataclass(slots=True)
class TrunkDecoder:
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
        """The number of bytes of an unfinished frame or message: 0 where a connection may end cleanly."""
        return len(self._trunk) + sum(len(buffer) for buffer in self._streams.values())

    def _frames(self) -> Iterator[tuple[int, bytes]]:
        while len(self._trunk) >= _FRAME.size:
            number, length = _FRAME.unpack_from(self._trunk)
            if length > _LARGEST_FRAME:
                raise ProtocolViolation(f"a frame of {length} bytes exceeds the limit of {_LARGEST_FRAME}")
            if (payload := _taken(self._trunk, _FRAME.size, length)) is None:
                return
            yield number, payload


def _messages(stream: Stream, buffer: bytearray) -> Iterator[Message]:
    while len(buffer) >= _MESSAGE.size:
        length, call, kind, _flags = _MESSAGE.unpack_from(buffer)
        if length > LARGEST_PAYLOAD:
            raise ProtocolViolation(f"a message of {length} bytes exceeds the limit of {LARGEST_PAYLOAD}")
        expected = NRIMessageType.REQUEST if stream is Stream.PLUGIN else NRIMessageType.RESPONSE
        if kind != expected:
            raise ProtocolViolation(f"a message of type {kind} on stream {stream}: expected {expected}")
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


RUNTIME_SERVICE = "nri.pkg.api.v1alpha1.Runtime"
_CHUNK = 1 << 16
_BACKLOG = 64
_NANO = 1_000_000_000


@dataclass(frozen=True, slots=True)
class NRIRequest:
    """A call of the runtime. ``allowed`` seconds after ``arrived`` it gives up; 0 if it did not say."""

    service: str
    method: str
    payload: bytes
    arrived: float
    allowed: float


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request; a ``code`` other than 0 is a gRPC error code."""

    payload: bytes = b""
    code: int = 0
    message: str = ""


class Connection:
    """Owns neither reader nor writer: whoever opened them closes them."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: Callable[[NRIRequest], Awaitable[Reply]],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._requests: asyncio.Queue[tuple[int, NRIRequest]] = asyncio.Queue(_BACKLOG)
        self._calls: dict[int, asyncio.Future[bytes]] = {}
        self._last_call = -1
        self._last_request = 0
        self._ended: NRIError | None = None

    async def run(self, session: Coroutine[Any, Any, Never]) -> Never:
        """Read and answer, beside ``session``, which may call, until one of the three fails.

        Raises:
            ConnectionLost: if the runtime closed the connection.
            ProtocolViolation: if it sent what it may not.
        """
        working = self._answer_all(), session, self._read_all()
        tasks = [asyncio.create_task(work, name="nri-connection") for work in working]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            next(task for task in tasks if task.done()).result()
        except NRIError as error:
            self._ended = error
            raise
        finally:
            for task in tasks:
                task.cancel()
            self._end_calls(self._ended or ConnectionLost("the connection was closed"))
            await asyncio.gather(*tasks, return_exceptions=True)

    async def call(self, method: str, payload: bytes, *, patience: float) -> bytes:
        """Call the runtime's service, and return its answer.

        Raises:
            CallRefused: if the runtime answers with an error.
            NoAnswer: if it does not answer within ``patience`` seconds.
            TooLarge: if the payload is too large to be sent.
            ConnectionLost, ProtocolViolation: if the connection has ended, or ends now.
        """
        if self._ended is not None:
            raise self._ended
        self._last_call += 2
        number = self._last_call
        request = codec.encode(
            "Request",
            service=RUNTIME_SERVICE,
            method=method,
            payload=payload,
            timeout_nano=int(patience * _NANO),
        )
        answer = self._calls[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(patience):
                await self._send(Message(Stream.RUNTIME, number, NRIMessageType.REQUEST, request))
                response = codec.decode("Response", await answer)
        except TimeoutError as error:
            raise NoAnswer(f"the runtime did not answer {method} within {patience:g} s") from error
        finally:
            del self._calls[number]
        if response.status.code:
            raise CallRefused(method, response.status.code, response.status.message)
        result: bytes = response.payload
        return result

    async def _read_all(self) -> Never:
        decoder = TrunkDecoder()
        while True:
            try:
                data = await self._reader.read(_CHUNK)
            except OSError as error:
                raise ConnectionLost(f"the connection broke: {error}") from error
            if not data:
                break
            for message in decoder.feed(data):
                if message.kind is NRIMessageType.RESPONSE:
                    self._take_response(message)
                else:
                    self._take_request(message)
        if decoder.pending:
            raise ConnectionLost(
                f"the runtime closed the connection within a message ({decoder.pending} bytes)"
            )
        raise ConnectionLost("the runtime closed the connection")

    def _take_response(self, message: Message) -> None:
        """Hand the answer to the call that waits for it; no call may be waiting any more."""
        if message.call > self._last_call:
            raise ProtocolViolation(f"an answer to call {message.call}, which was never made")
        waiting = self._calls.get(message.call)
        if waiting and not waiting.done():
            waiting.set_result(message.payload)

    def _take_request(self, message: Message) -> None:
        if message.call <= self._last_request:
            raise ProtocolViolation(f"request {message.call} after {self._last_request}: numbers must grow")
        self._last_request = message.call
        envelope = codec.decode("Request", message.payload)
        now = asyncio.get_running_loop().time()
        request = NRIRequest(
            service=envelope.service,
            method=envelope.method,
            payload=envelope.payload,
            arrived=now,
            allowed=max(0, envelope.timeout_nano) / _NANO,
        )
        try:
            self._requests.put_nowait((message.call, request))
        except asyncio.QueueFull:
            raise ProtocolViolation(f"more than {_BACKLOG} requests without waiting for an answer") from None

    async def _answer_all(self) -> Never:
        while True:
            number, request = await self._requests.get()
            reply = await self._answer(request)
            status: dict[str, Any] = {"code": reply.code, "message": reply.message}
            response = codec.encode("Response", status=status, payload=reply.payload)
            await self._send(Message(Stream.PLUGIN, number, NRIMessageType.RESPONSE, response))

    async def _send(self, message: Message) -> None:
        try:
            self._writer.write(encode(message))
            await self._writer.drain()
        except OSError as error:
            raise ConnectionLost(f"the connection broke: {error}") from error

    def _end_calls(self, error: NRIError) -> None:
        self._ended = error
        for waiting in self._calls.values():
            if not waiting.done():
                waiting.set_exception(error)
