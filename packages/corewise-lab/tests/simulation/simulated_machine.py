"""One simulated machine on disk, with its kubelet's hand and its agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from corewise.agent.cgroups import NodeCgroups
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod
from corewise.agent.topology_report import TopologyReport, topology_change
from corewise.kernel.machine import read_machine
from corewise.kernel.writing.journal import MemoryLog
from corewise.kube.objects import NodeResourceTopology
from corewise.quantities import ONE, Ratio
from corewise.vocabulary.names import NORMALIZATION_RATIO
from corewise.workload.pods import Pod
from corewise_lab.kubelet_status import running_status
from corewise_lab.machine_files import MachineFiles
from corewise_lab.machines import Machine
from corewise_lab.node_cgroups import make_cgroups


class SimulatedMachine:
    """The machine's tree below a folder, and what runs on it."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.machine = machine
        self.root = MachineFiles(folder).make(machine)
        cgroups = NodeCgroups(self.root, "/", MemoryLog(), now=lambda: 1.0)
        self.agent = LocalNode(machine.name, self.root, cgroups)
        self.pods: list[QuotaPod] = []

    def start(self, manifest: dict[str, Any], *, qos: str = "Guaranteed") -> Pod:
        """Run a pod: its cgroups are made as kubelet makes them."""
        metadata = {**manifest["metadata"], "uid": f"uid-{manifest['metadata']['name']}"}
        body = {**manifest, "metadata": metadata, "status": {"phase": "Running", "qosClass": qos}}
        pod = msgspec.convert(body, Pod)
        status = running_status(pod, host="10.0.0.1", address="10.0.0.1", now="2026-01-01T00:00:00Z")
        self.pods.append(msgspec.convert({**body, "status": {**body["status"], **status}}, QuotaPod))
        make_cgroups(self.root, pod)
        return pod

    def normalize(self, ratio: Ratio) -> None:
        """Have the agent follow a ratio."""
        self.agent.see({NORMALIZATION_RATIO: str(ratio)})
        assert not self.agent.cycle(self.pods).problems

    def topology(self) -> NodeResourceTopology:
        """Return the topology that the agent reports."""
        reading = read_machine(self.root)
        change = topology_change(TopologyReport("n1", "u", reading.cpu, reading.host, ONE), None)
        assert change is not None
        return msgspec.convert(change.body, NodeResourceTopology)
