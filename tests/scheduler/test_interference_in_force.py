"""The configuration in force: what a change of it changes, and curves that are learned from refreshes."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from corewise.config.interference import Series
from corewise.engine import Cluster, Measured, Placement
from corewise.engine.objects import NodeAddress, SchedulableNode, SchedulableNodeStatus
from corewise.kube.objects import ObjectMeta
from corewise.prometheus.client import PrometheusClient
from corewise.prometheus.exposition import Exposition
from corewise.scheduler.configuration import DEFAULTS, SchedulerConfiguration, parse_configuration
from corewise.scheduler.in_force import InForce, engine_of, identities
from corewise.scheduler.observing.node_names import NodeIdentity, NodeNames
from corewise.scheduler.observing.observer import Observer, refresh_interval
from corewise.vocabulary.metrics import exported_by
from corewise.vocabulary.metrics import interference as metrics
from corewise.vocabulary.metrics.table import SCHEDULER
from prometheus.fake_prometheus import fake_prometheus
from scheduler.interference_scenes import STREAM, stream
from scheduler.scenes import node

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


def in_force(text: str, *names: str) -> tuple[InForce, Cluster, StepClock]:
    cluster, clock = Cluster(), StepClock()
    for name in names or NODES:
        cluster.put_node(node(name, 8))
    return InForce(cluster, clock, parse_configuration(text), engine_of), cluster, clock


def show(force: InForce, used: float, latency: float, names: tuple[str, ...] = NODES) -> None:
    """Measure the same of all nodes."""
    at = np.full(len(names), force.now())
    known = {
        "memorybandwidth_used": used,
        "memorybandwidth_capacity": CAPACITY,
        "memorylatency": latency,
        "memory_available": 64e9,
    }
    columns = {name: (np.full(len(names), value), at) for name, value in known.items()}
    force.measure(Measured(names, columns))


def predicted(force: InForce, cluster: Cluster, name: str) -> float:
    """The latency that decisions count with."""
    decision = force.engine.decide(stream("p"), cluster.snapshot())
    account = decision.accounts["Interference"].of(cluster.snapshot().index[name])
    return float(account["values"]["memorylatency"])


def test_curves_are_learned_from_refreshes_and_predict_with_what_was_just_placed() -> None:
    force, cluster, clock = in_force(
        STREAM.replace("interference:\n", "interference:\n  latencyModel: curve\n")
    )
    for step in range(200):
        share = 0.1 + 0.7 * (step % 10) / 10
        show(force, share * CAPACITY, 80e-9 + 30e-9 * share / (1 - share))
        clock.seconds += 30
    show(force, 0.5 * CAPACITY, 110e-9)
    assert predicted(force, cluster, "n1") == pytest.approx(110e-9, rel=0.02)
    decision = force.engine.decide(stream("a"), cluster.snapshot())
    assert decision.accounts["Interference"].of(0)["predicted"] == ["memorylatency"]
    cluster.put_pod(stream("a"), Placement("n1", since=force.now()))
    assert predicted(force, cluster, "n1") > 1.03 * predicted(force, cluster, "n2")


def test_a_new_configuration_takes_effect_as_a_whole() -> None:
    force, cluster, _ = in_force(STREAM)
    show(force, 95e9, 1e-7)
    assert not force.engine.decide(stream("p"), cluster.snapshot()).feasible.any()
    force.apply(parse_configuration("scoring: MostAllocated"))
    decision = force.engine.decide(stream("p"), cluster.snapshot())
    assert decision.feasible.all()
    assert set(decision.scores) == {"MostAllocated"}
    force.apply(parse_configuration(STREAM))
    assert not force.engine.decide(stream("p"), cluster.snapshot()).feasible.any()
    force.apply(SchedulerConfiguration())
    show(force, 1e9, 1e-7)
    assert force.configuration == DEFAULTS


@pytest.mark.parametrize(("window", "interval"), [(300, 30), (60, 6), (10, 1), (3600, 30)])
def test_a_refresh_comes_ten_times_a_window_and_every_half_minute_at_least(
    window: float, interval: float
) -> None:
    assert refresh_interval(window) == interval


def test_a_node_is_known_by_its_name_its_host_name_and_its_addresses() -> None:
    labels = {"kubernetes.io/hostname": "host"}
    status = SchedulableNodeStatus(addresses=(NodeAddress("10.0.0.1"), NodeAddress("host"), NodeAddress("")))
    found = list(identities([SchedulableNode(ObjectMeta(name="n1", labels=labels), status=status)]))
    assert found == [NodeIdentity("n1", ("host", "10.0.0.1"))]
    names = NodeNames(found)
    assert [names.place(text) for text in ("n1", "host:1", "10.0.0.1:9100")] == [0, 0, 0]


def _said(query: str) -> float:
    return time.time() if "timestamp" in query else 5.0


async def test_what_is_no_longer_asked_for_is_no_longer_exported() -> None:
    force, _, clock = in_force(STREAM)
    exposition = Exposition(exported_by(SCHEDULER))
    async with (
        fake_prometheus(lambda query: [({"node": "n1"}, _said(query))]) as server,
        PrometheusClient(server.url) as client,
    ):
        observer = Observer(client, lambda: map(NodeIdentity, NODES), force.take, exposition, clock)
        force.observe_by(observer)
        await observer.refresh()
        observer.export()
        fresh = (metrics.INTERFERENCE_NODES, Series.MEMORY_AVAILABLE, "fresh")
        assert exposition.value(*fresh) == 1
        assert exposition.value(metrics.INTERFERENCE_AGE, Series.MEMORY_AVAILABLE) >= 0
        force.apply(DEFAULTS)
        observer.export()
        assert exposition.value(*fresh) == 0
        asked = len(server.asked)
        await observer.refresh()
        assert len(server.asked) == asked
    assert math.isclose(observer.interval, 30.0)
