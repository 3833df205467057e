"""Changes to the world, as values; each carries the reason code and the sentence that say why.

A capability or program decides and returns actions; one executor carries them out, and dry run swaps that
executor.

- **Nodes**: one patch of nodes/status each. A node that has changed since is a conflict, but for conditions.
- **CPU quotas of cgroups**: several owners may bound one cgroup, and the writer applies the smallest bound.
  ``base`` is what kubelet computes from the pod's spec; it comes back when the owner releases the cgroup.
- **Other cgroup settings** (weight, CPU set, memory limit): one owner at a time. ``base`` is written back
  when the owner releases it; None means the value found there, or what somebody else has written since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from corewise.quantities import Microseconds, Quantity
from corewise.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True)
class PatchNode:
    """Set annotations of a node in one patch of nodes/status; None removes one. A changed node is a conflict.

    The status subresource takes annotations as well, and so the webhook amplifies by a new ratio in the very
    write that brings it.
    """

    name: str
    resource_version: str
    annotations: Mapping[str, str | None]
    reason: Reason
    why: str


@dataclass(frozen=True, slots=True)
class TouchNodeStatus:
    """Send an empty patch of nodes/status, so that the webhook applies a ratio that is not applied yet.

    A changed node is a conflict here too: what shows as raw may no longer be.
    """

    name: str
    resource_version: str
    reason: Reason
    why: str


@dataclass(frozen=True, slots=True)
class RepairNodeStatus:
    """Write **raw** amounts and drop the record, in one patch of nodes/status.

    Never amplified amounts and never two steps: the webhook amplifies what this writes.
    """

    name: str
    resource_version: str
    capacity: Mapping[str, Quantity]
    allocatable: Mapping[str, Quantity]
    drop_annotations: tuple[str, ...]
    reason: Reason
    why: str


@dataclass(frozen=True, slots=True)
class SetNodeCondition:
    """Set a condition of a node to True, or remove it if ``message`` is empty. ``at`` is RFC 3339.

    ``since``: when it became True. No other condition is touched, so the node's version does not matter.
    """

    name: str
    condition: str
    message: str
    since: str
    at: str
    reason: Reason
    why: str


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """An Event about an object. ``namespace`` is empty for cluster-scoped objects, such as Nodes."""

    regarding_kind: str
    namespace: str
    name: str
    uid: str
    reason: Reason
    message: str
    warning: bool

    @property
    def why(self) -> str:
        return self.message


NodeAction: TypeAlias = PatchNode | TouchNodeStatus | RepairNodeStatus | SetNodeCondition | EmitEvent


class QuotaOwner(StrEnum):
    """The capability that bounds a cgroup."""

    NORMALIZATION = "normalization"
    SUPPRESSION = "suppression"
    BATCH_LIMIT = "batch-limit"


@dataclass(frozen=True, slots=True)
class WriteQuota:
    """Bound the CPU time of a cgroup to ``quota`` per period; None: no bound.

    ``cgroup`` is the path below the mount of the cpu controller, as /proc/PID/cgroup has it. ``base`` is
    kubelet's value, and ``period`` the one that both were computed for, as it was read from the cgroup. With
    a ``base_period``, kubelet's own, the period is written too, unless somebody else has set a third one.
    """

    cgroup: str
    owner: QuotaOwner
    quota: Microseconds | None
    base: Microseconds | None
    period: Microseconds
    reason: Reason
    why: str
    base_period: Microseconds | None = None


class Setting(StrEnum):
    """A kernel setting; values are written as the cgroup version in use has them.

    - CPU_WEIGHT: 1..10000 on v2 (cpu.weight), 2..262144 on v1 (cpu.shares);
    - CPU_IDLE: "1" for a cgroup that gives way to those beside it, else "0" (Linux 5.15);
    - CPUSET and MEMORY_NODES: a list such as "0-3,8"; "" on v2 is whatever the parent has;
    - MEMORY_LIMIT: bytes, of which the kernel keeps whole pages, or "max".
    """

    CPU_WEIGHT = "cpu-weight"
    CPU_IDLE = "cpu-idle"
    CPUSET = "cpuset"
    MEMORY_NODES = "memory-nodes"
    MEMORY_LIMIT = "memory-limit"


class SettingOwner(StrEnum):
    """The capability that sets something."""

    BATCH = "batch"
    """The batch-cpu requests and batch-memory limits of offline pods, and whether they are idle."""

    PINNING = "pinning"
    """The CPUs that a workload owns."""


@dataclass(frozen=True, slots=True)
class WriteSetting:
    """Set one thing of a cgroup; ``cgroup`` is named as in WriteQuota."""

    cgroup: str
    setting: Setting
    owner: SettingOwner
    value: str
    base: str | None
    reason: Reason
    why: str
