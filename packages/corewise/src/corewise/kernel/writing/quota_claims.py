"""The bounds of cgroups' quotas, the values to restore, and the order in which quotas are written. Pure.

A cgroup's wanted quota is the smallest of its bounds, or its base if no owner bounds it. Its base comes from
whoever bounds it. A cgroup that was *found*, because a parent could not shrink below it, has the value it was
found with as its base.

An owner that says which period comes back sets the period: from the base's to its own, and back when the
bound is gone. The longest period counts as set by the agent then, also if the journal is lost. Another one is
somebody else's and stays; quotas are scaled to it.

Burst goes with the quota, base_burst x quota / base, so that what a container may save up stays the same
share. The first burst seen, and one that somebody else sets later, is taken as set for the quota beside it:
it stays until the quota changes.

On v1 the kernel refuses a child above its nearest bounded ancestor, and a parent below one of its children.
So what is wanted is first bounded by the ancestors; then

1. everything that grows is written from the top down: when its turn comes, the parent has the larger of its
   old and its new value;
2. everything that shrinks is written from the bottom up: when its turn comes, its children have shrunk.

So parent >= child holds after every single write. v2 has no such rule; the order does no harm there.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from corewise.actions import WriteQuota
from corewise.kernel.cgroups.files import ancestors, depth
from corewise.kernel.cgroups.resources import SMALLEST_QUOTA, Bandwidth
from corewise.kernel.writing.entries import Amount, Held, JournalLine, still_held
from corewise.kernel.writing.journaled_writer import Writing
from corewise.quantities import LONGEST_PERIOD, Microseconds


class Wants(NamedTuple):
    """What the owners of a cgroup want, and what is restored."""

    base: Bandwidth
    bounds: dict[str, Bandwidth]
    causes: dict[str, WriteQuota]
    found: bool
    sets_period: bool


@dataclass(slots=True)
class QuotaClaim:
    """One cgroup.

    ``wrote``, ``refused``, ``entered`` and ``changed`` are as in :class:`JournaledClaim`, ``unsure`` as in
    :class:`Held`. ``rebased``: kubelet changed its mind, so another value in the file is not drift.
    ``sets_period``: the last bound says which period comes back.
    """

    base: Bandwidth
    base_burst: Microseconds | None = None
    bounds: dict[str, Bandwidth] = field(default_factory=dict)
    found: bool = False
    causes: dict[str, WriteQuota] = field(default_factory=dict)
    wrote: dict[str, tuple[str, str]] = field(default_factory=dict)
    refused: Writing | None = None
    entered: bool = False
    changed: bool = True
    unsure: bool = False
    rebased: bool = False
    sets_period: bool = False

    def bound_by(self, action: WriteQuota) -> None:
        if self.causes.get(action.owner) == action:
            return
        base = _base_of(action)
        self.rebased = self.rebased or base != self.base
        self.changed = True
        self.base = base
        self.found = False
        self.sets_period = action.base_period is not None
        self.bounds[action.owner] = Bandwidth(action.quota, action.period)
        self.causes[action.owner] = action

    def drifted(self, file: str, text: str) -> bool:
        """Whether somebody else wrote what a file shows: it is not what we last wrote."""
        return file in self.wrote and text not in {each.split(" ")[0] for each in self.wrote[file]}

    @property
    def differs_from_base(self) -> bool:
        """Whether somebody wants something else than the base."""
        return any(bound.quota != self.base.quota_over(bound.period) for bound in self.bounds.values())

    def release(self, owner: str) -> None:
        if self.bounds.pop(owner, None) is not None:
            self.changed = True
        self.causes.pop(owner, None)

    def release_all(self) -> None:
        self.changed = self.changed or bool(self.bounds) or self.found
        self.bounds.clear()
        self.causes.clear()
        self.found = False

    @property
    def wants(self) -> Wants:
        return Wants(self.base, dict(self.bounds), dict(self.causes), self.found, self.sets_period)

    def return_to(self, before: Wants) -> None:
        """Make what the owners want what it was."""
        self.changed = self.changed or before != self.wants
        self.base, self.bounds, self.causes, self.found, self.sets_period = before

    def adopt(self, base: Bandwidth) -> None:
        """Take the value found in a cgroup without an owner as its base."""
        self.base = base
        self.changed = True

    def period(self, found: Microseconds, written: Container[Microseconds | None]) -> Microseconds:
        """Return the period that a cgroup is to have; ``written`` are those that we may have given it."""
        base = self.base.period
        wanted = max((each.period for each in self.bounds.values() if each.period != base), default=base)
        is_ours = found in written or (self.sets_period and found in {base, LONGEST_PERIOD})
        return wanted if is_ours else found

    def wanted(self, period: Microseconds) -> Microseconds | None:
        """Return the quota for a period: the smallest bound, or the base."""
        amounts = self.bounds.values() or (self.base,)
        finite = [quota for amount in amounts if (quota := amount.quota_over(period)) is not None]
        return Microseconds(max(SMALLEST_QUOTA, min(finite))) if finite else None

    def cause(self, quota: Microseconds | None, period: Microseconds) -> WriteQuota | None:
        """Return the action that asked for this quota, if it was this process that was asked."""
        for owner, bound in self.bounds.items():
            if bound.quota_over(period) == quota and owner in self.causes:
                return self.causes[owner]
        return None

    def burst_beside(self, bandwidth: Bandwidth) -> Microseconds:
        burst = self.base_burst or Microseconds(0)
        quota, base = bandwidth.quota, self.base.quota_over(bandwidth.period)
        if quota is None or not burst:
            return burst
        # The kernel refuses a burst above the quota.
        return Microseconds(min(burst * quota // base if base else burst, quota))

    def adopt_burst(self, burst: Microseconds, beside: Bandwidth) -> None:
        """Take a burst found beside a quota as one that was set for it, if that is a bound and not more."""
        quota, base = beside.quota, self.base.quota_over(beside.period)
        if base and quota and quota < base:
            # Rounded up, so that ``burst_beside`` gives for this quota the burst that was found.
            burst = Microseconds(-(-burst * base // quota))
        self.base_burst = burst
        self.changed = True

    def at_rest(self, bandwidth: Bandwidth) -> bool:
        """Whether no owner bounds the cgroup and it has its base."""
        return not self.bounds and bandwidth.quota == self.wanted(bandwidth.period)

    def entry(self, cgroup: str, time: float) -> Held:
        bounds = {owner: _amount(self.bounds[owner]) for owner in sorted(self.bounds)}
        return Held(time, cgroup, _amount(self.base), self.base_burst, bounds, self.found)


def _base_of(action: WriteQuota) -> Bandwidth:
    """Return the bandwidth to restore when a bound ends."""
    base = Bandwidth(action.base, action.period)
    return Bandwidth(base.quota_over(action.base_period), action.base_period) if action.base_period else base


class QuotaClaims(dict[str, QuotaClaim]):
    """All claims, by cgroup: the writer's memory, rebuilt from its journal."""

    @classmethod
    def of(cls, entries: Iterable[JournalLine]) -> QuotaClaims:
        held = (each for each in still_held(entries) if isinstance(each, Held))
        return cls({each.cgroup: _claim_of(each) for each in held})

    def bound(self, action: WriteQuota) -> None:
        self.setdefault(action.cgroup, QuotaClaim(_base_of(action))).bound_by(action)

    def is_stated(self, action: WriteQuota) -> bool:
        """Whether an owner has stated this very action before."""
        claim = self.get(action.cgroup)
        return claim is not None and claim.causes.get(action.owner) is action

    def bounded_by(self, owner: str, *, but: Container[str] = ()) -> list[str]:
        """Return the cgroups that an owner bounds, without these."""
        return [cgroup for cgroup, claim in self.items() if owner in claim.bounds and cgroup not in but]

    def wants(self, cgroups: Iterable[str]) -> dict[str, Wants | None]:
        """Return the wants of these cgroups' owners; None: nothing is claimed."""
        return {cgroup: self[cgroup].wants if cgroup in self else None for cgroup in cgroups}

    def return_to(self, before: Mapping[str, Wants | None]) -> None:
        """Make what the owners of these cgroups want what it was."""
        for cgroup in before.keys() & self.keys():
            claim, wants = self[cgroup], before[cgroup]
            if wants is not None:
                claim.return_to(wants)
            elif claim.entered:
                claim.release_all()
            else:
                del self[cgroup]

    def due(self, written: Iterable[str]) -> dict[str, QuotaClaim]:
        """Return the claims to journal: those of these cgroups, and of journaled ones, that have changed.

        Claims whose cgroup has its bound already count too: the runtime created it so (NRI), and its base
        must be restored later.
        """
        about_to_be = set(written)
        return {
            cgroup: claim
            for cgroup, claim in self.items()
            if claim.changed and (claim.entered or cgroup in about_to_be or claim.differs_from_base)
        }


def _claim_of(entry: Held) -> QuotaClaim:
    bounds = {owner: _bandwidth(amount) for owner, amount in entry.bounds.items()}
    return QuotaClaim(
        base=_bandwidth(entry.base),
        base_burst=None if entry.base_burst is None else Microseconds(entry.base_burst),
        bounds=bounds,
        found=entry.found,
        wrote=dict(entry.wrote),
        unsure=entry.unsure,
        entered=True,
        changed=False,
        sets_period=any(bound.period != entry.base.period for bound in bounds.values()),
    )


def _amount(bandwidth: Bandwidth) -> Amount:
    return Amount(bandwidth.quota, bandwidth.period)


def _bandwidth(amount: Amount) -> Bandwidth:
    quota = None if amount.quota is None else Microseconds(amount.quota)
    return Bandwidth(quota, Microseconds(amount.period))


@dataclass(frozen=True, slots=True)
class QuotaStep:
    """The change to make to one cgroup. A burst of None is left alone."""

    cgroup: str
    before: Bandwidth
    after: Bandwidth
    burst_before: Microseconds | None = None
    burst: Microseconds | None = None

    @property
    def grows(self) -> bool:
        return self.before.fits_in(self.after)

    @property
    def changes_quota(self) -> bool:
        return self.after != self.before

    @property
    def changes_burst(self) -> bool:
        return self.burst is not None and self.burst != self.burst_before


def within_parents(present: Mapping[str, Bandwidth], wanted: Mapping[str, Bandwidth]) -> dict[str, Bandwidth]:
    """Return the wanted quotas, capped at the nearest bounded ancestor.

    ``present`` are the wanted cgroups and those above them; what is not wanted keeps its present value.
    """
    bounded: dict[str, Bandwidth] = {}
    limits: dict[str, Bandwidth | None] = {}
    for cgroup in sorted(present, key=depth):
        above = next((limits[each] for each in ancestors(cgroup) if each in limits), None)
        own = wanted.get(cgroup, present[cgroup])
        if cgroup in wanted:
            if above is not None and own.quota is not None and not own.fits_in(above):
                own = Bandwidth(above.quota_over(own.period), own.period)
            bounded[cgroup] = own
        limits[cgroup] = above if own.quota is None else own
    return bounded


def in_order(steps: list[QuotaStep]) -> list[QuotaStep]:
    """Return the steps as they may be taken: growing ones top-down, then shrinking ones bottom-up."""
    growing = [step for step in steps if step.grows]
    shrinking = [step for step in steps if not step.grows]
    growing.sort(key=lambda step: (depth(step.cgroup), step.cgroup))
    shrinking.sort(key=lambda step: (-depth(step.cgroup), step.cgroup))
    return growing + shrinking
