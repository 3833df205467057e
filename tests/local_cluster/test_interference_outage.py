"""Both replicas of the scheduler are killed with SIGKILL during a burst of pods, and started again.

Every third pod has a stake in interference. Pods without one are bound all the while. Those that have one
are bound without corewise (``whileAway: schedule``), or wait for it (``wait``). Afterwards each replica has
one counterweight for each bound pod, on the node of the pod: none is lost, and none is doubled by a guess.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from corewise.config.interference.model import WhileAway
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.resources import MUTATING_POLICY_BINDINGS
from corewise.scheduler.configuration import parse_configuration
from corewise.scheduler.installation import EXPLAIN, FILTER, INTERFERENCE, Pods
from corewise.scheduler.marking import NAME
from corewise.vocabulary.metrics import INTERFERENCE_COUNTERWEIGHTS, INTERFERENCE_LAST_REFRESH
from corewise_lab.control_plane import TETHERED, Child, reserve_port, running
from corewise_lab.extender_calls import ExtenderCalls
from corewise_lab.local_scheduler import LocalScheduler
from corewise_lab.metrics_server import metrics_server
from corewise_lab.node_memory import MemoryState
from identities import command_of
from kubedouble.authentication import User
from manager.world import PODS_NAMESPACE, eventually, until
from scheduler.program_world import (
    PLAIN_PODS,
    READER,
    SchedulerWorld,
    pod_document,
    scheduler_world,
)

TEXT = """
interference:
  whileAway: {away}
  window: 600s
  counterweight: {{decay: step}}
  profiles:
    stream:
      profile: {{memoryBandwidth: 5GB/s}}
      affinity: {{memorybandwidth: 100, memorylatency: 0, llc_occupancy: 0, llc_mpki: 0, cpu: 0}}
"""
NODES = ("n1", "n2", "n3")
BURST, BEFORE, BOUND = 60, 30, 10
"""Pods in all; those of the part in which the replicas are killed; plain ones bound by then."""
EVERY = 3
"""So many pods have one with a stake among them."""
STREAMS = BURST // EVERY
PLAIN = BURST - STREAMS
ANSWER_WITHIN = 10.0
BANDWIDTH = {"stream": 5_000_000_000, "plain": 50_000_000}
"""By profile; by default 0.5 GB/s for each CPU requested, here a tenth of one."""

world = pytest.fixture(scheduler_world, name="world")


@dataclass
class Replica:
    """A scheduler in a process of its own."""

    name: str
    command: list[str]
    log: Path
    url: str
    metrics: str
    child: Child | None = None

    async def start(self) -> None:
        """Start it, and wait until it is ready and has the nodes' metrics."""
        self.child = await Child.start(self.name, TETHERED, self.command, self.log)
        async with aiohttp.ClientSession() as session:

            async def is_ready() -> bool:
                try:
                    async with session.get(f"{self.metrics}/readyz") as response:
                        ready = response.status == 200
                except aiohttp.ClientError:
                    return False
                return ready and await self.value(INTERFERENCE_LAST_REFRESH.name) > 0

            await eventually(is_ready)

    async def kill(self) -> None:
        assert self.child
        assert self.child.alive, self.child.last_words()
        self.child.process.kill()
        await self.child.process.wait()

    async def value(self, metric: str) -> float:
        async with aiohttp.ClientSession() as session, session.get(f"{self.metrics}/metrics") as response:
            lines = (await response.text()).splitlines()
        return next((float(line.split()[1]) for line in lines if line.startswith(f"{metric} ")), 0.0)


@dataclass
class Cluster:
    """Two replicas, and the stand-in of kube-scheduler that calls them."""

    world: SchedulerWorld
    scheduler: LocalScheduler
    replicas: list[Replica]

    def homes(self, kind: str) -> Counter[str]:
        """Return the number of bound pods of a kind by node."""
        pods = self.scheduler.state.pods.items.values()
        kinds = [(pod.metadata.labels["app"], pod.spec.node_name) for pod in pods]
        return Counter(node for each, node in kinds if node and each == kind)

    def bound(self, kind: str) -> int:
        return self.homes(kind).total()

    async def create(self, first: int, end: int) -> None:
        """Create pods; every third has a stake in interference."""
        for number in range(first, end):
            pod = pod_document(f"p{number}", cpu="100m")
            pod["metadata"]["labels"] = {"app": "stream" if number % EVERY == 0 else "plain"}
            await self.world.client.create(PLAIN_PODS, pod, PODS_NAMESPACE)

    async def has_exact_counterweights(self, replica: Replica) -> bool:
        """Whether a replica has one counterweight for each bound pod, on the pod's node."""
        homes = {kind: self.homes(kind) for kind in BANDWIDTH}
        wanted = {name: sum(homes[kind][name] * BANDWIDTH[kind] for kind in BANDWIDTH) for name in NODES}
        number = await replica.value(INTERFERENCE_COUNTERWEIGHTS.name)
        return number == BURST and await counterweights(self.world, replica) == wanted


async def counterweights(world: SchedulerWorld, replica: Replica) -> dict[str, float]:
    """Return a replica's counterweights of the nodes, in bytes/s, as it explains an answer."""
    document = pod_document("probe")
    document["metadata"] |= {"namespace": PODS_NAMESPACE, "uid": "probe", "labels": {"app": "stream"}}
    calls = await ExtenderCalls.connect(world.client, [replica.url], Pods.PROFILED)
    await calls.call(f"{INTERFERENCE}/{FILTER}", {"Pod": document, "NodeNames": NODES}, ANSWER_WITHIN)
    await calls.close()
    url = f"{replica.url}/{EXPLAIN}?pod={PODS_NAMESPACE}/probe&nodes=all"
    headers = {"Authorization": f"Bearer {READER}"}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=False) as response:
        decision = (await response.json())["decisions"][0]
    found = {each["node"]: each["accounts"]["Interference"]["filter"] for each in decision["nodes"]}
    return {node: account["memorybandwidth"]["counterweights"] for node, account in found.items()}


@asynccontextmanager
async def cluster(world: SchedulerWorld, folder: Path, away: WhileAway) -> AsyncIterator[Cluster]:
    """Start everything; inside the block pods with a stake are marked."""
    text = TEXT.format(away=away.value)
    settings = parse_configuration(text).interference
    assert settings
    (folder / "scheduler.yaml").write_text(text)
    world.server.cluster.authenticator.tokens.add(READER, User("reader", ("system:masters",)))
    state = MemoryState(1e12, 1e3, 9e-8, 32e6, 1e6, 1.0, 0.1, 8, 32_000_000_000, {})
    for name in NODES:
        await world.add_node(name, 8)
    async with AsyncExitStack() as stack:
        prometheus = await stack.enter_async_context(
            metrics_server(settings, lambda: dict.fromkeys(NODES, state))
        )
        replicas = [await replica(world, folder, name, prometheus) for name in ("a", "b")]
        for each in replicas:
            stack.push_async_callback(stop, each)
        await asyncio.gather(*(each.start() for each in replicas))
        scheduler = LocalScheduler(world.client, clock=SYSTEM_CLOCK)
        await stack.enter_async_context(running(scheduler.run))
        scheduler.extender = await ExtenderCalls.connect(
            world.client,
            [each.url for each in replicas],
            Pods.PROFILED,
            ignorable=away is WhileAway.SCHEDULE,
        )

        async def is_installed() -> bool:
            bindings = await world.client.list(MUTATING_POLICY_BINDINGS)
            return NAME in {each.metadata.name for each in bindings}

        await eventually(is_installed)
        yield Cluster(world, scheduler, replicas)


async def replica(world: SchedulerWorld, folder: Path, name: str, prometheus: str) -> Replica:
    url, metrics = (f"127.0.0.1:{reserve_port()}" for _ in range(2))
    command = await command_of(
        "scheduler",
        world.administrator,
        *("--config", str(folder / "scheduler.yaml")),
        *("--prometheus", prometheus),
        "--manage-webhooks",
        *("--listen", url),
        *("--webhook-url", f"https://{url}"),
        *("--metrics-listen", metrics),
    )
    arguments = command[command.index("scheduler") :]
    return Replica(name, arguments, folder / f"{name}.log", f"https://{url}", f"http://{metrics}")


async def stop(each: Replica) -> None:
    if each.child:
        await each.child.stop()


@pytest.mark.parametrize("away", WhileAway)
async def test_killing_both_replicas_loses_no_counterweight(
    world: SchedulerWorld, tmp_path: Path, away: WhileAway
) -> None:
    async with cluster(world, tmp_path, away) as local:
        burst = asyncio.create_task(local.create(0, BEFORE))
        await until(lambda: local.bound("plain") >= BOUND)
        await asyncio.gather(*(each.kill() for each in local.replicas))
        await burst
        await local.create(BEFORE, BURST)

        await until(lambda: local.bound("plain") == PLAIN and local.scheduler.is_idle)
        if away is WhileAway.SCHEDULE:
            assert local.bound("stream") == STREAMS
        else:
            assert local.bound("stream") <= BEFORE // EVERY, "no one could be asked about the others"

        await asyncio.gather(*(each.start() for each in local.replicas))
        local.scheduler.try_all()
        await until(lambda: local.bound("stream") == STREAMS)
        for each in local.replicas:
            await eventually(partial(local.has_exact_counterweights, each))
