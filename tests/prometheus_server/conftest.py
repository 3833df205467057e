"""One real Prometheus for all tests here, which scrapes machines whose true figures are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from corewise.agent.interference.collector import Collector
from corewise.agent.interference.watch import publish
from corewise.prometheus.exposition import Exposition
from corewise.vocabulary.metrics import AGENT, exported_by
from prometheus_binary import PROMETHEUS, PrometheusServer, Target, running
from prometheus_server.exporters import GIB, MIB, PRINTERS, Machines, Truth, serve
from prometheus_server.recorded_node import RecordedNode

TRUTHS = {
    "n1": Truth(),
    "n2": Truth(
        bandwidth=60e9,
        occupancy=40 * MIB,
        instructions=9e9,
        misses=90e6,
        busy=6.0,
        available=8 * GIB,
        vendor="AuthenticAMD",
    ),
}
THIS_MACHINE = "this-machine"


@dataclass(frozen=True, slots=True)
class Scraped:
    """The server, and the machines that it scrapes; tests have pages of their own."""

    server: PrometheusServer
    machines: Machines


def _own_page(name: str) -> str:
    return f"/odd/{name}"


ODD = ("zero", "nan", "several", "unlabelled", "frozen", "going")
"""Pages of series that are wrong in one way each, at a node of that name."""


@pytest.fixture(scope="session")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    if PROMETHEUS is None:
        pytest.skip("there is no prometheus on PATH, and COREWISE_TEST_PROMETHEUS names none")
    machines = Machines()
    with serve(machines):
        targets = [
            *_exporters(machines),
            *_agents(machines, tmp_path_factory.mktemp("nodes")),
            *_odd(machines),
        ]
        with running(tmp_path_factory.mktemp("prometheus"), targets) as server:
            server.waits_for("count_over_time(node_memory_MemAvailable_bytes[1m]) >= 7", len(TRUTHS))
            yield Scraped(server, machines)


def _exporters(machines: Machines) -> Iterator[Target]:
    for job, printer in PRINTERS.items():
        for node, truth in TRUTHS.items():
            machines.add(f"/{job}/{node}", printer, truth)
            yield Target(job, machines.address, f"/{job}/{node}", {"node": node})


def _agents(machines: Machines, folder: Path) -> Iterator[Target]:
    """Yield the agents' own pages: of recorded machines whose counters go on, and of this one."""
    for node, truth in TRUTHS.items():
        recorded = RecordedNode(folder / node, node, truth)
        machines.pages[f"/agent/{node}"] = recorded.page
        yield Target("corewise", machines.address, f"/agent/{node}", {})
    collector, exposition = Collector(Path("/"), None), Exposition(exported_by(AGENT))

    def here() -> str:
        publish(collector.read({0: 9e-8}), THIS_MACHINE, exposition)
        return exposition.text().decode()

    machines.pages["/agent/here"] = here
    yield Target("corewise", machines.address, "/agent/here", {})


def _odd(machines: Machines) -> Iterator[Target]:
    texts = {
        "zero": "odd_bandwidth 0\n",
        "nan": "odd_bandwidth NaN\n",
        "several": 'odd_bandwidth{socket="0"} 1e9\nodd_bandwidth{socket="1"} 2e9\n',
        "unlabelled": "odd_bandwidth 3e9\n",
        "frozen": "odd_bandwidth 4e9\n",
        "going": "odd_bandwidth 5e9\n",
    }
    for name in ODD:
        machines.say(_own_page(name), texts[name])
        labels = {"host": name} if name == "unlabelled" else {"node": name}
        yield Target("odd", machines.address, _own_page(name), labels)
