"""In which order parents and children are written, so that none is ever above its parent. Pure.

On v1 the kernel refuses a child above its nearest bounded ancestor, and a parent below one of its children.
So what is wanted is first bounded by the ancestors; then

1. everything that grows is written from the top down: when its turn comes, the parent has the larger of its
   old and its new value;
2. everything that shrinks is written from the bottom up: when its turn comes, its children have shrunk.

So parent >= child holds after every single write. v2 has no such rule; the order does no harm there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corewise.kernel.cgroups.cpu import Bandwidth
from corewise.kernel.cgroups.paths import ancestors, depth
from corewise.quantities import Microseconds


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be written to one cgroup. A burst of None is left alone."""

    cgroup: str
    before: Bandwidth
    quota: Microseconds | None
    burst_before: Microseconds | None = None
    burst: Microseconds | None = None

    @property
    def after(self) -> Bandwidth:
        return Bandwidth(self.quota, self.before.period)

    @property
    def grows(self) -> bool:
        return self.before.fits_in(self.after)

    @property
    def changes_quota(self) -> bool:
        return self.quota != self.before.quota

    @property
    def changes_burst(self) -> bool:
        return self.burst is not None and self.burst != self.burst_before


def within_parents(
    present: Mapping[str, Bandwidth], wanted: Mapping[str, Microseconds | None]
) -> dict[str, Microseconds | None]:
    """Return what is wanted, none of it above the nearest bounded ancestor.

    ``present`` are the wanted cgroups and those above them; what is not wanted keeps its present value.
    """
    bounded: dict[str, Microseconds | None] = {}
    limits: dict[str, Bandwidth | None] = {}
    for cgroup in sorted(present, key=depth):
        above = next((limits[each] for each in ancestors(cgroup) if each in limits), None)
        own = present[cgroup]
        if cgroup in wanted:
            own = Bandwidth(wanted[cgroup], own.period)
            if above is not None and own.quota is not None and not own.fits_in(above):
                own = Bandwidth(above.quota_over(own.period), own.period)
            bounded[cgroup] = own.quota
        limits[cgroup] = above if own.quota is None else own
    return bounded


def in_order(steps: list[Step]) -> list[Step]:
    """Return the steps as they may be taken: growing ones top-down, then shrinking ones bottom-up."""
    growing = [step for step in steps if step.grows]
    shrinking = [step for step in steps if not step.grows]
    growing.sort(key=lambda step: (depth(step.cgroup), step.cgroup))
    shrinking.sort(key=lambda step: (-depth(step.cgroup), step.cgroup))
    return growing + shrinking
