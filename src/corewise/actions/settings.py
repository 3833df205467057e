"""Actions on cgroup settings that are one value in one file: weight, CPU set, memory limit.

A setting of a cgroup has one owner at a time. What is put back once the owner lets go is ``base``; None is
what was found there, or what somebody else wrote since: then that is what they want in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from corewise.vocabulary.reasons import Reason


class Setting(StrEnum):
    """What is set; values are written as the cgroup version in use has them.

    - CPU_WEIGHT: 1..10000 on v2 (cpu.weight), 2..262144 on v1 (cpu.shares);
    - CPUSET and MEMORY_NODES: a list such as "0-3,8"; "" on v2 is whatever the parent has;
    - MEMORY_LIMIT: bytes, of which the kernel keeps whole pages, or "max".
    """

    CPU_WEIGHT = "cpu-weight"
    CPUSET = "cpuset"
    MEMORY_NODES = "memory-nodes"
    MEMORY_LIMIT = "memory-limit"


class SettingOwner(StrEnum):
    """Who sets something."""

    BATCH = "batch"
    """The batch-cpu requests and batch-memory limits of offline pods."""

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
