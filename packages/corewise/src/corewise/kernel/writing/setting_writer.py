"""The one writer of weights, CPU sets, memory nodes and memory limits of cgroups.

It works as that of quotas does (:mod:`corewise.kernel.writing.quota_writer`), into the same journal, and has
the same ``reconcile``, ``apply`` and ``restore``: owners state all that they want; what is there already is
not written; what is to be restored is entered before the first write, and each write before it happens; what
somebody else changed is put right; a process that is killed at any point leaves what the next one needs.

What is particular:

- A setting of a cgroup has one owner, and at most one action.
- On v1 the CPUs and memory nodes of a cgroup are within its parent's. Writes are ordered so that this holds
  after each (:mod:`corewise.kernel.writing.setting_plan`). A cgroup below that no call named is narrowed with
  its parent and widened with it again; one that its owner wants beyond the parent's is a failure, not less.
- A cgroup that is made idle here keeps the claim to its weight, which the kernel takes from it meanwhile.
- A memory limit is never set below what is in use, page cache included: the kernel would have to reclaim, or
  kill. It is a failure until less is in use; the next call tries again.
- A file that its cgroup does not have (a controller that is not enabled) is a failure too.
- In the report, ``failed`` and ``drifted`` go by file ("/kubepods/…/cpu.weight").

A call over 330 settings (110 pods of two containers) takes, on one core of a small virtual machine, 7 ms
where nothing changes and 20 ms where every weight does; moving 330 CPU sets on v1 takes 90 ms.

A warning for v1: a container that its runtime creates or restarts with CPUs that its pod's cgroup does not
have is refused by the kernel. Whoever narrows a pod's cgroup there must see to it that the runtime asks for
fewer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from corewise.actions import Setting, SettingOwner, WriteSetting
from corewise.kernel.cgroups.files import Files, ancestors, is_within
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.cgroups.resources import IDLE_FILE, read_memory_usage
from corewise.kernel.errors import Busy, KernelError, Malformed, Missing, ValueRefused
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
from corewise.kernel.writing.setting_claims import (
    LISTS,
    NO_WEIGHT,
    SettingClaim,
    SettingClaims,
    SettingFile,
    bytes_of,
    normal,
    setting_file,
    setting_in,
)
from corewise.kernel.writing.setting_plan import SettingStep, aims_of, cause_of, in_line, sets_in, steps_of
from corewise.topology import CPUSet


class SettingWriter:
    """Brings settings to what their owners want, and back.

    Nothing raises but JournalError: what goes wrong with one file stands in the report.
    """

    def __init__(self, files: Files, log: Log, *, now: Callable[[], float], at: Hook = no_fault) -> None:
        self._files = files
        self._journaled = JournaledWriter(files, log, now, at)
        self._at = at
        self._claims = SettingClaims.of(log.entries())
        self.totals: Counter[str] = Counter()
        """Totals over all calls: :meth:`WriteReport.counts`."""
        self.untouched: frozenset[str] = frozenset()
        """No call writes to these cgroups or to those below them; the claims to them stay."""
        nested = LISTS if files.version is Version.V1 else ()
        self._weight = setting_file(files.version, Setting.CPU_WEIGHT)
        self._nested = frozenset(setting_file(files.version, setting) for setting in nested)

    @property
    def held(self) -> Mapping[SettingFile, SettingClaim]:
        """The claims, by cgroup and file."""
        return self._claims

    def applied(self, cgroup: str, setting: Setting) -> str | None:
        """Return the value an owner wants in a cgroup, including across restarts; None without an owner."""
        claim = self._claims.get(SettingFile(cgroup, setting_file(self._files.version, setting)))
        return None if claim is None else claim.value

    def reconcile(self, owner: SettingOwner, actions: Iterable[WriteSetting]) -> WriteReport:
        """Bring about all that an owner wants; what it no longer names goes back to its base.

        All claims are looked at, so that what somebody else has changed is put right for every owner.
        """
        with self._journaled.turn:
            named = self._named(actions)
            kept = {place for place in self._claims if is_within(place.cgroup, self.untouched)}
            self._claims.release(owner, but=named.keys() | kept)
            refused = self._take_over(named)
            return self._settle(self._claims.keys() - kept, refused)

    def apply(self, actions: Iterable[WriteSetting]) -> WriteReport:
        """Bring about some of what owners want, at once; other cgroups are touched only if above or below."""
        with self._journaled.turn:
            named = self._named(actions)
            refused = self._take_over(named)
            scope = {each for each in self._claims if any(in_line(each, place) for place in named)}
            return self._settle(
                {each for each in scope if not is_within(each.cgroup, self.untouched)}, refused
            )

    def restore(self) -> WriteReport:
        """Put every base back and forget it. A second call does nothing."""
        with self._journaled.turn:
            for claim in self._claims.values():
                claim.release()
            return self._settle(set(self._claims), {})

    def _named(self, actions: Iterable[WriteSetting]) -> dict[SettingFile, WriteSetting]:
        return {
            SettingFile(each.cgroup, setting_file(self._files.version, each.setting)): each
            for each in actions
            if not is_within(each.cgroup, self.untouched)
        }

    def _take_over(self, named: Mapping[SettingFile, WriteSetting]) -> dict[SettingFile, KernelError]:
        """Take over what is wanted; return what cannot be: it is none of this file's values, or another's."""
        refused: dict[SettingFile, KernelError] = {}
        for place, action in named.items():
            claim = self._claims.get(place) or SettingClaim()
            try:
                value = self._normal(place, action.value)
                base = None if action.base is None else self._normal(place, action.base)
            except Malformed as error:
                refused[place] = error
                continue
            if claim.owner not in {"", action.owner}:
                refused[place] = ValueRefused(str(place), f"{claim.owner} sets this; {action.owner} cannot")
                continue
            claim.set_by(action, value, base)
            self._claims[place] = claim
        return refused

    def _settle(self, scope: set[SettingFile], refused: dict[SettingFile, KernelError]) -> WriteReport:
        report = WriteReport(examined=len(scope))
        not_taken: dict[SettingFile, KernelError] = {}
        drifted: set[SettingFile] = set()
        aims: dict[SettingFile, str] = {}
        for _ in range(ROUNDS):
            present = self._read(scope, drifted, report)
            aims = self._aims(present, report)
            not_taken = self._write(steps_of(present, aims, self._nested), drifted, report)
            if not not_taken:
                break
            scope |= self._find_below(not_taken, aims)
        report.failed.update({str(place): error for place, error in not_taken.items()})
        self._release(aims, report)
        report.failed.update({str(place): error for place, error in refused.items()})
        self.totals.update(report.counts())
        return report

    def _read(
        self, scope: set[SettingFile], drifted: set[SettingFile], report: WriteReport
    ) -> dict[SettingFile, str]:
        present: dict[SettingFile, str] = {}
        for place in scope & self._claims.keys():
            if str(place) in report.failed:
                continue
            try:
                present[place] = text = self._text(place)
            except KernelError as error:
                self._note_failure(place, error, report)
                continue
            claim = self._claims[place]
            if text == NO_WEIGHT and place.file == self._weight:
                continue
            if claim.value is not None and claim.is_foreign(place.file, text):
                drifted.add(place)
            claim.read(place.file, text)
        self._at(Point.READ, "")
        return present

    def _aims(self, present: Mapping[SettingFile, str], report: WriteReport) -> dict[SettingFile, str]:
        """Return the target of each file; a target beyond the parent's set is reported as a failure."""
        around = {file: self._with_parents(sets_in(present, file), file) for file in self._nested}
        aims, beyond = aims_of(present, self._claims, around)
        for place, limit in beyond.items():
            message = f"{self._claims[place].wanted} is not within {limit}, which its parent has"
            report.failed[str(place)] = ValueRefused(str(place), message)
        return aims

    def _with_parents(self, present: Mapping[str, CPUSet], file: str) -> dict[str, CPUSet]:
        """Return sets and those of their parents; what cannot be read there is the kernel's to judge."""
        known = dict(present)
        for cgroup in present:
            parent = next(ancestors(cgroup), cgroup)
            if parent not in known:
                try:
                    known[parent] = CPUSet.parse(self._text(SettingFile(parent, file)))
                except KernelError:
                    continue
        return known

    def _write(
        self, steps: list[SettingStep], drifted: set[SettingFile], report: WriteReport
    ) -> dict[SettingFile, KernelError]:
        """Take the steps; return what the kernel's rules did not allow."""
        self._journaled.enter(self._claims.due({step.place for step in steps}))
        refused: dict[SettingFile, KernelError] = {}
        for step in steps:
            if step.place in refused or step.place not in self._claims or str(step.place) in report.failed:
                continue
            try:
                self._take(step, report, drifted=step.place in drifted)
            except (ValueRefused, Busy) as error:
                report.refused += 1
                refused[step.place] = error
            except KernelError as error:
                self._note_failure(step.place, error, report)
        return refused

    def _take(self, step: SettingStep, report: WriteReport, *, drifted: bool) -> None:
        place, claim = step.place, self._claims[step.place]
        in_use = self._in_use_beyond(step)
        if in_use is not None:
            message = f"a limit of {step.after} bytes is below the {in_use} in use; tried again later"
            report.failed[str(place)] = ValueRefused(str(place), message)
            return
        cause = cause_of(claim, step, drifted=drifted)
        writing = Writing(place.file, step.before, step.after)
        report.written.append(self._journaled.write(place.cgroup, claim, writing, cause))
        if drifted and str(place) not in report.drifted:
            report.drifted.append(str(place))

    def _in_use_beyond(self, step: SettingStep) -> int | None:
        """Return the memory in use, if a step would set a limit below it."""
        if setting_in(self._files.version, step.place.file) is not Setting.MEMORY_LIMIT:
            return None
        limit = bytes_of(step.after)
        if limit is None:
            return None
        usage = read_memory_usage(self._files, step.place.cgroup)
        return usage if usage > limit else None

    def _find_below(
        self, refused: Iterable[SettingFile], aims: Mapping[SettingFile, str]
    ) -> set[SettingFile]:
        """Find the unnamed sets below those that the kernel refused to narrow (v1)."""
        found: set[SettingFile] = set()
        below = [(place, CPUSet.parse(aims[place])) for place in refused if place.file in self._nested]
        while below:
            (cgroup, file), aim = below.pop()
            try:
                children = [SettingFile(child, file) for child in self._files.children(cgroup)]
            except KernelError:
                continue
            below += [(child, aim) for child in children]
            for child in set(children) - self._claims.keys():
                with suppress(KernelError):
                    if not CPUSet.parse(self._text(child)) <= aim:
                        self._claims[child] = SettingClaim()
                        found.add(child)
        return found

    def _note_failure(self, place: SettingFile, error: KernelError, report: WriteReport) -> None:
        """Note a failure; if it is that the cgroup is gone, so is what was held of it."""
        if not isinstance(error, Missing) or self._files.exists(place.cgroup):
            report.failed[str(place)] = error
            return
        if place.cgroup not in report.gone:
            report.gone.append(place.cgroup)
        if self._claims.pop(place).entered:
            self._journaled.release([place])

    def _release(self, aims: Mapping[SettingFile, str], report: WriteReport) -> None:
        """Forget the claims that have no owner left and are back at their base."""
        done = [
            place
            for place, aim in aims.items()
            if place in self._claims and str(place) not in report.failed and self._claims[place].at_rest(aim)
        ]
        released = {place: self._claims.pop(place) for place in done}
        self._journaled.release(place for place, claim in released.items() if claim.entered)
        self._journaled.begin_anew(report)

    def _text(self, place: SettingFile) -> str:
        if place.file == self._weight and self._made_idle(place.cgroup):
            return NO_WEIGHT
        return self._normal(place, self._files.read(place.cgroup, place.file))

    def _made_idle(self, cgroup: str) -> bool:
        try:
            return (
                SettingFile(cgroup, IDLE_FILE) in self._claims and self._files.read(cgroup, IDLE_FILE) == "1"
            )
        except KernelError:
            return False

    def _normal(self, place: SettingFile, text: str) -> str:
        setting = setting_in(self._files.version, place.file)
        try:
            return text if setting is None else normal(self._files.version, setting, text)
        except ValueError as error:
            raise Malformed(str(place), str(error)) from error
