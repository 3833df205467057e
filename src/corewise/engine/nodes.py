"""One node as the engine reads it: a value, whoever made it (API objects, a dump, a trace).

Amounts are whole numbers: milli for ``cpu``, units for everything else. Allocatable is as in status, so
amplified; zones have raw amounts, which the engine amplifies by the ratio in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from corewise.quantities import ONE, Ratio
from corewise.topology import CPUSet, Topology
from corewise.vocabulary.cpu_binding import NumaPolicy

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"


def _no_texts() -> Mapping[str, str]:
    return MappingProxyType({})


def _no_amounts() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint; only the effects NoSchedule and NoExecute keep pods away."""

    key: str
    effect: str
    value: str = ""

    @property
    def repels(self) -> bool:
        return self.effect in {"NoSchedule", "NoExecute"}


@dataclass(frozen=True, slots=True)
class Zone:
    """A NUMA node: raw milli-CPU, and bytes."""

    number: int
    cpu: int
    memory: int = 0


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node.

    ``ratio``: its CPU amplification ratio; None if the annotation cannot be read. ``static_cpu_manager``: its
    kubelet gives whole CPUs to Guaranteed pods. ``zones`` is empty where they are unknown or contradict the
    node. ``topology``: its CPUs online, None where nobody has stated them; ``reserved`` ones stay free.
    ``memory_bandwidth``: what somebody states that its memory can move, in bytes/s.
    """

    name: str
    allocatable: Mapping[str, int] = field(default_factory=_no_amounts)
    labels: Mapping[str, str] = field(default_factory=_no_texts)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ratio: Ratio | None = ONE
    static_cpu_manager: bool = False
    full_cores_only: bool = False
    numa_policy: NumaPolicy = NumaPolicy.NONE
    zones: tuple[Zone, ...] = ()
    topology: Topology | None = None
    reserved: CPUSet = field(default_factory=CPUSet)
    memory_bandwidth: int | None = None
