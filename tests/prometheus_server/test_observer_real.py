"""The scheduler's observer on a real Prometheus that is killed: values grow old, and both is visible."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np

from corewise.config.interference.metrics import Metric
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.prometheus.client import PrometheusClient, UnreachableError
from corewise.prometheus.exposition import Exposition
from corewise.scheduler.observing.observer import Observer
from corewise.scheduler.observing.readings import NodeIdentity, Observation, State
from corewise.scheduler.observing.sources import Source
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import SCHEDULER, exported_by
from manager.world import until
from prometheus_binary import Target, needs_prometheus, running
from prometheus_server.exporters import Machines, serve

ASKED = Source(
    Metric.MEMORY_BANDWIDTH,
    "max by (node) (used)",
    "node",
    2.5,
    last_samples="max by (node) (timestamp(used))",
)
NODES = ("n1", "n2")


@needs_prometheus
async def test_killed_prometheus_leaves_values_that_grow_old(tmp_path: Path) -> None:
    machines, exposition = Machines(), Exposition(exported_by(SCHEDULER))
    seen: list[Observation] = []
    with serve(machines):
        targets = [Target("x", machines.address, f"/{name}", {"node": name}) for name in NODES]
        for name in NODES:
            machines.say(f"/{name}", "used 7e9\n")
        with running(tmp_path, targets) as server:
            await asyncio.to_thread(server.waits_for, "used", len(NODES))
            async with PrometheusClient(server.url) as client:
                observer = Observer(
                    client, lambda: map(NodeIdentity, NODES), seen.append, exposition, SYSTEM_CLOCK
                )
                observer.ask_for((ASKED,), 0.2)
                task = asyncio.create_task(observer.run(lambda: None))
                await until(lambda: bool(seen))
                assert states(observer, exposition) == {State.FRESH: 2.0}
                await asyncio.to_thread(server.kill)
                await until(lambda: bool(seen[-1].failures))
                assert isinstance(seen[-1].failures[Metric.MEMORY_BANDWIDTH], UnreachableError)
                assert np.all(seen[-1].readings[Metric.MEMORY_BANDWIDTH].values == 7e9)
                await until(lambda: states(observer, exposition) == {State.STALE: 2.0})
                task.cancel()
    assert exposition.value(metrics.INTERFERENCE_QUERIES, Metric.MEMORY_BANDWIDTH, "failed") > 0
    assert exposition.value(metrics.INTERFERENCE_QUERIES, Metric.MEMORY_BANDWIDTH, "ok") > 0
    assert exposition.value(metrics.INTERFERENCE_LAST_REFRESH) < seen[-1].at
    assert replace(seen[-1], failures={}).measured().names == NODES


def states(observer: Observer, exposition: Exposition) -> dict[State, float]:
    """Return the number of nodes in each state, as the scheduler exports it."""
    observer.export()
    counts = {
        state: exposition.value(metrics.INTERFERENCE_NODES, Metric.MEMORY_BANDWIDTH, state) for state in State
    }
    return {state: number for state, number in counts.items() if number}
