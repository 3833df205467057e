"""Who bounds which cgroup, and what comes back: the memory of the writer, rebuilt from its journal.

A cgroup's wanted quota is the smallest of its bounds, or its base once nobody bounds it. Its base comes from
whoever bounds it. A cgroup that was *found*, because a parent could not shrink below it, has the value it was
found with as its base.

Burst goes with the quota, base_burst x quota / base, so that what a container may save up stays the same
share. The first burst seen, and one that somebody else sets later, is taken as set for the quota beside it:
it stays until the quota changes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

from corewise.actions import WriteQuota
from corewise.kernel.cgroups.cpu import SMALLEST_QUOTA, Bandwidth
from corewise.kernel.writing.entries import Amount, Held, Line
from corewise.kernel.writing.pen import Writing
from corewise.kernel.writing.replay import still_held
from corewise.quantities import Microseconds


@dataclass(slots=True)
class Hold:
    """One cgroup.

    ``wrote``, ``refused``, ``entered`` and ``changed`` are as in :class:`Holding`, ``unsure`` as in
    :class:`Held`. ``rebased``: kubelet changed its mind, so another value in the file is no drift.
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

    def bound_by(self, action: WriteQuota) -> None:
        """Take over what an owner wants."""
        if self.causes.get(action.owner) == action:
            return
        base = Bandwidth(action.base, action.period)
        self.rebased = self.rebased or base != self.base
        self.changed = True
        self.base = base
        self.found = False
        self.bounds[action.owner] = Bandwidth(action.quota, action.period)
        self.causes[action.owner] = action

    def drifted(self, file: str, text: str) -> bool:
        """Whether somebody else wrote what a file shows: it is not what we last wrote."""
        return file in self.wrote and text not in self.wrote[file]

    @property
    def differs_from_base(self) -> bool:
        """Whether somebody wants something else than the base."""
        return any(bound.quota != self.base.quota_over(bound.period) for bound in self.bounds.values())

    def let_go(self, owner: str) -> None:
        """Forget what an owner wanted."""
        if self.bounds.pop(owner, None) is not None:
            self.changed = True
        self.causes.pop(owner, None)

    def restored(self) -> None:
        """Forget all that is wanted."""
        self.changed = self.changed or bool(self.bounds) or self.found
        self.bounds.clear()
        self.causes.clear()
        self.found = False

    def adopt(self, base: Bandwidth) -> None:
        """Take what was found in a cgroup that nobody bounds as its base."""
        self.base = base
        self.changed = True

    def wanted(self, period: Microseconds) -> Microseconds | None:
        """Return the quota for a period: the smallest bound, or the base."""
        finite = [quota for quota in self._quotas(period) if quota is not None]
        return Microseconds(max(SMALLEST_QUOTA, min(finite))) if finite else None

    def cause(self, quota: Microseconds | None, period: Microseconds) -> WriteQuota | None:
        """Return the action that asked for this quota, if it was this process that was asked."""
        for owner, bound in self.bounds.items():
            if bound.quota_over(period) == quota and owner in self.causes:
                return self.causes[owner]
        return None

    def burst_beside(self, bandwidth: Bandwidth) -> Microseconds:
        """Return the burst that goes with a quota."""
        burst = self.base_burst or Microseconds(0)
        quota, base = bandwidth.quota, self.base.quota_over(bandwidth.period)
        if quota is None or not burst:
            return burst
        return Microseconds(min(burst * quota // base if base else burst, quota))

    def adopt_burst(self, burst: Microseconds, beside: Bandwidth) -> None:
        """Take a burst found beside a quota as one that was set for it, if that is a bound and not more."""
        quota, base = beside.quota, self.base.quota_over(beside.period)
        if base and quota and quota < base:
            burst = Microseconds(-(-burst * base // quota))
        self.base_burst = burst
        self.changed = True

    def at_rest(self, bandwidth: Bandwidth) -> bool:
        """Whether nobody bounds the cgroup and its base is what it has."""
        return not self.bounds and bandwidth.quota == self.wanted(bandwidth.period)

    def entry(self, cgroup: str, time: float) -> Held:
        """Return what the journal is to say."""
        bounds = {owner: _amount(self.bounds[owner]) for owner in sorted(self.bounds)}
        return Held(time, cgroup, _amount(self.base), self.base_burst, bounds, self.found)

    def _quotas(self, period: Microseconds) -> Iterator[Microseconds | None]:
        for amount in self.bounds.values() or (self.base,):
            yield amount.quota_over(period)


class Ledger(dict[str, Hold]):
    """All that is held, by cgroup."""

    @classmethod
    def of(cls, entries: Iterable[Line]) -> Ledger:
        """Rebuild what a journal holds of quotas."""
        held = (each for each in still_held(entries) if isinstance(each, Held))
        return cls({each.cgroup: _hold(each) for each in held})

    def bound(self, action: WriteQuota) -> None:
        """Take over what an owner wants of a cgroup."""
        base = Bandwidth(action.base, action.period)
        self.setdefault(action.cgroup, Hold(base)).bound_by(action)

    def let_go(self, owner: str, *, but: Container[str]) -> None:
        """Let an owner go of all cgroups but these."""
        for cgroup, hold in self.items():
            if cgroup not in but:
                hold.let_go(owner)

    def due(self, written: Iterable[str]) -> dict[str, Hold]:
        """Return what is to be entered: what has changed of these cgroups, and of those entered before.

        And of those where nothing is written since they have their bound already: the runtime made them so
        (NRI), and they too must find the way back.
        """
        about_to_be = set(written)
        return {
            cgroup: hold
            for cgroup, hold in self.items()
            if hold.changed and (hold.entered or cgroup in about_to_be or hold.differs_from_base)
        }


def _hold(entry: Held) -> Hold:
    return Hold(
        base=_bandwidth(entry.base),
        base_burst=None if entry.base_burst is None else Microseconds(entry.base_burst),
        bounds={owner: _bandwidth(amount) for owner, amount in entry.bounds.items()},
        found=entry.found,
        wrote=dict(entry.wrote),
        unsure=entry.unsure,
        entered=True,
        changed=False,
    )


def _amount(bandwidth: Bandwidth) -> Amount:
    return Amount(bandwidth.quota, bandwidth.period)


def _bandwidth(amount: Amount) -> Bandwidth:
    quota = None if amount.quota is None else Microseconds(amount.quota)
    return Bandwidth(quota, Microseconds(amount.period))
