"""What the gate has given away and nobody has seen bound yet.

A reservation counts in the cluster like a bound pod, under a name of its own. It ends when the pod is seen
bound (and then counts as itself), when the pod is gone, or when it has expired and the API server says that
the pod is not bound. One binding of a pod may still be under way when another begins, to the same node or to
another: each pair of pod and node has its own reservation, so neither takes what the other may yet get.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from corewise.engine import Cluster, Placement, PodFacts

RESERVED_FOR = 90.0
"""Seconds: longer than an API server works on a request (60), after which no binding can happen."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A pod, by its uid, let through to a node; ``until`` is monotonic."""

    uid: str
    namespace: str
    name: str
    facts: PodFacts
    placement: Placement
    until: float


class Reservations:
    """All of them, and their counting in the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._of: dict[str, dict[str, Reservation]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def of(self, uid: str, node: str) -> Reservation | None:
        """Return what a pod has on a node."""
        return self._of.get(uid, {}).get(node)

    def hold(self, reservation: Reservation) -> None:
        """Count a reservation, in the place of the pod's earlier one on the same node."""
        facts = replace(
            reservation.facts,
            key=f"{reservation.facts.key} ({reservation.uid} on {reservation.placement.node})",
        )
        held = replace(reservation, facts=facts)
        self._of.setdefault(reservation.uid, {})[reservation.placement.node] = held
        self._cluster.put_pod(facts, held.placement)

    def drop(self, uid: str) -> None:
        """Count nothing of a pod any more: it is bound, or gone."""
        for each in list(self._of.get(uid, {}).values()):
            self.release(each)

    def release(self, reservation: Reservation) -> None:
        """Count one reservation no more, unless it has been renewed."""
        held = self._of.get(reservation.uid, {})
        if held.get(reservation.placement.node) is reservation:
            self._cluster.remove_pod(reservation.facts.key)
            del held[reservation.placement.node]
            if not held:
                del self._of[reservation.uid]

    def expired(self, now: float) -> list[Reservation]:
        """Return those that have expired."""
        return [each for held in self._of.values() for each in held.values() if each.until <= now]

    @contextmanager
    def without(self, uid: str) -> Iterator[None]:
        """Leave out of the cluster what a pod has, for a decision about that pod itself."""
        own = list(self._of.get(uid, {}).values())
        for each in own:
            self._cluster.remove_pod(each.facts.key)
        try:
            yield
        finally:
            for each in own:
                self._cluster.put_pod(each.facts, each.placement)
