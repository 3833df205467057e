"""Bandwidth that no one counts by pod: estimated from what nodes use, where that says something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corewise.interference.analysis import analyze
from corewise.interference.history import History, PodRecord, TimeSeries, bandwidth_shares
from interference.simulated_history import DEFAULT

STEP, HOURS, NODES = 300.0, 48, 8
WINDOW = 300.0
USE = {"scan": 14e9, "stream": 7e9, "pricing": 0.1e9}


def history(seed: int = 1, *, noise: float = 0.5e9, together: bool = False) -> History:
    """Jobs of half an hour to three hours on nodes whose other use is 2 to 10 GB/s."""
    random = np.random.default_rng(seed)
    pods = []
    for number in range(300):
        node, start = f"n{random.integers(NODES)}", float(random.uniform(0, (HOURS - 3) * 3600))
        end = start + float(random.uniform(1800, 3 * 3600))
        kinds = ("scan", "stream") if together else (str(random.choice(list(USE))),)
        pods += [PodRecord(f"default/{kind}-{number}", kind, node, start, end) for kind in kinds]
    times = np.arange(WINDOW, HOURS * 3600, STEP)
    nodes = {
        f"n{number}": _node(random, times, [p for p in pods if p.node == f"n{number}"], noise)
        for number in range(NODES)
    }
    return History(0.0, HOURS * 3600.0, nodes, pods)


def _node(
    random: np.random.Generator,
    times: np.ndarray[tuple[int], np.dtype[np.float64]],
    pods: list[PodRecord],
    noise: float,
) -> Mapping[str, TimeSeries]:
    used = np.full_like(times, random.uniform(2e9, 10e9)) + random.normal(0, noise, len(times))
    for pod in pods:
        running = np.minimum(times, pod.until or np.inf) - np.maximum(times - WINDOW, pod.start)
        used += USE[pod.type] * np.clip(running, 0, WINDOW) / WINDOW
    return {"memorybandwidth": TimeSeries(times, np.maximum(used, 1.0))}


@given(st.integers(0, 1000))
@settings(max_examples=5)
def test_usage_per_type_is_found_from_node_usage(seed: int) -> None:
    found = bandwidth_shares(history(seed), WINDOW)
    assert found["scan"].value == pytest.approx(USE["scan"], rel=0.05)
    assert found["stream"].value == pytest.approx(USE["stream"], rel=0.05)
    assert abs(found["scan"].value - USE["scan"]) < 2 * found["scan"].spread


def test_it_stands_in_the_profile_as_an_estimate() -> None:
    by_type = {each.type: each for each in analyze(history(), DEFAULT)}
    use = by_type["scan"].use["memoryBandwidth"]
    assert use.estimated
    assert use.mean == use.p95 == pytest.approx(USE["scan"], rel=0.05)


def test_what_was_counted_by_pod_is_not_estimated() -> None:
    seen = history()
    counted = {"memoryBandwidth": TimeSeries(np.array([seen.pods[0].start + 600.0]), np.array([3e9]))}
    pods = [replace(pod, use=counted if pod.type == "scan" else {}) for pod in seen.pods]
    by_type = {each.type: each for each in analyze(replace(seen, pods=pods), DEFAULT)}
    assert not by_type["scan"].use["memoryBandwidth"].estimated
    assert by_type["stream"].use["memoryBandwidth"].estimated


def test_usage_drowned_by_others_is_not_invented() -> None:
    assert "pricing" not in bandwidth_shares(history(noise=3e9), WINDOW)


def test_types_that_always_run_together_are_not_separated() -> None:
    assert not bandwidth_shares(history(together=True), WINDOW)


def test_types_that_never_come_and_go_say_nothing() -> None:
    seen = history()
    always = [replace(pod, start=0.0, end=None) for pod in seen.pods]
    assert not bandwidth_shares(replace(seen, pods=always), WINDOW)


def test_failed_pod_counts_for_its_running_time() -> None:
    seen = history()
    failed = [replace(pod, end=None, gone=pod.end) for pod in seen.pods]
    assert bandwidth_shares(replace(seen, pods=failed), WINDOW) == bandwidth_shares(seen, WINDOW)


def test_missing_nodes_or_pods_give_no_result() -> None:
    assert not bandwidth_shares(History(0.0, 1.0, {}, []), WINDOW)
    assert not bandwidth_shares(replace(history(), pods=[]), WINDOW)
    assert not bandwidth_shares(replace(history(), nodes={}), WINDOW)
