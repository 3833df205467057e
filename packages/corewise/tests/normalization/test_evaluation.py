"""When a node measures its own CPUs, on which one, and what of it is shown.

==============================================  ====================================================
promise                                         test
==============================================  ====================================================
a slot a cycle for each node, found by itself   test_each_node_has_one_slot_a_cycle
few nodes at a time                             test_few_nodes_of_a_fleet_share_a_slot
no more minutes a day than allowed              test_runs_of_a_day_stay_within_the_minutes
only an idle and honest node                    test_a_node_says_why_it_does_not_measure
the bounds themselves are allowed               test_a_node_at_every_bound_measures
an idle core, not CPU 0's, not a pod's          test_the_idlest_free_core_is_measured, ...
a disturbed run does not count                  test_a_disturbed_run_says_why_it_ends
the report is of the newest runs                test_the_report_is_the_median_of_runs, ...
a score is of the last day                      test_runs_of_the_last_day_count, ...
few runs a day: of the newest ones, however old test_few_runs_reach_back
==============================================  ====================================================
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.normalization.evaluation import (
    CYCLE,
    ENOUGH_RUNS,
    FEWEST_RUNS,
    MOST_BUSY,
    MOST_BUSY_CORE,
    MOST_PRESSURE,
    MOST_RUNS,
    MOST_STOLEN,
    SLOT,
    SLOTS,
    Evaluation,
    Meanwhile,
    NodeMinute,
    choose_cpu,
    disturbance,
    machine_of,
    next_slot,
    pause_after,
    rates_of,
    refusal,
    slot_of,
)
from corewise.normalization.mix import KERNELS, MEMORY_PER_WORKER, Done
from corewise.topology import CPUSet, Thread, Topology
from corewise.vocabulary.evaluation_report import EvaluationReport, decode
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

NOW = 1_800_000_000.0
DAY = 86_400
MODEL = "Intel(R) Xeon(R) Gold 6252 CPU @ 2.10GHz"
QUIET = NodeMinute(MODEL, cores_alike=True, busy=300, stolen=0, pressure=10, memory=1 << 30)
MACHINE = EvaluationReport(time="", cpu_model=MODEL, kernel="6.1.0", mix=1)
RATES = dict.fromkeys(KERNELS, 1000)
START, T = datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"


TOPOLOGY = Topology(tuple(Thread(cpu, cpu % 8, 0, 0, 0) for cpu in range(16)))
"""Core n has the CPUs n and n + 8."""


@given(st.text(max_size=20), st.floats(0, 4e9))
def test_each_node_has_one_slot_a_cycle(node: str, after: float) -> None:
    start = next_slot(node, after)
    assert after <= start < after + 2 * CYCLE
    assert start % CYCLE == slot_of(node, int(start // CYCLE)) * SLOT
    assert next_slot(node, start) == start
    assert int(next_slot(node, start + 1) // CYCLE) == int(start // CYCLE) + 1


def test_few_nodes_of_a_fleet_share_a_slot() -> None:
    nodes = [f"node-{number}" for number in range(1000)]
    most = [max(Counter(slot_of(node, cycle) for node in nodes).values()) for cycle in range(1000, 1072)]
    assert max(most) <= len(nodes) * 2 // 100


def test_nodes_that_share_a_slot_part_again() -> None:
    pairs = [slot_of("n1", cycle) == slot_of("n2", cycle) for cycle in range(SLOTS * 10)]
    assert 0 < sum(pairs) < SLOTS


@given(st.floats(0.5, 5), st.floats(0.1, 60))
def test_runs_of_a_day_stay_within_the_minutes(seconds: float, minutes: float) -> None:
    now, used = NOW, 0.0
    while (now := next_slot("n1", now)) < NOW + DAY:
        used += seconds
        now += max(seconds, pause_after(seconds, minutes))
    assert used <= minutes * 60 + seconds


@pytest.mark.parametrize(
    ("minute", "reason", "words"),
    [
        (replace(QUIET, model="unknown"), Reason.EVALUATION_MODEL_UNKNOWN, "does not name"),
        (replace(QUIET, cores_alike=False), Reason.EVALUATION_CORES_DIFFER, "several kinds"),
        (replace(QUIET, stolen=MOST_STOLEN + 50), Reason.EVALUATION_STEAL_TIME, "1.5 %"),
        (replace(QUIET, heated=2), Reason.EVALUATION_THERMAL_THROTTLING, "2 times"),
        (replace(QUIET, memory=50 << 20), Reason.EVALUATION_MEMORY_MISSING, "50 MiB are available"),
        (replace(QUIET, busy=MOST_BUSY + 110), Reason.EVALUATION_NODE_BUSY, "used 21.1 %"),
        (
            replace(QUIET, pressure=MOST_PRESSURE + 10),
            Reason.EVALUATION_NODE_BUSY,
            "waited for a CPU in 5.1 %",
        ),
        (replace(QUIET, starting="default/web"), Reason.EVALUATION_POD_STARTING, "default/web"),
        (replace(QUIET, busy=9000, stolen=900), Reason.EVALUATION_STEAL_TIME, "9.0 %"),
    ],
)
def test_a_node_says_why_it_does_not_measure(minute: NodeMinute, reason: Reason, words: str) -> None:
    found = refusal(minute)
    assert found is not None
    assert found.reason is reason
    assert words in found.message


def test_a_node_at_every_bound_measures() -> None:
    assert refusal(QUIET) is None
    at_bounds = replace(QUIET, busy=MOST_BUSY, stolen=MOST_STOLEN, pressure=MOST_PRESSURE)
    assert refusal(replace(at_bounds, memory=MEMORY_PER_WORKER)) is None
    assert refusal(replace(QUIET, pressure=None, memory=None)) is None


def test_the_idlest_free_core_is_measured() -> None:
    busy = dict.fromkeys(TOPOLOGY.cpus, 100) | {3: 20, 11: 30, 5: 10, 13: 4000}
    assert choose_cpu(TOPOLOGY, busy, TOPOLOGY.cpus, CPUSet()) == 11
    assert choose_cpu(TOPOLOGY, busy, TOPOLOGY.cpus, CPUSet.of([3])) == 15
    assert choose_cpu(TOPOLOGY, busy, CPUSet.parse("0-3"), CPUSet()) == 3


@pytest.mark.parametrize(
    ("allowed", "owned", "busy"),
    [
        ("0,8", "", 0),
        ("0-15", "1-15", 0),
        ("0-15", "1-7", 0),
        ("0-15", "", MOST_BUSY_CORE + 1),
    ],
    ids=["CPU 0's core", "owned", "owned siblings", "busy"],
)
def test_no_core_is_measured_that_others_need(allowed: str, owned: str, busy: int) -> None:
    used = dict.fromkeys(TOPOLOGY.cpus, busy)
    found = choose_cpu(TOPOLOGY, used, CPUSet.parse(allowed), CPUSet.parse(owned))
    assert isinstance(found, Finding)
    assert found.reason is Reason.EVALUATION_NO_IDLE_CORE


@given(st.dictionaries(st.integers(0, 15), st.integers(0, 10_000)), st.sets(st.integers(0, 15)))
def test_a_chosen_core_is_idle_and_free(busy: dict[int, int], owned: set[int]) -> None:
    found = choose_cpu(TOPOLOGY, busy, TOPOLOGY.cpus, CPUSet.of(owned))
    if isinstance(found, int):
        core = TOPOLOGY.siblings(found)
        assert 0 not in core
        assert core.isdisjoint(CPUSet.of(owned))
        assert all(busy.get(cpu, 10_000) <= MOST_BUSY_CORE for cpu in core)


@pytest.mark.parametrize(
    ("seen", "reason", "words"),
    [
        (Meanwhile(gave_way=True), Reason.EVALUATION_INTERRUPTED, "other work wanted CPU 7"),
        (Meanwhile(siblings=900), Reason.EVALUATION_INTERRUPTED, "on the core of CPU 7"),
        (Meanwhile(others=5500), Reason.EVALUATION_INTERRUPTED, "became busy (55.0 %)"),
        (Meanwhile(pressure=1500), Reason.EVALUATION_INTERRUPTED, "waited for a CPU 15.0 %"),
        (Meanwhile(gave_way=True, stolen=900), Reason.EVALUATION_STEAL_TIME, "9.0 % of CPU 7's time"),
        (Meanwhile(heated=1), Reason.EVALUATION_THERMAL_THROTTLING, "too hot"),
        (Meanwhile(gave_way=True, throttled=True), Reason.EVALUATION_CGROUP_THROTTLED, "CPU limit"),
    ],
)
def test_a_disturbed_run_says_why_it_ends(seen: Meanwhile, reason: Reason, words: str) -> None:
    found = disturbance(seen, 7)
    assert found is not None
    assert found.reason is reason
    assert words in found.message


def test_single_ticks_do_not_end_a_run() -> None:
    assert disturbance(Meanwhile(others=900, siblings=303, stolen=303), 7) is None


def test_rates_are_by_cpu_time() -> None:
    assert rates_of({"fsum": Done(100, 2_000_000_000, 1_000_000_000)}) == {"fsum": 100_000}


def run(score: int) -> dict[str, int]:
    return dict.fromkeys(KERNELS, score)


def test_the_report_is_the_median_of_runs() -> None:
    known = Evaluation(MACHINE)
    for score in (1000, 1010, 1020, 990, 5000):
        known = known.with_run(run(score), "2026-01-01T00:00:00Z")
    report = known.report("2026-01-01T01:00:00Z")
    assert (report.score, report.integer, report.runs, report.spread) == (1010, 1010, 5, 198)
    assert (report.measured, report.time) == ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z")
    assert report.cpu_model == MODEL
    assert decode(report.encode()) == report


def test_the_newest_runs_count() -> None:
    known = Evaluation(MACHINE)
    for score in range(1000, 1000 + 2 * MOST_RUNS):
        known = known.with_run(run(score), T)
    report = known.report(T)
    assert report.runs == MOST_RUNS
    assert report.score == 1000 + MOST_RUNS + (MOST_RUNS - 1) // 2


def runs_each(hours: int, number: int) -> Evaluation:
    """Return the state after a number of runs, some hours apart; their scores are 1000, 1001, ..."""
    known = Evaluation(MACHINE)
    for at in range(number):
        known = known.with_run(run(1000 + at), (START + at * timedelta(hours=hours)).isoformat())
    return known


def test_runs_of_the_last_day_count() -> None:
    report = runs_each(2, 40).report(T)
    assert (report.runs, report.score) == (12, 1000 + 28 + 5)
    assert report.measured == (START + timedelta(hours=78)).isoformat()
    assert report.measured_since == (START + timedelta(hours=56)).isoformat()


def test_few_runs_reach_back() -> None:
    report = runs_each(24, 40).report(T)
    assert (report.runs, report.score) == (FEWEST_RUNS, 1000 + 30 + 4)
    assert report.measured_since == (START + timedelta(days=30)).isoformat()


def test_runs_from_the_future_do_not_stay() -> None:
    known = runs_each(2, 12).with_run(run(5000), (START + timedelta(days=900)).isoformat())
    for hour in range(24, 24 + FEWEST_RUNS):
        known = known.with_run(run(1000), (START + timedelta(hours=hour)).isoformat())
    report = known.report(T)
    assert report.score == 1000
    assert report.measured_since == START.replace(hour=10).isoformat()


def test_a_reason_leaves_the_score_standing() -> None:
    finding = Finding(Reason.EVALUATION_NODE_BUSY, "the node used 40 % of its CPUs")
    report = Evaluation(MACHINE).with_run(run(1000), T).report("u", finding)
    assert (report.score, report.reason, report.message) == (1000, finding.reason, finding.message)
    assert Evaluation(MACHINE).report("u", finding).score == 0


def test_another_kernel_starts_again() -> None:
    known = Evaluation(MACHINE).with_run(run(1000), T)
    assert known.on(MACHINE) is known
    newer = msgspec.structs.replace(MACHINE, kernel="6.6.0")
    assert known.on(newer).report("u").runs == 0


def test_the_last_agents_score_stays_until_enough_runs() -> None:
    before = msgspec.structs.replace(MACHINE, score=900, runs=40, measured="s", time="s", reason="x")
    assert machine_of(before) == MACHINE
    known = Evaluation(MACHINE, before=before)
    for _ in range(ENOUGH_RUNS - 1):
        known = known.with_run(run(1000), T)
    assert (known.report("u").score, known.report("u").runs, known.report("u").reason) == (900, 40, "")
    assert known.with_run(run(1000), T).report("u").score == 1000
    other = Evaluation(msgspec.structs.replace(MACHINE, turbo_enabled=True), before=before)
    assert other.report("u").score == 0
