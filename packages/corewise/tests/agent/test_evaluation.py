"""The agent's loop that measures its node: its slots, its refusals, and its report in the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest

from agent.agent_world import NODE, AgentWorld, agent_world, eventually, until
from agent.fake_node import container, manifest
from agent.offline_node import stat_text
from corewise.agent.evaluation import EvaluationLoop, starting_pod
from corewise.agent.evaluation_run import Bench
from corewise.agent.objects import QuotaPod
from corewise.agent.program import Agent
from corewise.cli.agent import _options
from corewise.kube.resources import NODE_RESOURCE_TOPOLOGIES
from corewise.normalization.evaluation import CYCLE, LOOKED_BACK, next_slot, pause_after
from corewise.normalization.mix import KERNELS, VERSION, Done
from corewise.service.program import Heartbeats
from corewise.topology import CPUSet, Topology
from corewise.vocabulary import metrics
from corewise.vocabulary.evaluation_report import EvaluationReport, decode
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import CPU_EVALUATION
from corewise.vocabulary.reasons import Reason
from kubedouble import LocalAPIServer

NOW = 1_800_000_000.0
SECOND = 1_000_000_000
DAY = 86_400
RUN = 3.0
CPUS = 8
MODEL = "Intel(R) Xeon(R) Gold 6252 CPU @ 2.10GHz"
INTERRUPTED = Finding(Reason.EVALUATION_INTERRUPTED, "other work wanted CPU 7")


class JumpingClock:
    """A clock whose waits take no time; ``ticks`` of CPU time are used in each second of them."""

    def __init__(self, root: Path, ticks: int = 0) -> None:
        self.time = NOW
        self.set_back = 0.0
        self._root = root
        self._ticks = ticks
        self._used = 0

    def monotonic(self) -> float:
        return self.time

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time - self.set_back, UTC)

    async def sleep(self, seconds: float) -> None:
        self.time += max(0.0, seconds)
        self._used += round(self._ticks * seconds)
        idle = round((self.time - NOW) * 100)
        text = stat_text(CPUS, self._used).replace(" 1000000 ", f" {1_000_000 + idle} ")
        (self._root / "proc/stat").write_text(text)
        await asyncio.sleep(0)


class StandingClock(JumpingClock):
    """A clock whose waits never end."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


class StatedBench:
    """Returns the outcomes it is given, the last one again and again; a run takes :data:`RUN` seconds."""

    def __init__(self, clock: JumpingClock, *outcomes: int | Finding) -> None:
        self._clock = clock
        self._outcomes = outcomes
        self.runs: list[tuple[float, int]] = []

    def allowed(self) -> CPUSet:
        return CPUSet.of(range(CPUS))

    def memory_left(self) -> int | None:
        return None

    def measure(self, topology: Topology, cpu: int, stop: Event) -> Mapping[str, Done] | Finding:
        assert cpu in topology.cpus
        assert not stop.is_set()
        outcome = self._outcomes[min(len(self.runs), len(self._outcomes) - 1)]
        self.runs.append((self._clock.time, cpu))
        self._clock.time += RUN
        if isinstance(outcome, Finding):
            return outcome
        return dict.fromkeys(KERNELS, Done(outcome, 2 * SECOND, SECOND))


@pytest.fixture
async def world(api_server: LocalAPIServer, tmp_path: Path) -> AsyncIterator[AgentWorld]:
    async with agent_world(api_server, tmp_path) as world:
        yield world


@asynccontextmanager
async def evaluating(
    world: AgentWorld, agent: Agent, clock: JumpingClock, bench: Bench | None
) -> AsyncIterator[None]:
    """Run the loop of an agent until the block ends."""
    async with running(loop_of(world, agent, clock, bench, agent.show_evaluation), clock):
        yield


def loop_of(
    world: AgentWorld,
    agent: Agent,
    clock: JumpingClock,
    bench: Bench | None,
    show: Callable[[str], None],
) -> EvaluationLoop:
    return EvaluationLoop(
        agent.local,
        agent.watched,
        world.client,
        show=show,
        root=world.options.root,
        bench=bench,
        minutes=2,
        metrics=agent.metrics,
        clock=clock,
    )


@asynccontextmanager
async def running(loop: EvaluationLoop, clock: JumpingClock) -> AsyncIterator[None]:
    """Run a loop until the block ends."""
    task = asyncio.create_task(loop.run(Heartbeats(clock)))
    try:
        yield
        assert not task.done() or task.exception() is None
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def stated(world: AgentWorld) -> EvaluationReport | None:
    topology = await world.client.get(NODE_RESOURCE_TOPOLOGIES, NODE)
    return decode(topology.metadata.annotations.get(CPU_EVALUATION, ""))


async def reported(world: AgentWorld) -> EvaluationReport:
    await eventually(lambda: stated(world))
    report = await stated(world)
    assert report is not None
    return report


async def has_runs(world: AgentWorld, count: int) -> bool:
    report = await stated(world)
    return report is not None and report.runs >= count


async def is_shown(world: AgentWorld, agent: Agent) -> bool:
    topology = await world.client.get(NODE_RESOURCE_TOPOLOGIES, NODE)
    return topology.metadata.annotations.get(CPU_EVALUATION) == agent.reporter.evaluation


async def test_an_idle_node_reports_its_score(world: AgentWorld) -> None:
    clock = JumpingClock(world.options.root)
    bench = StatedBench(clock, 1000)
    async with world.agent() as agent, evaluating(world, agent, clock, bench):
        report = await reported(world)
        assert report.cpu_model == MODEL
        assert (report.hyper_thread_enabled, report.turbo_enabled, report.online_cpus) == (True, True, 16)
        assert (report.mix, report.score, report.reason) == (VERSION, 1_000_000, "")
        assert report.measured == report.time != ""
        assert agent.metrics.value(metrics.EVALUATION_RUNS, "measured") >= 1
        assert agent.metrics.value(metrics.EVALUATION_SCORE, MODEL) == 1_000_000
        assert bench.runs[0] == (next_slot(NODE, NOW + LOOKED_BACK), 7)


async def test_runs_keep_to_their_slots_and_pauses(world: AgentWorld) -> None:
    clock = JumpingClock(world.options.root)
    bench = StatedBench(clock, 1000, INTERRUPTED, 1010)
    async with world.agent() as agent, evaluating(world, agent, clock, bench):
        await until(lambda: len(bench.runs) >= 6)
    times = [time for time, _ in bench.runs]
    assert all(next_slot(NODE, time) == time for time in times)
    assert all(later - sooner >= pause_after(RUN, 2) for sooner, later in pairwise(times))


async def test_a_clock_set_back_delays_no_run(world: AgentWorld) -> None:
    clock = JumpingClock(world.options.root)

    class RefusedOnce(StatedBench):
        def memory_left(self) -> int | None:
            if not self.runs or clock.set_back:
                return None
            clock.set_back = 1000 * DAY
            return 0

    bench = RefusedOnce(clock, 1000)
    async with world.agent() as agent, evaluating(world, agent, clock, bench):
        await until(lambda: len(bench.runs) >= 2)
    assert bench.runs[1][0] - bench.runs[0][0] <= pause_after(RUN, 2) + 3 * CYCLE


async def test_a_changed_machine_has_no_old_score(world: AgentWorld) -> None:
    clock = JumpingClock(world.options.root)
    async with world.agent() as agent:
        bench = StatedBench(clock, 1000, INTERRUPTED)
        async with evaluating(world, agent, clock, bench):
            await until(lambda: agent.metrics.value(metrics.EVALUATION_SCORE, MODEL) > 0)
            release = world.options.root / "proc/sys/kernel/osrelease"
            release.parent.mkdir(parents=True, exist_ok=True)
            release.write_text("6.99.0\n")
            await until(lambda: agent.metrics.value(metrics.EVALUATION_SCORE, MODEL) == 0)


async def test_a_busy_node_says_so_and_rests(world: AgentWorld) -> None:
    clock = JumpingClock(world.options.root, ticks=CPUS * 100)
    bench = StatedBench(clock, 1000)
    async with world.agent() as agent, evaluating(world, agent, clock, bench):
        report = await reported(world)
        assert (report.reason, report.score, report.runs) == ("EvaluationNodeBusy", 0, 0)
        assert "of its CPUs in the last minute" in report.message
        await until(lambda: agent.metrics.value(metrics.EVALUATION_RUNS, "EvaluationNodeBusy") > 3)
    assert not bench.runs


async def test_an_interrupted_run_is_no_score(world: AgentWorld) -> None:
    clock = JumpingClock(world.options.root)
    async with world.agent() as agent, evaluating(world, agent, clock, StatedBench(clock, INTERRUPTED)):
        report = await reported(world)
        assert (report.reason, report.message) == (str(INTERRUPTED.reason), INTERRUPTED.message)
        assert (report.score, report.runs, report.measured) == (0, 0, "")


async def test_a_restart_keeps_score_and_pause(world: AgentWorld) -> None:
    clock = JumpingClock(world.options.root)
    async with world.agent() as agent:
        first = StatedBench(clock, 1000)
        async with evaluating(world, agent, clock, first):
            await eventually(lambda: has_runs(world, 3))
        await eventually(lambda: is_shown(world, agent))
        before = await reported(world)
        second = StatedBench(clock, 500, 500, INTERRUPTED)  # the third run would replace the old score
        async with evaluating(world, agent, clock, second):
            await until(lambda: len(second.runs) >= 2)
        after = await reported(world)
    assert second.runs[0][0] - datetime.fromisoformat(before.time).timestamp() >= pause_after(RUN, 2)
    assert (after.score, after.runs) == (before.score, before.runs) == (1_000_000, before.runs)


async def test_a_recreated_topology_shows_the_report_again(world: AgentWorld) -> None:
    clock = JumpingClock(world.options.root, ticks=CPUS * 100)
    async with world.agent() as agent, evaluating(world, agent, clock, StatedBench(clock, 1000)):
        before = await reported(world)
        await world.client.delete(NODE_RESOURCE_TOPOLOGIES, NODE)
        agent._topology_due.set()  # a minute later
        assert await reported(world) == before


async def test_a_restarted_agent_shows_what_it_found(world: AgentWorld) -> None:
    clock = JumpingClock(world.options.root)
    async with world.agent() as agent:
        async with evaluating(world, agent, clock, StatedBench(clock, 1000)):
            await eventually(lambda: has_runs(world, 1))
        await eventually(lambda: is_shown(world, agent))
        shown, agent.reporter.evaluation = agent.reporter.evaluation, ""
        async with evaluating(world, agent, StandingClock(world.options.root), None):
            await until(lambda: agent.reporter.evaluation == shown)


async def test_a_crashed_loop_shows_no_older_report(world: AgentWorld) -> None:
    clock = JumpingClock(world.options.root)

    class CrashesOnce(StatedBench):
        def measure(self, topology: Topology, cpu: int, stop: Event) -> Mapping[str, Done] | Finding:
            done = super().measure(topology, cpu, stop)
            if len(self.runs) == 4:
                raise ZeroDivisionError
            return done

    shown: list[str] = []
    bench = CrashesOnce(clock, 1000)
    async with world.agent() as agent:
        loop = loop_of(world, agent, clock, bench, shown.append)
        with pytest.raises(ZeroDivisionError):
            await loop.run(Heartbeats(clock))
        await eventually(lambda: world.client.get(NODE_RESOURCE_TOPOLOGIES, NODE))
        older = {"metadata": {"annotations": {CPU_EVALUATION: shown[0]}}}
        await world.client.patch(NODE_RESOURCE_TOPOLOGIES, NODE, older)
        async with running(loop, clock):
            await until(lambda: len(shown) >= 5)
    runs = [report.runs for text in shown if (report := decode(text))]
    assert runs == [*range(1, len(shown) + 1)]
    times = [time for time, _ in bench.runs]
    assert all(later - sooner >= pause_after(RUN, 2) for sooner, later in pairwise(times))


async def test_another_kernels_files_are_not_measured(world: AgentWorld) -> None:
    clock = JumpingClock(world.options.root)
    async with world.agent() as agent, evaluating(world, agent, clock, None):
        assert (await reported(world)).reason == "OtherKernel"


async def test_the_option_alone_starts_the_loop(world: AgentWorld) -> None:
    async with world.agent() as agent:
        assert agent.evaluation is None
    async with world.agent(evaluate_minutes=2.0) as agent:
        assert agent.evaluation is not None
        assert "evaluation" in {name for name, _ in agent._loops()}


@pytest.mark.parametrize(("evaluate", "minutes"), [(True, 5.0), (False, None)])
def test_minutes_count_only_with_evaluation(evaluate: bool, minutes: float | None) -> None:
    given: dict[str, Any] = {
        "nri_socket": None,
        "no_nri": True,
        "no_latency_probe": False,
        "restricted_qos_namespace": (),
    }
    options = _options(node_name="n1", root=Path("/"), evaluate=evaluate, evaluate_minutes=5.0, **given)
    assert options.evaluate_minutes == minutes


def pod(name: str, *, bound: float, started: float, ready: bool = True, phase: str = "Running") -> QuotaPod:
    def at(ago: float) -> str:
        return datetime.fromtimestamp(NOW - ago, UTC).isoformat()

    body = manifest(name, container("a", "1"))
    body["metadata"]["creationTimestamp"] = at(bound)
    body["status"]["phase"] = phase
    body["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound)},
        {"type": "Ready", "status": str(ready)},
    ]
    body["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": at(started)}}
    return msgspec.convert(body, QuotaPod)


def test_a_container_may_have_no_start_time() -> None:
    """The API server writes an unset time as null."""
    body = manifest("virtual", container("a", "1"))
    body["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": None}}
    read = msgspec.convert(body, QuotaPod)
    assert [each.runs for each in read.status.all_containers] == [True]
    assert starting_pod([read], NOW) == ""


@pytest.mark.parametrize(
    ("pods", "name"),
    [
        ([], ""),
        ([pod("old", bound=9000, started=9000)], ""),
        ([pod("new", bound=100, started=30)], "default/new"),
        ([pod("restarted", bound=9000, started=10)], "default/restarted"),
        ([pod("slow", bound=300, started=200, ready=False)], "default/slow"),
        ([pod("broken", bound=9000, started=8000, ready=False)], ""),
        ([pod("done", bound=100, started=90, ready=False, phase="Succeeded")], ""),
    ],
    ids=["none", "runs", "new", "restarted", "not ready yet", "never ready", "ended"],
)
def test_a_pod_starts_until_it_is_ready(pods: Iterable[QuotaPod], name: str) -> None:
    assert starting_pod(pods, NOW) == name
