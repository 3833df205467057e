"""The pods that the groups of a plan create, and where those run that nobody scheduled.

Online pods are created without a node; the local scheduler places them. A group that fills a share of what
nodes offer grows when they offer more. Offline pods are scheduled by the batch CPU that nodes offer. With
corewise off nobody offers any, and a scheduler would place none: so those that are due then are created on
their node, by the machine's raw CPU and memory, and stay where they are. That makes the comparison: the same
offline pods on the same nodes, bounded by nothing with corewise off, by offers and quotas with it on.

Pods that run already, but whose node is unknown (those of a trace, offline pods from before batch CPU was
offered), go to the machine with the largest free share of CPU that they fit on; ties go to the machine named
first. Amounts are tuples of whole numbers, CPU first, the same order for rooms and pods.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from corewise.quantities import Quantity
from corewise.simulation.kubelets import SimulatedNode
from corewise.simulation.plan import Plan, PodGroup
from corewise.simulation.pods import copies_to_fill, of_group
from corewise.vocabulary.names import BATCH_CPU


class Filling:
    """The pods of a plan's groups; those that were due once are not due again."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._copies = {group.name: 0 for group in plan.groups}

    def due(self, nodes: Iterable[SimulatedNode]) -> list[dict[str, Any]]:
        """Return the pods to create, online ones first, in the order in which they are to be scheduled."""
        offers = [node.status.get("allocatable", {}) for node in nodes]
        schedulable = sum(Quantity.parse(each.get("cpu", "0")).milli for each in offers)
        raw = sum(machine.allocatable_milli for machine in self._plan.machines)
        wanted = [each for group in self._plan.groups for each in self._more(group, schedulable, raw)]
        online = [each for each in wanted if not each[0].offline]
        offline = [each for each in wanted if each[0].offline]
        if any(BATCH_CPU in each for each in offers):
            return [of_group(*each) for each in (*online, *offline)]
        return [*(of_group(*each) for each in online), *_placed(offline, self._rooms_for_offline())]

    def _more(self, group: PodGroup, schedulable: int, raw: int) -> Iterator[tuple[PodGroup, int]]:
        """Yield the pods of a group that there should be and that were not due yet, with their numbers."""
        first, copies = self._copies[group.name], copies_to_fill(group, schedulable, raw)
        self._copies[group.name] = max(first, copies)
        yield from ((group, index) for index in range(first, copies))

    def _rooms_for_offline(self) -> list[Room]:
        rooms = []
        for machine in self._plan.machines:
            amounts = (int(machine.allocatable_milli), int(machine.memory), machine.max_pods)
            rooms.append(Room(machine.name, amounts, amounts[0]))
        return rooms


def _placed(wanted: Sequence[tuple[PodGroup, int]], rooms: Sequence[Room]) -> list[dict[str, Any]]:
    """Return the manifests of the pods that there is room for, each with its node."""
    placement = place(((group.cpu_milli, group.memory, 1) for group, _ in wanted), rooms)
    return [of_group(*wanted[index], node) for index, node in placement.node_of.items()]


Amounts = tuple[int, ...]


@dataclass
class Room:
    """What a machine has left. ``total`` is what it offered in the beginning."""

    name: str
    free: Amounts
    total_cpu: int

    def fits(self, wanted: Amounts) -> bool:
        return all(have >= want for have, want in zip(self.free, wanted, strict=True))

    def take(self, wanted: Amounts) -> None:
        self.free = tuple(have - want for have, want in zip(self.free, wanted, strict=True))

    @property
    def used_share(self) -> float:
        return 1.0 - self.free[0] / self.total_cpu if self.total_cpu else 1.0


@dataclass(frozen=True, slots=True)
class Placement:
    """Which pod goes where, by the pod's index, and which fit nowhere."""

    node_of: dict[int, str] = field(default_factory=dict)
    unplaced: list[int] = field(default_factory=list)


def place(pods: Iterable[Amounts], rooms: Sequence[Room]) -> Placement:
    """Place pods one after the other; ``rooms`` are used up on the way."""
    heap = [(room.used_share, index) for index, room in enumerate(rooms)]
    heapq.heapify(heap)
    placement = Placement()
    for number, wanted in enumerate(pods):
        index = _pop_first_fit(heap, rooms, wanted)
        if index is None:
            placement.unplaced.append(number)
            continue
        rooms[index].take(wanted)
        heapq.heappush(heap, (rooms[index].used_share, index))
        placement.node_of[number] = rooms[index].name
    return placement


def _pop_first_fit(heap: list[tuple[float, int]], rooms: Sequence[Room], wanted: Amounts) -> int | None:
    """Take the emptiest room that fits off the heap; the ones passed over go back."""
    passed: list[tuple[float, int]] = []
    found: int | None = None
    while heap and found is None:
        entry = heapq.heappop(heap)
        if rooms[entry[1]].fits(wanted):
            found = entry[1]
        else:
            passed.append(entry)
    for entry in passed:
        heapq.heappush(heap, entry)
    return found
