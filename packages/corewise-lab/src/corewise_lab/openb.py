"""The Alibaba openb trace (cluster-trace-gpu-v2023) as a cluster: a CSV of nodes and a CSV of pods.

Columns used: nodes ``sn, cpu_milli, memory_mib, gpu``; pods ``name, cpu_milli, memory_mib, num_gpu,
gpu_milli, qos, pod_phase, scheduled_time``. The pods whose phase is Running are loaded, those with GPUs
first, each kind in the order they were scheduled, and placed by :mod:`corewise_lab.filling`; the trace
does not say where they ran.

The trace does not name CPU models either (``model`` is the GPU's). They are assigned by the machine's
number of CPUs, with the model that commonly comes in that size; where several do, machines take turns. So
the mix of CPUs is ours, the sizes and the pods are the trace's.

qos: LS and Guaranteed pods get limits equal to their requests, BE and Burstable pods no limits; LS and BE
stand in the label ``koordinator.sh/qosClass``.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from corewise.quantities import MILLI, Bytes
from corewise_lab.filling import place
from corewise_lab.machines import CATALOG, CPUModel, Machine
from corewise_lab.plan import InputError, Plan
from corewise_lab.pods import manifest

MEBI = 1 << 20
_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "qos")
_E5, _8163, _8269, _8369, _8375, _SPR = (name for name in list(CATALOG)[:6])
_MILAN, _N1, _N2 = "AMD EPYC 7763 64-Core Processor", "Neoverse-N1", "Neoverse-N2"
MODELS_BY_CPUS: Mapping[int, tuple[str, ...]] = {
    96: (_8163, _8163, _SPR),
    104: (_8269,),
    128: (_8369, _MILAN),
    64: (_E5, _N1),
    32: (_E5, _8375, _N2),
}
OTHER_SIZES = (_E5, _8163)
_MOST = 10**12


def load_openb(nodes: Path, pods: Path, config: Mapping[str, str]) -> Plan:
    """Read the two files and place the pods.

    Raises:
        InputError: naming file, row and column of the first thing that is wrong.
    """
    machines, gpus = read_machines(nodes)
    running = trace_pods(pods, "scheduled_time", "pod_phase", phase="Running", blank=_MOST)
    wanted = sorted(running, key=lambda pod: (pod.gpu_milli == 0, pod.time, pod.name))
    rooms = {
        machine.name: (
            *(machine.allocatable_milli, machine.memory - machine.reserved_memory, machine.max_pods),
            gpus[machine.name] * MILLI,
        )
        for machine in machines
    }
    placed = place(((pod.cpu_milli, pod.memory, 1, pod.gpu_milli) for pod in wanted), rooms)
    how = "each on the machine with the largest free share of CPU"
    return Plan(
        source=f"openb trace {nodes.name}, {pods.name}",
        machines=machines,
        config=config,
        pods=tuple(
            manifest(
                pod.name,
                cpu_milli=pod.cpu_milli,
                memory=pod.memory,
                limited=pod.qos in {"LS", "Guaranteed"},
                qos_class=pod.qos if pod.qos in {"LS", "BE"} else "",
                node=node,
            )
            for index, node in placed.items()
            for pod in [wanted[index]]
        ),
        notes=(
            model_note(machines),
            f"{len(placed)} running pods placed, {how}; {len(wanted) - len(placed)} did not fit",
        ),
    )


def model_note(machines: tuple[Machine, ...]) -> str:
    """Describe the CPU models that were assigned."""
    models = Counter(machine.model.name for machine in machines if machine.model)
    mix = ", ".join(f"{count} {name}" for name, count in models.most_common())
    return f"the trace names no CPU models; they are assigned by a machine's number of CPUs: {mix}"


def read_machines(path: Path) -> tuple[tuple[Machine, ...], dict[str, int]]:
    """Read the file of nodes: machines, and the number of GPUs of each.

    Raises:
        InputError: naming file, row and column of the first thing that is wrong.
    """
    turns: Counter[int] = Counter()
    machines: list[Machine] = []
    gpus: dict[str, int] = {}
    for row in trace_rows(path, _NODE_COLUMNS):
        name, milli = row.text("sn"), row.integer("cpu_milli", low=MILLI, high=_MOST)
        if milli % MILLI:
            raise row.error("cpu_milli", f"{milli} is not a whole number of CPUs")
        if name in gpus:
            raise row.error("sn", f"node {name!r} is there twice")
        cpus = milli // MILLI
        memory = Bytes(row.integer("memory_mib", low=1, high=_MOST) * MEBI)
        machines.append(_machine(name, cpus, memory, turns[cpus]))
        turns[cpus] += 1
        gpus[name] = row.integer("gpu", low=0, high=1024)
    if not machines:
        raise InputError(f"{path}: no nodes in it")
    return tuple(machines), gpus


def _machine(name: str, cpus: int, memory: Bytes, turn: int) -> Machine:
    names = MODELS_BY_CPUS.get(cpus, OTHER_SIZES)
    model: CPUModel = CATALOG[names[turn % len(names)]]
    threaded = model.thread_share < 1
    return Machine(
        name=name,
        model=model,
        cpus=cpus,
        memory=memory,
        hyper_threading=threaded,
        turbo=model.turbo_gain > 1,
        sockets=2 if cpus > 32 else 1,
        labels={"node.kubernetes.io/instance-type": f"openb-{cpus}"},
    )


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One row of a file, and its place."""

    path: Path
    line: int
    values: Mapping[str, str | None]

    def error(self, column: str, message: str) -> InputError:
        return InputError(f"{self.path}, line {self.line}, column {column!r}: {message}")

    def text(self, column: str) -> str:
        value = (self.values[column] or "").strip()
        if not value:
            raise self.error(column, "is empty")
        return value

    def integer(self, column: str, *, low: int, high: int, blank: int | None = None) -> int:
        text = (self.values[column] or "").strip()
        if not text and blank is not None:
            return blank
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise self.error(column, f"{text[:40]!r} is not a whole number")
        if not low <= int(text) <= high:
            raise self.error(column, f"{text} is out of range: {low} to {high}")
        return int(text)


@dataclass(frozen=True, slots=True)
class TracePod:
    """One pod: milli-CPU, bytes, milli-GPU, its time and its row."""

    name: str
    cpu_milli: int
    memory: int
    gpu_milli: int
    qos: str
    time: int
    row: TraceRow


def trace_pods(
    path: Path, time: str, *more: str, phase: str = "", blank: int | None = None
) -> Iterator[TracePod]:
    """Yield the pods of a file that has a column ``time`` and these other ones: all, or those in a phase.

    ``blank`` is the time of a pod that has none.

    Raises:
        InputError: naming row and column of the first thing that is wrong.
    """
    seen: set[str] = set()
    for row in trace_rows(path, (*_POD_COLUMNS, time, *more)):
        if phase and row.text("pod_phase") != phase:
            continue
        name = row.text("name")
        if name in seen:
            raise row.error("name", f"pod {name!r} is there twice")
        seen.add(name)
        yield TracePod(
            name=name,
            cpu_milli=row.integer("cpu_milli", low=0, high=_MOST),
            memory=row.integer("memory_mib", low=0, high=_MOST) * MEBI,
            gpu_milli=row.integer("num_gpu", low=0, high=1024) * row.integer("gpu_milli", low=0, high=MILLI),
            qos=row.text("qos"),
            time=row.integer(time, low=0, high=_MOST, blank=blank),
            row=row,
        )


def trace_rows(path: Path, columns: tuple[str, ...]) -> Iterator[TraceRow]:
    """Yield the rows of a file that has these columns.

    Raises:
        InputError: if it lacks one, or cannot be read.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise InputError(
                    f"{path}, line 1: column {missing[0]!r} is missing; needed: {', '.join(columns)}"
                )
            for values in reader:
                yield TraceRow(path, reader.line_num, values)
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: byte {error.start} is wrong") from error
    except (OSError, csv.Error) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
