"""Writes to Placement that take several requests: read, decide, write; again if somebody else wrote in
between.

The caller decides, by a pure function of what was read, so a conflict leads to a new decision and never to an
overwrite. Waits double from 10 ms to 1 s, each shortened at random by up to half, so that many writers do not
come back together; after ``ATTEMPTS`` tries, which is 12 to 24 s, a :class:`ConflictStorm` is raised. Any
other refusal ends it at once, and nothing more is written.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from corewise_openstack.actions import Reshape, WriteInventories, WriteTraits
from corewise_openstack.openstack.errors import ConcurrentUpdate, ConflictStorm, DoesNotFit, PlacementConflict
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.vocabulary.placement import Consumer, Provider, ProviderUse

T = TypeVar("T")

ATTEMPTS = 30
_FIRST_WAIT = 0.01
_LONGEST_WAIT = 1.0
_MOST_WRITES = 8

ProviderWrite = WriteInventories | WriteTraits
DecideProvider = Callable[[Provider], ProviderWrite | None]
DecideReshape = Callable[[ProviderUse], Reshape | None]


@dataclass(frozen=True, slots=True)
class Patience:
    """The number of attempts on conflicts, and the wait between them; tests pass their own ``sleep``."""

    attempts: int = ATTEMPTS
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)

    def wait(self, failures: int) -> None:
        """Wait after this many failures in a row (1 and up)."""
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (failures - 1))
        self.sleep(longest * self.rng.uniform(0.5, 1.0))


PATIENCE = Patience()


def ensure_provider(client: PlacementClient, name: str, uuid: str | None = None) -> Provider:
    """Return the provider with a name, created if it is missing; two who create it at once get the same."""
    found = client.find_provider(name)
    if found is not None:
        return found
    try:
        return client.create_provider(name, uuid)
    except PlacementConflict:
        found = client.find_provider(name)
        if found is None:
            raise
        return found


def keep_provider(
    client: PlacementClient, uuid: str, decide: DecideProvider, patience: Patience = PATIENCE
) -> tuple[ProviderWrite, ...]:
    """Write what ``decide`` wants of a provider; return what was written, which may be nothing.

    ``decide`` is called again with the provider as each write left it, until it wants nothing more.

    Raises:
        PlacementError: what Placement refuses; a ConflictStorm if others write all the time.
    """

    def attempt() -> tuple[ProviderWrite, ...]:
        provider = client.provider(uuid)
        written: list[ProviderWrite] = []
        while (write := decide(provider)) is not None:
            if len(written) == _MOST_WRITES:
                raise RuntimeError(f"writes did not converge: {write}")
            match write:
                case WriteInventories():
                    generation = client.put_inventories(write.provider, write.generation, write.inventories)
                    provider = replace(provider, generation=generation, inventories=write.inventories)
                case WriteTraits():
                    generation = client.put_traits(write.provider, write.generation, write.traits)
                    provider = replace(provider, generation=generation, traits=write.traits)
            written.append(write)
        return tuple(written)

    return again(attempt, f"provider {uuid}", patience)


def reshape(
    client: PlacementClient, uuid: str, decide: DecideReshape, patience: Patience = PATIENCE
) -> Reshape | None:
    """Reshape a provider as ``decide`` wants, and return what was done; None if there is nothing to do.

    Raises:
        DoesNotFit: if the allocations do not fit into the new inventories; nothing is changed then.
        PlacementError: what else Placement refuses; nothing is changed then either.
    """

    def attempt() -> Reshape | None:
        action = decide(client.use(uuid))
        if action is not None:
            client.reshape(action)
        return action

    return again(attempt, f"provider {uuid}", patience)


def claim(client: PlacementClient, wanted: Consumer, patience: Patience = PATIENCE) -> str | None:
    """Give a consumer what it wants, all or nothing; None if it has it now.

    Otherwise somebody else was faster, and Placement's message is returned.

    ``wanted.generation`` is None for a new consumer. If the consumer holds exactly this already, the claim
    succeeded: the answer to an earlier try may have been lost.

    Raises:
        Conflict: if the consumer got something else meanwhile.
        PlacementError: what else Placement refuses; a ConflictStorm if others write all the time.
    """

    def attempt() -> str | None:
        try:
            client.put_consumer(wanted)
        except DoesNotFit as refused:
            return refused.detail
        except ConcurrentUpdate as conflict:
            there = client.consumer(wanted.uuid)
            if there is None or there.generation == wanted.generation:
                raise
            if there.allocations != wanted.allocations:
                raise PlacementConflict(
                    f"the consumer holds something else already: {conflict.detail}",
                    status=conflict.status,
                    request=conflict.request,
                    code=conflict.code,
                    hint="release it first, or read it again and claim with its generation",
                ) from conflict
        return None

    return again(attempt, f"consumer {wanted.uuid}", patience)


def again(attempt: Callable[[], T], what: str, patience: Patience = PATIENCE) -> T:
    """Try until no other write comes between.

    Raises:
        ConflictStorm: after ``patience.attempts`` tries.
    """
    for failures in range(1, patience.attempts + 1):
        try:
            return attempt()
        except ConcurrentUpdate as conflict:
            last = conflict
        if failures < patience.attempts:
            patience.wait(failures)
    raise ConflictStorm(
        f"{what} was changed by somebody else each time, {patience.attempts} times in a row: {last.detail}"
    ) from last
