"""Two layers of frames: what goes out comes in again, whatever the pieces, and nothing else does."""

from __future__ import annotations

import struct
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.nri.connection import LARGEST_PAYLOAD, Message, NRIMessageType, Stream, TrunkDecoder, encode
from corewise.nri.errors import ProtocolViolation, TooLarge
from nri.fake_runtime import GO_BUFFER, PLUGIN, REQUEST, RESPONSE, RUNTIME, frame, ttrpc

calls = st.integers(0, 2**31 - 1).map(lambda n: 2 * n + 1)
payloads = st.one_of(st.binary(max_size=40), st.integers(GO_BUFFER - 40, 3 * GO_BUFFER).map(bytes))
incoming = st.one_of(
    st.builds(Message, st.just(Stream.PLUGIN), calls, st.just(NRIMessageType.REQUEST), payloads),
    st.builds(Message, st.just(Stream.RUNTIME), calls, st.just(NRIMessageType.RESPONSE), payloads),
)


@given(st.lists(incoming, max_size=6), st.data())
def test_messages_are_reassembled_from_any_byte_pieces(messages: list[Message], data: st.DataObject) -> None:
    trunk = b"".join(map(encode, messages))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(trunk)), max_size=8)))
    decoder = TrunkDecoder()
    received = [
        message
        for start, end in pairwise([0, *cuts, len(trunk)])
        for message in decoder.feed(trunk[start:end])
    ]
    assert received == messages
    assert decoder.pending == 0


@given(st.lists(incoming, max_size=4), st.data())
def test_messages_survive_any_frame_cuts_and_mixed_streams(
    messages: list[Message], data: st.DataObject
) -> None:
    streams = dict.fromkeys(Stream, b"")
    for message in messages:
        streams[message.stream] += ttrpc(message.call, message.kind, message.payload)
    decoder = TrunkDecoder()
    received: list[Message] = []
    while any(streams.values()):
        stream = data.draw(st.sampled_from([stream for stream in Stream if streams[stream]]))
        size = data.draw(st.integers(1, 2 * GO_BUFFER))
        received += decoder.feed(frame(stream, streams[stream][:size]))
        streams[stream] = streams[stream][size:]
    for stream in Stream:
        ours = [message for message in received if message.stream is stream]
        assert ours == [message for message in messages if message.stream is stream]


@given(st.binary(max_size=300))
def test_any_bytes_are_messages_a_violation_or_incomplete(data: bytes) -> None:
    with suppress(ProtocolViolation):
        list(TrunkDecoder().feed(data))


@given(st.sampled_from([PLUGIN, RUNTIME]), st.binary(max_size=60))
def test_any_framed_bytes_are_messages_violation_or_incomplete(stream: int, data: bytes) -> None:
    with suppress(ProtocolViolation):
        list(TrunkDecoder().feed(frame(stream, data)))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (struct.pack(">II", PLUGIN, LARGEST_PAYLOAD + 11), "a frame of 4194315 bytes"),
        (struct.pack(">II", 77, 0xFFFFFFFF), "a frame of 4294967295 bytes"),
        (frame(PLUGIN, ttrpc(1, REQUEST, b"", length=LARGEST_PAYLOAD + 1)), "a message of 4194305 bytes"),
        (frame(PLUGIN, ttrpc(2, REQUEST, b"")), "call number 2"),
        (frame(PLUGIN, ttrpc(0, REQUEST, b"")), "call number 0"),
        (frame(PLUGIN, ttrpc(1, RESPONSE, b"")), "type 2 on stream 1"),
        (frame(RUNTIME, ttrpc(1, REQUEST, b"")), "type 1 on stream 2"),
        (frame(PLUGIN, ttrpc(1, 3, b"")), "type 3 on stream 1"),
    ],
)
def test_a_wrong_header_is_named(data: bytes, said: str) -> None:
    with pytest.raises(ProtocolViolation, match=said):
        list(TrunkDecoder().feed(data))


def test_excessive_length_is_refused_before_its_bytes_arrive() -> None:
    decoder = TrunkDecoder()
    with pytest.raises(ProtocolViolation):
        list(decoder.feed(struct.pack(">II", PLUGIN, 0xFFFFFFFF)))
    assert decoder.pending == 8


def test_a_stream_that_nobody_knows_is_ignored() -> None:
    known = Message(Stream.PLUGIN, 1, NRIMessageType.REQUEST, b"x")
    assert list(TrunkDecoder().feed(frame(3, b"whatever") + frame(0, b"") + encode(known))) == [known]


def test_largest_message_passes_and_one_byte_more_fails() -> None:
    largest = Message(Stream.PLUGIN, 1, NRIMessageType.REQUEST, bytes(LARGEST_PAYLOAD))
    assert list(TrunkDecoder().feed(encode(largest))) == [largest]
    with pytest.raises(TooLarge, match="4194305"):
        encode(Message(Stream.PLUGIN, 1, NRIMessageType.REQUEST, bytes(LARGEST_PAYLOAD + 1)))


@given(st.integers(0, 5 * GO_BUFFER))
def test_messages_are_cut_to_fit_gos_reader(size: int) -> None:
    trunk = encode(Message(Stream.PLUGIN, 1, NRIMessageType.RESPONSE, bytes(size)))
    left = 0
    while trunk:
        _, length = struct.unpack(">II", trunk[:8])
        assert length <= max(GO_BUFFER, left)
        left = (left or size + 10) - length
        trunk = trunk[8 + length :]
    assert left == 0
