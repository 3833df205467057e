"""One node as the assessment sees it: a value, made from cached objects or from what a command lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from corewise.amplification import Amounts, Machine, NodeDemand
from corewise.config.facts import CPUFacts, FactsProblem, parse_cpu_basic_info
from corewise.kube.objects import ConfigMap, ObjectMeta
from corewise.manager.demand import demand_of_node, quantities
from corewise.manager.objects import DemandingPod, ManagedNode
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.names import CPU_BASIC_INFO, MACHINE_RAW_CAPACITY

Annotations = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node, its NodeResourceTopology's annotations (None: it has none), and what its pods demand.

    ``demand`` is asked only when it matters: on a node of many pods it is the most costly part.
    """

    name: str
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    annotations: Annotations
    amounts: Amounts
    boot_id: str
    topology: Annotations | None
    demand: Callable[[], NodeDemand]

    @property
    def facts(self) -> CPUFacts | FactsProblem | None:
        """The node's CPU facts; None where nobody has stated any."""
        text = (self.topology or {}).get(CPU_BASIC_INFO)
        return None if text is None else _facts(text)

    @property
    def reported_capacity(self) -> str:
        """The text in which the agent reports the machine's raw capacity; empty if there is none."""
        return (self.topology or {}).get(MACHINE_RAW_CAPACITY, "")

    def machine(self, *, newer_than_record: bool) -> Machine | None:
        """Return the machine as its agent reports it; None if it does not, or unreadably."""
        try:
            report = _REPORT.decode(self.reported_capacity)
        except UNREADABLE:
            return None
        capacity = quantities({key: value for key, value in report.items() if key != _BOOT_ID})
        if not capacity:
            return None
        same_boot = bool(self.boot_id) and report.get(_BOOT_ID) == self.boot_id
        return Machine(capacity, same_boot=same_boot, newer_than_record=newer_than_record)


@lru_cache(maxsize=1024)
def _facts(text: str) -> CPUFacts | FactsProblem:
    """Read CPU facts once for all nodes of the same kind."""
    return parse_cpu_basic_info(text)


_REPORT = msgspec.json.Decoder(dict[str, str])
_BOOT_ID = "bootID"


def view_of(
    node: ManagedNode, topology: Annotations | None, pods: Callable[[], Iterable[DemandingPod]]
) -> NodeView:
    """Return the view of a node; ``pods`` are those bound to it."""
    meta: ObjectMeta = node.metadata
    return NodeView(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        labels=meta.labels,
        annotations=meta.annotations,
        amounts=Amounts(quantities(node.status.capacity), quantities(node.status.allocatable)),
        boot_id=node.status.node_info.boot_id,
        topology=topology,
        demand=lambda: demand_of_node(pods(), topology),
    )


def config_map_text(config_map: ConfigMap | None, key: str) -> str | None:
    """Return the text under a key; None if the ConfigMap or the key is absent, or the text is blank."""
    text = config_map.data.get(key, "") if config_map else ""
    return text if text.strip() else None
