"""The one writer of CPU quotas.

Every owner (normalization, suppression, batch limits) states what it wants here, and nowhere else is a quota
written. The smallest bound of a cgroup counts; on v1 it is never above the nearest bounded ancestor's. A call

1. reads the cgroups concerned, and on v1 those above them;
2. works out what each should have; where it has that already, nothing is written;
3. enters in the journal what comes back one day, then each write before it happens;
4. writes in the order of :mod:`corewise.kernel.quotas.order`; a burst that would not fit goes first.

If the kernel says EINVAL, the world was not as it was read: a runtime or kubelet wrote between, or on v1 a
cgroup below that nobody named is in the way. Then the cgroups are read again, those in the way are *found*
(narrowed with their parent, widened with it again), and the order is worked out anew, three times at most.

Killed at any point, the next process reads the ledger from the journal and goes on: nothing depends on what
was in memory. Calls are synchronous and take turns, so several loops in one process are one writer; the
journal's lock keeps a second process out.

A call over 330 cgroups (110 pods of two containers) takes, on one core of a small virtual machine, 6 ms and
2,000 system calls on v1 where nothing changes (two files each; v2 has one), and 17 ms where every quota does.

A warning for v1: a container that its runtime creates or restarts with kubelet's own quota is refused by
the kernel if its pod's cgroup is narrower. Whoever narrows a pod's cgroup there must see to it that the
runtime asks for divided quotas (NRI), or bound the containers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from corewise.actions import QuotaOwner, WriteQuota
from corewise.kernel.cgroups.cpu import (
    Bandwidth,
    burst_file,
    quota_file,
    quota_text,
    read_bandwidth,
    read_burst,
)
from corewise.kernel.cgroups.files import Files
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.cgroups.paths import ancestors, is_within
from corewise.kernel.errors import JournalError, KernelError, Missing, Refused
from corewise.kernel.quotas.ledger import Hold, Ledger
from corewise.kernel.quotas.order import Step, in_order, within_parents
from corewise.kernel.writing.journal import Log
from corewise.kernel.writing.pen import ROUNDS, Hook, Pen, Point, Writing, go_on
from corewise.kernel.writing.report import Counts, Report, Written
from corewise.quantities import Microseconds
from corewise.vocabulary.reasons import Reason


class QuotaWriter:
    """Brings cgroups to what their owners want, and back.

    Nothing raises but JournalError: what goes wrong with one cgroup stands in the report.
    """

    def __init__(
        self,
        files: Files,
        log: Log,
        *,
        now: Callable[[], float],
        at: Hook = go_on,
    ) -> None:
        self._files = files
        self._pen = Pen(files, log, now, at)
        self._at = at
        self._ledger = Ledger.of(log.entries())
        self._quota_file = quota_file(files.version)
        self._burst_file = burst_file(files.version)
        self._bursts = True
        self._counts = Counts()
        self.untouched: frozenset[str] = frozenset()
        """Cgroups that nobody's call writes to, nor to those below; what is held of them stays held."""

    @property
    def totals(self) -> Mapping[str, int]:
        """What all calls together did; see :class:`Counts`."""
        return self._counts.totals

    @property
    def held(self) -> Mapping[str, Hold]:
        """What is bounded, by cgroup."""
        return self._ledger

    def applied(self, cgroup: str, present: Bandwidth) -> Microseconds | None:
        """Return the quota last applied to a cgroup, for the period that it has; None: no limit, or nothing.

        ``present`` is what the cgroup shows. If somebody else has changed it, it is what the owners wanted
        last. It is known from the journal, too, after a restart.
        """
        hold = self._ledger.get(cgroup)
        if hold is None or not hold.bounds or not (hold.unsure or self._quota_file in hold.wrote):
            return None
        foreign_period = any(bound.period != present.period for bound in hold.bounds.values())
        if foreign_period or hold.drifted(self._quota_file, self._text(present.quota)):
            return hold.wanted(present.period)
        return present.quota

    def reconcile(self, owner: QuotaOwner, actions: Iterable[WriteQuota]) -> Report:
        """Bring about all that an owner wants; what it no longer names goes back to its base.

        Everything held is looked at, so that what somebody else has changed is put right for every owner.
        """
        with self._pen.turn:
            named = {each.cgroup: each for each in actions if not is_within(each.cgroup, self.untouched)}
            kept = {cgroup for cgroup in self._ledger if is_within(cgroup, self.untouched)}
            self._ledger.let_go(owner, but=named.keys() | kept)
            for action in named.values():
                self._ledger.bound(action)
            return self._settle(self._ledger.keys() - kept)

    def mend(self) -> Report:
        """Put right what somebody else has changed. What the owners want stays as it is."""
        with self._pen.turn:
            return self._settle(set(self._ledger))

    def apply(self, actions: Iterable[WriteQuota]) -> Report:
        """Bring about some of what owners want, at once; other cgroups are touched only if above or below."""
        with self._pen.turn:
            named = set()
            for action in actions:
                if not is_within(action.cgroup, self.untouched):
                    self._ledger.bound(action)
                    named.add(action.cgroup)
            above = {each for cgroup in named for each in ancestors(cgroup) if each in self._ledger}
            below = {each for each in self._ledger if not named.isdisjoint(ancestors(each))}
            scope = named | above | below
            return self._settle({each for each in scope if not is_within(each, self.untouched)})

    def restore(self) -> Report:
        """Put every base back and forget it, whoever changed the cgroup last. A second call does nothing."""
        with self._pen.turn:
            for hold in self._ledger.values():
                hold.restored()
            return self._settle(set(self._ledger))

    def _settle(self, scope: set[str]) -> Report:
        report = Report(examined=len(scope))
        aims: dict[str, Bandwidth] = {}
        for _ in range(ROUNDS):
            present = self._read(scope - report.failed.keys(), report)
            aims = self._aims(present, scope - report.failed.keys())
            refused = self._write(self._steps(present, aims, report), report)
            if not refused:
                break
            scope |= self._found_below(refused)
        report.failed.update(refused)
        self._release(aims, report)
        for hold in self._ledger.values():
            hold.rebased = False
        self._counts.add(report)
        return report

    def _read(self, scope: set[str], report: Report) -> dict[str, Bandwidth]:
        present: dict[str, Bandwidth] = {}
        for cgroup in scope & self._ledger.keys():
            try:
                present[cgroup] = read_bandwidth(self._files, cgroup)
            except Missing:
                self._gone(cgroup, report)
            except KernelError as error:
                report.failed[cgroup] = error
        if self._files.version is Version.V1:
            self._read_above(present)
        self._at(Point.READ, "")
        return present

    def _read_above(self, present: dict[str, Bandwidth]) -> None:
        """Read what bounds from above too; what cannot be read there is the kernel's to judge."""
        unreadable = set()
        for cgroup in tuple(present):
            for above in ancestors(cgroup):
                if above in present or above in unreadable:
                    break
                try:
                    present[above] = read_bandwidth(self._files, above)
                except KernelError:
                    unreadable.add(above)

    def _aims(self, present: Mapping[str, Bandwidth], scope: set[str]) -> dict[str, Bandwidth]:
        """Return what each cgroup in scope is to have."""
        wanted: dict[str, Microseconds | None] = {}
        for cgroup in scope & present.keys() & self._ledger.keys():
            hold, found = self._ledger[cgroup], present[cgroup]
            if hold.found and hold.drifted(self._quota_file, self._text(found.quota)):
                hold.adopt(found)
            wanted[cgroup] = hold.wanted(found.period)
        if self._files.version is Version.V1:
            wanted = within_parents(present, wanted)
        return {cgroup: Bandwidth(quota, present[cgroup].period) for cgroup, quota in wanted.items()}

    def _steps(
        self, present: Mapping[str, Bandwidth], aims: Mapping[str, Bandwidth], report: Report
    ) -> list[Step]:
        steps = []
        for cgroup, aim in aims.items():
            hold = self._ledger[cgroup]
            if any(each.period != aim.period for each in (hold.base, *hold.bounds.values())):
                report.foreign_periods[cgroup] = aim.period
            if aim == present[cgroup] and not hold.base_burst:
                continue
            try:
                step = self._step(cgroup, present[cgroup], aim)
            except Missing:
                self._gone(cgroup, report)
            except KernelError as error:
                report.failed[cgroup] = error
            else:
                steps.append(step)
        return [step for step in in_order(steps) if step.changes_quota or step.changes_burst]

    def _step(self, cgroup: str, before: Bandwidth, aim: Bandwidth) -> Step:
        found = read_burst(self._files, cgroup) if self._bursts else None
        if found is None:
            self._bursts = False
            return Step(cgroup, before, aim.quota)
        hold = self._ledger[cgroup]
        unwritten = (str(found if hold.unsure and hold.base_burst is not None else hold.base_burst),)
        if str(found) not in hold.wrote.get(self._burst_file, unwritten):
            hold.adopt_burst(found, before)
            hold.wrote[self._burst_file] = str(found), str(found)
        return Step(cgroup, before, aim.quota, found, hold.burst_beside(aim))

    def _write(self, steps: list[Step], report: Report) -> dict[str, KernelError]:
        """Take the steps; return what the kernel's rules did not allow."""
        self._pen.hold(self._ledger.due(step.cgroup for step in steps))
        refused: dict[str, KernelError] = {}
        for step in steps:
            try:
                self._take(step, report)
            except Refused as error:
                report.refused += 1
                refused[step.cgroup] = error
            except Missing:
                self._gone(step.cgroup, report)
            except KernelError as error:
                report.failed[step.cgroup] = error
        return refused

    def _take(self, step: Step, report: Report) -> None:
        hold = self._ledger[step.cgroup]
        old, new = self._text(step.before.quota), self._text(step.quota)
        drifted = step.changes_quota and not hold.rebased and hold.drifted(self._quota_file, old)
        reason, why = _cause(hold, step, drifted=drifted)
        writes = [(self._quota_file, old, new)] if step.changes_quota else []
        if step.changes_burst:
            shrinks = (step.burst or 0) < (step.burst_before or 0)
            writes.insert(0 if shrinks else 1, (self._burst_file, str(step.burst_before), str(step.burst)))
        for file, before, after in writes:
            self._pen.write(step.cgroup, hold, Writing(file, before, after), reason, why)
            report.written.append(Written(step.cgroup, file, before, after))
        if drifted:
            report.drifted.append(step.cgroup)

    def _found_below(self, refused: Iterable[str]) -> set[str]:
        """Find the bounded cgroups that nobody named below those that the kernel refused to change (v1)."""
        if self._files.version is Version.V2:
            return set()
        found = set()
        below = list(refused)
        while below:
            try:
                children = self._files.children(below.pop())
                below += children
                for child in set(children) - self._ledger.keys():
                    bandwidth = read_bandwidth(self._files, child)
                    if bandwidth.quota is not None:
                        self._ledger[child] = Hold(bandwidth, found=True)
                        found.add(child)
            except KernelError:
                continue
        return found

    def _gone(self, cgroup: str, report: Report) -> None:
        report.gone.append(cgroup)
        if self._ledger.pop(cgroup).entered:
            self._pen.release([(cgroup, "")])

    def _release(self, aims: Mapping[str, Bandwidth], report: Report) -> None:
        """Forget what nobody bounds any more and what is back at its base."""
        done = [
            cgroup
            for cgroup, aim in aims.items()
            if cgroup in self._ledger and cgroup not in report.failed and self._ledger[cgroup].at_rest(aim)
        ]
        released = {cgroup: self._ledger.pop(cgroup) for cgroup in done}
        self._pen.release((cgroup, "") for cgroup, hold in released.items() if hold.entered)
        try:
            self._pen.begin_anew()
        except JournalError as error:
            report.failed[error.path] = error

    def _text(self, quota: Microseconds | None) -> str:
        return quota_text(self._files.version, quota)


def _cause(hold: Hold, step: Step, *, drifted: bool) -> tuple[Reason, str]:
    """Return why a step is taken."""
    asked = hold.wanted(step.before.period)
    if step.quota != asked:
        return Reason.QUOTA_BOUNDED_BY_PARENT, f"{step.after} is what its parent has; asked for was {asked}"
    if not hold.bounds:
        return Reason.QUOTA_RESTORED, f"back to the base of {hold.base}"
    action = hold.cause(step.quota, step.before.period)
    why = action.why if action else "wanted since before the restart by " + ", ".join(hold.bounds)
    if drifted or action is None:
        return Reason.QUOTA_DRIFT_REPAIRED, f"found {step.before}; {why}"
    return action.reason, action.why
