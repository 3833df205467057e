"""The cluster of the rig as objects of the API: nodes, their topologies, and the pods on them.

Sizes of machines are those of the openb trace (cluster-trace-gpu-v2023), in its proportions; CPU models are
assigned as :mod:`corewise_lab.openb` does. Nodes state 30 images, pods have environment, probes and
managedFields, so that both are as large as real ones (8 and 10 KB). One pod in twenty owns CPUs, and stands
in its node's ledger; one in ten is offline. Online pods request 60 % of a node's raw CPU.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from corewise.kube.clock import SYSTEM_CLOCK, rfc3339
from corewise.planner.inputs import arrangement
from corewise.topology import CPUSet, Topology
from corewise.vocabulary.cpu_annotations import ResourceStatus, print_cpu_topology, print_resource_status
from corewise.vocabulary.names import (
    BATCH_CPU,
    BATCH_MEMORY,
    CPU_BASIC_INFO,
    CPU_TOPOLOGY,
    OWNED_CPUS_RESOURCE,
    QOS_CLASS,
    RESOURCE_STATUS,
)
from corewise.vocabulary.owned_cpus import CPUOwner, print_owned_cpus
from corewise_lab.kubelet_status import compute_status
from corewise_lab.machines import Machine
from corewise_lab.openb import read_machines
from tools.bench import fleet, watching

NAMESPACE = "default"
_SIZES = (
    (596, 96, 384), (407, 104, 512), (129, 32, 256), (107, 16, 120), (59, 96, 512), (51, 32, 128),
    (39, 128, 768), (37, 64, 256), (22, 96, 768), (22, 64, 512), (19, 8, 32), (9, 48, 368),
)  # fmt: skip
"""How many machines of the trace have so many CPUs and GiB of memory."""
_OWNED, _OFFLINE = 20, 10
_REQUESTED = 0.6
_MOST_OWNED = 0.3
MOST_PODS = 100
_GIBI = 1 << 30
Object = dict[str, Any]
_LIKE_REAL = watching.pod(0)
"""All pods share what they have in common, so that 200,000 of them are made in a minute."""


@dataclass(frozen=True, slots=True)
class RigPod:
    """A pod of the rig: its node, milli-CPU, and its kind."""

    index: int
    node: str
    milli: int
    owned: bool = False
    offline: bool = False

    @property
    def name(self) -> str:
        return f"pod-{self.index:07d}"

    @property
    def uid(self) -> str:
        return f"00000000-0000-0000-0000-{self.index:012d}"


def machines(count: int) -> tuple[Machine, ...]:
    """Return this many machines; the same ones each time."""
    draw = random.Random(0)  # noqa: S311 - the same machines each time
    sizes = draw.choices(_SIZES, [share for share, _, _ in _SIZES], k=count)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "nodes.csv"
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(("sn", "cpu_milli", "memory_mib", "gpu"))
            for index, (_, cpus, gibi) in enumerate(sizes):
                rows.writerow((f"openb-node-{index:05d}", cpus * 1000, gibi * 1024, 0))
        return read_machines(path)[0]


def topology_of(machine: Machine) -> Topology:
    """Return the arrangement of a machine's CPUs."""
    return arrangement(machine.cpus, 2 if machine.hyper_threading else 1, machine.numa_nodes, machine.sockets)


def shapes(fleet_machines: tuple[Machine, ...], count: int) -> Iterator[tuple[Machine, list[RigPod]]]:
    """Yield each machine with its pods: the larger it is, the more."""
    total, before, index = sum(each.cpus for each in fleet_machines), 0, 0
    for machine in fleet_machines:
        before += machine.cpus
        until = min(count * before // total, index + MOST_PODS)
        number = max(1, until - index)
        even = int(machine.cpus * 1000 * _REQUESTED / number)
        pods, owned = [], 0
        for each in range(index, until):
            milli = max(100, even * (50, 100, 150)[each % 3] // 100 // 50 * 50)
            cpus = 4 if machine.cpus >= 32 else 2
            owns = each % _OWNED == 0 and owned + cpus <= machine.cpus * _MOST_OWNED
            owned += cpus if owns else 0
            offline = not owns and each % _OFFLINE == 5
            pods.append(RigPod(each, machine.name, cpus * 1000 if owns else milli, owns, offline))
        yield machine, pods
        index = max(index, until)


def objects(nodes: int, pods: int) -> Iterator[tuple[str, Object]]:
    """Yield every object of a cluster with its key in the store."""
    now = rfc3339(SYSTEM_CLOCK.now())
    for number, (machine, placed) in enumerate(shapes(machines(nodes), pods), 1):
        arranged = topology_of(machine)
        cpus_of = _owned_cpus(arranged, placed)
        owners = {
            pod.uid: CPUOwner(f"{NAMESPACE}/{pod.name}", cpus_of[pod.index], "00000000")
            for pod in placed
            if pod.owned
        }
        yield "nodes", _node(machine, number, now, owners)
        yield "noderesourcetopologies.topology.node.k8s.io", _topology(machine, arranged, now)
        for pod in placed:
            yield "pods", _bound(pod, cpus_of.get(pod.index), now)


def _owned_cpus(arranged: Topology, placed: list[RigPod]) -> dict[int, CPUSet]:
    """Give the pods that own CPUs whole cores, one after the other."""
    free = sorted(arranged.threads, key=lambda thread: (thread.core, thread.cpu))
    cpus = iter([thread.cpu for thread in free])
    return {pod.index: CPUSet.of(next(cpus) for _ in range(pod.milli // 1000)) for pod in placed if pod.owned}


def address(number: int) -> str:
    """Return the address of a node, as the kubelet stand-ins count them (from 1)."""
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def _meta(name: str, uid: str, now: str, annotations: Object | None = None) -> Object:
    meta: Object = {"name": name, "uid": uid, "creationTimestamp": now}
    return {**meta, "annotations": annotations} if annotations else meta


@lru_cache(maxsize=1)
def _registered(now: str) -> Object:
    """Return the status that nodes have in common, so that they share their images."""
    return fleet.status(now)


def _node(machine: Machine, number: int, now: str, owners: dict[str, CPUOwner]) -> Object:
    status = compute_status(_registered(now), machine, address=address(number), now=now)
    offered = {BATCH_CPU: str(machine.cpus * 400), BATCH_MEMORY: str(machine.memory // 5)}
    amounts = {key: {**status[key], **offered} for key in ("capacity", "allocatable")}
    labels = {
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine.architecture,
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        **machine.labels,
    }
    ledger = {name: text for name, text in print_owned_cpus(owners).items() if text is not None}
    meta = _meta(machine.name, f"00000000-0000-0000-0001-{number:012d}", now, ledger)
    meta["labels"] = labels
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"rig://{machine.name}"},
        "status": {**status, **amounts},
    }


def _topology(machine: Machine, arranged: Topology, now: str) -> Object:
    annotations = {
        CPU_BASIC_INFO: json.dumps(machine.cpu_facts()),
        CPU_TOPOLOGY: print_cpu_topology(arranged),
    }
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": _meta(machine.name, f"uid-topology-{machine.name}", now, annotations),
        "topologyPolicies": ["None"],
        "zones": [],
    }


def new_pod(pod: RigPod) -> Object:
    """Return a pod as its owner creates it, without a node."""
    body = _LIKE_REAL
    amounts = {"cpu": f"{pod.milli}m", "memory": "512Mi"}
    if pod.offline:
        amounts = {BATCH_CPU: str(pod.milli), BATCH_MEMORY: "512Mi"}
    app, proxy = body["spec"]["containers"]
    containers = [app | {"resources": {"requests": amounts, "limits": amounts}}, proxy | {"resources": {}}]
    labels = body["metadata"]["labels"] | ({QOS_CLASS: "LSR"} if pod.owned else {})
    labels |= {QOS_CLASS: "BE"} if pod.offline else {}
    spec = {**body["spec"], "containers": containers, "terminationGracePeriodSeconds": 0}
    del spec["nodeName"]
    labels |= {"app": f"service-{pod.index % 50}"}
    meta = {**body["metadata"], "name": pod.name, "namespace": NAMESPACE, "labels": labels}
    del meta["uid"], meta["resourceVersion"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@lru_cache(maxsize=1)
def running(node: str, now: str) -> Object:
    """Return the status that a kubelet writes when a pod's containers run; pods of a node share it."""
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "hostIP": "10.0.0.1",
        "podIP": "10.0.0.2",
        "startTime": now,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds],
        "containerStatuses": [
            {
                "name": name,
                "image": "simulated",
                "imageID": "simulated",
                "containerID": f"containerd://{node}-{name}",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
            for name in ("app", "proxy")
        ],
    }


def _bound(pod: RigPod, cpus: CPUSet | None, now: str) -> Object:
    """Return a pod that runs on its node, as the API holds it."""
    body = new_pod(pod)
    annotations = dict(body["metadata"]["annotations"])
    if cpus:
        annotations[RESOURCE_STATUS] = print_resource_status(ResourceStatus(cpus, {}))
        amounts = body["spec"]["containers"][0]["resources"]["requests"]
        amounts[OWNED_CPUS_RESOURCE] = str(len(cpus))
    meta = {**body["metadata"], "uid": pod.uid, "creationTimestamp": now, "annotations": annotations}
    spec = {**body["spec"], "nodeName": pod.node, "restartPolicy": "Always"}
    return {
        **body,
        "metadata": meta,
        "spec": spec,
        "status": {**running(pod.node, now), "qosClass": "Burstable"},
    }
