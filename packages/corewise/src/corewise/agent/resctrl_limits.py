"""Keeps the tasks of a node's offline pods in one resctrl group with limits of cache and memory bandwidth.

Each call computes from the whole state: what the kernel can limit, which groups there are, what the group's
schemata say, which tasks are in it, and which tasks offline pods have. Tasks of a pod are all threads in its
cgroup and those below. While they are moved they may fork: the lists are read again until nothing is missing,
at most ``ROUNDS`` times, and the next call goes on. A task that is in the group and in no offline pod goes
back to the root group.

Where other groups than this one exist, another program limits tasks on this node: then nothing is done, and
a group made before is removed. So it is where nothing of what was asked for can be limited.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Iterator, Mapping

from corewise.agent.cgroups import CgroupSetup, Cycle
from corewise.config.colocation import ResctrlSettings
from corewise.kernel.cgroups.files import Files
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.errors import JournalError, KernelError, Missing, ReadOnly
from corewise.kernel.resctrl import AllocationInfo
from corewise.kernel.writing.journaled_writer import WriteReport
from corewise.kernel.writing.resctrl_writer import GROUP, SCHEMATA, ResctrlWriter
from corewise.suppression.resctrl_limits import parse_schemata, plan_limits, print_line
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.offline_report import ResctrlReport
from corewise.vocabulary.reasons import Reason

ROUNDS = 5
_SHOWN = 5


class _RefusedError(Exception):
    """A verdict: nothing can be limited, so there is to be no group."""

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(why)
        self.reason, self.why = reason, why


class ResctrlLimits:
    """The limits of one node's offline pods. ``report`` says what the last call came to; None: nothing."""

    def __init__(self) -> None:
        self.report: ResctrlReport | None = None
        self._sees_tasks = False

    def reconcile(self, found: CgroupSetup, settings: ResctrlSettings, pods: Mapping[str, int]) -> Cycle:
        """Bring the group to what is configured, and the tasks of offline pods into it.

        ``pods`` has their cgroups, each with the number of the pod's running containers.
        """
        result = Cycle()
        writer = found.resctrl
        is_wanted = settings.enabled and (settings.limits_cache or settings.limits_bandwidth)
        if writer is None or not is_wanted:
            return self.release(found, "switched off")
        report = WriteReport()
        try:
            self.report = self._limit(writer, settings, found.files, pods, report)
        except _RefusedError as refusal:
            result = self.release(found, refusal.why)
            self.report = ResctrlReport(reason=refusal.reason, why=refusal.why)
        except JournalError as error:
            result.problems[error.path] = str(error)
        except (KernelError, ValueError) as error:
            self.report = ResctrlReport(reason=_reason_of(error), why=str(error))
        result.add(report)
        if self.report is not None and self.report.reason != Reason.RESCTRL_LIMITED:
            reason = Reason(self.report.reason)
            result.problems["resctrl"] = f"{reason.meaning} {reason.fix} ({reason}: {self.report.why})"
        return result

    def release(self, found: CgroupSetup, why: str = "the agent stops") -> Cycle:
        """Remove the group, if it is there."""
        self.report = None
        result, report = Cycle(), WriteReport()
        if found.resctrl is not None and found.resctrl.is_held:
            with result.noting_errors():
                found.resctrl.remove(why, report)
        result.add(report)
        return result

    def _limit(
        self,
        writer: ResctrlWriter,
        settings: ResctrlSettings,
        files: Files,
        pods: Mapping[str, int],
        report: WriteReport,
    ) -> ResctrlReport:
        info = _usable(writer, settings)
        running = sum(pods.values())
        self._sees_tasks = self._sees_tasks or any(True for cgroup in pods for _ in _tasks(files, cgroup))
        if running and not self._sees_tasks:
            raise _RefusedError(Reason.RESCTRL_TASKS_HIDDEN, f"{running} containers of offline pods run")
        cause = Reason.RESCTRL_LIMITED, f"offline pods: {_asked(settings)}"
        base = parse_schemata(writer.make(cause, report))
        present = parse_schemata(writer.files.read(GROUP, SCHEMATA))
        # A domain whose CPUs came online since was not offered; what it shows is what the kernel gave it.
        offered = {
            resource: {domain: base.get(resource, {}).get(domain, value) for domain, value in values.items()}
            for resource, values in present.items()
        }
        plan = plan_limits(settings, info.caches, info.bandwidth, offered)
        if not plan.schemata:
            raise _RefusedError(*next(iter(plan.lacking.items())))
        for resource, rest in offered.items():
            values = {**rest, **plan.schemata.get(resource, {})}
            if values != present[resource]:
                old, new = print_line(resource, present[resource]), print_line(resource, values)
                writer.set_line(old, new, cause, report)
        count = _move(writer, files, pods)
        limits = " ".join(print_line(*each) for each in plan.schemata.items())
        reason, *_ = (*plan.lacking, Reason.RESCTRL_LIMITED)
        why = "; ".join((f"{_asked(settings)}: {limits}", *plan.lacking.values()))
        return ResctrlReport(reason=reason, why=why, schemata=limits, tasks=count)


def _usable(writer: ResctrlWriter, settings: ResctrlSettings) -> AllocationInfo:
    """Return the resources that resctrl can limit; refuse if none of the requested limits are possible."""
    info = writer.files.allocation()
    if isinstance(info, Finding):
        raise _RefusedError(info.reason, info.message)
    # A name may hold any bytes, and the report is JSON.
    others = sorted(ascii(each)[1:-1] for each in writer.files.groups() - {GROUP})
    if others:
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        raise _RefusedError(Reason.RESCTRL_FOREIGN_GROUPS, f"groups: {', '.join(others[:_SHOWN])}{more}")
    lacking = plan_limits(settings, info.caches, info.bandwidth, {}).lacking
    can = (settings.limits_cache and info.caches) or (settings.limits_bandwidth and info.bandwidth)
    if not can:
        raise _RefusedError(*next(iter(lacking.items())))
    return info


def _asked(settings: ResctrlSettings) -> str:
    return f"cache {settings.cat_start} to {settings.cat_end} %, memory bandwidth {settings.mba} %"


def _reason_of(error: Exception) -> Reason:
    if isinstance(error, ReadOnly):
        return Reason.RESCTRL_READ_ONLY
    if isinstance(error, KernelError) and error.code == errno.ENOSPC:
        return Reason.RESCTRL_CACHE_TAKEN if "No space on" in str(error) else Reason.RESCTRL_CLOSIDS_USED
    return Reason.RESCTRL_REFUSED


def _move(writer: ResctrlWriter, files: Files, cgroups: Collection[str]) -> int:
    """Move the tasks of these cgroups into the group, and all others out; return how many are in it."""
    wanted: frozenset[int] = frozenset()
    for _ in range(ROUNDS):
        inside = writer.tasks()
        # Read after ``inside``: what was forked since is in neither, or in the right one.
        wanted = frozenset(task for cgroup in cgroups for task in _tasks(files, cgroup))
        writer.move_out(sorted(inside - wanted))
        if wanted <= inside:
            break
        writer.move_in(sorted(wanted - inside))
    return len(wanted)


def _tasks(files: Files, cgroup: str) -> Iterator[int]:
    """Yield the threads of a cgroup and of those below. 0 stands for one that is not in our PID namespace."""
    file = "cgroup.threads" if files.version is Version.V2 else "tasks"
    try:
        yield from filter(None, map(int, files.read(cgroup, file).split()))
        below: Iterable[str] = files.children(cgroup)
    except Missing:
        return
    for each in below:
        yield from _tasks(files, each)
