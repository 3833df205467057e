"""Placement's JSON: digits survive, and whatever is not what the API promises is an error of ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise_openstack.openstack.errors import ConflictStorm, UnexpectedAnswer
from corewise_openstack.openstack.placement_client import (
    PlacementClient,
    consumer_body,
    encoded,
    inventories_body,
    version_for,
)
from corewise_openstack.openstack.placement_http import NEWEST, PlacementTransport
from corewise_openstack.vocabulary.placement import PCPU, Consumer, Inventory

CALLS: tuple[Callable[[PlacementClient], object], ...] = (
    lambda client: client.providers(),
    lambda client: client.create_provider("a"),
    lambda client: client.provider("a"),
    lambda client: client.put_inventories("a", 1, {}),
    lambda client: client.put_traits("a", 1, frozenset()),
    lambda client: client.usages("a"),
    lambda client: client.use("a"),
    lambda client: client.candidates(""),
    lambda client: client.consumer("c"),
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


class _Answers(PlacementTransport):
    """A Placement with an answer for each path, whose microversion is ours."""

    def __init__(self, answer: Callable[[str], bytes]) -> None:
        self._answers = answer

    @property
    def version(self) -> tuple[int, int]:
        return NEWEST

    def send(
        self, method: str, path: str, body: bytes | None = None, *, version: tuple[int, int] | None = None
    ) -> bytes:
        return self._answers(path)


@pytest.mark.parametrize("call", CALLS)
@given(JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40))
def test_answer_is_read_or_is_our_error(call: Callable[[PlacementClient], object], body: bytes) -> None:
    try:
        call(PlacementClient(_Answers(lambda _path: body)))
    except (UnexpectedAnswer, ConflictStorm) as error:
        assert str(error)  # noqa: PT017 - reading it is as good


@given(st.decimals("0.01", "1000", places=4))
def test_ratio_is_written_and_read_digit_by_digit(ratio: Decimal) -> None:
    wanted = {PCPU: Inventory(total=3, max_unit=3, allocation_ratio=ratio)}
    body = encoded(inventories_body(7, wanted))
    answers = {
        "u": b'{"uuid": "u", "name": "n", "generation": 7}',
        "inventories": body,
        "traits": b'{"traits": [], "resource_provider_generation": 7}',
    }
    client = PlacementClient(_Answers(lambda path: answers[path.rpartition("/")[2]]))
    assert client.provider("u").inventories == wanted
    assert isinstance(json.loads(body)["inventories"][PCPU]["allocation_ratio"], float)


def test_read_only_mappings_are_written_like_others() -> None:
    held = MappingProxyType({"p": MappingProxyType({PCPU: 2})})
    consumer = Consumer("c", 3, "project", "user", held)
    assert json.loads(encoded(consumer_body(consumer, (1, 39)))) == {
        "allocations": {"p": {"resources": {PCPU: 2}}},
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": 3,
        "consumer_type": "INSTANCE",
    }


def test_before_there_were_types_none_is_written() -> None:
    consumer = Consumer("c", None, "project", "user", {})
    assert "consumer_type" not in consumer_body(consumer, (1, 37))
    assert version_for((consumer,), (1, 36)) == (1, 36)
