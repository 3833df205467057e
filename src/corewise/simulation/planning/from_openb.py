"""Nodes and pods from the openb trace: all its pods, whatever became of them, in the order they were created.

    qos LS, Burstable              CPUShare pod
    qos Guaranteed, whole CPUs     CPUSet pod (QoS class LSR)
    qos BE                         offline pod: it requests batch-cpu and batch-memory

GPUs count in thousandths, as one amount a node. ``gpu_spec`` keeps a pod to nodes with one of these GPU
models. The trace knows nothing of the CPU that online pods leave idle, so nodes offer 60 % of what they have
not requested. CPU models are assigned as for a local cluster (:mod:`corewise.simulation.openb`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from corewise.engine import Constraints, NodeRequirement, PodFacts
from corewise.engine.objects import SchedulableNode, Topology
from corewise.manager.objects import ManagedNode
from corewise.simulation.machines import Machine
from corewise.simulation.openb import MEBI, TraceRow, model_note, read_machines, trace_rows
from corewise.simulation.planning.arrangements import arrangement
from corewise.simulation.planning.inputs import PlanInput, PlannedNode
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY, CPU_BASIC_INFO

OFFERED_SHARE = 60
GPU = "openb/gpu-milli"
GPU_MODEL = "openb/gpu-model"
_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "creation_time")
_MOST = 10**12
_MILLI = 1000


def plan_from_openb(nodes: Path, pods: Path) -> PlanInput:
    """Read the two files.

    Raises:
        InputError: naming file, row and column of the first thing that is wrong.
    """
    machines, gpus = read_machines(nodes)
    models = {row.text("sn"): row.values.get("model") or "" for row in trace_rows(nodes, ("sn", "model"))}
    planned = tuple(_node(machine, gpus[machine.name], models[machine.name]) for machine in machines)
    in_order = sorted(_pods(pods), key=lambda each: each[0])
    return PlanInput(
        source=f"openb trace {nodes.name}, {pods.name}",
        nodes=planned,
        pods=tuple(pod for _, pod in in_order),
        offered_share=OFFERED_SHARE,
        notes=(
            model_note(machines),
            f"offline pods are offered {OFFERED_SHARE} % of what online pods do not request",
        ),
    )


def _node(machine: Machine, gpus: int, model: str) -> PlannedNode:
    amounts = {GPU: str(gpus * _MILLI)} if gpus else {}
    node: dict[str, Any] = {
        "metadata": {
            "name": machine.name,
            "labels": {**machine.labels, **({GPU_MODEL: model} if model else {})},
        },
        "status": {
            "capacity": {**machine.capacity, **amounts},
            "allocatable": {**machine.allocatable, **amounts},
        },
    }
    facts = {CPU_BASIC_INFO: json.dumps(machine.cpu_facts())}
    return PlannedNode(
        managed=msgspec.convert(node, ManagedNode),
        schedulable=msgspec.convert(node, SchedulableNode),
        topology=msgspec.convert({"metadata": {"name": machine.name, "annotations": facts}}, Topology),
        assumed=arrangement(
            machine.cpus, 2 if machine.hyper_threading else 1, len(machine.numa_nodes()), machine.sockets
        ),
    )


def _pods(path: Path) -> Iterator[tuple[int, PodFacts]]:
    seen: set[str] = set()
    for row in trace_rows(path, _COLUMNS):
        name = row.text("name")
        if name in seen:
            raise row.error("name", f"pod {name!r} is there twice")
        seen.add(name)
        yield row.integer("creation_time", low=0, high=_MOST), _pod(name, row)


def _pod(name: str, row: TraceRow) -> PodFacts:
    cpu, qos = row.integer("cpu_milli", low=0, high=_MOST), row.text("qos")
    memory = row.integer("memory_mib", low=0, high=_MOST) * MEBI
    gpu = row.integer("num_gpu", low=0, high=1024) * row.integer("gpu_milli", low=0, high=_MILLI)
    names = (BATCH_CPU, BATCH_MEMORY) if qos == "BE" else ("cpu", "memory")
    requests = {names[0]: cpu, names[1]: memory, GPU: gpu}
    specs = tuple(filter(None, (row.values["gpu_spec"] or "").split("|")))
    selector = (NodeRequirement(GPU_MODEL, "In", specs),) if specs else ()
    return PodFacts(
        key=f"default/{name}",
        requests={resource: amount for resource, amount in requests.items() if amount},
        owned_by_class=cpu if qos == "Guaranteed" and cpu % _MILLI == 0 else 0,
        constraints=Constraints(selector=selector),
    )
