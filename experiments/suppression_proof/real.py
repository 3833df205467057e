"""Runs on this machine's kernel: real busy processes in kubelet's cgroups, the agent's own code.

Every round of a scenario runs online pods alone, beside offline pods held back in each way, and beside
offline pods without limits, one after the other. Work done alone is the mean of all rounds.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from corewise.agent.sampler import Missed, PinnedPod, Sampler
from corewise.config.colocation import SuppressionSettings
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.host_files import HostFiles
from corewise.kernel.usage import read_busy_time
from corewise.suppression.offer import Usage
from experiments.suppression_proof.run import COUNTING, NOBODY, OPTION_TWO, Run
from kernel.cgroup_writes import layout_here
from real_load.agents import OPTION_1, OPTION_2, Agent
from real_load.kubelet_tree import KubeletTree, offline_pod, online_pod
from real_load.machine_load import MachineLoad
from real_load.runs import Holder, Nobody, Node, Second, cpus_here, series
from real_load.scenarios import Scenario

ALONE = "alone"


Rows = list[Second]
OTHERS_FOR = 3.0


class CountingSampler(Sampler):
    """Counts offline pods' usage as online pods', as formulas do that look at the whole node."""

    def sample(self, now: float, pinned: Iterable[PinnedPod] = ()) -> Usage | Missed:
        usage = super().sample(now, pinned)
        return usage if isinstance(usage, Missed) else replace(usage, offline_milli=0)


@dataclass(frozen=True, slots=True)
class Machine:
    """The node of all runs. ``load``: where its own cgroups' usage is stated as all that the node uses."""

    node: Node
    directory: Path
    load: MachineLoad | None

    @property
    def milli(self) -> int:
        return len(self.node.cpus) * 1000

    @property
    def version(self) -> str:
        return str(self.node.tree.layout.version.value)

    @property
    def step(self) -> int:
        return OPTION_1.adjust_step.of(self.milli)

    @contextmanager
    def agent(self, suppression: SuppressionSettings, *, counting: bool = False) -> Iterator[Agent]:
        """An agent that holds offline pods back."""
        tree, pods = self.node.tree, [self.node.online, *self.node.offline]
        root = self.load.root if self.load else Path("/")
        with (
            tempfile.TemporaryDirectory(dir=self.directory) as journal,
            Agent(
                *(tree, pods, self.milli, Path(journal)),
                suppression=suppression,
                root=root,
                samples=CountingSampler if counting else Sampler,
            ) as agent,
        ):
            agent.before_tick = self._state_load
            yield agent

    def _state_load(self) -> None:
        if self.load:
            self.load.state(self.node.tree.usage(self.node.tree.root))


@contextmanager
def machine(*, own_load: bool) -> Iterator[Machine]:
    """This machine, with an online pod of all its CPUs and an offline pod of one CPU for each of them.

    Raises:
        SystemExit: if it has no cgroups that may be written.
    """
    layout = layout_here(Version.V1, Version.V2)
    if layout is None:
        raise SystemExit("needs root and a writable cgroup hierarchy with cpu and memory")
    with tempfile.TemporaryDirectory() as name, KubeletTree(layout, heavy=True) as tree:
        cpus = cpus_here()
        online, offline = online_pod("web", len(cpus)), [offline_pod(f"batch-{cpu}", 1000) for cpu in cpus]
        for pod in (online, *offline):
            tree.start(pod)
        tree.enter()
        load = MachineLoad(Path(name) / "machine", len(cpus)) if own_load else None
        yield Machine(Node(tree, online, offline, cpus), Path(name), load)


def others() -> float:
    """Return the CPUs that other work uses, in a few seconds in which nothing of ours runs."""
    host = HostFiles(Path("/"))
    before, began = read_busy_time(host), time.monotonic()
    time.sleep(OTHERS_FOR)
    after, ended = read_busy_time(host), time.monotonic()
    if before is None or after is None:
        raise SystemExit("proc/stat cannot be read")
    return (after.busy - before.busy) / 1e9 / (ended - began)


def measure(
    on: Machine, scenario: Scenario, rounds: int, ways: Sequence[str], *, told: Callable[[str], None]
) -> list[Run]:
    """Run a scenario so many times in each way, and alone."""
    alone: list[Rows] = []
    beside: list[tuple[str, Rows, int | None]] = []
    for number in range(rounds):
        told(f"{scenario.name}, round {number + 1} of {rounds}: {ALONE}, {', '.join(ways)}")
        alone.append(on.node.run(scenario, None))
        beside += [(way, *_beside(on, scenario, way)) for way in ways]
    lone = [_mean(each) for each in zip(*alone, strict=True)]
    return [
        Run(
            scenario=scenario.name,
            way=way,
            series=series(len(on.node.cpus), scenario, rows, lone, on.step),
            writes=writes,
        )
        for way, rows, writes in beside
    ]


def _beside(on: Machine, scenario: Scenario, way: str) -> tuple[Rows, int | None]:
    if way == NOBODY:
        return on.node.run(scenario, Nobody()), None
    settings = OPTION_2 if way == OPTION_TWO else OPTION_1
    with on.agent(settings, counting=way == COUNTING) as agent:
        holder: Holder = agent
        return on.node.run(scenario, holder), agent.writes


def _mean(rows: Sequence[Second]) -> Second:
    """Return one second with the mean of the work over rounds."""
    return replace(rows[0], work=sum(row.work for row in rows) / len(rows))
