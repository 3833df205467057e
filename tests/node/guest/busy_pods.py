"""Runs inside a virtual machine with cgroup v2: busy processes of online and offline pods, in real time.

    python -m node.guest.busy_pods FILE

What every second of a step of online load brought, alone and beside offline pods held back in each way, is
written to the file. What the node uses is what its pods' cgroups say: emulated CPUs lose timer ticks when
their host is busy, and the kernel's own account of them (proc/stat) is taken at ticks.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from corewise.config.colocation import SuppressionSettings
from corewise.kernel.cgroups.layout import Layout
from node.guest.records import Report
from node.guest.suppression import OPTIONS, run
from real_load.agents import Agent
from real_load.kubelet_tree import KubeletTree, offline_pod, online_pod
from real_load.machine_load import MachineLoad
from real_load.runs import Node, Second, cpus_here
from real_load.scenarios import STEP

LEAD = 5.0
"""Seconds that processes have to start, under emulation."""


def observe(report: Report, layout: Layout) -> None:
    """Run the step in every way."""
    pods = [offline_pod("batch-1", 1000), offline_pod("batch-2", 1000)]
    online = online_pod("web", 2)
    with KubeletTree(layout) as tree:
        for pod in (online, *pods):
            tree.start(pod)
        node = Node(tree, online, pods, cpus_here())
        report.add("processes/alone", node.run(STEP, None, lead=LEAD))
        for name, option in OPTIONS.items():
            report.add(f"processes/{name}", _held(node, option))


def _held(node: Node, option: SuppressionSettings) -> list[Second]:
    milli = len(node.cpus) * 1000
    tree, pods = node.tree, [node.online, *node.offline]
    with tempfile.TemporaryDirectory() as name:
        load = MachineLoad(Path(name) / "machine", len(node.cpus))
        journal = Path(name) / "journal"
        with Agent(tree, pods, milli, journal, suppression=option, root=load.root) as agent:
            agent.before_tick = lambda: load.state(tree.usage(tree.root))
            return node.run(STEP, agent, lead=LEAD)


if __name__ == "__main__":
    run(observe)
