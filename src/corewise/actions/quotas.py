"""Actions on the CPU quotas of cgroups.

Several owners may bound one cgroup; the writer applies the smallest bound. Every action states the base
beside the wanted quota: what kubelet made of the pod's spec, which is what comes back when the owner lets go.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from corewise.quantities import Microseconds
from corewise.vocabulary.reasons import Reason


class QuotaOwner(StrEnum):
    """Who bounds a cgroup."""

    NORMALIZATION = "normalization"
    SUPPRESSION = "suppression"
    BATCH_LIMIT = "batch-limit"


@dataclass(frozen=True, slots=True)
class WriteQuota:
    """Bound the CPU time of a cgroup to ``quota`` per period; None is no bound.

    ``cgroup`` is the path below the mount of the cpu controller, as /proc/PID/cgroup has it. ``base`` is
    kubelet's value, and ``period`` the one that both were computed for: read from the cgroup, never written.
    """

    cgroup: str
    owner: QuotaOwner
    quota: Microseconds | None
    base: Microseconds | None
    period: Microseconds
    reason: Reason
    why: str
