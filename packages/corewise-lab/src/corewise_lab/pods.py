"""Pod manifests of the local cluster, and what a pod is asked to do.

A pod's load stands on the pod, in the annotation ``local.corewise.io/load``: ``SHAPE:LOW-HIGH/SECONDS``,
for example ``0.5-4/60``, a demand that swings between 0.5 and 4 times the request (in baseline CPUs) once a
minute, or ``step:0.2-0.7/90`` (:mod:`corewise_lab.load`). ``1`` alone is a constant. A pod without it
wants four times its request if it has a CPU limit, so that it runs into the limit on every machine, and just
its request if not. An offline pod's request is its batch CPU, and it wants four times that.

How each of its containers uses memory (:mod:`corewise_lab.contention`) stands in the annotation
``local.corewise.io/memory-use``: ``bandwidth=3600M,llc=64Mi,cacheSensitivity=0.4,memoryBound=0.2``, of which
only ``bandwidth`` (bytes per baseline CPU-second of work) is needed.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Mapping
from typing import Any

from corewise.quantities import Quantity, QuantityError
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY, QOS_CLASS, SIMULATED_LOAD, SIMULATED_MEMORY_USE
from corewise.workload.pods import Container
from corewise_lab.contention import MemoryUse
from corewise_lab.load import Load, Shape
from corewise_lab.plan import PodGroup

BUSY = Load(4.0, 4.0)
STEADY = Load(1.0, 1.0)
_NUMBER = r"([0-9]{1,6}(?:\.[0-9]{1,6})?)"
_LOAD = re.compile(rf"(?:({'|'.join(Shape)}):)?{_NUMBER}(?:-{_NUMBER}(?:/{_NUMBER}s?)?)?")


def parse_load(text: str) -> Load | None:
    """Read a load annotation, or return None if it is none."""
    match = _LOAD.fullmatch(text.strip())
    if match is None:
        return None
    low = float(match[2])
    high = float(match[3]) if match[3] else low
    period = float(match[4]) if match[4] else 60.0
    shape = Shape(match[1]) if match[1] else Shape.WAVE
    return Load(low, high, period, shape) if period > 0 and low <= high else None


def print_load(load: Load) -> str:
    """Write a load as the annotation has it."""
    shape = "" if load.shape is Shape.WAVE else f"{load.shape}:"
    return f"{shape}{load.low:g}-{load.high:g}/{load.period:g}"


def parse_memory_use(text: str) -> MemoryUse | None:
    """Read a memory-use annotation, or return None if it is none."""
    given = dict(part.strip().partition("=")[::2] for part in text.split(","))
    if "bandwidth" not in given or not given.keys() <= {
        "bandwidth",
        "llc",
        "cacheSensitivity",
        "memoryBound",
    }:
        return None
    try:
        use = MemoryUse(
            bandwidth=float(Quantity.parse(given["bandwidth"]).units),
            llc=float(Quantity.parse(given.get("llc", "0")).units),
            cache_sensitivity=float(given.get("cacheSensitivity", "0")),
            memory_bound=float(given["memoryBound"]) if "memoryBound" in given else None,
        )
    except ValueError:
        return None
    return use if use.is_sound else None


def print_memory_use(use: MemoryUse) -> str:
    """Format a memory use for the annotation."""
    bound = "" if use.memory_bound is None else f",memoryBound={use.memory_bound:g}"
    return (
        f"bandwidth={use.bandwidth:.0f},llc={use.llc:.0f},cacheSensitivity={use.cache_sensitivity:g}{bound}"
    )


def memory_use_of(annotations: Mapping[str, str]) -> MemoryUse | None:
    """Return the memory use of each container of a pod; None if it is unknown."""
    return parse_memory_use(annotations.get(SIMULATED_MEMORY_USE, ""))


def load_of(annotations: Mapping[str, str], *, limited: bool) -> Load:
    """Return the load of a pod."""
    return parse_load(annotations.get(SIMULATED_LOAD, "")) or (BUSY if limited else STEADY)


def phase_of(name: str) -> float:
    """Return the point in its period at which a pod starts: a hash of its name, so the same in every run."""
    return zlib.crc32(name.encode()) / 2**32


def amount_of(container: Container, resource: str) -> int:
    """Return a container's request for a resource, in its unit, or else its limit."""
    amounts = {**container.resources.limits, **container.resources.requests}
    try:
        return Quantity.parse(amounts.get(resource, "0")).units
    except QuantityError:
        return 0


def manifest(
    name: str,
    *,
    cpu_milli: int,
    memory: int,
    limited: bool = True,
    offline: bool = False,
    qos_class: str = "",
    node: str = "",
    labels: dict[str, str] | None = None,
    load: Load | None = None,
    memory_use: MemoryUse | None = None,
) -> dict[str, Any]:
    """Return a pod with one container; ``limited`` makes its limits equal its requests.

    An ``offline`` pod requests batch CPU (whole milli-CPU) and batch memory instead of cpu and memory.
    """
    amounts = {"cpu": str(Quantity.of_milli(cpu_milli)), "memory": _memory(memory)}
    if offline:
        amounts = {BATCH_CPU: str(cpu_milli), BATCH_MEMORY: _memory(memory)}
    resources: dict[str, Any] = {"requests": amounts}
    if limited:
        resources["limits"] = dict(amounts)
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "labels": dict(labels or {})}
    if qos_class:
        metadata["labels"][QOS_CLASS] = qos_class
    annotations = {SIMULATED_LOAD: print_load(load)} if load else {}
    if memory_use is not None:
        annotations[SIMULATED_MEMORY_USE] = print_memory_use(memory_use)
    if annotations:
        metadata["annotations"] = annotations
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": resources}
    spec: dict[str, Any] = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def of_group(group: PodGroup, index: int, node: str = "") -> dict[str, Any]:
    """Return the pod number ``index`` of a group; without a node, a scheduler places it."""
    return manifest(
        f"{group.name}-{index}",
        cpu_milli=group.cpu_milli,
        memory=group.memory,
        limited=group.limited,
        offline=group.offline,
        qos_class=group.qos_class,
        node=node,
        labels={"app": group.name, **group.labels},
        load=group.load,
        memory_use=group.memory_use,
    )


def _memory(amount: int) -> str:
    mebi = 1 << 20
    return f"{amount // mebi}Mi" if amount % mebi == 0 else str(amount)


def copies_to_fill(group: PodGroup, schedulable_milli: int, raw_milli: int) -> int:
    """Return the number of pods the group should have with so much CPU; offline pods go by raw CPU."""
    if group.fill <= 0:
        return group.replicas
    return math.floor((raw_milli if group.offline else schedulable_milli) * group.fill / group.cpu_milli)
