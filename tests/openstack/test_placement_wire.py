"""Placement's JSON: digits survive, and whatever is not what the API promises is an error of ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.openstack.errors import AnswerError
from corewise.openstack.placement import wire
from corewise.vocabulary.placement import PCPU, Consumer, Inventory

READERS: tuple[Callable[[bytes], object], ...] = (
    wire.provider_lines,
    wire.provider_line,
    wire.inventories,
    wire.traits,
    wire.usages,
    wire.holders,
    wire.candidates,
    partial(wire.consumer, "c"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "resource_providers",
                    "uuid",
                    "inventories",
                    "allocations",
                    "resources",
                    "traits",
                    "total",
                    PCPU,
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("reader", READERS)
@given(JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40))
def test_an_answer_is_read_or_is_an_error_of_ours(reader: Callable[[bytes], object], body: bytes) -> None:
    try:
        reader(body)
    except AnswerError as error:
        assert str(error)  # noqa: PT017 - reading it is as good


@given(st.decimals("0.01", "1000", places=4))
def test_a_ratio_is_written_and_read_digit_by_digit(ratio: Decimal) -> None:
    wanted = {PCPU: Inventory(total=3, max_unit=3, allocation_ratio=ratio)}
    body = wire.encoded(wire.inventories_body(7, wanted))
    assert wire.inventories(body) == (wanted, 7)
    assert isinstance(json.loads(body)["inventories"][PCPU]["allocation_ratio"], float)


def test_read_only_mappings_are_written_like_others() -> None:
    held = MappingProxyType({"p": MappingProxyType({PCPU: 2})})
    consumer = Consumer("c", 3, "project", "user", held)
    assert json.loads(wire.encoded(wire.consumer_body(consumer, (1, 39)))) == {
        "allocations": {"p": {"resources": {PCPU: 2}}},
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": 3,
        "consumer_type": "INSTANCE",
    }


def test_before_there_were_types_none_is_written() -> None:
    consumer = Consumer("c", None, "project", "user", {})
    assert "consumer_type" not in wire.consumer_body(consumer, (1, 37))
    assert wire.version_for((consumer,), (1, 36)) == (1, 36)
