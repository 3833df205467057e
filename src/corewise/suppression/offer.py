"""How much of a node offline pods may use: a share of what online work leaves idle.

    online      = node usage - offline usage                      (daemons outside of pods are online)
    pinned      = sum over CPUSet pods of max(0, requested - used)  (their CPUs cannot be lent)
    offline_cpu = clamp((allocatable - online - pinned) x ratio, 0, allocatable)
    offline_mem = clamp((allocatable - (node - offline working set)) x ratio, 0, allocatable)

All of it is physical: milli-CPU and bytes, allocatable before amplification. Offline usage is taken out of
the usage, or else the offer would shrink because it is used: x = (idle - x) x 0.6 settles at 37.5 % of idle.
Two counters are never read at the same instant, so a difference below zero is zero.

Source: design/suppression.md, Oversubscription.
"""

from __future__ import annotations

from dataclasses import dataclass

from corewise.quantities import NOTHING, Share
from corewise.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True)
class Pinned:
    """The CPU of one CPUSet pod, in milli-CPU."""

    requested_milli: int
    used_milli: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What a node used in one interval, on average. Offline is all that runs in the BestEffort slice."""

    node_milli: int
    offline_milli: int
    pinned: tuple[Pinned, ...]
    node_memory: int
    offline_memory: int


@dataclass(frozen=True, slots=True)
class Amounts:
    """CPU in milli-CPU and memory in bytes."""

    cpu_milli: int
    memory: int


@dataclass(frozen=True, slots=True)
class Computed:
    """The offer of one interval, what it was computed from, and which bound holds."""

    cpu_milli: int
    memory: int
    online_milli: int
    pinned_extra_milli: int
    online_memory: int
    limited_by: Reason


def compute(usage: Usage, allocatable: Amounts, ratio: Share) -> Computed:
    """Return what the usage of one interval leaves for offline pods; all amounts physical."""
    online = max(0, usage.node_milli - usage.offline_milli)
    pinned = sum(max(0, each.requested_milli - each.used_milli) for each in usage.pinned)
    online_memory = max(0, usage.node_memory - usage.offline_memory)
    cpu = _offered(allocatable.cpu_milli, online + pinned, ratio)
    memory = _offered(allocatable.memory, online_memory, ratio)
    reason = _limited_by(allocatable.cpu_milli - online - pinned, pinned, ratio)
    return Computed(cpu, memory, online, pinned, online_memory, reason)


def _offered(allocatable: int, taken: int, ratio: Share) -> int:
    return min(max(0, allocatable), ratio.of(max(0, allocatable - taken)))


def _limited_by(idle: int, pinned: int, ratio: Share) -> Reason:
    if idle <= 0:
        return Reason.OFFER_NOTHING_IDLE
    if ratio == NOTHING:
        return Reason.OFFER_RATIO_ZERO
    return Reason.OFFER_LESS_PINNED if pinned else Reason.OFFER_FROM_IDLE
