"""Slow nodes are marked by a condition, and ratios that are off reported, through the local API server.

| what agents report | the manager |
|---|---|
| a node far below its peers, on one day | does nothing |
| the same on the next day | sets the condition SlowCPU; Event, metric and problem follow |
| as fast as its peers again, two days | removes the condition |
| a model whose configured ratio is off | Event on the ConfigMap, and a metric |
| a model whose ratio is off in ratioModel and in an entry of nodeConfigs | a series of the metric for each |
| the same where labels enable the nodes, and one odd node is slower | the same |
| the same, a week after the last run | nothing |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from corewise.actions import SetNodeCondition
from corewise.kube.client import PatchType
from corewise.kube.resources import NODE_RESOURCE_TOPOLOGIES
from corewise.manager.executor import PrintingExecutor
from corewise.manager.program import Manager
from corewise.views.page.problems import KnownProblem, of_scores
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import ExportedMetric
from corewise.vocabulary.names import CPU_EVALUATION, NORMALIZATION_ENABLED, SLOW_CPU
from corewise.vocabulary.reasons import Reason
from manager.world import FAST, PLAIN_NODES, SLOW, World, eventually, normalization, until
from normalization.fleets import report

DAY = 86_400.0
SIZE = 35
PLAIN: Mapping[str, Any] = {"webhook_listen": None, "manage_webhooks": False}


async def measured(world: World, scores: Mapping[str, int], model: str = FAST) -> None:
    """Report scores as agents do, a day after the last ones."""
    at = world.clock.now().isoformat(timespec="seconds")
    for name, score in scores.items():
        of_node = {"hyper_thread_enabled": False, "turbo_enabled": False}
        text = report(score, model, time=at, measured=at, **of_node).encode()
        body = {"metadata": {"annotations": {CPU_EVALUATION: text}}}
        await world.client.patch(NODE_RESOURCE_TOPOLOGIES, name, body, type=PatchType.MERGE)


def gauge(manager: Manager, metric: ExportedMetric, *labels: str) -> float:
    """Return a series as a scrape gets it."""
    manager.program.metrics_text()
    return manager.metrics.value(metric, *labels)


async def add_fleet(world: World, size: int = SIZE, model: str = FAST) -> list[str]:
    names = [f"{model.split(maxsplit=1)[0].lower()}-{at}" for at in range(size)]
    for name in names:
        await world.client.create(PLAIN_NODES, {"metadata": {"name": name}})
        await world.report(name, model=model)
    return names


async def condition(world: World, name: str) -> dict[str, Any] | None:
    conditions = (await world.node(name)).get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == SLOW_CPU), None)


async def slow_node(world: World, manager: Manager) -> dict[str, int]:
    """Let a fleet be measured on two days, one node of it at 80 %; return the scores."""
    names = await add_fleet(world)
    scores = dict.fromkeys(names, 1000) | {"fast-3": 800}
    await measured(world, scores)
    await until(lambda: gauge(manager, metrics.NODE_SPEED, "fast-3") == 0.8)
    assert await condition(world, "fast-3") is None
    world.clock.skip(DAY)
    await measured(world, scores)
    return scores


async def test_slow_node_gets_condition_event_and_metric(world: World) -> None:
    async with world.manager(**PLAIN) as manager:
        await slow_node(world, manager)

        async def marked() -> bool:
            return await condition(world, "fast-3") is not None

        await eventually(marked)
        found = await condition(world, "fast-3")
        assert found is not None
        assert (found["status"], found["reason"]) == ("True", "NodeSlowerThanPeers")
        assert found["message"] == (
            f'20.0 % slower than the median of {SIZE - 1} other nodes with "{FAST}", over its last 2 scores'
        )
        assert found["lastHeartbeatTime"]
        assert found["lastTransitionTime"]
        await world.told("NodeSlowerThanPeers")
        await until(lambda: gauge(manager, metrics.NODE_PROBLEM, "fast-3", "NodeSlowerThanPeers") == 1)
        assert gauge(manager, metrics.NODE_PROBLEM, "fast-4", "NodeSlowerThanPeers") == 0


async def test_dry_run_prints_a_condition_once() -> None:
    printed: list[str] = []
    executor, reason = PrintingExecutor(printed.append), Reason.NODE_SLOWER_THAN_PEERS
    for hour in range(3):
        for message in ("7.0 % slower", "8.0 % slower"):
            time = f"2026-11-01T0{hour}:00:00Z"
            name = message.partition(" ")[0]
            await executor.carry_out(SetNodeCondition(name, SLOW_CPU, message, time, time, reason, message))
    assert len(printed) == 2
    assert all("2026-11-01T00:00:00Z" in line for line in printed)


async def test_repaired_node_loses_the_condition(world: World) -> None:
    async with world.manager(**PLAIN) as manager:
        scores = await slow_node(world, manager)
        await until(lambda: gauge(manager, metrics.NODE_PROBLEM, "fast-3", "NodeSlowerThanPeers") == 1)
        for _ in range(2):
            world.clock.skip(DAY)
            await measured(world, scores | {"fast-3": 1000})
            await until(lambda: gauge(manager, metrics.NODE_SPEED, "fast-3") == 1)

        async def clear() -> bool:
            return await condition(world, "fast-3") is None

        await eventually(clear)
        await until(lambda: gauge(manager, metrics.NODE_PROBLEM, "fast-3", "NodeSlowerThanPeers") == 0)


async def test_restarted_manager_keeps_the_condition(world: World) -> None:
    async with world.manager(**PLAIN) as manager:
        await slow_node(world, manager)
        await until(lambda: gauge(manager, metrics.NODE_PROBLEM, "fast-3", "NodeSlowerThanPeers") == 1)
    async with world.manager(**PLAIN) as manager:
        await until(lambda: gauge(manager, metrics.NODE_SPEED, "fast-3") == 0.8)
        await manager.node_speed.look()
        assert await condition(world, "fast-3") is not None


def problems_of(manager: Manager, world: World) -> list[KnownProblem]:
    known, now = manager.snapshot, world.clock.now()
    nodes = known.nodes.items.values()
    return list(of_scores(nodes, known.stated_of, known.reading, known.config_map, now))


async def test_ratio_that_is_off_is_reported(world: World) -> None:
    fast, slow = await add_fleet(world, 7), await add_fleet(world, 7, SLOW)
    await world.configure(normalization=normalization())
    await measured(world, dict.fromkeys(fast, 1500))
    await measured(world, dict.fromkeys(slow, 1000), SLOW)
    async with world.manager(**PLAIN) as manager:
        await world.told("ModelRatioOff", "ConfigMap")
        await until(lambda: gauge(manager, metrics.MODEL_RATIO_OFF, FAST, "baseRatio", "") == 0.75)
        [problem] = problems_of(manager, world)
        assert (problem.kind, problem.reason) == ("ConfigMap", "ModelRatioOff")
        assert problem.command == "corewise config suggest --cluster"
        assert problem.message.endswith(f'baseRatio of "{FAST}" is 2.00, and 7 nodes of it measured 1.50')
        await world.configure(
            normalization=normalization(models={FAST: {"baseRatio": 1.5}, SLOW: {"baseRatio": 1}})
        )
        await until(lambda: gauge(manager, metrics.MODEL_RATIO_OFF, FAST, "baseRatio", "") == 0)


async def test_each_ratio_that_is_off_has_a_series(world: World) -> None:
    fast, slow = await add_fleet(world, 7), await add_fleet(world, 7, SLOW)
    for name in fast[:3]:
        body = {"metadata": {"labels": {"pool": "old"}}}
        await world.client.patch(PLAIN_NODES, name, body, type=PatchType.MERGE)
    pool = {
        "name": "old",
        "nodeSelector": {"matchLabels": {"pool": "old"}},
        "ratioModel": {FAST: {"baseRatio": 3}},
    }
    await world.configure(normalization=normalization(nodeConfigs=[pool]))
    await measured(world, dict.fromkeys(fast, 1500))
    await measured(world, dict.fromkeys(slow, 1000), SLOW)
    off = {"": 0.75, 'nodeConfigs[0] "old"': 0.5}
    async with world.manager(**PLAIN) as manager:
        await until(
            lambda: (
                {each: gauge(manager, metrics.MODEL_RATIO_OFF, FAST, "baseRatio", each) for each in off}
                == off
            )
        )


async def test_ratio_that_labels_enable_is_reported(world: World) -> None:
    fast, slow = await add_fleet(world, 7), await add_fleet(world, 7, SLOW)
    for name in (*fast, *slow):
        body = {"metadata": {"labels": {NORMALIZATION_ENABLED: "true"}}}
        await world.client.patch(PLAIN_NODES, name, body, type=PatchType.MERGE)
    await world.configure(normalization=normalization(enable=False))
    await measured(world, dict.fromkeys(fast, 1500))
    await measured(world, dict.fromkeys(slow, 1000), SLOW)
    await add_fleet(world, 1, "Odd")
    await measured(world, {"odd-0": 900}, "Odd")
    async with world.manager(**PLAIN) as manager:
        await world.told("ModelRatioOff", "ConfigMap")
        await until(lambda: gauge(manager, metrics.MODEL_RATIO_OFF, FAST, "baseRatio", "") == 0.75)
        world.clock.skip(7 * DAY)
        await until(lambda: gauge(manager, metrics.MODEL_RATIO_OFF, FAST, "baseRatio", "") == 0)
        assert not problems_of(manager, world)
