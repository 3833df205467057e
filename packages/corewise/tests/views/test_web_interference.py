"""What the page asks Prometheus: a node beside all others, as ``check metrics`` has it, and its past hour."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from corewise.config.interference.metrics import METRICS, Metric, Preset
from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK, SystemClock
from corewise.kube.config import ClusterConfig
from corewise.kube.objects import ObjectMeta
from corewise.prometheus.client import PrometheusClient
from corewise.views.page.history import EVERY, KEPT, OfflineHistory, PastHours, Series
from corewise.views.page.interference import InterferenceViews
from corewise.vocabulary import metrics
from corewise.workload.nodes import WORKLOAD_NODES, Node
from prometheus.fake_prometheus import fake_prometheus, said

GB = 10**9
BANDWIDTHS = {"n1": 10 * GB, "n2": 20 * GB, "n3": 90 * GB, "old": math.nan}


def answer(query: str) -> web.StreamResponse | list[tuple[Mapping[str, str], float]]:
    """Bandwidth of three nodes, misses by two levels of cache, no occupancy, and no leave to see latency."""
    if "timestamp(" in query:
        return [({"node": name}, time.time()) for name in BANDWIDTHS]
    if metrics.NODE_MEMORY_TRAFFIC.name in query:
        return [({"node": name}, float(value)) for name, value in BANDWIDTHS.items()]
    if metrics.NODE_MEMORY_LATENCY.name in query:
        return said(422, "execution", "latency is not to be seen")
    if metrics.NODE_LLC_MISSES.name in query:
        return [({"node": "n1", "level": "L2"}, 1.0), ({"node": "n2"}, 7.0), ({"node": "n3"}, 9.0)]
    return []


def test_node_stands_beside_measured_nodes_and_failures_show() -> None:
    async def look() -> tuple[dict[str, Any], ...]:
        async with fake_prometheus(answer) as fake, PrometheusClient(fake.url) as client:
            nodes = Cache(Client(ClusterConfig(server="http://127.0.0.1:1")), WORKLOAD_NODES)
            nodes.items = {name: Node(metadata=ObjectMeta(name=name)) for name in BANDWIDTHS}
            views = InterferenceViews(client, Preset.COREWISE, nodes, SYSTEM_CLOCK)
            asked = asyncio.Event()
            before = views.record("n1")
            running = asyncio.create_task(views.run(asked.set))
            await asked.wait()
            running.cancel()
            return before, *(views.record(name) for name in ("n1", "n2", "old"))

    before, first, second, old = asyncio.run(look())
    assert before["remarks"] == ["Prometheus has not been asked about this node yet."]
    bandwidth, misses = first["measures"]
    text = METRICS[Metric.MEMORY_BANDWIDTH].kind.text
    assert (bandwidth["name"], bandwidth["text"], bandwidth["nodes"]) == (
        "Memory bandwidth in use",
        text(10 * GB),
        3,
    )
    assert [(each["share"], each["value"], each["text"]) for each in bandwidth["quantiles"]][:3] == [
        (0.0, 10 * GB, text(10 * GB)),
        (0.25, 15 * GB, text(15 * GB)),
        (0.5, 20 * GB, text(20 * GB)),
    ]
    assert (misses["name"], misses["nodes"]) == ("Cache misses, level 2", 1)
    assert [each["nodes"] for each in second["measures"]] == [3, 2]  # misses of the last level, of two nodes
    assert [each["text"] for each in old["measures"]] == ["-", "-"]
    assert any("latency is not to be seen" in each for each in first["remarks"])
    assert any("returns no series" in each for each in first["remarks"])


class MovedClock(SystemClock):
    """The date is ``ahead`` of the machine's."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


async def test_values_get_old_by_the_pages_clock() -> None:
    clock, asked = MovedClock(), asyncio.Event()
    async with fake_prometheus(answer) as fake, PrometheusClient(fake.url) as client:
        nodes = Cache(Client(ClusterConfig(server="http://127.0.0.1:1")), WORKLOAD_NODES)
        nodes.items = {name: Node(metadata=ObjectMeta(name=name)) for name in BANDWIDTHS}
        views = InterferenceViews(client, Preset.COREWISE, nodes, clock)
        running = asyncio.create_task(views.run(asked.set))
        await asked.wait()
        running.cancel()
    assert views.record("n1")["measures"]
    clock.ahead = timedelta(hours=1)
    assert not views.record("n1")["measures"]


def hour(query: str) -> list[tuple[Mapping[str, str], float]]:
    values = {'work="online"': 1.5, "offered": 2.0, "quota": float("nan")}
    return [({}, value) for part, value in values.items() if part in query]


STARTED = datetime.now(UTC)


@pytest.mark.parametrize(("typecode", "most"), [("i", 2**31 - 1), ("q", 2**63 - 1)])
def test_history_keeps_absurd_amounts_as_the_most(typecode: str, most: int) -> None:
    series = Series(typecode)
    series.add(0, [10**20, -5, None, 7, most, most + 1])
    assert [column[0] for column in series.columns] == [most, 0, -1, 7, most, most]


@pytest.mark.parametrize(
    ("answer", "times", "online", "source"),
    [
        (hour, [int(STARTED.timestamp() - EVERY)], [1500], "Prometheus; from "),
        (lambda _query: [], [], [], "the points that this server has seen since it started"),
        (lambda _query: said(503, "unavailable", "starting up"), [], [], "starting up"),
    ],
    ids=["known", "nothing", "refused"],
)
async def test_hour_before_start_is_queried_once_and_prepended(
    answer: Callable[[str], Any], times: list[int], online: list[int], source: str
) -> None:
    history = OfflineHistory(STARTED)
    async with fake_prometheus(answer) as fake, PrometheusClient(fake.url) as client:
        past = PastHours(client, SYSTEM_CLOCK, STARTED)
        await past.of('n"1')
        asked = len(fake.asked)
        record = history.record("n1", *await past.of('n"1'))
        assert len(fake.asked) == asked
    assert '{node="n\\"1"' in fake.asked[0]
    assert (record["times"], record["onlineCPUMilli"]) == (times, online)
    assert record["quotaCPUMilli"] == record["offlineCPUMilli"] == [None] * len(times)
    assert source in record["source"]
    assert record["keptSeconds"] == KEPT
