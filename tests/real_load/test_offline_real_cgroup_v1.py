"""Offline pods on real cgroups (v1): the agent's loop over the kernel's files, and busy loops in them.

What online pods use is stated (proc/stat of a tree of its own), so that nothing depends on what else this
machine does; time is stated too. Real are the cgroups, the kernel's refusals, the journal, and the CPU time
that busy offline pods get. Needs root and a writable v1 hierarchy; skipped elsewhere. Everything happens
below a cgroup of its own, which is removed at the end, as are the processes in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from corewise.agent.cgroups import restore
from corewise.agent.objects import QuotaPod
from corewise.config.colocation import Isolation, SuppressionSettings
from corewise.kernel.cgroups.layout import Version
from experiments.suppression_proof.closed_loop import Sample, Series, figures
from kernel.cgroup_writes import layout_here
from real_load.agents import OPTION_1, OPTION_2, Agent
from real_load.crew import Crew
from real_load.kubelet_tree import marked_pod
from real_load.runs import cpus_here
from real_load.stated_node import BUSY, CPUS, FLOOR, FULL, QUIET, ROOMY, STEP, TIGHT, StatedNode, stated_node

LAYOUT = layout_here(Version.V1)
pytestmark = pytest.mark.skipif(LAYOUT is None, reason="needs root and a writable cgroup v1 cpu controller")


NINETY_TWO = 14_720
"""Online pods at 92 %, in milli-CPU."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[StatedNode]:
    assert LAYOUT is not None
    node = stated_node(LAYOUT, tmp_path)
    try:
        yield node
    finally:
        node.tree.end()


def test_quota_reaches_its_target_in_the_expected_steps(
    world: StatedNode,
) -> None:
    with world.agent() as agent:
        quotas = world.tick(agent, QUIET, 20)
        quotas += world.tick(agent, BUSY, 20)
        quotas += world.tick(agent, QUIET, 20)
    assert (quotas[19], quotas[39], quotas[59]) == (ROOMY, TIGHT, ROOMY)
    series = Series(CPUS, STEP, (20.0, 40.0), tuple(_samples(agent, quotas)))
    for phase in figures(series).phases:
        assert (phase.expected, phase.adjustments, phase.settling) == (3, 2, 2.0)
        assert (phase.overshoot, phase.reversals, phase.swing) == (0, 0, 0)


def test_no_adjustment_is_larger_than_a_step(world: StatedNode) -> None:
    with world.agent() as agent:
        quotas = [quota or 0 for online in (0, FULL, 5_000, 0) for quota in world.tick(agent, online, 12)]
    assert quotas[0] == 16_000 - STEP
    assert max(abs(after - before) for before, after in pairwise(quotas)) == STEP
    assert min(quotas) == FLOOR


def _samples(agent: Agent, quotas: list[int | None]) -> Iterator[Sample]:
    still = Sample(0.0, None, 0, 0.0, 1.0, 1.0, 0.0, 0.0)
    for at, (quota, tick) in enumerate(zip(quotas, agent.ticks[1:], strict=True), 1):
        assert tick.offer is not None
        yield replace(still, at=float(at), quota=quota, target=tick.offer.cpu_milli)


@pytest.mark.parametrize(
    ("quota", "during"),
    [
        pytest.param(None, "rest", id="as systemd does each minute"),
        pytest.param(9_000_000, "rest", id="another quota"),
        pytest.param(20_000_000, "rest", id="more than the node has"),
        pytest.param(None, "descent", id="in the middle of a descent"),
    ],
)
def test_foreign_write_is_repaired_next_tick_and_counted(
    world: StatedNode, quota: int | None, during: str
) -> None:
    with world.agent() as agent:
        world.tick(agent, QUIET, 20)
        assert world.quota == ROOMY
        expected = ROOMY if during == "rest" else ROOMY - STEP
        world.somebody_writes(quota)
        online = QUIET if during == "rest" else FULL
        assert world.tick(agent, online) == [expected]
        assert agent.controller.suppressor.repaired == 1
        world.tick(agent, online)
        assert agent.controller.suppressor.repaired == 1


def test_foreign_writes_every_second_never_release_offline_pods(world: StatedNode) -> None:
    with world.agent() as agent:
        world.tick(agent, QUIET, 20)
        for repaired in range(1, 6):
            world.somebody_writes(None)
            assert world.tick(agent, QUIET) == [ROOMY]
            assert agent.controller.suppressor.repaired == repaired


def test_foreign_period_is_kept_and_quota_follows(world: StatedNode) -> None:
    with world.agent() as agent:
        world.tick(agent, QUIET, 20)
        world.somebody_writes(None, period=50_000)
        assert world.tick(agent, QUIET, 2)[-1] == ROOMY
        assert world.tree.file(world.tree.best_effort, "cpu.cfs_period_us").read_text() == "50000\n"


def test_pods_wider_than_slice_are_narrowed_then_widened(
    world: StatedNode,
) -> None:
    big = world.tree.pod(world.offline[0])
    with world.agent() as agent:
        world.tick(agent, QUIET, 20)
        assert world.tree.milli(big) == ROOMY
        world.tick(agent, BUSY, 20)
        assert world.tree.milli(big) == TIGHT
        world.tick(agent, 0, 20)
        assert world.tree.milli(big) == 8_000
        assert agent.cgroups.find().writer.totals["refused"] == 0


def test_killed_agent_is_continued_by_its_successor(world: StatedNode) -> None:
    agent = world.agent()
    world.tick(agent, QUIET, 20)
    agent.stop()
    assert world.quota == ROOMY
    with world.agent() as follower:
        assert world.tick(follower, QUIET, 3) == [ROOMY] * 3
        assert world.tick(follower, FULL) == [ROOMY - STEP]


def test_burstable_offline_pod_is_suppressed_and_restored(
    world: StatedNode,
) -> None:
    marked = marked_pod("marked", 4)
    world.tree.start(marked)
    world.pods.append(marked)
    container = world.tree.container(marked)
    with world.agent(OPTION_2) as agent:
        agent.label(None)
        world.tick(agent, NINETY_TWO, 3)
        assert world.tree.quota(container) == 280_000
        assert world.tree.quota(world.tree.pod(marked)) == 400_000
        agent.normalize("1.25")
        assert world.tree.quota(container) == 280_000
        world.tick(agent, NINETY_TWO)
        assert world.tree.quota(container) == 248_000
        world.tick(agent, NINETY_TWO, 9)
        assert world.tree.quota(container) == 32_000
        world.tick(agent, QUIET, 11)
        assert world.tree.quota(container) == 320_000
        world.tick(agent, NINETY_TWO)
        agent.normalize(None)
        world.tick(agent, QUIET, 11)
        assert world.tree.quota(container) == 400_000
        assert agent.cgroups.find().writer.totals["refused"] == 0


@pytest.mark.parametrize("option", [OPTION_1, OPTION_2], ids=["option 1", "option 2"])
@pytest.mark.parametrize("way", ["disabled", "label off", "label gone", "other option"])
def test_every_kind_of_end_restores_the_original_cgroups(
    world: StatedNode, option: SuppressionSettings, way: str
) -> None:
    kubelets = world.as_it_is()
    with world.agent(replace(option, enabled=False)) as agent:
        world.tick(agent, BUSY)
        limited = world.as_it_is()
        agent.set(option)
        world.tick(agent, 14_000, 5)
        assert world.as_it_is() != limited
        end(agent, option, way)
        world.tick(agent, 14_000)
        # Isolation stays, and each pod's own quota is lowered, whether the node offers or not.
        assert (world.as_it_is() != limited) == (way != "disabled")
        goes_on = way == "other option" or (way != "disabled" and option is OPTION_2)
        assert (shares(world.as_it_is()) != shares(limited)) == goes_on
        agent.set(replace(option, enabled=False))
        world.tick(agent, 14_000)
        assert world.as_it_is() == limited
    assert world.as_it_is() == kubelets


@pytest.mark.parametrize("option", [OPTION_1, OPTION_2], ids=["option 1", "option 2"])
def test_journal_alone_restores_everything_after_a_kill(
    world: StatedNode, option: SuppressionSettings
) -> None:
    kubelets = world.as_it_is()
    agent = world.agent(option)
    world.tick(agent, 14_000, 5)
    agent.stop()
    assert world.as_it_is() != kubelets
    assert restore(Path("/"), world.journal).failed == {}
    assert world.as_it_is() == kubelets


def shares(files: dict[str, str]) -> dict[str, float | None]:
    """Return each cgroup's quota in CPUs, whatever its period."""
    quotas = {path: int(text) for path, text in files.items() if path.endswith("quota_us")}
    periods = {path: int(files[path.replace("quota", "period")]) for path in quotas}
    return {path: None if quota < 0 else quota / periods[path] for path, quota in quotas.items()}


def end(agent: Agent, option: SuppressionSettings, way: str) -> None:
    """Have suppression end, or go on in the other way."""
    other = OPTION_2 if option is OPTION_1 else OPTION_1
    if way == "disabled":
        agent.set(replace(option, enabled=False))
    elif way == "other option":
        agent.set(other)
    else:
        agent.label("false" if way == "label off" else None)


SPELL = 3.0
PERIOD = 1.0
ENOUGH = 400_000_000
"""Nanoseconds: a hundred turns of the scheduler."""

PATIENCE = 120.0
ALWAYS = ((0.0, 1.0),)


def test_busy_offline_pods_never_exceed_the_quota(world: StatedNode) -> None:
    """The kernel lends each CPU some of the next period's quota, so two periods more are allowed."""
    with Crew() as crew, world.agent() as agent:
        world.tick(agent, 15_600, 30)
        quota = world.quota
        assert quota == 240
        for pod in world.offline:
            crew.start(directories(world, pod), ALWAYS, time.monotonic())
        began, before = time.monotonic(), world.tree.usage(world.tree.best_effort)
        time.sleep(SPELL)
        used = world.tree.usage(world.tree.best_effort) - before
        seconds = time.monotonic() - began + 2 * PERIOD
    assert used <= seconds * quota * 1_000_000


@pytest.mark.parametrize(("isolation", "low", "high"), [(Isolation.WEIGHTS, 2, 8), (Isolation.IDLE, 0.5, 2)])
def test_busy_offline_pods_share_cpu_by_isolation(
    world: StatedNode, isolation: Isolation, low: float, high: float
) -> None:
    """Requested are 8 and 2 CPUs: 4 to 1 by weights, if no one else were on that CPU at all."""
    big, small = (world.tree.pod(pod) for pod in world.offline)
    with Crew() as crew, world.agent(replace(OPTION_1, isolation=isolation)) as agent:
        world.tick(agent, QUIET, 20)
        cpu = cpus_here()[-1]
        workers = [
            crew.start(directories(world, pod), ALWAYS, time.monotonic(), cpu) for pod in world.offline
        ]
        wait_until(lambda: all(crew.done([worker]) for worker in workers))
        began = {cgroup: world.tree.usage(cgroup) for cgroup in (big, small)}
        wait_until(lambda: world.tree.usage(big) - began[big] > ENOUGH)
        more, less = (world.tree.usage(cgroup) - began[cgroup] for cgroup in (big, small))
    assert low < more / max(1, less) < high


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "busy processes do not get to work"
        time.sleep(0.05)


def directories(world: StatedNode, pod: QuotaPod) -> list[Path]:
    return world.tree.process_directories(world.tree.container(pod))
