"""Runs inside a virtual machine with cgroup v2: the agent's code holds offline pods back.

    python -m node.guest.suppression FILE

Load and time are stated, so every quota is known. What was seen is written to the file; the host judges.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from corewise.config.colocation import SuppressionSettings
from corewise.kernel.cgroups.layout import Layout, Version
from kernel.cgroup_writes import layout_here
from node.guest.records import Report
from real_load.agents import OPTION_1, OPTION_2
from real_load.kubelet_tree import marked_pod
from real_load.stated_node import BUSY, FULL, QUIET, StatedNode, stated_node

LONGEST = 600
CPUS = Path("/sys/devices/system/cpu")

STEPS = (("quiet", QUIET), ("busy", BUSY), ("quiet again", QUIET))
SETTLED = 11
"""Ticks until the samples before a change count for nothing any more."""

BURST = 400_000
ONLINE_BUSY, ONLINE_QUIET = 7_000, 2_000
"""What online pods use beside a pod marked offline, of 16,000 milli-CPU."""

OPTIONS = {"option 1": OPTION_1, "option 2": OPTION_2}


def observe(report: Report, layout: Layout) -> None:
    """Observe everything."""
    _observe_steps(report, layout)
    _observe_writers(report, layout)
    for name, option in OPTIONS.items():
        _observe_ends(report, layout, name, option)
    _observe_marked(report, layout)


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
        for name, online in STEPS:
            report.add(f"steps/{name}", node.tick(agent, online, SETTLED))
        agent.stop()
        report.add("killed", node.quota)
        with node.agent() as follower:
            report.add("followed", node.tick(follower, QUIET, 3))


def _observe_writers(report: Report, layout: Layout) -> None:
    """Report the fate of writes by somebody else, and the number of them that was counted."""
    for name, quota, period in (("max", None, None), ("less", 50_000, None), ("a period", None, 50_000)):
        with _node(layout) as node, node.agent() as agent:
            node.tick(agent, QUIET, SETTLED)
            node.somebody_writes(quota, period)
            report.add(f"writers/{name}/written", [node.quota])
            report.add(f"writers/{name}/repaired", node.tick(agent, QUIET, 2))
            report.add(f"writers/{name}/counted", agent.controller.suppressor.repaired)


def _observe_ends(report: Report, layout: Layout, name: str, option: SuppressionSettings) -> None:
    """Report the look of cgroups before suppression, in the middle of it, and after it."""
    with _node(layout) as node:
        report.add(f"ends/{name}/kubelet's", node.as_it_is())
        with node.agent(replace(option, enabled=False)) as agent:
            node.tick(agent, BUSY)
            report.add(f"ends/{name}/limited", node.as_it_is())
            agent.set(option)
            node.tick(agent, FULL - 2_000, 5)
            report.add(f"ends/{name}/suppressed", node.as_it_is())
            agent.set(replace(option, enabled=False))
            node.tick(agent, BUSY)
            report.add(f"ends/{name}/disabled", node.as_it_is())
        report.add(f"ends/{name}/restored", node.as_it_is())


def _observe_marked(report: Report, layout: Layout) -> None:
    """Report the effect of Option 2 on a pod marked offline, without oversubscription, and beside a ratio.

    The pod is limited to 8 CPUs by its spec, may burst, and uses all that its quota allows.
    """
    marked = marked_pod("marked", 8)
    with _node(layout) as node:
        tree = node.tree
        tree.start(marked)
        node.pods.append(marked)
        cgroups = {"pod": tree.pod(marked), "container": tree.container(marked)}
        for cgroup in cgroups.values():
            tree.file(cgroup, "cpu.max.burst").write_text(str(BURST))

        def tell(name: str) -> None:
            files = ("cpu.max", "cpu.max.burst")
            state = {
                role: [tree.file(cgroup, file).read_text().strip() for file in files]
                for role, cgroup in cgroups.items()
            }
            report.add(f"marked/{name}", state)

        def follow(name: str, online: int, seconds: int) -> None:
            quotas = []
            for _ in range(seconds):
                node.tick(agent, online + (tree.milli(cgroups["pod"]) or 0))
                quotas.append(tree.quota(cgroups["pod"]))
            report.add(f"marked/quotas/{name}", quotas)
            tell(name)

        tell("kubelet's")
        with node.agent(OPTION_2) as agent:
            agent.label(None)
            follow("busy", ONLINE_BUSY, 10)
            follow("quiet", ONLINE_QUIET, 10)
            follow("busy again", ONLINE_BUSY, 3)
            agent.normalize("1.25")
            tell("ratio")
            follow("busy under a ratio", ONLINE_BUSY, 8)
            agent.normalize(None)
            tell("ratio gone")
            follow("busy without it", ONLINE_BUSY, 3)
        tell("restored")


def run(observe: Callable[[Report, Layout], None]) -> None:
    """Observe, and tell the host whatever comes of it, within LONGEST seconds."""
    signal.alarm(LONGEST)
    told = Report(Path(sys.argv[1]))
    try:
        told.add("begun", value=True)
        for switch in CPUS.glob("cpu[0-9]*/online"):
            switch.write_text("1")
        layout = layout_here(Version.V2)
        assert layout is not None, "this machine has no writable cgroup v2"
        observe(told, layout)
        told.add("end", value=True)
    except BaseException:
        told.add("failure", traceback.format_exc())
        raise


if __name__ == "__main__":
    run(observe)
