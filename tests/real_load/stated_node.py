"""A real tree of cgroups on a machine whose load and time are stated: the agent's loop, step by step.

The machine is said to have 16 CPUs, whatever this one has. There are an online pod and two offline ones,
limited to 8 and 2 CPUs.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

from corewise.config.colocation import SuppressionSettings
from corewise.kernel.cgroups.layout import Layout, Version
from real_load.agents import OPTION_1, Agent
from real_load.kubelet_tree import KubeletTree, offline_pod, online_pod
from real_load.machine_load import MachineLoad

CPUS = 16
STEP = 1_600
"""The largest adjustment at the default of 0.1, in milli-CPU."""

QUIET, BUSY, FULL = 3_200, 11_200, 16_000
"""Online pods at 20 %, 70 % and 100 %, in milli-CPU."""

ROOMY, TIGHT, FLOOR = 7_680, 2_880, 10
"""What that leaves: (16 - 3.2) x 0.6, (16 - 11.2) x 0.6 and no CPUs, in milli-CPU."""

_WRITTEN = {
    Version.V1: ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares", "cpu.idle", "memory.limit_in_bytes"),
    Version.V2: ("cpu.max", "cpu.weight", "cpu.idle", "memory.max"),
}


class StatedNode:
    """The node; leaving its tree, which must have been entered, is the end of it."""

    def __init__(self, tree: KubeletTree, directory: Path) -> None:
        self.tree = tree
        self.load = MachineLoad(directory / "machine", CPUS)
        self.journal = directory / "journal"
        self.offline = offline_pod("big", 8_000), offline_pod("small", 2_000)
        self.pods = [online_pod("web", 4), *self.offline]
        for pod in self.pods:
            tree.start(pod)
        self._clock = count(1_000)

    def agent(self, suppression: SuppressionSettings = OPTION_1) -> Agent:
        """Start an agent, and have it look at the counters once."""
        where = self.journal, self.load.root
        agent = Agent(self.tree, self.pods, CPUS * 1000, where[0], suppression=suppression, root=where[1])
        agent.tick(float(next(self._clock)))
        return agent

    def tick(self, agent: Agent, online: int, seconds: int = 1) -> list[int | None]:
        """Let seconds pass with online pods using so many milli-CPU; return the quota after each."""
        quotas = []
        for _ in range(seconds):
            self.load.use(online)
            agent.tick(float(next(self._clock)))
            problems = agent.ticks[-1].problems
            assert problems == {}, problems
            quotas.append(self.quota)
        return quotas

    @property
    def quota(self) -> int | None:
        """The quota of the best-effort cgroup in milli-CPU."""
        return self.tree.milli(self.tree.best_effort)

    def somebody_writes(self, quota: int | None, period: int | None = None) -> None:
        """Write microseconds to the best-effort cgroup as others do; without a period only the quota."""
        if self.tree.layout.version is Version.V2:
            text = "max" if quota is None else str(quota)
            self._write("cpu.max", text if period is None else f"{text} {period}")
            return
        if period is not None:
            self._write("cpu.cfs_period_us", str(period))
        self._write("cpu.cfs_quota_us", "-1" if quota is None else str(quota))

    def as_it_is(self) -> dict[str, str]:
        """Return the files of the best-effort cgroup and of all below it that corewise may write."""
        below = [self.tree.best_effort]
        for cgroup in below:
            below += self.tree.files.children(cgroup)
        files = _WRITTEN[self.tree.layout.version]
        read = self.tree.files.read
        return {f"{cgroup}/{file}": read(cgroup, file) for cgroup in below for file in files}

    def _write(self, file: str, text: str) -> None:
        self.tree.file(self.tree.best_effort, file).write_text(text)


def stated_node(layout: Layout, directory: Path) -> StatedNode:
    """Return the node on a tree of its own; its tree must be ended."""
    tree = KubeletTree(layout)
    try:
        return StatedNode(tree, directory)
    except BaseException:
        tree.end()
        raise
