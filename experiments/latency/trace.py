"""Where requests wait for a CPU: the kernel's own record of wake-ups and switches (ftrace).

Each wake-up of a thread of the service is followed until the thread runs. What ran on the CPU that the kernel
chose for it, and what ran on the others, is the cause: ``idle`` (nothing), ``offline``, ``service`` (another
thread of it), ``generator`` or ``other``. A long wait with ``offline`` on the chosen CPU is offline work that
the scheduler lets finish its slice; one with ``service`` there and ``idle`` or ``offline`` elsewhere is a
wake-up on the wrong CPU.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

_EVENTS = ("sched/sched_switch", "sched/sched_wakeup")
_BUFFER_KIB = 65_536
_NORMAL_PRIORITY = 120
_LINE = re.compile(r"\[(?P<cpu>\d+)\]\s+\S+\s+(?P<at>[\d.]+): (?P<event>sched_\w+): (?P<rest>.*)")
_SWITCH = re.compile(r"next_comm=(?P<comm>.+?) next_pid=(?P<pid>\d+) next_prio=(?P<prio>\d+)")
_WAKEUP = re.compile(r"comm=(?P<comm>.+?) pid=(?P<pid>\d+) prio=(?P<prio>\d+) target_cpu=(?P<cpu>\d+)")

Cause = tuple[str, str]
"""What ran on the CPU chosen for a thread, and on another: there the first of :data:`_ORDER` that ran."""


@dataclass(slots=True)
class Waits:
    """For each cause, how long threads of the service waited for their CPU, in milliseconds."""

    by_cause: dict[Cause, list[float]] = field(default_factory=lambda: defaultdict(list))

    def table(self, longer_than: float) -> str:
        """Return a table: how often each cause came, and how many of the long waits it makes."""
        total = sum(map(len, self.by_cause.values()))
        lines = [
            f"| on the chosen CPU | on another | wake-ups | p50 ms | p99 ms | over {longer_than:g} ms |",
            "|---|---|---|---|---|---|",
        ]
        for (chosen, other), waits in sorted(self.by_cause.items(), key=lambda item: -len(item[1])):
            middle, tail = np.quantile(waits, (0.5, 0.99))
            long = sum(wait > longer_than for wait in waits)
            shares = f"{len(waits) / total:.1%} | {middle:.3f} | {tail:.3f} | {long}"
            lines.append(f"| {chosen} | {other} | {shares} |")
        return "\n".join(lines)


@contextmanager
def recording() -> Iterator[Path]:
    """Record wake-ups and switches; yield the file that has them.

    Raises:
        SystemExit: where ftrace cannot be used.
    """
    with _mounted() as tracing:
        try:
            (tracing / "tracing_on").write_text("0")
            (tracing / "trace").write_text("")
            (tracing / "buffer_size_kb").write_text(str(_BUFFER_KIB))
            (tracing / "trace_clock").write_text("mono")
            for event in _EVENTS:
                (tracing / "events" / event / "enable").write_text("1")
            (tracing / "tracing_on").write_text("1")
        except OSError as error:
            raise SystemExit(f"ftrace cannot be used here: {error}") from error
        try:
            yield tracing / "trace"
        finally:
            (tracing / "tracing_on").write_text("0")
            for event in _EVENTS:
                (tracing / "events" / event / "enable").write_text("0")
            (tracing / "trace").write_text("")


@contextmanager
def _mounted() -> Iterator[Path]:
    usual = Path("/sys/kernel/tracing")
    if (usual / "trace").exists():
        yield usual
        return
    command = ["mount", "-t", "tracefs", "tracefs", str(usual)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        raise SystemExit(f"ftrace cannot be used here: {mounted.stderr.strip()}")
    try:
        yield usual
    finally:
        subprocess.run(["umount", str(usual)], check=True)


def waits_of(lines: Iterable[str]) -> Waits:
    """Follow the wake-ups of the service through a recording."""
    waits = Waits()
    running: dict[int, str] = {}
    woken: dict[str, tuple[float, Cause]] = {}
    for line in lines:
        found = _LINE.search(line)
        if found is None:
            continue
        at, cpu = float(found["at"]) * 1000, int(found["cpu"])
        if switch := _SWITCH.search(found["rest"]):
            running[cpu] = _kind(switch["comm"], int(switch["prio"]), switch["pid"])
            if begun := woken.pop(switch["pid"], None):
                waits.by_cause[begun[1]].append(at - begun[0])
        elif wakeup := _WAKEUP.search(found["rest"]):
            chosen = int(wakeup["cpu"])
            if _kind(wakeup["comm"], int(wakeup["prio"]), wakeup["pid"]) == "service" and chosen in running:
                others = [kind for other, kind in running.items() if other != chosen]
                woken[wakeup["pid"]] = at, (running[chosen], min(others, key=_ORDER.index, default="-"))
    return waits


_ORDER = ("idle", "offline", "service", "other", "generator")


def _kind(comm: str, priority: int, pid: str) -> str:
    if pid == "0":
        return "idle"
    if comm == "antagonist":
        return "offline"
    if comm == "service":
        return "service" if priority == _NORMAL_PRIORITY else "generator"
    return "other"
