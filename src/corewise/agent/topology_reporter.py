"""Reports the machine as NodeResourceTopology: read now and then, written when something differs.

The object is read before each write and written under the version that was read, so what others have in it is
never lost; a conflict is left to the next check, as is every other failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from corewise.agent.local_node import LocalNode
from corewise.agent.objects import AgentNode, QuotaPod
from corewise.agent.topology_report import TopologyChange, TopologyReport, topology_change
from corewise.agent.zone_demand import zone_demand
from corewise.kernel.boot import read_boot_id
from corewise.kernel.machine import MachineReading, read_machine
from corewise.kube.client import Client
from corewise.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from corewise.kube.resources import NODE_RESOURCE_TOPOLOGIES, Resource
from corewise.vocabulary.names import RESOURCE_STATUS
from corewise.vocabulary.resource_status import stated_cpus

FIELD_MANAGER = "corewise-agent"
TOPOLOGIES: Resource[dict[str, Any]] = NODE_RESOURCE_TOPOLOGIES.typed(dict)
Read = Callable[[Path], MachineReading]


class TopologyReporter:
    """The report of one node; ``read`` reads the machine below its root."""

    def __init__(self, client: Client, local: LocalNode, root: Path, *, read: Read = read_machine) -> None:
        self._client = client
        self._local = local
        self._root = root
        self._read = read

    async def check(self, node: AgentNode, pods: Collection[QuotaPod]) -> TopologyChange | None:
        """Bring the report up to date; return what was changed.

        Raises:
            KubeError: if the API server did not take it.
        """
        change = await self.change(node, pods)
        if change is None:
            return None
        name = node.metadata.name
        if change.create:
            await self._client.create(TOPOLOGIES, change.body)
        else:
            await self._client.patch(TOPOLOGIES, name, change.body, field_manager=FIELD_MANAGER)
        return change

    async def change(self, node: AgentNode, pods: Collection[QuotaPod]) -> TopologyChange | None:
        """Return what has to be changed for the report to be up to date."""
        reading = await asyncio.to_thread(self._read, self._root)
        problems = {problem.path: f"left out: {problem}" for problem in reading.problems}
        self._local.complaints.hear("topology", problems)
        if not reading.host.topology.threads:
            self._local.complaints.hear("machine", {"cpus": f"no CPU is online below {self._root}"})
            return None
        self._local.complaints.hear("machine", {})
        report = self._report(node, pods, reading)
        return topology_change(report, await self._existing(node.metadata.name))

    def _report(self, node: AgentNode, pods: Collection[QuotaPod], reading: MachineReading) -> TopologyReport:
        ratio = self._local.amplification
        statuses = [
            status
            for pod in pods
            if not pod.has_ended
            and (status := pod.metadata.annotations.get(RESOURCE_STATUS)) is not None
            and not self._local.rules.claim_problem(
                pod.metadata.labels, pod.metadata.namespace, stated_cpus(status), pod.cpu_request
            )
        ]
        return TopologyReport(
            node=node.metadata.name,
            node_uid=node.metadata.uid,
            cpu=reading.cpu,
            host=reading.host,
            ratio=ratio,
            demand=zone_demand(statuses, reading.host.topology, ratio),
            boot_id=read_boot_id(self._root),
            cpu_manager=self._local.cpu_manager().policy,
            reserved=self._local.pins.reserved,
            pod_cpus=self._local.pins.report,
        )

    async def _existing(self, name: str) -> dict[str, Any] | None:
        try:
            return await self._client.get(TOPOLOGIES, name)
        except NotFound:
            return None


def result_of(error: KubeError) -> str:
    """Return how a failed write counts; somebody else's write in between is no error."""
    return "conflict" if isinstance(error, Conflict | AlreadyExists) else "error"
