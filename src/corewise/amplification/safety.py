"""Is a change of ratio safe: do the pods of the node still fit afterwards?

Lowering or removing a ratio can leave pods that no longer fit, and kubelet would evict or reject them.

    R = sum of the pods' requests, A = 1000 x CPUs that CPUSet pods own      (milli-CPU)
    requested(ratio)   = occupied(R, A, ratio), see occupancy.py             (cpu; of memory just R)
    allocatable(ratio) = floor(raw allocatable x ratio)
    safe iff requested(ratio) <= allocatable(ratio), for every resource whose ratio falls

A raised or unchanged ratio never makes pods stop fitting, whatever else is wrong with the node, so it is not
refused. CPUs that CPUSet pods own are never more than raw CPUs after a change that is allowed: the rule above
implies A <= raw, and where A > raw no ratio is safe.

With whole owned CPUs A x ratio is exact, so the smallest safe ratio is
    (R - A) / (raw - A), rounded up to hundredths, at least 1.00.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from corewise.amplification.amounts import (
    AMPLIFIABLE,
    CPU,
    MAXIMUM,
    NANO_PER_STEP,
    Amounts,
    Finding,
    Ratios,
    ResourceList,
    amplified,
    ratio_of,
)
from corewise.amplification.demand import NodeDemand
from corewise.amplification.occupancy import occupied
from corewise.amplification.stated import effective_ratios, raw_amounts
from corewise.quantities import ONE, Quantity, Ratio
from corewise.vocabulary import names
from corewise.vocabulary.reasons import Reason

BUSY_PERCENT: Final = 60


@dataclass(frozen=True, slots=True)
class Misfit:
    """Pods that would no longer fit. ``smallest_safe`` is None where no ratio makes them fit."""

    resource: str
    requested: Quantity
    """At the ratio asked for, with owned CPUs amplified."""
    allocatable: Quantity
    """After the change."""
    ratio: Ratio
    """That was asked for."""
    smallest_safe: Ratio | None
    owned_cpus: int = 0

    @property
    def message(self) -> str:
        """One sentence with the numbers, for the person who asked for the change."""
        owned = f" (with {self.owned_cpus} CPUs of CPUSet pods amplified)" if self.owned_cpus else ""
        advice = (
            "no ratio is safe: CPUSet pods own more CPUs than the machine offers"
            if self.smallest_safe is None
            else f"the smallest safe ratio is {self.smallest_safe}"
        )
        return (
            f"{self.resource}: the node's pods request {self.requested}{owned}, but at ratio {self.ratio} "
            f"allocatable would be {self.allocatable}; {advice}"
        )


def check_change(
    before: Mapping[str, str],
    after: Mapping[str, str],
    *,
    amounts: Amounts,
    demand: NodeDemand,
    maximum: Ratio = MAXIMUM,
) -> tuple[Misfit, ...]:
    """Check a change of a node's annotations, for the validating webhook on nodes.

    ``amounts`` are those in status. A ratio that cannot be read changes nothing, so it is never unsafe.
    """
    return misfits(
        old=effective_ratios(before, maximum=maximum),
        new=effective_ratios(after, maximum=maximum),
        raw_allocatable=raw_amounts(amounts, before).allocatable,
        demand=demand,
    )


def misfits(
    *, old: Ratios, new: Ratios, raw_allocatable: ResourceList, demand: NodeDemand
) -> tuple[Misfit, ...]:
    """Return what makes a change of ratios unsafe. The override is for the caller to look at."""
    found = [
        _misfit(resource, ratio_of(new, resource), raw_allocatable[resource], demand)
        for resource in AMPLIFIABLE
        if ratio_of(new, resource) < ratio_of(old, resource) and resource in raw_allocatable
    ]
    return tuple(misfit for misfit in found if misfit is not None)


def _misfit(resource: str, ratio: Ratio, raw: Quantity, demand: NodeDemand) -> Misfit | None:
    total = demand.requests.get(resource, 0)
    owned = demand.cpuset_milli if resource == CPU and total >= demand.cpuset_milli else 0
    step = NANO_PER_STEP[resource]
    requested = Quantity(occupied(total, owned, ratio.hundredths) * step, raw.format)
    allocatable = amplified(resource, raw, ratio)
    if requested <= allocatable:
        return None
    smallest = _smallest_safe((total - owned) * step, raw.nano - owned * step)
    return Misfit(resource, requested, allocatable, ratio, smallest, owned // 1000)


def _smallest_safe(shared: int, offered: int) -> Ratio | None:
    """Return the smallest ratio at which ``shared`` requests fit into what owned CPUs leave of raw."""
    if offered <= 0:
        return ONE if shared == offered == 0 else None
    return max(ONE, Ratio(-(-shared * ONE.hundredths // offered)))


def allows_unsafe_change(annotations: Mapping[str, str]) -> bool:
    """Whether the node says that its pods may stop fitting."""
    return annotations.get(names.ALLOW_UNSAFE_CHANGE) == "true"


def busy_raise(*, old: Ratios, new: Ratios, cpu_usage_percent: int | None) -> Finding | None:
    """Return a warning if the cpu ratio rises on a node that is really busy; unknown usage gives none."""
    before, after = ratio_of(old, CPU), ratio_of(new, CPU)
    if after <= before or cpu_usage_percent is None or cpu_usage_percent <= BUSY_PERCENT:
        return None
    message = (
        f"the cpu ratio rises from {before} to {after} while {cpu_usage_percent} % of the node's CPU time "
        f"is used (more than {BUSY_PERCENT} %): amplify idle nodes only"
    )
    return Finding(Reason.RAISE_ON_BUSY_NODE, message, CPU)
