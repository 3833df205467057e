"""Samples: differences of counters over monotonic time; what cannot be believed is missed, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.offline_node import GIB, OfflineNode, stat_text
from corewise.agent.cgroups import NodeCgroups
from corewise.agent.sampler import LONGEST, Miss, Missed, PinnedPod, Sampler
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.writing.journal import MemoryLog
from corewise.suppression.offer import Pinned, Usage


class Sampled:
    """A node and its sampler, after the first look."""

    def __init__(self, root: Path, version: Version) -> None:
        self.node = OfflineNode(root, version)
        self.sampler = Sampler(root, NodeCgroups(root, "/", MemoryLog(), now=lambda: 1.0))
        first = self.sampler.sample(self.node.now)
        assert isinstance(first, Missed)
        assert first.kind is Miss.FIRST

    def after(self, seconds: float, **load: int) -> Usage | Missed:
        return self.sampler.sample(self.node.pass_time(seconds, **load))

    def missed(self, seconds: float = 10, **load: int) -> Missed:
        sample = self.after(seconds, **load)
        assert isinstance(sample, Missed)
        return sample


@pytest.fixture(params=Version)
def sampled(request: pytest.FixtureRequest, tmp_path: Path) -> Sampled:
    return Sampled(tmp_path, request.param)


def test_sample_is_the_average_between_two_looks(sampled: Sampled) -> None:
    usage = sampled.after(10, online=5000, offline=2500, memory=20 * GIB, offline_memory=4 * GIB)
    assert usage == Usage(7500, 2500, (), 24 * GIB, 4 * GIB, 64 * GIB)
    assert sampled.after(1, online=16_000) == Usage(16_000, 0, (), 0, 0, 64 * GIB)
    assert sampled.after(60) == Usage(0, 0, (), 0, 0, 64 * GIB)


def test_stolen_time_counts_as_used(sampled: Sampled) -> None:
    usage = sampled.after(10, online=3600, offline=1200, stolen=11_200)
    assert usage == Usage(16_000, 1200, (), 0, 0, 64 * GIB)
    assert sampled.missed(10, online=8000, stolen=8900).kind is Miss.ABSURD


@pytest.mark.parametrize(
    ("seconds", "kind"), [(0.0, Miss.CLOCK), (-30.0, Miss.CLOCK), (LONGEST + 1, Miss.STALE)]
)
def test_a_clock_that_jumps_costs_one_sample(sampled: Sampled, seconds: float, kind: Miss) -> None:
    sampled.node.now += seconds
    assert sampled.missed(0).kind is kind
    assert sampled.after(10, online=4000) == Usage(4000, 0, (), 0, 0, 64 * GIB)


def test_a_counter_that_runs_backwards_costs_one_sample(sampled: Sampled) -> None:
    sampled.after(10, online=8000, offline=2000)
    sampled.node._node_us = sampled.node._offline_us = 0
    missed = sampled.missed()
    assert missed.kind is Miss.BACKWARDS
    assert "ran backwards by 200.000 s" in missed.why or "ran backwards by 100.000 s" in missed.why
    assert sampled.after(10, online=4000) == Usage(4000, 0, (), 0, 0, 64 * GIB)


def test_usage_far_beyond_the_cpus_costs_one_sample(sampled: Sampled) -> None:
    assert sampled.missed(10, online=16_900).kind is Miss.ABSURD
    assert sampled.after(10, online=4000) == Usage(4000, 0, (), 0, 0, 64 * GIB)


def test_usage_slightly_beyond_the_cpus_is_clock_error(sampled: Sampled) -> None:
    assert sampled.after(10, online=14_000, offline=2_500) == Usage(16_000, 2_500, (), 0, 0, 64 * GIB)


@pytest.mark.parametrize("file", ["proc/stat", "proc/meminfo"])
@pytest.mark.parametrize("content", [None, "", "nonsense\n", "cpu  1 2\n"])
def test_a_file_that_cannot_be_read_is_named(sampled: Sampled, file: str, content: str | None) -> None:
    path = sampled.node.root / file
    path.unlink() if content is None else path.write_text(content)
    missed = sampled.sampler.sample(sampled.node.now + 10)
    assert isinstance(missed, Missed)
    assert missed.kind is Miss.UNREADABLE
    assert str(sampled.node.root) in missed.why
    assert sampled.after(20, online=3000) == Usage(3000, 0, (), 0, 0, 64 * GIB)


def test_unreadable_slice_is_a_miss_and_not_zero(sampled: Sampled) -> None:
    v2 = sampled.node.machine.version is Version.V2
    sampled.after(10, offline=1000)
    controller, file = ("cpu", "cpu.stat") if v2 else ("cpuacct", "cpuacct.usage")
    sampled.node.path(controller, sampled.node.slice, file).write_text("\n")
    missed = sampled.sampler.sample(sampled.node.now + 10)
    assert isinstance(missed, Missed)
    assert "unexpected content" in missed.why


def test_no_best_effort_cgroup_uses_nothing(tmp_path: Path) -> None:
    node = OfflineNode(tmp_path)
    for path in sorted(node.path("cpu", node.slice, "").rglob("*"), reverse=True):
        path.unlink()
    node.path("cpu", node.slice, "").rmdir()
    sampler = Sampler(tmp_path, NodeCgroups(tmp_path, "/", MemoryLog(), now=lambda: 1.0))
    sampler.sample(node.now)
    assert sampler.sample(node.pass_time(10, online=2000)) == Usage(2000, 0, (), 0, 0, 64 * GIB)


def test_pinned_pods_are_measured_while_they_exist(sampled: Sampled) -> None:
    owner = PinnedPod("uid", sampled.node.slice, 4000)
    gone = PinnedPod("gone", "/kubepods.slice/none", 2000)
    sampled.sampler.sample(sampled.node.pass_time(10), [gone])
    started = sampled.sampler.sample(sampled.node.pass_time(10, offline=1500), [owner, gone])
    usage = sampled.sampler.sample(sampled.node.pass_time(10, offline=1500), [owner, gone])
    assert isinstance(started, Usage)
    assert isinstance(usage, Usage)
    assert started.pinned == (Pinned(4000, 0, is_known=False), Pinned(2000, 0))
    assert usage.pinned == (Pinned(4000, 1500), Pinned(2000, 0))


def test_after_forgetting_a_sample_needs_two_looks_again(sampled: Sampled) -> None:
    sampled.sampler.forget()
    assert sampled.missed().kind is Miss.FIRST


def test_a_cpu_that_goes_offline_is_followed(sampled: Sampled) -> None:
    sampled.after(10, online=1000)
    ticks = sampled.node._node_us * 100 // 1_000_000
    (sampled.node.root / "proc/stat").write_text(stat_text(12, ticks + 1000))
    assert sampled.sampler.sample(sampled.node.now + 10) == Usage(1000, 0, (), 0, 0, 64 * GIB)
    assert sampled.sampler.cpus == 12
