"""Exporters as they print, for machines whose true figures are known: pcm, telegraf, cAdvisor, node_exporter.

Names, labels and units are those of the programs:

- pcm-sensor-server: src/pcm-sensor-server.cpp (PrometheusPrinter; /metrics has absolute counters since boot),
  cpucounters.cpp (L3 occupancy is divided by 1024 once: KiB; DRAM reads and writes are bytes);
- telegraf: plugins/inputs/intel_rdt (rdt_metric, tags cores, name, host; field ``value``, as pqos prints it:
  MB/s of 2**20 bytes, KB of 1024) through plugins/serializers/prometheus (measurement_field);
- cAdvisor: lib/metrics/prometheus.go (container_*; the root cgroup has id="/"; samples have timestamps; bytes
  of memory bandwidth are a total, though typed as a gauge), lib/metrics/testdata/prometheus_metrics;
- node_exporter: collector/fixtures/e2e-output.txt and collector/perf_linux.go.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MIB, GIB = 1 << 20, 1 << 30
MODES = ("idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user")


@dataclass(frozen=True, slots=True)
class Truth:
    """The load of a machine of two sockets: bytes/s, seconds, bytes, events/s, CPUs busy of ``cpus``."""

    bandwidth: float = 20e9
    occupancy: int = 24 * MIB
    instructions: float = 4e9
    misses: float = 10e6
    cpus: int = 8
    busy: float = 2.0
    memory: int = 128 * GIB
    available: int = 64 * GIB
    vendor: str = "GenuineIntel"

    @property
    def mpki(self) -> float:
        return 1000 * self.misses / self.instructions


Printer = Callable[[Truth, float], str]
"""What a machine prints so many seconds after its boot."""


def pcm(truth: Truth, seconds: float) -> str:
    lines = ["Measurement_Interval_in_us  1000132", "Number_of_sockets  2"]
    for socket in (0, 1):
        lines += [f'OS_ID{{socket="{socket}",core="0",thread="0"}} {socket}']
        lines += _pcm_core(f'socket="{socket}",core="0",thread="0"', truth, seconds, 0.1)
        lines += [
            f"# Uncore Counters Socket {socket}",
            *_pcm_uncore(f'socket="{socket}"', truth, seconds, 0.5),
        ]
        lines += _pcm_core(f'socket="{socket}",aggregate="socket"', truth, seconds, 0.5)
    lines += ["# Core Counters Aggregate System", *_pcm_core('aggregate="system"', truth, seconds, 1.0)]
    lines += ["# Uncore Counters Aggregate System", *_pcm_uncore('aggregate="system"', truth, seconds, 1.0)]
    return "\n".join([*lines, ""])


def _pcm_core(labels: str, truth: Truth, seconds: float, share: float) -> list[str]:
    where = f'{{{labels},source="core"}}'
    return [
        f"Instructions_Retired_Any{where} {int(truth.instructions * seconds * share)}",
        f"L3_Cache_Misses{where} {int(truth.misses * seconds * share)}",
        f"L2_Cache_Misses{where} {int(truth.misses * 7 * seconds * share)}",
        f"L3_Cache_Occupancy{where} {int(truth.occupancy * share) // 1024}",
        f"Local_Memory_Bandwidth{where} {int(truth.bandwidth * seconds * share) // MIB}",
    ]


def _pcm_uncore(labels: str, truth: Truth, seconds: float, share: float) -> list[str]:
    where = f'{{{labels},source="uncore"}}'
    moved = truth.bandwidth * seconds * share
    return [
        f"DRAM_Writes{where} {int(moved * 0.25)}",
        f"DRAM_Reads{where} {int(moved * 0.75)}",
        f"Persistent_Memory_Writes{where} 0",
        f"Package_Joules_Consumed{where} {seconds * 90:.2f}",
    ]


def telegraf(truth: Truth, seconds: float) -> str:
    """Two groups of cores, and a process, whose figures are part of those of the cores."""
    lines = ["# HELP rdt_metric_value Telegraf collected metric", "# TYPE rdt_metric_value untyped"]
    for cores, share, process in (("0-3", 0.5, ""), ("4-7", 0.5, ""), ("2", 0.25, "redis")):
        values = {
            "IPC": 1.1,
            "LLC_Misses": truth.misses * share,
            "LLC": truth.occupancy * share / 1024,
            "MBL": truth.bandwidth * share / MIB,
            "MBR": 0.0,
            "MBT": truth.bandwidth * share / MIB,
        }
        tags = f'cores="{cores}",host="telegraf-host"' + (f',process="{process}"' if process else "")
        lines += [f'rdt_metric_value{{{tags},name="{name}"}} {value}' for name, value in values.items()]
    return "\n".join([*lines, ""])


def cadvisor(truth: Truth, seconds: float) -> str:
    now = int(time.time() * 1000)
    lines = ["# TYPE container_memory_bandwidth_bytes gauge"]
    for name, share in (("/", 1.0), ("/kubepods/pod1", 0.6)):
        for node_id in (0, 1):
            moved = truth.bandwidth * seconds * share / 2
            where = f'id="{name}",image="",name="",node_id="{node_id}"'
            lines.append(f"container_memory_bandwidth_bytes{{{where}}} {moved} {now}")
            lines.append(f"container_llc_occupancy_bytes{{{where}}} {truth.occupancy * share / 2} {now}")
        for cpu in range(2):
            for event, rate in (("instructions", truth.instructions), ("cache-misses", truth.misses)):
                where = f'cpu="{cpu}",event="{event}",id="{name}",image="",name=""'
                lines.append(f"container_perf_events_total{{{where}}} {rate * seconds * share / 2} {now}")
        where = f'id="{name}",image="",name=""'
        used = (truth.memory - truth.available) * share
        lines.append(
            f'container_cpu_usage_seconds_total{{cpu="total",{where}}} {truth.busy * seconds * share} {now}'
        )
        lines.append(f"container_memory_working_set_bytes{{{where}}} {used} {now}")
    return "\n".join([*lines, f"machine_cpu_cores {truth.cpus}", f"machine_memory_bytes {truth.memory}", ""])


def node_exporter(truth: Truth, seconds: float) -> str:
    lines = [
        f"node_memory_MemAvailable_bytes {truth.available}",
        f"node_memory_MemTotal_bytes {truth.memory}",
    ]
    lines.append("# TYPE node_cpu_seconds_total counter")
    for cpu in range(truth.cpus):
        busy = truth.busy / truth.cpus
        shares = {
            "idle": (1 - busy) * 0.9,
            "iowait": (1 - busy) * 0.1,
            "user": busy * 0.8,
            "system": busy * 0.2,
        }
        lines += [
            f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} {seconds * shares.get(mode, 0.0)}'
            for mode in MODES
        ]
        lines.append(f'node_cpu_info{{cpu="{cpu}",package="{cpu % 2}",vendor="{truth.vendor}"}} 1')
        for name, rate in (("instructions", truth.instructions), ("cache_misses", truth.misses)):
            lines.append(f'node_perf_{name}_total{{cpu="{cpu}"}} {rate * seconds / truth.cpus}')
    return "\n".join([*lines, ""])


@dataclass
class Machines:
    """Machines behind one HTTP server: ``pages`` are paths and what they print, which a test may change."""

    pages: dict[str, Callable[[], str | None]] = field(default_factory=dict)
    address: str = ""
    _booted: float = field(default_factory=time.monotonic)

    def add(self, path: str, printer: Printer, truth: Truth) -> None:
        self.pages[path] = lambda: printer(truth, time.monotonic() - self._booted + 3600.0)

    def say(self, path: str, text: str | None) -> None:
        """Print a fixed text; None: the exporter is down."""
        self.pages[path] = lambda: text


@contextmanager
def serve(machines: Machines) -> Iterator[Machines]:
    """Serve the pages on loopback until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = machines.pages.get(self.path)
            text = page() if page else None
            with suppress(ConnectionError):  # whoever scraped has given up
                self.send_response(503 if text is None else 200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write((text or "").encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class names it
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        machines.address = f"127.0.0.1:{server.server_address[1]}"
        yield machines
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


PRINTERS: Mapping[str, Printer] = {
    "pcm": pcm,
    "telegraf": telegraf,
    "cadvisor": cadvisor,
    "node_exporter": node_exporter,
}
