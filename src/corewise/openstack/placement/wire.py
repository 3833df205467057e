"""Placement's JSON, and the values of ``policy.placement`` it means.

A ratio is a decimal number on the wire and an exact decimal here: its digits are read and written as they
are.

Source: the API reference of Placement, microversions 1.30 to 1.39.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from corewise.openstack.errors import AnswerError
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.placement import (
    Candidates,
    Consumer,
    Inventory,
    Provider,
    ProviderSummary,
)

T = TypeVar("T")

CONSUMER_TYPES = (1, 38)
"""The microversion that has types of consumers."""

BEFORE_TYPES = (1, 37)

UNKNOWN_TYPE = "unknown"
"""What Placement answers for a consumer that was never given a type."""


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} does not go into a request")


_ENCODER = msgspec.json.Encoder(decimal_format="number", enc_hook=_plain)


class ProviderLine(msgspec.Struct):
    """A provider in a list, or in the answer to its creation."""

    uuid: str
    name: str
    generation: int


class _ProviderList(msgspec.Struct):
    resource_providers: list[ProviderLine]


class _InventoryBody(msgspec.Struct):
    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: Decimal


class _InventoryList(msgspec.Struct):
    inventories: dict[str, _InventoryBody]
    resource_provider_generation: int


class _TraitList(msgspec.Struct):
    traits: frozenset[str]
    resource_provider_generation: int


class _Resources(msgspec.Struct, gc=False):
    resources: dict[str, int]


class _Usages(msgspec.Struct):
    usages: dict[str, int]
    resource_provider_generation: int


class _Holders(msgspec.Struct):
    allocations: dict[str, _Resources]
    resource_provider_generation: int


class _ConsumerBody(msgspec.Struct):
    allocations: dict[str, _Resources]
    project_id: str = ""
    user_id: str = ""
    consumer_generation: int | None = None
    consumer_type: str | None = None


class _CandidateList(msgspec.Struct):
    allocation_requests: list[_Candidate]
    provider_summaries: dict[str, ProviderSummary]


class _Candidate(msgspec.Struct, gc=False):
    allocations: dict[str, _Resources]


_CANDIDATES = msgspec.json.Decoder(_CandidateList)


def provider_lines(body: bytes) -> list[ProviderLine]:
    """Read GET /resource_providers."""
    return decoded(body, _ProviderList).resource_providers


def provider_line(body: bytes) -> ProviderLine:
    """Read one provider."""
    return decoded(body, ProviderLine)


def inventories(body: bytes) -> tuple[dict[str, Inventory], int]:
    """Read a provider's inventories, and its generation."""
    answer = decoded(body, _InventoryList)
    return {name: Inventory(**msgspec.structs.asdict(each)) for name, each in answer.inventories.items()}, (
        answer.resource_provider_generation
    )


def traits(body: bytes) -> tuple[frozenset[str], int]:
    """Read a provider's traits, and its generation."""
    answer = decoded(body, _TraitList)
    return answer.traits, answer.resource_provider_generation


def usages(body: bytes) -> dict[str, int]:
    """Read how much of each class all consumers of a provider hold together."""
    return decoded(body, _Usages).usages


def holders(body: bytes) -> tuple[tuple[str, ...], int]:
    """Read who holds something of a provider, and its generation."""
    answer = decoded(body, _Holders)
    return tuple(sorted(answer.allocations)), answer.resource_provider_generation


def consumer(uuid: str, body: bytes) -> Consumer | None:
    """Read what a consumer holds; None if it holds nothing: so Placement says that there is none."""
    answer = decoded(body, _ConsumerBody)
    if not answer.allocations:
        return None
    return Consumer(
        uuid=uuid,
        generation=answer.consumer_generation,
        project=answer.project_id,
        user=answer.user_id,
        allocations={provider: held.resources for provider, held in answer.allocations.items()},
        type=None if answer.consumer_type == UNKNOWN_TYPE else answer.consumer_type,
    )


def candidates(body: bytes) -> Candidates:
    """Read the answer to a query."""
    try:
        answer = _CANDIDATES.decode(body)
    except UNREADABLE as error:
        raise AnswerError(f"GET /allocation_candidates: {error}") from error
    return Candidates(
        tuple(
            {provider: held.resources for provider, held in each.allocations.items()}
            for each in answer.allocation_requests
        ),
        answer.provider_summaries,
    )


def decoded(body: bytes, of: type[T]) -> T:
    """Read an answer.

    Raises:
        AnswerError: if it is not what the API promises.
    """
    try:
        return msgspec.json.decode(body, type=of)
    except UNREADABLE as error:
        raise AnswerError(f"Placement's answer is not what its API promises: {error}") from error


def encoded(body: object) -> bytes:
    """Write a request's body."""
    return _ENCODER.encode(body)


def inventories_body(generation: int, wanted: Mapping[str, Inventory]) -> dict[str, Any]:
    """Return the body of PUT inventories, and of one provider in a reshape."""
    return {"resource_provider_generation": generation, "inventories": wanted}


def version_for(consumers: Sequence[Consumer], version: tuple[int, int]) -> tuple[int, int]:
    """Return the microversion to write consumers with.

    A consumer without a type keeps it so only if it is written as before there were types.
    """
    return version if all(each.type for each in consumers) else min(version, BEFORE_TYPES)


def consumer_body(held: Consumer, version: tuple[int, int]) -> dict[str, Any]:
    """Return the body of PUT allocations, and of one consumer in a reshape."""
    body: dict[str, Any] = {
        "allocations": {
            provider: {"resources": resources} for provider, resources in held.allocations.items()
        },
        "project_id": held.project,
        "user_id": held.user,
        "consumer_generation": held.generation,
    }
    return body | {"consumer_type": held.type} if version >= CONSUMER_TYPES else body


def reshape_body(
    providers: tuple[Provider, ...], consumers: tuple[Consumer, ...], version: tuple[int, int]
) -> dict[str, Any]:
    """Return the body of POST /reshaper."""
    return {
        "inventories": {each.uuid: inventories_body(each.generation, each.inventories) for each in providers},
        "allocations": {each.uuid: consumer_body(each, version) for each in consumers},
    }
