"""The active configuration: what a change of it changes, and curves that are learned from refreshes."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from corewise.config.interference.metrics import Metric
from corewise.engine import Cluster, Measured, Placement, assemble
from corewise.kube.objects import ObjectMeta
from corewise.prometheus.client import PrometheusClient
from corewise.prometheus.exposition import Exposition
from corewise.scheduler.active_config import ActiveConfig, identities
from corewise.scheduler.configuration import DEFAULTS, SchedulerConfiguration, parse_configuration
from corewise.scheduler.observing.observer import Observer, refresh_interval
from corewise.scheduler.observing.readings import NodeIdentity, NodeNames
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import SCHEDULER, exported_by
from corewise.workload.nodes import Node, NodeAddress, NodeStatus
from engine.interference_scenes import STREAM, stream
from engine.scenes import node
from prometheus.fake_prometheus import fake_prometheus, said

NODES = ("n1", "n2")
CAPACITY = 100e9


class StepClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def activated(text: str, *names: str) -> tuple[ActiveConfig, Cluster, StepClock]:
    cluster, clock = Cluster(), StepClock()
    for name in names or NODES:
        cluster.put_node(node(name, 8))
    return ActiveConfig(cluster, clock, parse_configuration(text), assemble), cluster, clock


def show(active: ActiveConfig, used: float, latency: float, names: tuple[str, ...] = NODES) -> None:
    """Measure the same of all nodes."""
    at = np.full(len(names), active.now())
    known = {
        "memorybandwidth_used": used,
        "memorybandwidth_capacity": CAPACITY,
        "memorylatency": latency,
        "memory_available": 64e9,
    }
    columns = {name: (np.full(len(names), value), at) for name, value in known.items()}
    active.measure(Measured(names, columns))


def predicted(active: ActiveConfig, cluster: Cluster, name: str) -> float:
    """The latency that decisions count with."""
    decision = active.engine.decide(stream("p"), cluster.snapshot())
    account = decision.accounts["Interference"].of(cluster.snapshot().index[name])
    return float(account["values"]["memorylatency"])


def test_curves_learn_from_refreshes_and_include_new_placements() -> None:
    active, cluster, clock = activated(
        STREAM.replace("interference:\n", "interference:\n  latencyModel: curve\n")
    )
    for step in range(200):
        share = 0.1 + 0.7 * (step % 10) / 10
        show(active, share * CAPACITY, 80e-9 + 30e-9 * share / (1 - share))
        clock.seconds += 30
    show(active, 0.5 * CAPACITY, 110e-9)
    assert predicted(active, cluster, "n1") == pytest.approx(110e-9, rel=0.02)
    decision = active.engine.decide(stream("a"), cluster.snapshot())
    assert decision.accounts["Interference"].of(0)["predicted"] == ["memorylatency"]
    cluster.put_pod(stream("a"), Placement("n1", since=active.now()))
    assert predicted(active, cluster, "n1") > 1.03 * predicted(active, cluster, "n2")


CURVE = """\
interference:
  latencyModel: curve
  metrics:
    memorybandwidth: {query: used, unit: GB/s}
    memorybandwidth_capacity: {query: capacity, unit: GB/s}
    memorylatency: {query: latency, unit: ns}
"""


@pytest.mark.parametrize("failing", [{"used"}, {"latency"}, {"used", "latency", "capacity"}])
async def test_curves_learn_nothing_from_kept_values(failing: set[str]) -> None:
    active, cluster, clock = activated(CURVE)
    values, away = {"capacity": 100.0}, set[str]()

    def answers(query: str) -> Any:
        if query in away:
            return said(503, "unavailable", "away")
        return [({"node": "n1"}, values[query])] if query in values else []

    def slope() -> float:
        snapshot = cluster.snapshot()
        return float(snapshot.measured["memorylatency_slope"][snapshot.index["n1"]])

    async with fake_prometheus(answers) as server, PrometheusClient(server.url) as client:
        exposition = Exposition(exported_by(SCHEDULER))
        observer = Observer(client, lambda: map(NodeIdentity, NODES), active.take, exposition, clock)
        active.observe_by(observer)

        async def refresh() -> float:
            clock.seconds += 1
            await observer.refresh()
            return slope()

        for share in (*(0.1, 0.3, 0.5, 0.7) * 3, 0.8):
            values |= {"used": 100 * share, "latency": 80 + 30 * share / (1 - share)}
            if share == 0.8:
                values["latency"] = 400
            learned = await refresh()
        assert learned > 0
        away |= failing
        values["used"] = 20.0
        assert [await refresh() for _ in range(5)] == [learned] * 5
        away.clear()
        assert await refresh() != learned


def test_a_new_configuration_takes_effect_as_a_whole() -> None:
    active, cluster, _ = activated(STREAM)
    show(active, 95e9, 1e-7)
    assert not active.engine.decide(stream("p"), cluster.snapshot()).feasible.any()
    active.apply(parse_configuration("scoring: MostAllocated"))
    decision = active.engine.decide(stream("p"), cluster.snapshot())
    assert decision.feasible.all()
    assert set(decision.scores) == {"MostAllocated"}
    active.apply(parse_configuration(STREAM))
    assert not active.engine.decide(stream("p"), cluster.snapshot()).feasible.any()
    active.apply(SchedulerConfiguration())
    show(active, 1e9, 1e-7)
    assert active.configuration == DEFAULTS


@pytest.mark.parametrize(("window", "interval"), [(300, 30), (60, 6), (10, 1), (3600, 30)])
def test_refresh_interval_is_tenth_window_capped_at_30s(window: float, interval: float) -> None:
    assert refresh_interval(window) == interval


def test_node_is_known_by_name_hostname_and_addresses() -> None:
    labels = {"kubernetes.io/hostname": "host"}
    status = NodeStatus(addresses=(NodeAddress("10.0.0.1"), NodeAddress("host"), NodeAddress("")))
    found = list(identities([Node(ObjectMeta(name="n1", labels=labels), status=status)]))
    assert found == [NodeIdentity("n1", ("host", "10.0.0.1"))]
    names = NodeNames(found)
    assert [names.place(text) for text in ("n1", "host:1", "10.0.0.1:9100")] == [0, 0, 0]


def _said(query: str) -> float:
    return time.time() if "timestamp" in query else 5.0


async def test_unrequested_values_are_no_longer_exported() -> None:
    active, _, clock = activated(STREAM)
    exposition = Exposition(exported_by(SCHEDULER))
    async with (
        fake_prometheus(lambda query: [({"node": "n1"}, _said(query))]) as server,
        PrometheusClient(server.url) as client,
    ):
        observer = Observer(client, lambda: map(NodeIdentity, NODES), active.take, exposition, clock)
        active.observe_by(observer)
        await observer.refresh()
        observer.export()
        fresh = (metrics.INTERFERENCE_NODES, Metric.MEMORY_AVAILABLE, "fresh")
        assert exposition.value(*fresh) == 1
        assert exposition.value(metrics.INTERFERENCE_AGE, Metric.MEMORY_AVAILABLE) >= 0
        active.apply(DEFAULTS)
        observer.export()
        assert exposition.value(*fresh) == 0
        asked = len(server.asked)
        await observer.refresh()
        assert len(server.asked) == asked
    assert math.isclose(observer.interval, 30.0)
