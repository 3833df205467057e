"""Trees of cgroups for tests: in memory or as plain files, with the kernel's rules on top."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from corewise.actions import QuotaOwner, Setting, SettingOwner, WriteQuota, WriteSetting
from corewise.kernel.cgroups.files import Files, ancestors
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.cgroups.resources import (
    IDLE_FILE,
    SMALLEST_QUOTA,
    Bandwidth,
    burst_file,
    has_idle,
    limit_file,
    period_file,
    quota_file,
    read_bandwidth,
    read_memory_usage,
    weight_file,
)
from corewise.kernel.errors import Missing, Vanished, reading_error, writing_error
from corewise.kernel.writing.journaled_writer import Hook, Point
from corewise.quantities import Microseconds
from corewise.topology import CPUSet
from corewise.vocabulary.reasons import Reason

PERIOD = 100_000
_IDLE_WEIGHTS = {Version.V1: ("1024", "3"), Version.V2: ("100", "0")}
"""What the file of the weight shows when a cgroup is idle no more, and while it is."""
UNLIMITED = (1 << 63) - 4096
FRESH = {
    Version.V1: {
        "cpu.cfs_quota_us": "-1",
        "cpu.cfs_period_us": str(PERIOD),
        "cpu.cfs_burst_us": "0",
        "cpu.shares": "1024",
        "cpu.idle": "0",
        "cpuset.cpus": "0-7",
        "cpuset.mems": "0-1",
        "memory.limit_in_bytes": str(UNLIMITED),
        "memory.usage_in_bytes": "0",
        "memory.stat": "total_inactive_file 0",
    },
    Version.V2: {
        "cpu.max": f"max {PERIOD}",
        "cpu.max.burst": "0",
        "cpu.weight": "100",
        "cpu.idle": "0",
        "cpuset.cpus": "",
        "cpuset.mems": "",
        "memory.max": "max",
        "memory.current": "0",
        "memory.stat": "inactive_file 0",
    },
}


class StoredCgroups:
    """Cgroups in memory, without rules. ``faults`` (cgroup, file) -> errno strike at the next use."""

    def __init__(self, version: Version, cgroups: Iterable[str] = ()) -> None:
        self.version = version
        self.contents: dict[str, dict[str, str]] = {}
        self.faults: dict[tuple[str, str], int] = {}
        self.writes: list[tuple[str, str, str]] = []
        for cgroup in cgroups:
            self.make(cgroup)

    def make(self, cgroup: str) -> None:
        for path in (cgroup, *ancestors(cgroup)):
            self.contents.setdefault(path, dict(FRESH[self.version]))

    def remove(self, cgroup: str) -> None:
        for path in [each for each in self.contents if each == cgroup or cgroup in ancestors(each)]:
            del self.contents[path]

    def read(self, cgroup: str, file: str) -> str:
        path = f"{cgroup}/{file}"
        if cgroup not in self.contents:
            raise Vanished(path, "gone", code=errno.ENODEV)
        if (cgroup, "read") in self.faults:
            raise reading_error(path, OSError(self.faults[cgroup, "read"], ""))
        if file not in self.contents[cgroup]:
            raise Missing(path, "none", code=errno.ENOENT)
        return self.contents[cgroup][file]

    def write(self, cgroup: str, file: str, text: str) -> None:
        code = self.faults.get((cgroup, "write"), 0 if cgroup in self.contents else errno.ENODEV)
        if code:
            raise writing_error(f"{cgroup}/{file}", OSError(code, ""), value=text)
        if file == "cpu.max" and " " not in text:
            text = f"{text} {self.contents[cgroup][file].split()[1]}"
        if file in {"memory.max", "memory.limit_in_bytes"}:
            text = whole_pages(text)
        self.contents[cgroup][file] = text
        self.writes.append((cgroup, file, text))

    def exists(self, cgroup: str) -> bool:
        return cgroup in self.contents

    def children(self, cgroup: str) -> tuple[str, ...]:
        return tuple(each for each in self.contents if each != "/" and next(ancestors(each)) == cgroup)


def whole_pages(limit: str) -> str:
    """Return a memory limit as the kernel shows it."""
    if limit == "-1":
        return str(UNLIMITED)
    return limit if limit == "max" else str(int(limit) // 4096 * 4096)


class KernelRules:
    """The kernel's refusals, in front of files that take everything.

    Quota below 1000 us; a burst above the quota; on v1 a child above its nearest bounded ancestor, also by a
    change of the period (EINVAL).
    A v2 weight out of range (ERANGE); any weight of an idle cgroup (EINVAL), which shows a small one, and the
    default when it is idle no more. On v1 a CPU set that is not within the parent's (EACCES), or that does
    not hold the children's (EBUSY). A memory limit below what is in use is refused on v1 (EBUSY); on v2 it
    would kill, so here it is the end of the test.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self.version = files.version
        self.refused: list[tuple[str, str, str]] = []

    def read(self, cgroup: str, file: str) -> str:
        return self._files.read(cgroup, file)

    def exists(self, cgroup: str) -> bool:
        return self._files.exists(cgroup)

    def children(self, cgroup: str) -> tuple[str, ...]:
        return self._files.children(cgroup)

    def write(self, cgroup: str, file: str, text: str) -> None:
        code = self._refusal(cgroup, file, text) if self._files.exists(cgroup) else 0
        if code:
            self.refused.append((cgroup, file, text))
            raise writing_error(f"{cgroup}/{file}", OSError(code, ""), value=text, opened=True)
        self._files.write(cgroup, file, text)
        if file == IDLE_FILE:
            weights = _IDLE_WEIGHTS[self.version]
            self._files.write(cgroup, weight_file(self.version), weights[text == "1"])

    def _refusal(self, cgroup: str, file: str, text: str) -> int:
        if file.startswith("cpuset."):
            return self._nested(cgroup, file, CPUSet.parse(text)) if self.version is Version.V1 else 0
        if file == limit_file(self.version):
            kills = text.isdigit() and int(text) < read_memory_usage(self._files, cgroup)
            assert not kills or self.version is Version.V1, f"{text} is below what {cgroup} uses"
            return errno.EBUSY if kills else 0
        if file == weight_file(self.version):
            if has_idle(self._files, cgroup) and self._files.read(cgroup, IDLE_FILE) == "1":
                return errno.EINVAL
            return 0 if self.version is Version.V1 or 1 <= int(text) <= 10_000 else errno.ERANGE
        if file in {quota_file(self.version), period_file(self.version), burst_file(self.version)}:
            return 0 if self._allows(cgroup, file, text) else errno.EINVAL
        return 0

    def _nested(self, cgroup: str, file: str, cpus: CPUSet) -> int:
        below = (self._files.read(child, file) for child in self._files.children(cgroup))
        if any(not CPUSet.parse(each) <= cpus for each in below):
            return errno.EBUSY
        parent = next(ancestors(cgroup), None)
        if parent is not None and not cpus <= CPUSet.parse(self._files.read(parent, file)):
            return errno.EACCES
        return 0

    def _allows(self, cgroup: str, file: str, text: str) -> bool:
        present = read_bandwidth(self._files, cgroup)
        burst = int(self._files.read(cgroup, burst_file(self.version)))
        if file == burst_file(self.version):
            return present.quota is None or int(text) <= present.quota
        if file != quota_file(self.version):
            return self._fits(cgroup, Bandwidth(present.quota, Microseconds(int(text))))
        if text.split(maxsplit=1)[0] in {"-1", "max"}:
            return self._fits(cgroup, Bandwidth(None, present.period))
        quota = Microseconds(int(text.split(maxsplit=1)[0]))
        fits = self._fits(cgroup, Bandwidth(quota, present.period))
        return quota >= SMALLEST_QUOTA and burst <= quota and fits

    def _fits(self, cgroup: str, new: Bandwidth) -> bool:
        if self.version is Version.V2:
            return True
        above = limit_above(self._files, cgroup)
        if new.quota is None:
            new = above
        elif not new.fits_in(above):
            return False
        return all(self._below_fits(child, new) for child in self._files.children(cgroup))

    def _below_fits(self, cgroup: str, limit: Bandwidth) -> bool:
        own = read_bandwidth(self._files, cgroup)
        if own.quota is not None and not own.fits_in(limit):
            return False
        limit = limit if own.quota is None else own
        return all(self._below_fits(child, limit) for child in self._files.children(cgroup))


def limit_above(files: Files, cgroup: str) -> Bandwidth:
    """Return the bandwidth of the nearest bounded ancestor."""
    above = (read_bandwidth(files, each) for each in ancestors(cgroup) if files.exists(each))
    unlimited = Bandwidth(None, Microseconds(PERIOD))
    return next((each for each in above if each.quota is not None), unlimited)


def in_order_everywhere(files: Files, cgroups: Iterable[str]) -> bool:
    """Whether no cgroup has more than its nearest bounded ancestor."""
    for cgroup in cgroups:
        own = read_bandwidth(files, cgroup)
        if own.quota is not None and not own.fits_in(limit_above(files, cgroup)):
            return False
    return True


def plain_tree(root: Path, version: Version, cgroups: Iterable[str]) -> None:
    """Make a tree of plain files below ``root`` that has the shape of sys/fs/cgroup."""
    base = root / "sys/fs/cgroup"
    controllers = ("cpu", "cpuacct", "cpuset", "memory")
    mounts = {name: base if version is Version.V2 else base / name for name in controllers}
    for mount in mounts.values():
        mount.mkdir(parents=True, exist_ok=True)
    if version is Version.V2:
        (base / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    for cgroup in ("/", *cgroups):
        for path in (cgroup, *ancestors(cgroup)):
            for file, text in FRESH[version].items():
                directory = mounts[file.partition(".")[0]] / path.lstrip("/")
                directory.mkdir(parents=True, exist_ok=True)
                if not (directory / file).exists():
                    (directory / file).write_text(f"{text}\n")


def bound(
    cgroup: str,
    quota: int | None,
    base: int | None = None,
    *,
    owner: QuotaOwner = QuotaOwner.NORMALIZATION,
    period: int = PERIOD,
    base_period: int | None = None,
    why: str = "ratio 1.50",
) -> WriteQuota:
    """Return the action that bounds a cgroup."""
    return WriteQuota(
        cgroup,
        owner,
        quota=None if quota is None else Microseconds(quota),
        base=None if base is None else Microseconds(base),
        period=Microseconds(period),
        reason=Reason.RATIO_FROM_MODEL,
        why=why,
        base_period=None if base_period is None else Microseconds(base_period),
    )


def setting(
    cgroup: str,
    what: Setting,
    value: str,
    base: str | None = None,
    *,
    owner: SettingOwner = SettingOwner.BATCH,
    why: str = "as asked",
) -> WriteSetting:
    """Return the action that sets something."""
    return WriteSetting(cgroup, what, owner, value, base, Reason.BATCH_LIMIT_APPLIED, why)


def divided(amount: int, ratio: int) -> int:
    """Return a quota as normalization divides it; the ratio is in hundredths."""
    return max(1000, -(-amount * 100 // ratio))


def killed_child(work: Callable[[], None]) -> int:
    """Run ``work`` in a child process; return the signal that ended it, 0 if it came to its end."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) * -1


def dying(after: int) -> Hook:
    """Return a hook that kills its own process when it has been called ``after`` times."""
    left = [after]

    def at(_point: Point, _cgroup: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return at
