"""However a stream is cut into chunks, its lines are the same; what is too long is an error."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.kube.errors import LineTooLongError
from corewise.kube.watch import LineSplitter


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[start:end] for start, end in pairwise(edges)]


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(0, 10_000)))
def test_any_chunking_gives_the_same_lines(pieces: list[bytes], places: list[int]) -> None:
    stream = b"\n".join(pieces)
    *expected, rest = stream.split(b"\n")
    splitter = LineSplitter()
    lines = [line for chunk in cut(stream, places) for line in splitter.feed(chunk)]
    assert lines == [line for line in expected if line]
    assert splitter.pending == len(rest)


@given(st.lists(st.binary(max_size=12)), st.lists(st.integers(0, 10_000)), st.integers(1, 8))
def test_line_beyond_the_cap_fails_for_any_chunking(pieces: list[bytes], places: list[int], cap: int) -> None:
    stream = b"\n".join(pieces)
    too_long = any(len(line) > cap for line in stream.split(b"\n"))
    splitter = LineSplitter(cap)
    try:
        for chunk in cut(stream, places):
            splitter.feed(chunk)
        refused = False
    except LineTooLongError:
        refused = True
    assert refused == too_long


def test_a_line_of_several_mebibytes_arrives_whole() -> None:
    line = b"x" * (3 << 20)
    splitter = LineSplitter()
    stream = line + b"\n" + b"y"
    lines = [
        found
        for start in range(0, len(stream), 65_536)
        for found in splitter.feed(stream[start : start + 65_536])
    ]
    assert lines == [line]
    assert splitter.pending == 1


def test_endless_line_from_server_is_stopped_at_cap() -> None:
    splitter = LineSplitter(1000)
    splitter.feed(b"x" * 1000)
    with pytest.raises(LineTooLongError, match="1000 bytes"):
        splitter.feed(b"x")
