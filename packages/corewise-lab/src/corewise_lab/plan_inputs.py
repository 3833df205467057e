"""The inputs of the offline planner: nodes and pods, read from a dump or from the openb trace.

A dump is what ``kubectl get nodes,pods,… -A -o json`` printed; NodeResourceTopologies, corewise's ConfigMap
and webhook configurations, which say where pods may be LSE and how large a ratio may be, may be in it too.
All pods that have not finished are placed, wherever they run. What keeps them to nodes is kept: node
selectors, affinity (those of DaemonSets name their node), tolerations. Where no topology says how a node's
CPUs are arranged, cores of two threads in one NUMA node are assumed, and a note says so.

Of the openb trace all pods are placed, in the order in which they were created.

    qos LS, Burstable              CPUShare pod
    qos Guaranteed, whole CPUs     CPUSet pod (QoS class LSR)
    qos BE                         offline pod: it requests batch-cpu and batch-memory

GPUs count in thousandths, as one amount a node. ``gpu_spec`` keeps a pod to nodes with one of these GPU
models. The trace does not say how much of their CPU online pods leave idle, so nodes offer 60 % of what
they have not requested. CPU models are assigned as for a local cluster (:mod:`corewise_lab.openb`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from corewise.engine import Constraints, NodeRequirement, PodFacts
from corewise.engine.objects import ReportedTopology
from corewise.kube.objects import PartialObject
from corewise.planner.inputs import PlanInput, PlannedNode, arrangement, plan_from_objects
from corewise.quantities import MILLI
from corewise.ratios.cluster import published_largest
from corewise.scheduler.policy import published_rules
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY, CONFIG_NAME, CPU_BASIC_INFO
from corewise.workload.nodes import Node
from corewise.workload.pods import Pod
from corewise_lab.dump import HOW_TO, objects_of, read_items
from corewise_lab.machines import Machine
from corewise_lab.openb import TracePod, model_note, read_machines, trace_pods, trace_rows
from corewise_lab.plan import InputError

OFFERED_SHARE = 60
GPU = "openb/gpu-milli"
GPU_MODEL = "openb/gpu-model"
_MOST_CPUS = 4096


def plan_from_dump(path: Path) -> PlanInput:
    """Read a dump.

    Raises:
        InputError: naming file, item and field of the first thing that is wrong.
    """
    items = read_items(path)
    topologies = objects_of(path, items, "NodeResourceTopology", ReportedTopology, strict=False)
    nodes = objects_of(path, items, "Node", Node, strict=False).values()
    if not nodes:
        raise InputError(f"{path}: no nodes in it; {HOW_TO}")
    pods = objects_of(path, items, "Pod", Pod, strict=False).values()
    kinds = ("MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration")
    bindings, webhooks = [
        objects_of(path, items, kind, PartialObject, strict=False).values() for kind in kinds
    ]
    return plan_from_objects(
        f"dump {path.name}",
        nodes,
        topologies.values(),
        pods,
        _config(items),
        rules=published_rules(chain(bindings, webhooks)),
        largest=published_largest(webhooks),
    )


def _config(items: list[Any]) -> Mapping[str, str]:
    for value in items:
        if isinstance(value, dict) and value.get("kind") == "ConfigMap":
            metadata, data = value.get("metadata"), value.get("data")
            if isinstance(metadata, dict) and metadata.get("name") == CONFIG_NAME and isinstance(data, dict):
                return {str(key): str(text) for key, text in data.items()}
    return {}


def plan_from_openb(nodes: Path, pods: Path) -> PlanInput:
    """Read the two files.

    Raises:
        InputError: naming file, row and column of the first thing that is wrong.
    """
    machines, gpus = read_machines(nodes)
    models = {row.text("sn"): row.values.get("model") or "" for row in trace_rows(nodes, ("sn", "model"))}
    planned = tuple(_node(machine, gpus[machine.name], models[machine.name]) for machine in machines)
    in_order = sorted(trace_pods(pods, "creation_time", "gpu_spec"), key=lambda pod: pod.time)
    return PlanInput(
        source=f"openb trace {nodes.name}, {pods.name}",
        nodes=planned,
        pods=tuple(map(_pod, in_order)),
        offered_share=OFFERED_SHARE,
        notes=(
            model_note(machines),
            f"offline pods are offered {OFFERED_SHARE} % of what online pods do not request",
        ),
    )


def _node(machine: Machine, gpus: int, model: str) -> PlannedNode:
    amounts = {GPU: str(gpus * MILLI)} if gpus else {}
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
        node=msgspec.convert(node, Node),
        topology=msgspec.convert(
            {"metadata": {"name": machine.name, "annotations": facts}}, ReportedTopology
        ),
        assumed=arrangement(
            machine.cpus, 2 if machine.hyper_threading else 1, machine.numa_nodes, machine.sockets
        ),
    )


def _pod(pod: TracePod) -> PodFacts:
    names = (BATCH_CPU, BATCH_MEMORY) if pod.qos == "BE" else ("cpu", "memory")
    requests = {names[0]: pod.cpu_milli, names[1]: pod.memory, GPU: pod.gpu_milli}
    specs = tuple(filter(None, (pod.row.values["gpu_spec"] or "").split("|")))
    selector = (NodeRequirement(GPU_MODEL, "In", specs),) if specs else ()
    return PodFacts(
        key=f"default/{pod.name}",
        requests={resource: amount for resource, amount in requests.items() if amount},
        owned_by_class=pod.cpu_milli if pod.qos == "Guaranteed" and pod.cpu_milli % MILLI == 0 else 0,
        constraints=Constraints(selector=selector),
    )
