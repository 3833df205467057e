"""The one writer of CPU quotas.

Every owner (normalization, suppression, batch limits) states what it wants here, and nowhere else is a quota
written. The smallest bound of a cgroup counts; on v1 it is never above the nearest bounded ancestor's. A call

1. reads the cgroups concerned, and on v1 those above them;
2. works out what each should have; where it has that already, nothing is written;
3. enters in the journal what is to be restored one day, then each write before it happens;
4. writes in the order of :func:`in_order`; a burst that would not fit goes first.

If the kernel says EINVAL, the world was not as it was read: a runtime or kubelet wrote between, or on v1 a
cgroup below that no call named is in the way. Then the cgroups are read again, those in the way are *found*
(narrowed with their parent, widened with it again), and the order is computed again, three times at most.

If the process is killed at any point, the next one reads the claims from the journal and goes on: nothing
depends on what was in memory. Calls are synchronous and take turns, so several loops in one process are one
writer; the journal's lock keeps a second process out::

    layout  = find_layout(root)                              # kernel.cgroups.layout: v1 or v2, mounts
    files   = CgroupFiles(layout)                            # kernel.cgroups.files
    pods    = find_pod_cgroups(files, cgroup_root)           # kernel.cgroups.layout: driver, prefix
    cgroup  = pods.pod(uid, QOSClass.BURSTABLE)              # str; UnsafeName if the UID is not plain

    with Journal.open(state_dir, boot=…) as journal:         # kernel.writing.journal; or JournalHeld
        writer = QuotaWriter(files, journal, now=time.time)  # rebuilds the claims
        report = writer.reconcile(QuotaOwner.NORMALIZATION, actions)   # the owner's whole wanted state
        report = writer.apply(actions)                       # some of it, at once (one pod, from NRI)
        report = writer.restore()                            # everything back to its base
        writer.applied(cgroup, present) -> quota | None      # the last one applied, whoever wrote since

A call over 330 cgroups (110 pods of two containers) takes, on one core of a small virtual machine, 6 ms and
2,000 system calls on v1 where nothing changes (two files each; v2 has one), and 17 ms where every quota does.

A warning for v1: a container that its runtime creates or restarts with kubelet's own quota is refused by
the kernel if its pod's cgroup is narrower. Whoever narrows a pod's cgroup there must see to it that the
runtime asks for divided quotas (NRI), or bound the containers alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from corewise.actions import QuotaOwner, WriteQuota
from corewise.kernel.cgroups.files import Files, ancestors, is_within
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.cgroups.resources import (
    Bandwidth,
    burst_file,
    period_file,
    period_in,
    quota_file,
    quota_text,
    read_bandwidth,
    read_burst,
)
from corewise.kernel.errors import JournalError, KernelError, Missing, ValueRefused
from corewise.kernel.writing.journal import Log
from corewise.kernel.writing.journaled_writer import (
    ROUNDS,
    Hook,
    JournaledWriter,
    Point,
    WriteReport,
    Writing,
    no_fault,
)
from corewise.kernel.writing.quota_claims import (
    QuotaClaim,
    QuotaClaims,
    QuotaStep,
    Wants,
    in_order,
    within_parents,
)
from corewise.quantities import Microseconds
from corewise.vocabulary.reasons import Reason


class QuotaWriter:
    """Brings cgroups to what their owners want, and back.

    Nothing raises but JournalError: what goes wrong with one cgroup stands in the report. Where the journal
    fails, owners want what they wanted before the call: one that moves a bound by steps would otherwise go on
    from a bound that was never written.
    """

    def __init__(
        self,
        files: Files,
        log: Log,
        *,
        now: Callable[[], float],
        at: Hook = no_fault,
    ) -> None:
        self._files = files
        self._journaled = JournaledWriter(files, log, now, at)
        self._at = at
        self._claims = QuotaClaims.of(log.entries())
        self._quota_file = quota_file(files.version)
        self._period_file = period_file(files.version)
        self._burst_file = burst_file(files.version)
        self._bursts = True
        self.totals: Counter[str] = Counter()
        """Totals over all calls: :meth:`WriteReport.counts`."""
        self.untouched: frozenset[str] = frozenset()
        """No call writes to these cgroups or to those below them; the claims to them stay."""

    @property
    def held(self) -> Mapping[str, QuotaClaim]:
        """The claims, by cgroup."""
        return self._claims

    def applied(self, cgroup: str, present: Bandwidth) -> Microseconds | None:
        """Return the quota last applied to a cgroup, for the period that it has; None: no limit, or no quota.

        ``present`` is what the cgroup shows. If somebody else has changed it, it is what the owners wanted
        last. It is known from the journal, too, after a restart.
        """
        claim = self._claims.get(cgroup)
        if claim is None or not claim.bounds or not (claim.unsure or self._quota_file in claim.wrote):
            return None
        foreign_period = any(bound.period != present.period for bound in claim.bounds.values())
        if foreign_period or claim.drifted(self._quota_file, self._text(present.quota)):
            return claim.wanted(present.period)
        return present.quota

    def reconcile(
        self, owner: QuotaOwner, actions: Iterable[WriteQuota], *, kept: Collection[str] = ()
    ) -> WriteReport:
        """Bring about all that an owner wants; what it no longer names goes back to its base.

        In the cgroups ``kept`` the owner's bounds stay as they are unless they are named. All claims are
        looked at, so that what somebody else has changed is put right for every owner.
        """
        with self._journaled.turn:
            named = {each.cgroup: each for each in actions if not is_within(each.cgroup, self.untouched)}
            untouched = {cgroup for cgroup in self._claims if is_within(cgroup, self.untouched)}
            released = self._claims.bounded_by(owner, but=named.keys() | untouched | set(kept))
            changed = (cgroup for cgroup, each in named.items() if not self._claims.is_stated(each))
            before = self._claims.wants((*released, *changed))
            for cgroup in released:
                self._claims[cgroup].release(owner)
            for action in named.values():
                self._claims.bound(action)
            return self._settle_or_undo(self._claims.keys() - untouched, before)

    def mend(self) -> WriteReport:
        """Put right what somebody else has changed. What the owners want stays as it is."""
        with self._journaled.turn:
            return self._settle(set(self._claims))

    def apply(self, actions: Iterable[WriteQuota]) -> WriteReport:
        """Bring about some of what owners want, at once; other cgroups are touched only if above or below."""
        with self._journaled.turn:
            concerned = [each for each in actions if not is_within(each.cgroup, self.untouched)]
            named = {each.cgroup for each in concerned}
            before = self._claims.wants(named)
            for action in concerned:
                self._claims.bound(action)
            above = {each for cgroup in named for each in ancestors(cgroup) if each in self._claims}
            below = {each for each in self._claims if not named.isdisjoint(ancestors(each))}
            scope = named | above | below
            touched = {each for each in scope if not is_within(each, self.untouched)}
            return self._settle_or_undo(touched, before)

    def restore(self) -> WriteReport:
        """Put every base back and forget it, whoever changed the cgroup last. A second call does nothing."""
        with self._journaled.turn:
            for claim in self._claims.values():
                claim.release_all()
            return self._settle(set(self._claims))

    def _settle_or_undo(self, scope: set[str], before: Mapping[str, Wants | None]) -> WriteReport:
        """Settle; where the journal fails, owners want again what they wanted before."""
        try:
            report = self._settle(scope)
        except JournalError:
            self._claims.return_to(before)
            raise
        failed = {cgroup for cgroup, error in report.failed.items() if isinstance(error, JournalError)}
        self._claims.return_to({cgroup: before[cgroup] for cgroup in before.keys() & failed})
        return report

    def _settle(self, scope: set[str]) -> WriteReport:
        report = WriteReport(examined=len(scope))
        aims: dict[str, Bandwidth] = {}
        for _ in range(ROUNDS):
            present = self._read(scope - report.failed.keys(), report)
            aims = self._aims(present, scope - report.failed.keys())
            refused = self._write(self._steps(present, aims, report), report)
            if not refused:
                break
            scope |= self._find_below(refused)
        report.failed.update(refused)
        self._release(aims, report)
        # From now on another value in the file is drift again, also where kubelet has changed the base.
        for claim in self._claims.values():
            claim.rebased = False
        self.totals.update(report.counts())
        return report

    def _read(self, scope: set[str], report: WriteReport) -> dict[str, Bandwidth]:
        present: dict[str, Bandwidth] = {}
        for cgroup in scope & self._claims.keys():
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
        wanted: dict[str, Bandwidth] = {}
        for cgroup in scope & present.keys() & self._claims.keys():
            claim, found = self._claims[cgroup], present[cgroup]
            if claim.found and claim.drifted(self._quota_file, self._text(found.quota)):
                claim.adopt(found)
            period = claim.period(found.period, self._periods_written(claim))
            wanted[cgroup] = Bandwidth(claim.wanted(period), period)
        return within_parents(present, wanted) if self._files.version is Version.V1 else wanted

    def _periods_written(self, claim: QuotaClaim) -> set[Microseconds | None]:
        return {period_in(self._files.version, text) for text in claim.wrote.get(self._period_file, ())}

    def _steps(
        self, present: Mapping[str, Bandwidth], aims: Mapping[str, Bandwidth], report: WriteReport
    ) -> list[QuotaStep]:
        steps = []
        for cgroup, aim in aims.items():
            claim = self._claims[cgroup]
            if any(each.period != aim.period for each in claim.bounds.values() or (claim.base,)):
                report.foreign_periods[cgroup] = aim.period
            if aim == present[cgroup] and not claim.base_burst:
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

    def _step(self, cgroup: str, before: Bandwidth, aim: Bandwidth) -> QuotaStep:
        found = read_burst(self._files, cgroup) if self._bursts else None
        if found is None:  # this kernel has no burst at all: do not look for it again in each cgroup
            self._bursts = False
            return QuotaStep(cgroup, before, aim)
        claim = self._claims[cgroup]
        unwritten = (str(found if claim.unsure and claim.base_burst is not None else claim.base_burst),)
        if str(found) not in claim.wrote.get(self._burst_file, unwritten):
            claim.adopt_burst(found, before)
            claim.wrote[self._burst_file] = str(found), str(found)
        return QuotaStep(cgroup, before, aim, found, claim.burst_beside(aim))

    def _write(self, steps: list[QuotaStep], report: WriteReport) -> dict[str, KernelError]:
        """Take the steps; return what the kernel's rules did not allow."""
        self._journaled.enter(self._claims.due(step.cgroup for step in steps))
        refused: dict[str, KernelError] = {}
        for step in steps:
            try:
                self._take(step, report)
            except ValueRefused as error:
                report.refused += 1
                refused[step.cgroup] = error
            except Missing:
                self._gone(step.cgroup, report)
            except KernelError as error:
                report.failed[step.cgroup] = error
        return refused

    def _take(self, step: QuotaStep, report: WriteReport) -> None:
        claim = self._claims[step.cgroup]
        old = self._text(step.before.quota)
        drifted = step.changes_quota and not claim.rebased and claim.drifted(self._quota_file, old)
        cause = _cause(claim, step, drifted=drifted)
        writes = list(self._writings(claim, step)) if step.changes_quota else []
        if step.changes_burst:
            burst = Writing(self._burst_file, str(step.burst_before), str(step.burst))
            writes.insert(0 if (step.burst or 0) < (step.burst_before or 0) else len(writes), burst)
        begun = len(report.written)
        try:
            for writing in writes:
                report.written.append(self._journaled.write(step.cgroup, claim, writing, cause))
        except JournalError:
            # On v1 a cgroup has no quota while its period changes: it would stay so.
            self._journaled.take_back(claim, report.written[begun:])
            raise
        if drifted:
            report.drifted.append(step.cgroup)

    def _writings(self, claim: QuotaClaim, step: QuotaStep) -> Iterator[Writing]:
        """Yield the writes of a quota, and of a period where it changes or is not kubelet's.

        On v1 the period has its own file, and is written while there is no quota: at no moment is a child's
        share above its parent's.
        """
        before, after = step.before, step.after
        old, new = self._text(before.quota), self._text(after.quota)
        sets_period = before.period != after.period or after.period in self._periods_written(claim)
        if self._files.version is Version.V2:
            old, new = (f"{old} {before.period}", f"{new} {after.period}") if sets_period else (old, new)
            yield Writing(self._quota_file, old, new)
            return
        if before.period != after.period:
            unlimited = self._text(None)
            if old != unlimited:
                yield Writing(self._quota_file, old, unlimited)
            yield Writing(self._period_file, str(before.period), str(after.period))
            old = unlimited
        if old != new:
            yield Writing(self._quota_file, old, new)

    def _find_below(self, refused: Iterable[str]) -> set[str]:
        """Find the unnamed bounded cgroups below those that the kernel refused to change (v1)."""
        if self._files.version is Version.V2:
            return set()
        found = set()
        below = list(refused)
        while below:
            try:
                children = self._files.children(below.pop())
                below += children
                for child in set(children) - self._claims.keys():
                    bandwidth = read_bandwidth(self._files, child)
                    if bandwidth.quota is not None:
                        self._claims[child] = QuotaClaim(bandwidth, found=True)
                        found.add(child)
            except KernelError:
                continue
        return found

    def _gone(self, cgroup: str, report: WriteReport) -> None:
        report.gone.append(cgroup)
        if self._claims.pop(cgroup).entered:
            self._journaled.release([(cgroup, "")])

    def _release(self, aims: Mapping[str, Bandwidth], report: WriteReport) -> None:
        """Forget the claims that have no bound left and are back at their base."""
        done = [
            cgroup
            for cgroup, aim in aims.items()
            if cgroup in self._claims and cgroup not in report.failed and self._claims[cgroup].at_rest(aim)
        ]
        released = {cgroup: self._claims.pop(cgroup) for cgroup in done}
        self._journaled.release((cgroup, "") for cgroup, claim in released.items() if claim.entered)
        self._journaled.begin_anew(report)

    def _text(self, quota: Microseconds | None) -> str:
        return quota_text(self._files.version, quota)


def _cause(claim: QuotaClaim, step: QuotaStep, *, drifted: bool) -> tuple[Reason, str]:
    period = step.after.period
    asked = claim.wanted(period)
    if step.after.quota != asked:
        return (
            Reason.QUOTA_BOUNDED_BY_PARENT,
            f"wanted {asked} us of {period} us, but its parent leaves {step.after.quota} us",
        )
    if not claim.bounds:
        return Reason.QUOTA_RESTORED, f"restored to its base, {claim.base}"
    action = claim.cause(step.after.quota, period)
    why = action.why if action else "wanted since before the restart by " + ", ".join(claim.bounds)
    if drifted or action is None:
        return Reason.QUOTA_DRIFT_REPAIRED, f"found {step.before}; {why}"
    return action.reason, action.why
