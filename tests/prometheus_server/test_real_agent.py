"""The agent as it runs, scraped by a real Prometheus and read by the scheduler's preset."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

import machine_trees
from agent.agent_world import NODE, AgentWorld, agent_world
from corewise.config.interference.metrics import Metric
from corewise.config.interference.model import InterferenceConfiguration
from corewise.prometheus.client import PrometheusClient
from corewise.scheduler.observing.readings import NodeIdentity, NodeNames, Observation, observe
from corewise.scheduler.observing.sources import sources
from corewise.service.options import Address
from kernel.resctrl_trees import ResctrlTree, two_sockets
from kubedouble import LocalAPIServer
from prometheus_binary import Target, needs_prometheus, running

OCCUPANCY = 12_345_678
MOVED_A_LOOK = 250_000_000
WITHIN = 90.0


def read_by_the_kernel(world: AgentWorld) -> ResctrlTree:
    """Return a tree with the memory and cache values that the machine's kernel shows."""
    tree = two_sockets(world.options.root)
    for group in ("", "batch"):
        for cache in (0, 1):
            tree.count(group, cache, mbm_total_bytes=0, llc_occupancy=0)
    tree.count("", 0, llc_occupancy=OCCUPANCY)
    cpus = "\n".join(f"cpu{cpu} 1 1 1 1 1 1 1 1 0 0" for cpu in range(8))
    files = machine_trees.Tree(world.options.root)
    files.put("proc/stat", f"cpu  0 0 0 0 0 0 0 0 0 0\n{cpus}")
    files.put("proc/meminfo", "MemTotal: 4096000 kB\nMemAvailable: 1024000 kB")
    return tree


@needs_prometheus
async def test_running_agent_is_scraped_with_its_nodes_name(
    api_server: LocalAPIServer, tmp_path: Path
) -> None:
    configuration = InterferenceConfiguration(window=10.0)
    nodes = NodeNames([NodeIdentity(NODE)])
    async with agent_world(api_server, tmp_path / "world") as world:
        tree = read_by_the_kernel(world)
        async with world.agent(metrics_listen=Address("127.0.0.1", 0)) as agent:
            assert agent.program.health
            target = Target("agent", str(agent.program.health.address), "/metrics", {})
            folder = tmp_path / "prometheus"
            with ExitStack() as stack:
                server = await asyncio.to_thread(stack.enter_context, running(folder, [target]))
                async with PrometheusClient(server.url) as client, asyncio.timeout(WITHIN):
                    found = await _read(client, configuration, nodes, tree)
    values = {series: float(reading.values[0]) for series, reading in found.readings.items()}
    assert values[Metric.LLC_OCCUPANCY] == OCCUPANCY
    assert values[Metric.CPU_CORES] == 8
    assert values[Metric.MEMORY_AVAILABLE] == 1024000 * 1024
    assert values[Metric.MEMORY_BANDWIDTH] > 0
    assert not found.failures


async def _read(
    client: PrometheusClient, configuration: InterferenceConfiguration, nodes: NodeNames, tree: ResctrlTree
) -> Observation:
    """Let memory be moved until Prometheus has seen it twice."""
    moved = 0
    while True:
        moved += MOVED_A_LOOK
        tree.count("", 0, mbm_total_bytes=moved)
        found = await observe(client, sources(configuration), nodes, time.time)
        bandwidth = found.readings[Metric.MEMORY_BANDWIDTH].values
        if np.isfinite(bandwidth).all():
            return found
        await asyncio.sleep(0.25)
