"""Interference in the whole scheduler: Prometheus asked, the file read again, counterweights of bound pods.

| bad configuration | what is said, with file, line, column and field |
|---|---|
| affinity 101, -1 | outside 0..100 |
| points [5, 10], [], negative | must not increase; no points; outside |
| an unknown metric, an unknown key | did you mean |
| units missing or wrong | the units that there are |
| a profile that fits no node | a warning, at load and again once capacities are measured |

The previous configuration is kept.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from corewise.cli.errors import Failure
from corewise.config.interference.metrics import Metric
from corewise.kube.client import PatchType
from corewise.scheduler import configuration as configuration_file
from corewise.scheduler.configuration import parse_configuration
from corewise.scheduler.observing import observer
from corewise.scheduler.observing.readings import State
from corewise.scheduler.program import Scheduler
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import BIND_REFUSALS
from corewise.vocabulary.names import INTERFERENCE_RESOURCE
from corewise.vocabulary.reasons import Reason
from loop_steps import FEW, counted
from manager.world import PODS_NAMESPACE, eventually, until
from prometheus.fake_prometheus import Answers, fake_prometheus, said
from scheduler.program_world import (
    PLAIN_NODES,
    PLAIN_PODS,
    NotBoundError,
    SchedulerWorld,
    caller,
    pod_document,
)
from scheduler.test_program_explain import explain

FILE = """\
interference:
  window: 60s
  missing: {filter: fail}
  metrics:
    memorybandwidth: {query: used, unit: GB/s, maximumAge: 60s}
    memorybandwidth_capacity: {query: capacity, unit: GB/s}
    memory_available: {query: available, unit: GiB}
  profiles:
    stream:
      profile: {memoryBandwidth: 5GB/s}
      affinity: {memorybandwidth: 60, memorylatency: 0, llc_occupancy: 0, llc_mpki: 0, cpu: 0}
"""
_LOOK = 0.05


class Known:
    """Prometheus' values by query and node; None: it answers nothing."""

    def __init__(self, **values: Mapping[str, float]) -> None:
        self.values: dict[str, Mapping[str, float]] = dict(values)
        self.failure: tuple[int, str, str] | None = None

    def __call__(self, query: str) -> Any:
        if self.failure:
            return said(*self.failure)
        return [({"node": node}, value) for node, value in self.values.get(query, {}).items()]


@pytest.fixture
def known() -> Known:
    both = ("n1", "n2")
    return Known(
        used={"n1": 20, "n2": 60},
        capacity=dict.fromkeys(both, 100),
        available=dict.fromkeys(both, 32),
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Look at the file and ask Prometheus all the time."""
    monkeypatch.setattr(configuration_file, "LOOK_EVERY", _LOOK)
    monkeypatch.setattr(observer, "LONGEST_INTERVAL", _LOOK)
    monkeypatch.setattr(observer, "_SHORTEST_INTERVAL", _LOOK)
    return iter([None])


@asynccontextmanager
async def scheduling(
    world: SchedulerWorld, known: Answers, folder: Path, text: str = FILE
) -> AsyncIterator[Scheduler]:
    """A scheduler with a file and a Prometheus, which has been asked."""
    file = folder / "scheduler.yaml"
    file.write_text(text)
    configuration = parse_configuration(text)
    async with (
        fake_prometheus(known) as server,
        world.scheduler(
            configuration=configuration, configuration_file=str(file), prometheus=server.url
        ) as scheduler,
    ):
        await until(lambda: scheduler.metrics.value(metrics.INTERFERENCE_LAST_REFRESH) > 0)
        yield scheduler


def a_stream(name: str) -> dict[str, Any]:
    document = pod_document(name, cpu="100m")
    document["metadata"]["labels"] = {"app": "stream"}
    return document


async def add_stream(world: SchedulerWorld, name: str) -> dict[str, Any]:
    return await world.client.create(PLAIN_PODS, a_stream(name), PODS_NAMESPACE)


async def suiting(call: Any, name: str = "p") -> list[str]:
    _, answer = await call("filter", {"Pod": a_stream(name), "NodeNames": ["n1", "n2"]})
    return list(answer["NodeNames"] or [])


@pytest.fixture
async def nodes(world: SchedulerWorld) -> None:
    for name in ("n1", "n2"):
        await world.add_node(name, 8)


async def test_extender_filters_and_scores_by_prometheus_values(
    world: SchedulerWorld, nodes: None, known: Known, tmp_path: Path
) -> None:
    async with scheduling(world, known, tmp_path) as scheduler, caller(scheduler) as call:
        assert await suiting(call) == ["n1", "n2"]
        _, scores = await call("prioritize", {"Pod": a_stream("p"), "NodeNames": ["n1", "n2"]})
        best = {each["Host"]: each["Score"] for each in scores}
        assert best["n1"] > best["n2"]
        known.values["used"] = {"n1": 95, "n2": 60}

        async def moved() -> bool:
            return await suiting(call) == ["n2"]

        await eventually(moved)
        _, answer = await call("filter", {"Pod": a_stream("p"), "NodeNames": ["n1"]})
        assert answer["FailedNodes"] == {"n1": "Insufficient free memory bandwidth"}
        _, told = await call("explain?pod=default/p&nodes=n1")
        (node,) = told["decisions"][0]["nodes"]
        assert node["accounts"]["Interference"]["filter"]["memorybandwidth"]["left"] == 5e9


async def test_binding_checks_again_and_weighs_what_it_binds(
    world: SchedulerWorld, nodes: None, known: Known, tmp_path: Path
) -> None:
    """n1 has 20 GB/s free: three pods of 5 GB/s pass (20, 15 and 10.0... free), a fourth does not."""
    known.values["used"] = {"n1": 79, "n2": 99}
    for number in range(4):
        await add_stream(world, f"p{number}")
    async with scheduling(world, known, tmp_path) as scheduler:
        for number in range(3):
            await world.bind(f"p{number}", "n1")
        with pytest.raises(NotBoundError) as refusal:
            await world.bind("p3", "n1")
        assert "needs more than 10 GB/s of free memory bandwidth" in str(refusal.value)
        assert scheduler.metrics.value(BIND_REFUSALS, Reason.MEMORY_BANDWIDTH_INSUFFICIENT) == 1
        assert scheduler.state.counted.cluster.expire(scheduler.reloader.active.now()) == 3
        await world.client.delete(PLAIN_PODS, "p0", PODS_NAMESPACE, grace_period=0)
        await until(lambda: scheduler.state.counted.cluster.expire(scheduler.reloader.active.now()) == 2)
        await world.bind("p3", "n1")


async def test_restarted_scheduler_weighs_pods_by_their_scheduling_time(
    world: SchedulerWorld, nodes: None, known: Known, tmp_path: Path
) -> None:
    for name in ("new", "old"):
        await add_stream(world, name)
        await world.bind_past(name, "n1")
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await world.client.patch(
        PLAIN_PODS,
        "old",
        {"status": {"conditions": [condition]}},
        type=PatchType.STRATEGIC,
        namespace=PODS_NAMESPACE,
        subresource="status",
    )
    async with scheduling(world, known, tmp_path) as scheduler:
        assert scheduler.state.counted.cluster.node_of("apps/old") == "n1"
        assert scheduler.state.counted.cluster.expire(scheduler.reloader.active.now()) == 1
        text = scheduler.program.metrics_text().decode()
        assert "corewise_interference_counterweights 1.0" in text


async def test_lost_prometheus_is_noticed_and_its_values_age(
    world: SchedulerWorld, nodes: None, known: Known, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with scheduling(world, known, tmp_path) as scheduler, caller(scheduler) as call:
        assert await suiting(call) == ["n1", "n2"]
        known.failure = (503, "unavailable", "shutting down")
        failed = (metrics.INTERFERENCE_QUERIES, Metric.MEMORY_BANDWIDTH, "failed")
        await until(lambda: scheduler.metrics.value(*failed) > 0)
        assert await suiting(call) == ["n1", "n2"]
        assert "shutting down" in caplog.text
        world.clock.skip(61)
        await until(lambda: scheduler.metrics.value(*failed) > 1)
        assert await suiting(call) == []
        scheduler.program.metrics_text()
        states = (metrics.INTERFERENCE_NODES, Metric.MEMORY_BANDWIDTH)
        assert scheduler.metrics.value(*states, State.STALE) == 2
        assert scheduler.metrics.value(*states, State.FRESH) == 0
        known.failure = None

        async def back() -> bool:
            return await suiting(call) == ["n1", "n2"]

        await eventually(back)


BAD = {
    "cpu: 101": ("cpu: 0}", "cpu: 101}", ".affinity.cpu: 101 is outside 0..100"),
    "cpu: -1": ("cpu: 0}", "cpu: -1}", ".affinity.cpu: -1 is outside 0..100"),
    "points rise": ("  window", "  points: [5, 10]\n  window", "points[1]: 10 is more than 5 before it"),
    "no points": ("  window", "  points: []\n  window", "interference.points: no points"),
    "negative": ("  window", "  points: [5, -1]\n  window", "points[1]: -1 is outside"),
    "unknown metric": ("cpu: 0}", "cpus: 0}", 'unknown key: did you mean "cpu"?'),
    "no unit": ("5GB/s}", "5}", "memoryBandwidth"),
    "wrong unit": ("5GB/s}", '"5 GB"}', 'has the unit "GB"'),
    "no YAML": ("interference:", "interference: [", "not YAML"),
}


async def is_applied(file: configuration_file.ConfigurationFile) -> bool:
    """Whether the file's configuration is active once the file has been read."""
    await file.look()
    return file.is_valid


@pytest.mark.parametrize(("old", "new", "text"), BAD.values(), ids=BAD)
async def test_bad_file_is_reported_and_old_one_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, old: str, new: str, text: str
) -> None:
    applied: list[Any] = []
    path = tmp_path / "scheduler.yaml"
    path.write_text(FILE)
    file = configuration_file.ConfigurationFile(str(path), applied.append)
    assert await is_applied(file)
    path.write_text(FILE.replace(old, new, 1))
    assert [await is_applied(file), await is_applied(file)] == [False, False]
    assert len(applied) == 1
    errors = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert errors
    message = errors[0].getMessage()
    assert message.startswith(f"{path}: line ")
    assert text in "\n".join(each.getMessage() for each in errors)
    assert message.endswith("the scheduler keeps the previous configuration")
    assert len({each.getMessage() for each in errors}) == len(errors)
    path.write_text(FILE)
    assert await is_applied(file)
    assert len(applied) == 2


async def test_warnings_of_the_first_file_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(FILE.replace("5GB/s}", "5GB/s, llc: 1MiB}").replace("llc_mpki: 0", "llc_mpki: 50"))
    file = configuration_file.ConfigurationFile(str(path), lambda _: None)
    assert await is_applied(file)
    told = f"{path}: line 5, column 5: interference.metrics: nothing queries llc_capacity: "
    assert [each.levelname for each in caplog.records if each.getMessage().startswith(told)] == ["WARNING"]


async def test_a_long_file_is_a_short_step(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text("\n".join(f"unknown{at}: {at}" for at in range(5000)))
    file = configuration_file.ConfigurationFile(str(path), lambda _: None)
    with counted() as steps:
        assert not await asyncio.create_task(is_applied(file))
    assert 0 < steps.most < FEW, steps.where


async def test_missing_file_leaves_the_old_one_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    applied: list[Any] = []
    path = tmp_path / "scheduler.yaml"
    file = configuration_file.ConfigurationFile(str(path), applied.append)
    assert [await is_applied(file), await is_applied(file)] == [False, False]
    assert not applied
    assert len(caplog.records) == 1
    path.write_bytes(b"\xff")
    assert not await is_applied(file)
    path.write_text(FILE)
    assert await is_applied(file)
    assert len(applied) == 1


async def test_file_takes_effect_while_the_scheduler_runs(
    world: SchedulerWorld, nodes: None, known: Known, tmp_path: Path
) -> None:
    async with scheduling(world, known, tmp_path) as scheduler, caller(scheduler) as call:
        assert await suiting(call) == ["n1", "n2"]
        file = tmp_path / "scheduler.yaml"
        file.write_text(FILE.replace("5GB/s", "30GB/s"))

        async def filtered() -> bool:
            return await suiting(call) == ["n1"]

        await eventually(filtered)
        file.write_text(FILE.replace("5GB/s", "30GB"))
        await until(lambda: not scheduler.reloader.is_valid)
        assert "corewise_interference_config_valid 0.0" in scheduler.program.metrics_text().decode()
        assert await suiting(call) == ["n1"]
        file.write_text("scoring: MostAllocated\nrememberedDecisions: 3\n")
        await until(lambda: scheduler.reloader.active.configuration.interference is None)
        assert await suiting(call) == ["n1", "n2"]
        assert "corewise_interference_config_valid 1.0" in scheduler.program.metrics_text().decode()


QUERIES = {
    "refused": ("query: used", "query: sum(", "line 5: interference.metrics.memorybandwidth: bad_data: 1:5"),
    "no node label": (
        "query: used",
        "query: nameless",
        'no series has a node of this cluster in its label "node"',
    ),
    "several": ("query: used", "query: twice", "several series of one node, on 1 nodes"),
}


@pytest.mark.parametrize(("old", "new", "text"), QUERIES.values(), ids=QUERIES)
async def test_wrong_queries_leave_old_configuration_in_force(
    world: SchedulerWorld,
    nodes: None,
    known: Known,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    old: str,
    new: str,
    text: str,
) -> None:
    def answer(query: str) -> Any:
        match query:
            case "sum(":
                return said(400, "bad_data", "1:5: parse error")
            case "nameless":
                return [({"host": "n1"}, 20.0)]
            case "twice":
                return [({"node": "n1", "socket": str(number)}, 20.0) for number in (0, 1)]
            case _:
                return known(query)

    async with scheduling(world, answer, tmp_path) as scheduler:
        path = tmp_path / "scheduler.yaml"
        before = scheduler.reloader.active.configuration
        path.write_text(FILE.replace(old, new))
        await until(lambda: text in caplog.text)
        assert f"{path}: line 5: interference.metrics.memorybandwidth: " in caplog.text
        assert "the scheduler keeps the previous configuration" in caplog.text
        assert scheduler.reloader.active.configuration == before
        assert "corewise_interference_config_valid 0.0" in scheduler.program.metrics_text().decode()
        path.write_text(FILE.replace("5GB/s", "6GB/s"))
        await until(lambda: scheduler.reloader.active.configuration != before)


async def test_interference_without_prometheus_keeps_the_previous_configuration(
    world: SchedulerWorld, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As the scheduler does not start with it: at the next restart, no replica would."""
    path = tmp_path / "scheduler.yaml"
    path.write_text("scoring: MostAllocated\n")
    before = parse_configuration(path.read_text())
    async with world.scheduler(configuration_file=str(path)) as scheduler:
        await until(lambda: scheduler.reloader.active.configuration == before)
        path.write_text(FILE)
        await until(lambda: not scheduler.reloader.is_valid)
        assert f"{path}: --prometheus is missing: interference is configured" in caplog.text
        assert "the scheduler keeps the previous configuration" in caplog.text
        assert scheduler.reloader.active.configuration == before
        assert "corewise_interference_config_valid 0.0" in scheduler.program.metrics_text().decode()
        path.write_text("scoring: LeastAllocated\n")
        await until(lambda: scheduler.reloader.active.configuration != before)
        assert scheduler.reloader.is_valid


async def test_file_that_was_wrong_when_tried_is_retried(tmp_path: Path) -> None:
    applied: list[Any] = []
    faults = ["line 1: no"]

    async def vet(_: Any) -> list[str]:
        return list(faults)

    path = tmp_path / "scheduler.yaml"
    path.write_text(FILE)
    file = configuration_file.ConfigurationFile(str(path), applied.append, vet)
    assert not await is_applied(file)
    faults.clear()
    tries = [await is_applied(file) for _ in range(10)]
    assert tries.index(True) > 1
    assert len(applied) == 1


@pytest.mark.parametrize(
    ("at_start", "held"), [(FILE, "uses it already, and goes on"), ("", "keeps the previous configuration")]
)
async def test_refused_file_tells_what_is_in_force(
    at_start: str, held: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def vet(_: Any) -> list[str]:
        return ["line 1: no"]

    path = tmp_path / "scheduler.yaml"
    path.write_text(FILE)
    started = configuration_file.parse_configuration(at_start)
    file = configuration_file.ConfigurationFile(str(path), lambda _: None, vet, started)
    await file.look()
    assert f"line 1: no; the scheduler {held}" in caplog.text


async def test_unplaceable_profile_is_reported_once_capacities_are_measured(
    world: SchedulerWorld, nodes: None, known: Known, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with scheduling(world, known, tmp_path, FILE.replace("5GB/s", "60GB/s")):
        await until(lambda: "fits no node" in caplog.text)
        await asyncio.sleep(5 * _LOOK)
    assert caplog.text.count("fits no node") == 1
    assert "needs more than 120 GB/s" in caplog.text
    assert "the largest capacity known is 100 GB/s" in caplog.text


async def test_a_nodes_annotation_states_what_its_memory_moves(
    world: SchedulerWorld, nodes: None, known: Known, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with scheduling(world, known, tmp_path) as scheduler, caller(scheduler) as call:
        for text, there in (("25GB/s", ["n2"]), ("much", ["n1", "n2"]), ("0", ["n1", "n2"])):
            body = {"metadata": {"annotations": {"node.corewise.io/memory-bandwidth": text}}}
            await world.client.patch(PLAIN_NODES, "n1", body)

            async def seen(expected: list[str] = there) -> bool:
                return await suiting(call) == expected

            await eventually(seen)
    assert caplog.text.count("memory-bandwidth cannot be read") == 2


async def test_explain_pod_leaves_out_what_nobody_asks(
    world: SchedulerWorld, nodes: None, tmp_path: Path
) -> None:
    world.server.write_kubeconfig(tmp_path / "user")
    (tmp_path / "scheduler.yaml").write_text(FILE)
    await world.client.create(PLAIN_PODS, pod_document("plain", cpu="1"), PODS_NAMESPACE)
    await world.client.create(PLAIN_PODS, pod_document("owner", cpu="1", qos="LSR"), PODS_NAMESPACE)
    marked = pod_document("marked", cpu="1")
    amounts = marked["spec"]["containers"][0]["resources"]
    for each in ("requests", "limits"):
        amounts.setdefault(each, {})[INTERFERENCE_RESOURCE] = "0"
    await world.client.create(PLAIN_PODS, marked, PODS_NAMESPACE)
    options = [str(tmp_path / "user"), "--config", str(tmp_path / "scheduler.yaml")]
    plain, owner, named = [await explain(*options, f"apps/{each}") for each in ("plain", "owner", "marked")]
    assert "nodes          2 of 2 suit it\n" in plain.stdout
    assert "interference   left out: kube-scheduler asks about this pod only with --pods all" in plain.stdout
    assert not plain.stderr
    for asked in (owner, named):
        assert "left out" not in asked.stdout
        assert "no Prometheus was named" in asked.stderr


async def test_explain_pod_gives_missing_values_no_age(
    world: SchedulerWorld, nodes: None, known: Known, tmp_path: Path
) -> None:
    world.server.write_kubeconfig(tmp_path / "user")
    (tmp_path / "scheduler.yaml").write_text(FILE)
    await add_stream(world, "p")
    known.values["used"] = {"n1": 20}
    async with fake_prometheus(known) as server:
        options = ["--config", str(tmp_path / "scheduler.yaml"), "--prometheus", server.url]
        told = (await explain(str(tmp_path / "user"), "apps/p", *options, "--node", "n2")).stdout
        answer = json.loads((await explain(str(tmp_path / "user"), "apps/p", *options, "-o", "json")).stdout)
    assert "memorybandwidth missing; not ranked" in " ".join(told.split())
    ages = {each["node"]: each["accounts"]["Interference"]["ages"] for each in answer["nodes"]}
    assert ages["n1"]["memorybandwidth_used"] is not None
    assert ages["n2"]["memorybandwidth_used"] is None


@pytest.mark.parametrize(("scoring", "first"), [("LeastAllocated", "n2"), ("MostAllocated", "n1")])
async def test_explain_pod_scores_as_the_file_says(
    world: SchedulerWorld, tmp_path: Path, scoring: str, first: str
) -> None:
    world.server.write_kubeconfig(tmp_path / "user")
    (tmp_path / "scheduler.yaml").write_text(f"scoring: {scoring}\n")
    for name, size in (("n1", 4), ("n2", 8)):
        await world.add_node(name, size)
    await world.client.create(PLAIN_PODS, pod_document("p", cpu="1"), PODS_NAMESPACE)
    options = ["--config", str(tmp_path / "scheduler.yaml"), "-o", "json"]
    answer = json.loads((await explain(str(tmp_path / "user"), "apps/p", *options)).stdout)
    assert max(answer["nodes"], key=lambda each: int(each["total"]))["node"] == first


async def test_explain_pod_ignores_a_bound_pods_own_use(
    world: SchedulerWorld, nodes: None, known: Known, tmp_path: Path
) -> None:
    world.server.write_kubeconfig(tmp_path / "user")
    (tmp_path / "scheduler.yaml").write_text(FILE)
    bound = a_stream("p")
    bound["spec"]["nodeName"] = "n1"
    await world.client.create(PLAIN_PODS, bound, PODS_NAMESPACE)
    async with fake_prometheus(known) as server:
        options = ["--config", str(tmp_path / "scheduler.yaml"), "--prometheus", server.url]
        told = (await explain(str(tmp_path / "user"), "apps/p", *options, "--node", "n1")).stdout
        known.values["used"] = {"n1": 3, "n2": 60}
        least = (await explain(str(tmp_path / "user"), "apps/p", *options, "--node", "n1")).stdout
    assert "85 GB/s > 10 GB/s: passes (capacity 100 GB/s, used 15 GB/s" in told
    assert "ignoring the pod's own usage; measured latency, cache and CPU use include it" in told
    assert "100 GB/s > 10 GB/s: passes" in least, "0 would be missing"


async def test_explain_pod_shows_both_sides_and_prometheus_gaps(
    world: SchedulerWorld, nodes: None, known: Known, tmp_path: Path
) -> None:
    world.server.write_kubeconfig(tmp_path / "user")
    (tmp_path / "scheduler.yaml").write_text(FILE)
    await add_stream(world, "p")
    arguments = ["apps/p", "--config", str(tmp_path / "scheduler.yaml")]
    known.values.pop("available")
    async with fake_prometheus(known) as server:
        with_url = [*arguments, "--prometheus", server.url]
        answer = await explain(str(tmp_path / "user"), *with_url, "--node", "n2")
        told = " ".join(answer.stdout.split())
        assert "bandwidth 40 GB/s > 10 GB/s: passes (capacity 100 GB/s, used 60 GB/s" in told
        assert "position 2: 5 points x affinity 60" in told
        assert "memory_available: the query returns no series" in answer.stderr
        document = json.loads((await explain(str(tmp_path / "user"), *with_url, "-o", "json")).stdout)
        accounts = {each["node"]: each["accounts"]["Interference"] for each in document["nodes"]}
        assert accounts["n1"]["positions"]["memorybandwidth"] == 1
    alone = await explain(str(tmp_path / "user"), *arguments)
    assert "no Prometheus was named" in alone.stderr
    assert "PressureUnknown" in alone.stdout
    gone = await explain(str(tmp_path / "user"), *arguments, "--prometheus", "http://127.0.0.1:1")
    assert gone.stderr.count("127.0.0.1:1/: ") == 1
    assert gone.stderr.startswith("memorybandwidth, memorybandwidth_capacity, memory_available: ")
    bad = await explain(str(tmp_path / "user"), *arguments, "--prometheus", "nowhere")
    assert isinstance(bad.exception, Failure)
