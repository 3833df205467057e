"""What the agent exports of its node's memory and caches, and what it says where it cannot."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

import machine_trees
from agent.agent_world import NODE, AgentWorld, agent_world, until
from corewise.agent.interference.collector import OTHER_KERNEL, Collector, is_own_kernel
from corewise.agent.interference.watch import InterferenceWatch, publish
from corewise.cli import corewise
from corewise.cli.agent import _options
from corewise.cli.errors import ExitCode
from corewise.config.interference.metrics import Metric
from corewise.kernel.host_files import read_boot_id
from corewise.kernel.memory_latency import load_chase
from corewise.prometheus.exposition import Exposition
from corewise.service.options import Address
from corewise.vocabulary import metrics
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.metrics import AGENT, exported_by
from corewise.vocabulary.reasons import Reason
from kernel.fake_perf import FakePerf
from kernel.resctrl_trees import two_sockets
from kernel.test_memory_bandwidth import TWO_A_CHANNEL, machine, memory_device, table
from kubedouble import LocalAPIServer
from virtual_time import VirtualClock

LATENCY = {0: 9e-8, 1: 1.2e-7}
STAT = "cpu  1000 0 500 9000 0 0 0 0 0 0\ncpu0 1 1 1 1 1 1 1 1\ncpu1 1 1 1 1 1 1 1 1\n"


def everything(root: Path) -> Path:
    """A machine that has all there is."""
    machine_trees.intel(root).put("proc/stat", STAT).put(
        "proc/meminfo", "MemTotal: 4096 kB\nMemAvailable: 1024 kB"
    )
    two_sockets(root)
    machine(root, TWO_A_CHANNEL, table(memory_device()))
    return root


def text(exposition: Exposition) -> dict[str, float]:
    """Every series of the node as it is exported."""
    lines = exposition.text().decode().splitlines()
    found = (line.rsplit(" ", 1) for line in lines if line.startswith("corewise_node_"))
    return {re.sub(r"\{\}", "", name): float(value) for name, value in found}


def exported(collector: Collector, latency: dict[int, float] | Finding) -> dict[str, float]:
    exposition = Exposition(exported_by(AGENT))
    publish(collector.read(latency), "n1", exposition)
    return text(exposition)


def measured() -> list[Metric]:
    """Return the metrics that the table says the agent exports."""
    return [metric for metric in Metric if metric.spec.exports]


def test_capable_machine_exports_every_metric_with_node_name(tmp_path: Path) -> None:
    root, perf = everything(tmp_path), FakePerf()
    collector = Collector(root, perf)
    collector.read(LATENCY)
    two_sockets(root).count("", 0, mbm_total_bytes=5000)
    perf.run(0, 2000, 40)
    n1 = 'node="n1"'
    values = exported(collector, LATENCY)
    assert {name: value for name, value in values.items() if "supported" not in name} == {
        f"corewise_node_memory_traffic_bytes_total{{{n1}}}": 4000.0,
        f'corewise_node_memory_bandwidth_capacity_bytes_per_second{{{n1},source="dimm"}}': 4 * 2.933e9 * 8,
        f'corewise_node_memory_latency_seconds{{{n1},numa_node="0"}}': 9e-8,
        f'corewise_node_memory_latency_seconds{{{n1},numa_node="1"}}': 1.2e-7,
        f"corewise_node_llc_occupancy_bytes{{{n1}}}": 33.0,
        f"corewise_node_llc_capacity_bytes{{{n1}}}": 2.0 * 36608 * 1024,
        f"corewise_node_instructions_total{{{n1}}}": 2000.0,
        f'corewise_node_llc_misses_total{{level="LL",{n1}}}': 40.0,
        f"corewise_node_cpu_busy_seconds_total{{{n1}}}": 15.0,
        f"corewise_node_cpus_online{{{n1}}}": 2.0,
        f"corewise_node_memory_available_bytes{{{n1}}}": 1024.0 * 1024,
    }
    supported = {name: value for name, value in values.items() if "supported" in name}
    assert supported == {
        f'corewise_node_metric_supported{{metric="{metric}",{n1},reason="ok"}}': 1.0 for metric in measured()
    }


def test_unknown_value_has_no_series_but_a_reason(tmp_path: Path) -> None:
    values = exported(Collector(tmp_path, None), OTHER_KERNEL)
    assert set(values.values()) == {0.0}
    reasons = {match[1]: match[2] for match in map(SUPPORTED.match, values) if match}
    assert reasons == {
        Metric.MEMORY_BANDWIDTH: Reason.RESCTRL_UNSUPPORTED,
        Metric.MEMORY_BANDWIDTH_CAPACITY: Reason.MEMORY_CHANNELS_UNKNOWN,
        Metric.MEMORY_LATENCY: Reason.OTHER_KERNEL,
        Metric.LLC_OCCUPANCY: Reason.RESCTRL_UNSUPPORTED,
        Metric.LLC_CAPACITY: Reason.CACHE_SIZE_UNKNOWN,
        Metric.LLC_MPKI: Reason.OTHER_KERNEL,
        Metric.CPU: Reason.HOST_FILE_UNREADABLE,
        Metric.MEMORY_AVAILABLE: Reason.HOST_FILE_UNREADABLE,
    }


SUPPORTED = re.compile(r'corewise_node_metric_supported\{metric="(\w+)",node="n1",reason="(\w+)"\}')


def test_series_vanishes_while_its_value_is_missing(tmp_path: Path) -> None:
    root = everything(tmp_path)
    collector, exposition = Collector(root, None), Exposition(exported_by(AGENT))
    series = 'corewise_node_memory_traffic_bytes_total{node="n1"}'
    for said, there in ((1000, True), ("Unavailable", False), (1000, True)):
        two_sockets(root).count("", 0, mbm_total_bytes=said)
        publish(collector.read(LATENCY), "n1", exposition)
        assert (series in text(exposition)) is there


def test_every_reason_for_a_missing_metric_is_explained() -> None:
    measuring = [reason for reason in Reason if reason.startswith(("Resctrl", "Perf", "Uncore", "Latency"))]
    assert len(measuring) > 10
    assert all(reason.meaning for reason in measuring)


def test_root_is_own_kernel_only_by_boot_id(tmp_path: Path) -> None:
    assert is_own_kernel(Path("/"))
    assert not is_own_kernel(tmp_path)
    tree = machine_trees.Tree(tmp_path)
    tree.put("proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555")
    assert not is_own_kernel(tmp_path)
    boot = read_boot_id()
    tree.put("proc/sys/kernel/random/boot_id", boot)
    assert is_own_kernel(tmp_path)


def test_node_excluded_from_probing_reports_it(tmp_path: Path) -> None:
    exposition = Exposition(exported_by(AGENT))
    watch = InterferenceWatch(
        "n1", everything(tmp_path), latency_interval=None, metrics=exposition, clock=VirtualClock()
    )
    watch.publish()
    watch.close()
    assert exposition.value(metrics.NODE_METRIC_SUPPORTED, "n1", "memorylatency", "LatencyProbeOff") == 0.0
    assert 'metric="memorylatency",node="n1",reason="LatencyProbeOff"' in exposition.text().decode()


def test_missing_source_is_logged_once_and_on_return(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exposition = Exposition(exported_by(AGENT))
    watch = InterferenceWatch("n1", tmp_path, latency_interval=30.0, metrics=exposition, clock=VirtualClock())
    with caplog.at_level("INFO", logger="corewise"):
        watch.read()
        first = len(caplog.messages)
        watch.read()
        assert (first, len(caplog.messages)) == (len(measured()), len(measured()))
        assert "memorybandwidth is not measured: there is no sys/fs/resctrl" in caplog.messages
        two_sockets(tmp_path)
        watch.read()
        assert "memorybandwidth is measured" in caplog.messages[first:]
        before = len(caplog.messages)
        two_sockets(tmp_path).count("", 0, mbm_total_bytes="Unavailable")
        bandwidth = watch.read()[Metric.MEMORY_BANDWIDTH]
        assert isinstance(bandwidth, Finding)
        assert bandwidth.reason is Reason.RESCTRL_NO_VALUE
        two_sockets(tmp_path)
        watch.read()
    assert len(caplog.messages) == before


async def test_the_agent_as_a_program_serves_them(api_server: LocalAPIServer, tmp_path: Path) -> None:
    async with agent_world(api_server, tmp_path) as world:
        two_sockets(world.options.root)
        async with world.agent(metrics_listen=Address("127.0.0.1", 0)) as agent:
            await served(world, agent.program.health.address if agent.program.health else None)


async def test_agent_on_this_machine_probes_its_memory(api_server: LocalAPIServer, tmp_path: Path) -> None:
    chase = load_chase()
    if isinstance(chase, Finding):
        pytest.skip(f"the probe's helper is not built here: {chase.message}")
    boot = read_boot_id()
    async with agent_world(api_server, tmp_path) as world:
        machine_trees.Tree(world.options.root).put("proc/sys/kernel/random/boot_id", boot)
        async with world.agent() as agent:

            def probed() -> bool:
                agent.program.metrics_text()
                return agent.metrics.value(metrics.NODE_MEMORY_LATENCY, NODE, "0") > 0

            await until(probed)
            assert agent.metrics.value(metrics.NODE_METRIC_SUPPORTED, NODE, "memorylatency", "ok") == 1.0


async def served(world: AgentWorld, address: Address | None) -> None:
    assert address
    two_sockets(world.options.root).count("batch", 0, mbm_total_bytes=1030)
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}/metrics") as response:
        text = await response.text()
    assert f'corewise_node_memory_traffic_bytes_total{{node="{NODE}"}} 1000.0' in text
    assert f'corewise_node_llc_occupancy_bytes{{node="{NODE}"}} 33.0' in text
    assert f'metric="llc_mpki",node="{NODE}",reason="OtherKernel"}} 0.0' in text


def test_probe_can_be_disabled_but_zero_interval_fails() -> None:
    given: dict[str, Any] = {"node_name": "n1", "nri_socket": None, "no_nri": True, "root": Path("/")}
    given |= {"restricted_qos_namespace": (), "evaluate": False, "evaluate_minutes": 2.0}
    assert _options(no_latency_probe=True, latency_interval=30.0, **given).latency_interval is None
    assert _options(no_latency_probe=False, latency_interval=60.0, **given).latency_interval == 60.0
    refused = CliRunner().invoke(corewise, ["agent", "--latency-interval", "0s"])
    assert refused.exit_code == ExitCode.USAGE
    assert "--latency-interval" in refused.output
