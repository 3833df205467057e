"""The latency probe's loop in virtual time: how often it runs, what it costs, how long its word counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import machine_trees
from corewise.agent.interference import latency
from corewise.agent.interference.latency import LARGEST_SHARE, LatencyProbe, Probed, ProbeThread, probe_all
from corewise.kernel.host_files import HostFiles
from corewise.kernel.memory_latency import Chase, Latency, load_chase
from corewise.service.program import Heartbeats
from corewise.topology import CPUSet
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from virtual_time import VirtualClock, run_virtual

INTERVAL = 30.0


class Probes:
    """Answers that are given in turn, the last one again and again."""

    def __init__(self, *answers: Probed) -> None:
        self._answers = answers
        self.times: list[float] = []

    async def measure(self) -> Probed:
        self.times.append(VirtualClock().monotonic())
        return self._answers[min(len(self.times), len(self._answers)) - 1]


def while_running(
    probes: Probes,
    seconds: float,
    then: Callable[[LatencyProbe, Heartbeats], None] = lambda _probe, _heartbeats: None,
) -> None:
    """Run the loop for a time, look, and end it."""

    async def main() -> None:
        heartbeats = Heartbeats(VirtualClock())
        probe = LatencyProbe(probes.measure, interval=INTERVAL, clock=VirtualClock())
        task = asyncio.create_task(probe.run(heartbeats))
        await asyncio.sleep(seconds)
        then(probe, heartbeats)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    run_virtual(main())


def test_memory_is_probed_immediately_then_every_interval() -> None:
    probes = Probes(Probed({0: 9e-8}, {}, 0.003))
    while_running(probes, 100)
    assert probes.times == [0, 30, 60, 90]


@given(st.floats(0, 0.2))
def test_probe_costs_at_most_a_thousandth_cpu(cost: float) -> None:
    probes = Probes(Probed({0: 9e-8}, {}, cost))
    while_running(probes, 1000)
    assert cost * (len(probes.times) - 1) <= LARGEST_SHARE * 1000 * (1 + 1e-9)


def test_last_probe_counts_for_up_to_three_pauses() -> None:
    async def main() -> None:
        answers = [Probed({0: 9e-8, 1: 1.1e-7}, {}, 0.003)]
        never = asyncio.Event()

        async def measure() -> Probed:
            if not answers:
                await never.wait()
            return answers.pop()

        probe = LatencyProbe(measure, interval=INTERVAL, clock=VirtualClock())
        assert reason(probe) is Reason.LATENCY_NOT_YET
        task = asyncio.create_task(probe.run(Heartbeats(VirtualClock())))
        await asyncio.sleep(89)
        assert probe.latest() == {0: 9e-8, 1: 1.1e-7}
        await asyncio.sleep(2)
        assert reason(probe) is Reason.LATENCY_NOT_YET
        task.cancel()

    run_virtual(main())


def reason(probe: LatencyProbe) -> Reason:
    latest = probe.latest()
    assert isinstance(latest, Finding)
    return latest.reason


def test_failed_probe_of_one_node_leaves_others_valid() -> None:
    def one(probe: LatencyProbe, _: Heartbeats) -> None:
        assert probe.latest() == {1: 1e-7}

    def none(probe: LatencyProbe, _: Heartbeats) -> None:
        assert probe.latest() == Finding(Reason.LATENCY_PROBE_FAILED, "NUMA node 0: no")

    while_running(Probes(Probed({1: 1e-7}, {0: "NUMA node 0: no"}, 0.001)), 1, one)
    while_running(Probes(Probed({}, {0: "NUMA node 0: no"}, 0.0)), 1, none)


def test_probe_loop_reports_alive_during_long_pauses() -> None:
    def lives(_: LatencyProbe, heartbeats: Heartbeats) -> None:
        assert not heartbeats.stuck()

    while_running(Probes(Probed({0: 1e-7}, {}, 1.0)), 999, lives)


def test_each_numa_node_is_probed_on_its_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def probe(_chase: object, cpus: CPUSet) -> Latency:
        if 4 in cpus:
            raise OSError(22, "Invalid argument")
        return Latency((2e-7, 1e-7, 3e-7), 0.004)

    monkeypatch.setattr(latency, "probe", probe)
    machine_trees.sub_numa(tmp_path)
    probed = probe_all(None, HostFiles(tmp_path))  # type: ignore[arg-type]
    assert probed == Probed({0: 2e-7}, {1: "NUMA node 1, CPUs 4-7: Invalid argument"}, 0.004)


async def test_this_machine_is_probed_in_its_own_thread() -> None:
    chase = load_chase()
    if not isinstance(chase, Chase):
        pytest.skip(f"the probe's helper is not built here: {chase.message}")
    thread = ProbeThread(chase, HostFiles())
    try:
        probed = await thread.measure()
    finally:
        thread.close()
    assert probed.medians.keys() | probed.failed.keys()
    assert all(0 < each < 1e-3 for each in probed.medians.values())
