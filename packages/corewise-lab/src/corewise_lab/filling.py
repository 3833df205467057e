"""The pods that the groups of a plan create, and the nodes of those that no scheduler places.

Online pods are created without a node; the local scheduler places them. A group that fills a share of what
nodes offer grows when they offer more. Offline pods are scheduled by the batch CPU that nodes offer. With
corewise off no node offers any, and a scheduler would place none: those that are due then are created on
their node, by the machine's raw CPU and memory, and stay there. So the same offline pods on the same nodes
are compared: bounded by nothing with corewise off, by offers and quotas with it on.

Pods that run already, but whose node is unknown (those of a trace, offline pods from before batch CPU was
offered), go to the machine with the largest free share of CPU that they fit on; ties go to the machine named
first. Amounts are tuples of whole numbers, CPU first, the same order for rooms and pods.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from corewise.quantities import Quantity
from corewise.vocabulary.names import BATCH_CPU
from corewise_lab.kubelets import SimulatedNode
from corewise_lab.plan import Plan, PodGroup
from corewise_lab.pods import copies_to_fill, of_group

FillAmounts = tuple[int, ...]


class GroupPods:
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
        rooms = {
            machine.name: (int(machine.allocatable_milli), int(machine.memory), machine.max_pods)
            for machine in self._plan.machines
        }
        placed = place(((group.cpu_milli, group.memory, 1) for group, _ in offline), rooms)
        return [
            *(of_group(*each) for each in online),
            *(of_group(*offline[index], node) for index, node in placed.items()),
        ]

    def _more(self, group: PodGroup, schedulable: int, raw: int) -> Iterator[tuple[PodGroup, int]]:
        """Yield the pods of a group that were not due before, with their numbers."""
        first, copies = self._copies[group.name], copies_to_fill(group, schedulable, raw)
        self._copies[group.name] = max(first, copies)
        yield from ((group, index) for index in range(first, copies))


def place(pods: Iterable[FillAmounts], rooms: Mapping[str, FillAmounts]) -> dict[int, str]:
    """Place pods one after the other; return rooms by pod index. Pods that fit nowhere are absent."""
    names, free = list(rooms), list(rooms.values())
    heap = [(0.0 if amounts[0] else 1.0, index) for index, amounts in enumerate(free)]
    heapq.heapify(heap)
    room_of: dict[int, str] = {}
    for number, wanted in enumerate(pods):
        back: list[tuple[float, int]] = []
        while heap and number not in room_of:
            used_share, index = heapq.heappop(heap)
            left = tuple(have - want for have, want in zip(free[index], wanted, strict=True))
            if min(left) >= 0:
                total = rooms[names[index]][0]
                used_share = 1.0 - left[0] / total if total else 1.0
                free[index], room_of[number] = left, names[index]
            back.append((used_share, index))
        for entry in back:
            heapq.heappush(heap, entry)
    return room_of
