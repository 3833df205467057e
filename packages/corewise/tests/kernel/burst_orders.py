"""One pod whose quota and burst three programs write in any order: kubelet, Koordinator and corewise.

kubelet writes the quota that follows from the limit: at a restart, and when the pod is resized, from the pod
down where it grows and from the container up where it shrinks. Koordinator writes the burst, a part of what
the limit is worth, and while a container is throttled raises its quota step by step, later lowers it again.
Neither knows of a divided quota, so the kernel may refuse what they write; they try again later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import permutations, product

from corewise.actions import QuotaOwner, WriteQuota
from corewise.kernel.cgroups.files import Files
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.cgroups.resources import read_bandwidth, read_burst
from corewise.kernel.errors import ValueRefused
from corewise.kernel.writing.journal import MemoryLog
from corewise.kernel.writing.journaled_writer import WriteReport
from corewise.kernel.writing.quota_writer import QuotaWriter
from corewise.quantities import Microseconds
from kernel.cgroup_trees import bound, divided
from kernel.cgroup_writes import write_burst, write_quota

LIMIT = 100_000
_PERCENT = 100
_LARGEST_SCALE = 3


class SharedPod:
    """The cgroups of a pod and its only container, and a writer. ``base`` is what the limit is worth."""

    def __init__(self, files: Files, pod: str, container: str) -> None:
        self.files = files
        self.pod, self.container = pod, container
        self.base = LIMIT
        self.ratio = 100
        self.burst_set: int | None = None
        """The burst that the container was given beside kubelet's quota; None without one."""
        for cgroup in (pod, container):
            write_burst(files, cgroup, Microseconds(0))
        for cgroup in (container, pod):
            write_quota(files, cgroup, None)
        for cgroup in (pod, container):
            write_quota(files, cgroup, Microseconds(self.base))
        self.writer = QuotaWriter(files, MemoryLog(), now=lambda: 1.0)

    def quota(self, cgroup: str) -> int:
        return read_bandwidth(self.files, cgroup).quota or 0

    def burst(self, cgroup: str) -> int:
        return read_burst(self.files, cgroup) or 0

    def due(self, cgroup: str) -> int:
        """The quota by the rule: divided; on v1 a pod's is not below what its container may get undivided."""
        keeps_base = cgroup == self.pod and self.files.version is Version.V1
        return self.base if keeps_base else divided(self.base, self.ratio)

    def look(self, ratio: int) -> WriteReport:
        """What the agent does in a cycle."""
        self.ratio = ratio
        actions: list[WriteQuota] = []
        if ratio > _PERCENT:
            actions = [bound(each, self.due(each), self.base) for each in (self.pod, self.container)]
        return self.writer.reconcile(QuotaOwner.NORMALIZATION, actions)

    def restart(self) -> bool:
        """Have kubelet start the container again: its cgroup gets the quota of its limit."""
        return self._quota(self.container, self.base)

    def resize(self, base: int) -> bool:
        grows = base > self.base
        self.base = base
        order = (self.pod, self.container) if grows else (self.container, self.pod)
        taken = [self._quota(each, base) for each in order]
        return all(taken)

    def set_burst(self, percent: int) -> bool:
        burst = self.base * percent // _PERCENT
        plain = self.quota(self.container) == self.base and not self.writer.held
        taken = [self._try(write_burst, each, burst) for each in (self.pod, self.container)]
        if taken[1]:
            self.burst_set = burst if plain else None
        return all(taken)

    def scale(self, percent: int) -> bool:
        found = self.quota(self.container) * percent // _PERCENT
        wanted = min(max(found, self.base), _LARGEST_SCALE * self.base)
        order = (self.pod, self.container) if percent > _PERCENT else (self.container, self.pod)
        taken = [self._quota(each, wanted) for each in order]
        return all(taken)

    def _quota(self, cgroup: str, quota: int) -> bool:
        return self._try(write_quota, cgroup, quota)

    def _try(self, write: Callable[[Files, str, Microseconds], None], cgroup: str, value: int) -> bool:
        try:
            write(self.files, cgroup, Microseconds(value))
        except ValueRefused:
            return False
        return True


WRITES: dict[str, Callable[[SharedPod], object]] = {
    "kubelet restarts it": lambda pod: pod.restart(),
    "kubelet halves it": lambda pod: pod.resize(LIMIT // 2),
    "kubelet doubles it": lambda pod: pod.resize(2 * LIMIT),
    "burst 30 %": lambda pod: pod.set_burst(30),
    "burst 100 %": lambda pod: pod.set_burst(100),
    "burst off": lambda pod: pod.set_burst(0),
    "quota scaled up": lambda pod: pod.scale(120),
    "quota scaled down": lambda pod: pod.scale(80),
    "look at 1.50": lambda pod: pod.look(150),
    "look at 2.00": lambda pod: pod.look(200),
    "look at 1.00": lambda pod: pod.look(100),
}


def orders(longest: int, distinct: int = 0) -> Iterator[tuple[str, ...]]:
    """Yield all orders of up to ``longest`` writes, and those of ``distinct`` different ones."""
    for length in range(longest + 1):
        yield from product(WRITES, repeat=length)
    if distinct:
        yield from permutations(WRITES, distinct)


def check(pod: SharedPod, order: Iterable[str]) -> None:
    """Check the promises after these writes: of the next look, of kubelet's next write, and of the end."""
    order = tuple(order)
    write(pod, order)
    check_written(pod, order)


def write(pod: SharedPod, order: Iterable[str]) -> None:
    for each in order:
        WRITES[each](pod)


def check_written(pod: SharedPod, order: tuple[str, ...]) -> None:
    """Check the promises of :func:`check` of a pod to which the writes of an order have been made."""
    cgroups = pod.pod, pod.container
    for _ in range(2):
        report = pod.look(150)
        assert report.failed == {}, order
        assert [pod.quota(each) for each in cgroups] == [pod.due(each) for each in cgroups], order
        assert all(pod.burst(each) <= pod.quota(each) for each in cgroups), order
        again = pod.look(150)
        assert (again.written, again.refused) == ([], 0), order
        # What kubelet could not write before, it can now.
        assert pod.resize(pod.base), order
    if pod.burst_set is not None and pod.base == LIMIT:
        due = min(pod.burst_set * pod.due(pod.container) // pod.base, pod.due(pod.container))
        pod.look(150)
        assert pod.burst(pod.container) == due, order
    report = pod.writer.restore()
    assert (report.failed, dict(pod.writer.held)) == ({}, {}), order
    assert [pod.quota(each) for each in cgroups] == [pod.base] * 2, order
    assert all(pod.burst(each) <= pod.base for each in cgroups), order
    if pod.burst_set is not None and pod.base == LIMIT:
        assert pod.burst(pod.container) == pod.burst_set, order
    if not any(each.startswith("burst") for each in order):
        assert [pod.burst(each) for each in cgroups] == [0, 0], order
