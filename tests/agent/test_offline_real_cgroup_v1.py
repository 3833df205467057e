"""Offline pods on real cgroups (v1): the agent's loop over the kernel's files, and busy loops in them.

What online pods use is stated (proc/stat of a tree of its own), so that nothing depends on what else this
machine does; time is stated too. Real are the cgroups, the kernel's refusals, the journal, and the CPU time
that busy offline pods get. Needs root and a writable v1 hierarchy; skipped elsewhere. Everything happens
below a cgroup of its own, which is removed at the end, as are the processes in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path

import pytest

from corewise.kernel.cgroups.layout import Version
from corewise.local.closed_loop import Sample, Series, figures
from corewise.policy.colocation import SuppressionSettings
from real_load.agents import OPTION_1, OPTION_2, Agent
from real_load.crew import Crew
from real_load.kubelet_tree import KubeletTree, layout_here, offline_pod, online_pod
from real_load.machine_load import MachineLoad

LAYOUT = layout_here(Version.V1)
pytestmark = pytest.mark.skipif(LAYOUT is None, reason="needs root and a writable cgroup v1 cpu controller")

CPUS = 16
STEP = 160_000
QUIET, BUSY = 3_200, 11_200
"""Online pods at 20 % and at 70 %, in milli-CPU."""

ROOMY, TIGHT = 768_000, 288_000
"""What that leaves: (16 - 3.2) x 0.6 and (16 - 11.2) x 0.6 CPUs over 100 ms."""

WATCHED = ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares", "memory.limit_in_bytes")


@dataclass
class World:
    """A real tree of 16 stated CPUs with an online pod and two offline ones, limited to 8 and 2 CPUs."""

    tree: KubeletTree
    load: MachineLoad
    journal: Path

    def __post_init__(self) -> None:
        self.offline = offline_pod("big", 8_000), offline_pod("small", 2_000)
        self.pods = [online_pod("web", 4), *self.offline]
        for pod in self.pods:
            self.tree.start(pod)
        self.clock = count(1_000)

    def agent(self, suppression: SuppressionSettings = OPTION_1) -> Agent:
        directory, root = self.journal, self.load.root
        agent = Agent(self.tree, self.pods, CPUS * 1000, directory, suppression=suppression, root=root)
        agent.tick(float(next(self.clock)))
        return agent

    def tick(self, agent: Agent, online: int, seconds: int = 1) -> list[int | None]:
        """Let seconds pass with online pods using so many milli-CPU; return the slice's quota after each."""
        quotas = []
        for _ in range(seconds):
            self.load.use(online)
            agent.tick(float(next(self.clock)))
            assert agent.ticks[-1].problems == {}
            quotas.append(self.quota)
        return quotas

    @property
    def quota(self) -> int | None:
        return self.tree.quota(self.tree.best_effort)

    @property
    def repaired(self) -> int:
        return self.tree.quota(self.tree.best_effort) or 0

    def written_by_somebody(self, text: str, file: str = "cpu.cfs_quota_us") -> None:
        self.tree.file(self.tree.best_effort, file).write_text(text)

    def as_it_is(self) -> dict[str, str]:
        """Return every file of the best-effort cgroup, and of all below it, that corewise may write."""
        below = [self.tree.best_effort]
        for cgroup in below:
            below += self.tree.files.children(cgroup)
        read = self.tree.files.read
        return {f"{cgroup}/{file}": read(cgroup, file) for cgroup in below for file in WATCHED}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    assert LAYOUT is not None
    with KubeletTree(LAYOUT) as tree:
        yield World(tree, MachineLoad(tmp_path / "machine", CPUS), tmp_path / "journal")


def test_after_a_step_of_online_load_the_quota_comes_to_its_target_in_as_many_steps_as_it_is(
    world: World,
) -> None:
    with world.agent() as agent:
        quotas = world.tick(agent, QUIET, 20)
        quotas += world.tick(agent, BUSY, 20)
        quotas += world.tick(agent, QUIET, 20)
    assert (quotas[19], quotas[39], quotas[59]) == (ROOMY, TIGHT, ROOMY)
    series = Series(CPUS, STEP // 100, (20.0, 40.0), tuple(_samples(agent, quotas)))
    for phase in figures(series).phases:
        assert (phase.expected, phase.adjustments, phase.settling) == (3, 2, 2.0)
        assert (phase.overshoot, phase.reversals, phase.swing) == (0, 0, 0)


def test_no_adjustment_is_larger_than_a_step(world: World) -> None:
    with world.agent() as agent:
        quotas = [quota or 0 for online in (0, 16_000, 5_000, 0) for quota in world.tick(agent, online, 12)]
    assert quotas[0] == 16 * 100_000 - STEP
    assert max(abs(after - before) for before, after in pairwise(quotas)) == STEP
    assert min(quotas) == 1_000


def _samples(agent: Agent, quotas: list[int | None]) -> Iterator[Sample]:
    still = Sample(0.0, None, 0, 0.0, 1.0, 1.0, 0.0, 0.0)
    for at, (quota, tick) in enumerate(zip(quotas, agent.ticks[1:], strict=True), 1):
        assert tick.offer is not None
        milli = None if quota is None else quota // 100
        yield replace(still, at=float(at), quota=milli, target=tick.offer.cpu_milli)


@pytest.mark.parametrize(
    ("text", "during"),
    [
        pytest.param("-1", "rest", id="as systemd does each minute"),
        pytest.param("900000", "rest", id="another quota"),
        pytest.param("2000000", "rest", id="more than the node has"),
        pytest.param("-1", "descent", id="in the middle of a descent"),
    ],
)
def test_what_somebody_else_writes_is_repaired_at_the_next_tick_and_counted(
    world: World, text: str, during: str
) -> None:
    with world.agent() as agent:
        world.tick(agent, QUIET, 20)
        assert world.quota == ROOMY
        expected = ROOMY if during == "rest" else ROOMY - STEP
        world.written_by_somebody(text)
        online = QUIET if during == "rest" else 16_000
        assert world.tick(agent, online) == [expected]
        assert agent.keeper.suppressor.repaired == 1
        world.tick(agent, online)
        assert agent.keeper.suppressor.repaired == 1


def test_what_somebody_writes_each_second_never_lets_offline_pods_loose_again(world: World) -> None:
    with world.agent() as agent:
        world.tick(agent, QUIET, 20)
        for repaired in range(1, 6):
            world.written_by_somebody("-1")
            assert world.tick(agent, QUIET) == [ROOMY]
            assert agent.keeper.suppressor.repaired == repaired


def test_a_foreign_period_is_kept_and_the_amount_follows_it(world: World) -> None:
    with world.agent() as agent:
        world.tick(agent, QUIET, 20)
        world.written_by_somebody("50000", "cpu.cfs_period_us")
        assert world.tick(agent, QUIET, 2)[-1] == ROOMY // 2
        assert world.tree.file(world.tree.best_effort, "cpu.cfs_period_us").read_text() == "50000\n"


def test_pods_that_are_wider_than_the_slice_are_narrowed_without_a_refusal_and_widened_again(
    world: World,
) -> None:
    big = world.tree.pod(world.offline[0])
    with world.agent() as agent:
        world.tick(agent, QUIET, 20)
        assert world.tree.quota(big) == ROOMY
        world.tick(agent, BUSY, 20)
        assert world.tree.quota(big) == TIGHT
        world.tick(agent, 0, 20)
        assert world.tree.quota(big) == 800_000
        assert agent.cgroups.find().writer.totals["refused"] == 0


def test_an_agent_that_is_killed_is_followed_by_one_that_goes_on_from_there(world: World) -> None:
    agent = world.agent()
    world.tick(agent, QUIET, 20)
    agent.stop()
    assert world.quota == ROOMY
    with world.agent() as follower:
        assert world.tick(follower, QUIET, 3) == [ROOMY] * 3
        assert world.tick(follower, 16_000) == [ROOMY - STEP]


@pytest.mark.parametrize("option", [OPTION_1, OPTION_2], ids=["option 1", "option 2"])
@pytest.mark.parametrize("way", ["disabled", "label off", "label gone", "other option", "restored"])
def test_whichever_way_it_ends_cgroups_are_left_as_they_were_met(
    world: World, option: SuppressionSettings, way: str
) -> None:
    kubelets = world.as_it_is()
    with world.agent(option) as agent:
        agent.label("false")
        world.tick(agent, BUSY)
        limited = world.as_it_is()
        agent.label("true")
        world.tick(agent, 14_000, 5)
        assert world.as_it_is() != limited
        end(agent, option, way)
        world.tick(agent, 14_000)
        if way != "other option":
            assert world.as_it_is() == limited
        agent.label("false")
        world.tick(agent, 14_000)
        assert world.as_it_is() == limited
    assert world.as_it_is() == kubelets


def end(agent: Agent, option: SuppressionSettings, way: str) -> None:
    """Have suppression end, or go on in the other way."""
    other = OPTION_2 if option is OPTION_1 else OPTION_1
    if way == "disabled":
        agent.set(replace(option, enabled=False))
    elif way == "other option":
        agent.set(other)
    elif way == "restored":
        agent.restore()
        agent.label("false")
    else:
        agent.label("false" if way == "label off" else None)


SPELL = 1.5


def test_busy_offline_pods_get_no_more_than_the_quota(world: World) -> None:
    """The kernel lends each CPU some of the next period's quota, so two periods more are allowed."""
    with Crew() as crew, world.agent() as agent:
        world.tick(agent, 15_600, 30)
        quota = world.quota
        assert quota == 24_000
        for pod in world.offline:
            crew.start(world.tree.process_directories(world.tree.container(pod)), ((0, 1),), time.monotonic())
        before, began = world.tree.usage(world.tree.best_effort), time.monotonic()
        time.sleep(SPELL)
        used = world.tree.usage(world.tree.best_effort) - before
        periods = (time.monotonic() - began) / 0.1 + 2
    assert used <= periods * quota * 1000
