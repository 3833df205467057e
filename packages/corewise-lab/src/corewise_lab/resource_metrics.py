"""metrics.k8s.io of the local cluster, for ``kubectl top``: what simulated machines and their pods use.

In a real cluster metrics-server answers; here NodeMetrics and PodMetrics are custom resources, written every
``PERIOD`` seconds as metrics-server reads them, and deleted with their node or pod (ownerReferences). CPU is
what the plant gives each container at that moment; memory is its working set. Of a large cluster the first
``MOST_NODES`` nodes have metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK, rfc3339
from corewise.kube.errors import KubeError, NotFound
from corewise.kube.resources import Resource
from corewise.workload.pods import Pod
from corewise_lab.agents import NodeSimulations, PodsByNode
from corewise_lab.kubelets import SimulatedNode
from corewise_lab.machine_files import working_set

PERIOD = 15.0
MOST_NODES = 20
GROUP, VERSION = "metrics.k8s.io", "v1beta1"
NODE_METRICS = Resource(GROUP, VERSION, "nodes", "NodeMetrics", namespaced=False, type=dict)
POD_METRICS = Resource(GROUP, VERSION, "pods", "PodMetrics", namespaced=True, type=dict)


class ResourceMetrics:
    """Writes the metrics of nodes and of the pods that run on them."""

    def __init__(
        self,
        client: Client,
        simulations: NodeSimulations,
        *,
        nodes: Callable[[], Sequence[SimulatedNode]],
        pods: Callable[[], PodsByNode],
    ) -> None:
        self._client = client
        self._simulations = simulations
        self._nodes = nodes
        self._pods = pods

    async def run(self) -> None:
        """Work until canceled; what cannot be written now is written the next time."""
        while True:
            pods = self._pods()
            for node in self._nodes()[:MOST_NODES]:
                async with asyncio.TaskGroup() as tasks:
                    for resource, body in self._of_node(node, pods.get(node.metadata.name, ())):
                        tasks.create_task(self._write(resource, body))
            await asyncio.sleep(PERIOD)

    def _of_node(
        self, node: SimulatedNode, pods: Sequence[Pod]
    ) -> Iterator[tuple[Resource[dict[str, Any]], dict[str, Any]]]:
        """Yield the metrics of a node and of its pods."""
        tree, moment = self._simulations.now(node.metadata.name, pods)
        by_name = {task.name: task for task in tree.tasks}
        now = {"timestamp": rfc3339(SYSTEM_CLOCK.now()), "window": f"{PERIOD:.0f}s"}
        cpu = sum(moment.time[task.leaf] for task in tree.tasks)
        memory = working_set([task.container.memory for task in tree.tasks])
        yield NODE_METRICS, {"metadata": _metadata("v1", "Node", node), **now, "usage": _usage(cpu, memory)}
        for pod in pods:
            containers = []
            for container in pod.spec.containers:
                task = by_name.get(f"{pod.metadata.namespace}/{pod.metadata.name}/{container.name}")
                if task is not None:
                    usage = _usage(moment.time[task.leaf], working_set([task.container.memory]))
                    containers.append({"name": container.name, "usage": usage})
            yield POD_METRICS, {"metadata": _metadata("v1", "Pod", pod), **now, "containers": containers}

    async def _write(self, resource: Resource[dict[str, Any]], body: dict[str, Any]) -> None:
        name, namespace = body["metadata"]["name"], body["metadata"].get("namespace", "")
        try:
            try:
                await self._client.patch(resource, name, body, namespace=namespace)
            except NotFound:
                await self._client.create(resource, body, namespace)
        except KubeError:
            return  # the pod or its namespace is gone, or the API server is busy


def _metadata(api_version: str, kind: str, of: SimulatedNode | Pod) -> dict[str, Any]:
    name, namespace = of.metadata.name, of.metadata.namespace
    owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": of.metadata.uid}
    placed = {"namespace": namespace} if namespace else {}
    return {"name": name, **placed, "labels": dict(of.metadata.labels), "ownerReferences": [owner]}


def _usage(cpu: float, memory: int) -> dict[str, str]:
    """Return CPUs and bytes as metrics-server writes them."""
    return {"cpu": f"{round(cpu * 1e9)}n", "memory": f"{memory >> 10}Ki"}


def _definition(resource: Resource[dict[str, Any]]) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource.plural}.{GROUP}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, stands in for metrics-server"},
        },
        "spec": {
            "group": GROUP,
            "names": {"plural": resource.plural, "kind": resource.kind, "listKind": f"{resource.kind}List"},
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [
                {"name": VERSION, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
            ],
        },
    }


DEFINITIONS = [_definition(resource) for resource in (NODE_METRICS, POD_METRICS)]
"""To be there from the start: kubectl remembers for hours which APIs a server has."""
