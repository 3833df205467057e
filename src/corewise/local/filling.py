"""Which pods the groups of a plan call for, and on which nodes: nobody schedules in the local cluster.

Online pods take what a node offers by its status; a group that fills a share of it grows when nodes offer
more. Offline pods take of the machine's raw CPU and memory, which online pods leave in part: nobody has
offered any batch CPU yet when they are placed, and a scheduler would go by that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from corewise.local.kubelets import SimulatedNode
from corewise.local.placement import Room, place
from corewise.local.plan import Plan, PodGroup
from corewise.local.pod_keeper import need_of
from corewise.local.pods import copies_to_fill, of_group
from corewise.manager.objects import DemandingPod
from corewise.quantities import Quantity

Pods = Mapping[str, Sequence[DemandingPod]]


class Filling:
    """The pods of a plan's groups; those that were due once are not due again."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._copies = {group.name: 0 for group in plan.groups}

    def due(self, nodes: Iterable[SimulatedNode], pods: Pods) -> list[dict[str, Any]]:
        """Return the pods to create, as far as the nodes have room. ``pods`` are those that run there."""
        rooms = [_room(node, pods.get(node.metadata.name, ())) for node in nodes]
        schedulable = sum(room.total_cpu for room in rooms)
        raw = sum(machine.allocatable_milli for machine in self._plan.machines)
        wanted = [each for group in self._plan.groups for each in self._more(group, schedulable, raw)]
        online = [each for each in wanted if not each[0].offline]
        offline = [each for each in wanted if each[0].offline]
        return [*_placed(online, rooms), *_placed(offline, self._rooms_for_offline())]

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


def _room(node: SimulatedNode, pods: Iterable[DemandingPod]) -> Room:
    """Return what a node has left for pods, by what the API says it offers."""
    amounts = node.status.get("allocatable", {})
    cpu, memory, count = (Quantity.parse(amounts.get(key, "0")) for key in ("cpu", "memory", "pods"))
    room = Room(node.metadata.name, (cpu.milli, memory.units, count.units), cpu.milli)
    for need in map(need_of, pods):
        room.take((need.cpu_milli, need.memory, 1))
    return room


def _placed(wanted: Sequence[tuple[PodGroup, int]], rooms: Sequence[Room]) -> list[dict[str, Any]]:
    """Return the manifests of the pods that there is room for, each with its node."""
    placement = place(((group.cpu_milli, group.memory, 1) for group, _ in wanted), rooms)
    return [of_group(*wanted[index], node) for index, node in placement.node_of.items()]
