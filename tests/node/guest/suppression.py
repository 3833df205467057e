"""Runs inside a virtual machine with cgroup v2: the agent's code holds real offline pods back.

    python -m node.guest.suppression FILE

First with stated load and time, so that every quota is known; then with busy processes, in real time. What
was seen is written to the file; the host judges.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from corewise.kernel.cgroups.layout import Layout, Version
from corewise.policy.colocation import SuppressionSettings
from node.guest.records import Report
from real_load.agents import OPTION_1, OPTION_2, Agent
from real_load.kubelet_tree import KubeletTree, layout_here, offline_pod, online_pod
from real_load.runs import Node, Second, cpus_here
from real_load.scenarios import STEP
from real_load.stated_node import BUSY, FULL, QUIET, StatedNode, stated_node

LONGEST = 600
LEAD = 5.0
"""Seconds that processes have to start, under emulation."""

OPTIONS = {"option 1": OPTION_1, "option 2": OPTION_2}


def main(report: Report) -> None:
    """Observe everything."""
    report.add("begun", value=True)
    layout = layout_here(Version.V2)
    assert layout is not None, "this machine has no writable cgroup v2"
    _observe_steps(report, layout)
    _observe_writers(report, layout)
    for name, option in OPTIONS.items():
        _observe_ends(report, layout, name, option)
    _observe_processes(report, layout)
    report.add("end", value=True)


@contextmanager
def _node(layout: Layout) -> Iterator[StatedNode]:
    with tempfile.TemporaryDirectory() as directory:
        node = stated_node(layout, Path(directory))
        try:
            yield node
        finally:
            node.tree.end()


def _observe_steps(report: Report, layout: Layout) -> None:
    """Tell the quotas of a step up and back, and what is left after a kill."""
    with _node(layout) as node:
        agent = node.agent()
        for name, online in (("quiet", QUIET), ("busy", BUSY), ("quiet again", QUIET)):
            report.add(f"steps/{name}", node.tick(agent, online, 20))
        agent.stop()
        report.add("killed", node.quota)
        with node.agent() as follower:
            report.add("followed", node.tick(follower, QUIET, 3))


def _observe_writers(report: Report, layout: Layout) -> None:
    """Tell what becomes of what somebody else writes, and how often it was counted."""
    for name, quota, period in (("max", None, None), ("less", 5_000, None), ("a period", None, 50_000)):
        with _node(layout) as node, node.agent() as agent:
            node.tick(agent, QUIET, 20)
            node.somebody_writes(quota, period)
            report.add(f"writers/{name}/written", [node.quota])
            report.add(f"writers/{name}/repaired", node.tick(agent, QUIET, 2))
            report.add(f"writers/{name}/counted", agent.keeper.suppressor.repaired)


def _observe_ends(report: Report, layout: Layout, name: str, option: SuppressionSettings) -> None:
    """Tell what cgroups look like before suppression, in the middle of it, and after it."""
    with _node(layout) as node:
        report.add(f"ends/{name}/kubelet's", node.as_it_is())
        with node.agent(option) as agent:
            agent.label("false")
            node.tick(agent, BUSY)
            report.add(f"ends/{name}/limited", node.as_it_is())
            agent.label("true")
            node.tick(agent, FULL - 2_000, 5)
            report.add(f"ends/{name}/suppressed", node.as_it_is())
            agent.set(replace(option, enabled=False))
            node.tick(agent, BUSY)
            report.add(f"ends/{name}/disabled", node.as_it_is())
        report.add(f"ends/{name}/restored", node.as_it_is())


def _observe_processes(report: Report, layout: Layout) -> None:
    """Tell each second of a step of real load: online pods alone, and beside offline ones held back."""
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
    pods = [node.online, *node.offline]
    with (
        tempfile.TemporaryDirectory() as directory,
        Agent(node.tree, pods, milli, Path(directory), suppression=option) as agent,
    ):
        return node.run(STEP, agent, lead=LEAD)


if __name__ == "__main__":
    signal.alarm(LONGEST)
    told = Report(Path(sys.argv[1]))
    try:
        main(told)
    except BaseException:
        told.add("failure", traceback.format_exc())
        raise
