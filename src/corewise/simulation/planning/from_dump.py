"""Nodes and pods from a dump: what ``kubectl get nodes,pods,… -A -o json`` printed.

NodeResourceTopologies and the ConfigMap of corewise's may be in it too. All pods that have not finished are
placed, wherever they run. What keeps them to nodes is kept: node selectors, affinity (those of DaemonSets
name their node), tolerations. Where no topology says how a node's CPUs are
arranged, cores of two threads in one NUMA node are assumed, and a note tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from corewise.engine.facts import CPU
from corewise.engine.objects import PlacedPod, SchedulableNode, Topology
from corewise.engine.reading import pod_facts, quantities
from corewise.manager.objects import ManagedNode
from corewise.simulation.dump_objects import HOW_TO, read_items
from corewise.simulation.plan import InputError
from corewise.simulation.planning.arrangements import arrangement
from corewise.simulation.planning.inputs import PlanInput, PlannedNode
from corewise.topology import Topology as Arrangement
from corewise.vocabulary.names import CONFIG_NAME, CPU_TOPOLOGY
from corewise.vocabulary.qos import ANY_NAMESPACE

T = TypeVar("T")
_FINISHED = frozenset({"Succeeded", "Failed"})
_MOST_CPUS = 4096
_MILLI = 1000


def plan_from_dump(path: Path) -> PlanInput:
    """Read a dump.

    Raises:
        InputError: naming file, item and field of the first thing that is wrong.
    """
    items = read_items(path)
    topologies = {
        each.metadata.name: each for each in _of_kind(path, items, "NodeResourceTopology", Topology)
    }
    nodes = tuple(
        PlannedNode(managed, node, topology, _assumed(node))
        for managed, node in zip(
            _of_kind(path, items, "Node", ManagedNode),
            _of_kind(path, items, "Node", SchedulableNode),
            strict=True,
        )
        for topology in [topologies.get(node.metadata.name, Topology())]
    )
    if not nodes:
        raise InputError(f"{path}: no nodes in it; {HOW_TO}")
    pods = [pod for pod in _of_kind(path, items, "Pod", PlacedPod) if pod.status.phase not in _FINISHED]
    unknown = sum(CPU_TOPOLOGY not in node.topology.metadata.annotations for node in nodes)
    note = (
        f"nodes that do not state how their CPUs are arranged, assumed to be cores of two threads: {unknown}"
    )
    return PlanInput(
        source=f"dump {path.name}",
        nodes=nodes,
        pods=tuple(pod_facts(pod, ANY_NAMESPACE) for pod in pods),
        config=_config(items),
        notes=(note,) if unknown else (),
    )


def _of_kind(path: Path, items: list[Any], kind: str, form: type[T]) -> list[T]:
    found: list[T] = []
    for index, value in enumerate(items):
        if isinstance(value, dict) and value.get("kind") == kind:
            found.append(_converted(path, index, kind, value, form))
    return found


def _converted(path: Path, index: int, kind: str, value: dict[str, Any], form: type[T]) -> T:
    try:
        return msgspec.convert(_without_nulls(value), form, strict=False)
    except RecursionError:
        raise InputError(f"{path}: items[{index}] ({kind}): nested too deep") from None
    except msgspec.ValidationError as error:
        metadata = value.get("metadata")
        name = metadata.get("name", "?") if isinstance(metadata, dict) else "?"
        raise InputError(f"{path}: items[{index}] ({kind} {name}): {error}") from None


def _without_nulls(value: Any) -> Any:
    """Return the same without nulls, which mean the same as an absent field."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _assumed(node: SchedulableNode) -> Arrangement:
    capacity = quantities(node.status.capacity).get(CPU)
    cpus = min(_MOST_CPUS, max(1, -(-capacity.milli // _MILLI))) if capacity else 1
    return arrangement(cpus, 1 if cpus % 2 else 2, 1, 1)


def _config(items: list[Any]) -> Mapping[str, str]:
    for value in items:
        if isinstance(value, dict) and value.get("kind") == "ConfigMap":
            metadata, data = value.get("metadata"), value.get("data")
            if isinstance(metadata, dict) and metadata.get("name") == CONFIG_NAME and isinstance(data, dict):
                return {str(key): str(text) for key, text in data.items()}
    return {}
