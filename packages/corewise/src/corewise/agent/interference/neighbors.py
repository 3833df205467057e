"""What each pod of a node used and waited between two readings of the kernel's counters.

A reading takes two small files a pod, and one more for each cgroup whose quota can throttle the pod; with
``schedstat`` as the source one a task. Of a pod that neither ran nor waited, two: the others cannot have
changed. A pod that cannot be read is left out: it has just ended, or will start later. An interval whose
counters ran backwards, or whose clock stood still, is none.

Where nothing on the node waits for a CPU, no pod does: one file, /proc/pressure/cpu, tells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from corewise.agent.cgroups import CgroupSetup, NodeCgroups
from corewise.agent.objects import QuotaPod
from corewise.agent.quota_targets import container_cgroups
from corewise.amplification.amounts import CPU
from corewise.interference.antagonist import OUTSIDE, Interval, Wait, wait_for_others
from corewise.kernel.cgroups.files import ReadableFiles
from corewise.kernel.cgroups.layout import PodCgroups, QOSClass
from corewise.kernel.cgroups.resources import read_usage
from corewise.kernel.cgroups.waits import WaitCounters, WaitReader, WaitSource, read_throttled
from corewise.kernel.cpu_conditions import PRESSURE, waited
from corewise.kernel.errors import KernelError, Missing, UnsafeName
from corewise.kernel.host_files import HostFiles
from corewise.kernel.usage import BusyTime, read_busy_time
from corewise.vocabulary.findings import Finding

_NANO = 1_000_000_000
_MICRO = 1_000_000
_CALM, _CALM_FOR = 0.01, 30.0
"""CPUs for which something waits, all CPUs together, and the seconds in which it is less on a calm node.

Half of what counts as a wait of one pod, where CPUs are used alike: the kernel weights each by its use.
"""
_RUNNING, _MAY_RUN = "Running", frozenset({"Running", "Pending"})
"""A pod is pending while its init containers run."""
_RAN_AT_LEAST = 0.05
"""The part of its wanted time, above which the CPUs that a pod wanted can be told from those it used."""
Busy = Callable[[], BusyTime | None]


@dataclass(frozen=True, slots=True)
class NeighborCgroups:
    """A pod's own cgroup, and those whose quota can throttle it: its own, and one that it shares."""

    pod: str
    throttling: tuple[str, ...]
    shared: tuple[str, ...] = ()


def cgroups_of(pod: QuotaPod, names: PodCgroups) -> NeighborCgroups | None:
    """Return the cgroups of a pod; None for one that has ended, or has no plain name."""
    if pod.status.phase not in _MAY_RUN or not pod.status.qos_class:
        return None
    try:
        qos = QOSClass(pod.status.qos_class)
        own = names.pod(pod.uid, qos)
    except (UnsafeName, ValueError):
        return None
    every = own, *(cgroup for _, cgroup in container_cgroups(pod, names))
    if qos is QOSClass.BEST_EFFORT:  # suppression bounds all of them together, or each, and its containers
        return NeighborCgroups(own, every, (names.qos(qos),))
    limits = [pod.spec.resources.limits, *(each.resources.limits for each in pod.spec.all_containers)]
    return NeighborCgroups(own, every if any(CPU in each for each in limits) else ())


class _ReadOnce:
    """Files of which each is read once: pods of one class share a cgroup that bounds them all."""

    def __init__(self, files: ReadableFiles) -> None:
        self.version = files.version
        self._files = files
        self._texts: dict[tuple[str, str], str] = {}

    def read(self, cgroup: str, file: str) -> str:
        """Return the content of a file as it was when it was first asked for.

        Raises:
            KernelError: as the files below, each time.
        """
        key = cgroup, file
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = self._files.read(cgroup, file)
        return text


@dataclass(frozen=True, slots=True)
class _PodCounters:
    used: int
    throttled: int
    throttled_together: int
    wait: WaitCounters | Finding


@dataclass(frozen=True, slots=True)
class _Counters:
    at: float
    busy: BusyTime
    pods: Mapping[str, _PodCounters] = field(default_factory=dict)


class NeighborSampler:
    """The counters of one node's pods, by their UIDs.

    ``busy`` reads the node's CPU time, ``only`` restricts the source.
    """

    def __init__(
        self, root: Path, cgroups: NodeCgroups, *, busy: Busy | None = None, only: WaitSource | None = None
    ) -> None:
        self._host = HostFiles(root)
        self._cgroups = cgroups
        self._only = only
        self._busy = busy or (lambda: read_busy_time(self._host))
        self._reader: WaitReader | None = None
        self._known: dict[str, tuple[QuotaPod, NeighborCgroups | None]] = {}
        self._before: _Counters | None = None
        self._pressed: tuple[float, int | None] = 0.0, None
        self._calm_since: float | None = None
        self._read: tuple[frozenset[str], int] = frozenset(), 0
        self.unknown: dict[str, Finding] = {}
        self.sources: dict[str, WaitSource] = {}

    def is_calm(self, now: float, pods: Iterable[QuotaPod]) -> bool:
        """Whether nothing has waited for half a minute, and all pods that run were read when it began.

        Then no pod is to be read, and the next interval begins with the next reading. Waits that come again
        and again within half a minute are seen as they are on a busy node.
        """
        (at, before), (read, cpus) = self._pressed, self._read
        pressed = self._host.parsed(PRESSURE, waited)
        self._pressed = now, pressed
        calm = (
            pressed is not None
            and before is not None
            and (pressed - before) * cpus < _CALM * _MICRO * (now - at)
            and read >= {pod.uid for pod in pods if pod.status.phase == _RUNNING}
        )
        if not calm:
            self._calm_since = None
            return False
        if self._calm_since is None:
            self._calm_since = at
        if now - self._calm_since < _CALM_FOR:
            return False
        self._before = None
        return True

    def sample(
        self, now: float, pods: Collection[QuotaPod], owners: frozenset[str] = frozenset()
    ) -> Interval | None:
        """Return the interval since the last reading; None after the first, or if it cannot be believed.

        ``now`` is monotonic, in seconds; ``owners`` are the pods that run on CPUs of their own.

        Raises:
            KernelError: if the node's cgroups are not there.
        """
        found = self._cgroups.find()
        if self._reader is None:
            self._reader = WaitReader(found.files, self._cgroups.unified, self._host, self._only)
        self._host.problems.clear()
        busy = self._busy()
        if busy is None:
            self._before = None
            return None
        read = dict(self._pods(found, self._reader, pods))
        self._read = frozenset(read), busy.cpus
        before, self._before = self._before, _Counters(now, busy, read)
        waits = {uid: each.wait for uid, each in read.items()}
        self.unknown = {uid: each for uid, each in waits.items() if isinstance(each, Finding)}
        self.sources = {uid: each.source for uid, each in waits.items() if isinstance(each, WaitCounters)}
        return None if before is None else _interval(before, self._before, owners)

    def _pods(
        self, found: CgroupSetup, reader: WaitReader, pods: Collection[QuotaPod]
    ) -> Iterator[tuple[str, _PodCounters]]:
        before = self._before.pods if self._before else {}
        files = _ReadOnce(found.files)
        known = {pod.uid: (pod, self._cgroups_of(pod, found.names)) for pod in pods}
        self._known = known
        for uid, (_, cgroups) in known.items():
            if cgroups is not None:
                with suppress(KernelError):
                    yield uid, _read(files, reader, cgroups, before.get(uid))
        reader.keep(frozenset(cgroups.pod for _, cgroups in known.values() if cgroups))

    def _cgroups_of(self, pod: QuotaPod, names: PodCgroups) -> NeighborCgroups | None:
        known = self._known.get(pod.uid)
        return known[1] if known is not None and known[0] is pod else cgroups_of(pod, names)


def _read(
    files: _ReadOnce, reader: WaitReader, cgroups: NeighborCgroups, before: _PodCounters | None
) -> _PodCounters:
    """Return the counters of a pod; if it has not run, those from before that cannot have grown.

    Raises:
        KernelError: if a cgroup of the pod cannot be read.
    """
    used = read_usage(files, cgroups.pod)
    together = _throttled(files, cgroups.shared)
    idle = before if before is not None and before.used == used else None
    if idle is not None and _is_counted_later(idle.wait):
        return replace(idle, throttled_together=together)
    wait = reader.read(cgroups.pod)
    if idle is not None and idle.wait == wait:
        return replace(idle, throttled_together=together)
    return _PodCounters(used, _throttled(files, cgroups.throttling), together, wait)


def _throttled(files: _ReadOnce, cgroups: Iterable[str]) -> int:
    total = 0
    for each in cgroups:
        with suppress(Missing):  # a container that has just ended
            total += read_throttled(files, each)
    return total


def _is_counted_later(wait: WaitCounters | Finding) -> bool:
    """Whether a wait is counted only when the task runs again, and not while it lasts."""
    return isinstance(wait, WaitCounters) and wait.source is not WaitSource.PRESSURE


def _interval(before: _Counters, after: _Counters, owners: frozenset[str]) -> Interval | None:
    elapsed = after.at - before.at
    if elapsed <= 0:
        return None
    span = elapsed * _NANO
    both = {uid: (before.pods[uid], each) for uid, each in after.pods.items() if uid in before.pods}
    used = {uid: max(0, last.used - first.used) / span for uid, (first, last) in both.items()}
    node = max(0, after.busy.busy - before.busy.busy) / span
    used[OUTSIDE] = max(0.0, node - sum(used.values()))
    shared = sum(cpus for uid, cpus in used.items() if uid not in owners)
    grown = {uid: each for uid, (first, last) in both.items() if (each := _growth(first, last, span))}
    wanted = {uid: _cpus_wanted(each, used[uid], after.busy.cpus) for uid, each in grown.items()}
    together = min(after.busy.cpus, sum(wanted[uid] for uid in grown if after.pods[uid].throttled_together))
    waits = {}
    for uid, each in grown.items():
        others = used[OUTSIDE] if uid in owners else max(0.0, shared - used[uid])
        throttled = each.throttled + (each.throttled_together * wanted[uid] / together if together else 0.0)
        waits[uid] = _wait(each, used[uid], others, throttled, wanted[uid])
    return Interval(elapsed, after.busy.cpus, used, waits, owners)


@dataclass(frozen=True, slots=True)
class _Growth:
    """What the counters of a pod's wait have grown by, in seconds a second."""

    source: WaitSource
    waited: float
    any_waited: float
    tasks: list[tuple[float, float]]
    throttled: float
    throttled_together: float


def _growth(first: _PodCounters, last: _PodCounters, span: float) -> _Growth | None:
    """Return the growth; None if the wait is not known, or was counted by two sources."""
    was, now = first.wait, last.wait
    if isinstance(was, Finding) or isinstance(now, Finding) or was.source is not now.source:
        return None
    tasks = [
        (max(0, ran - was.tasks[task][0]) / span, max(0, waited - was.tasks[task][1]) / span)
        for task, (ran, waited) in now.tasks.items()
        if task in was.tasks
    ]
    return _Growth(
        now.source,
        max(0, now.waited - was.waited) / span,
        max(0, now.any_waited - was.any_waited) / span,
        tasks,
        max(0, last.throttled - first.throttled) / span,
        max(0, last.throttled_together - first.throttled_together) / span,
    )


def _wait(grown: _Growth, used: float, others: float, throttled: float, wanted: float) -> Wait:
    """Return the wait of one pod, which wanted ``wanted`` CPUs and was ``throttled``, summed over them.

    ``used`` and ``others``: the CPUs that it used, and those of everyone else who may run where it runs.
    """
    if grown.source is WaitSource.TASKS:
        of_each = throttled / wanted
        waited = sum(max(0.0, each - of_each) for _, each in grown.tasks)
        for_others = wait_for_others(grown.tasks, used, others, of_each)
        return Wait(for_others, waited - for_others, throttled)
    among = max(0.0, grown.any_waited - grown.waited)
    if grown.source is not WaitSource.PRESSURE:
        return Wait(grown.waited, among, throttled)
    return Wait(max(0.0, grown.waited * wanted - throttled), among * wanted, throttled)


def _cpus_wanted(grown: _Growth, used: float, cpus: int) -> float:
    """Return on how many CPUs a pod ran or waited, at least.

    Where it always wants to run, it runs on each of them while it does not wait. Of tasks, as many count as
    the busiest would be: others sleep.
    """
    wants = [ran + waited for ran, waited in grown.tasks]
    if wants:
        return min(cpus, max(1.0, sum(wants) / max(*wants, 0.001)))
    return min(cpus, max(1.0, used / max(1.0 - grown.waited, _RAN_AT_LEAST)))
