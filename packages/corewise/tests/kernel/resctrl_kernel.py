"""resctrl as the kernel serves it, in memory: it refuses what the kernel refuses, and says so as the kernel.

The rules and the sentences in ``last_cmd_status`` are those of fs/resctrl (rdtgroup.c, ctrlmondata.c) and of
Documentation/filesystems/resctrl.rst: a mask is contiguous, has the fewest bits and no others than the cache;
a bandwidth is within its bounds and rounded up; a task is in one group, its children begin in the same; a
group that is removed leaves its tasks to the root. What exclusive groups have to themselves is ``taken``.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable

from corewise.kernel.errors import Missing, writing_error
from corewise.kernel.resctrl import AllocationInfo
from corewise.kernel.writing.resctrl_writer import DIRECTORY, MADE
from corewise.vocabulary.findings import Finding

LARGEST_ON_INTEL, LARGEST_ON_AMD = 100, 2048


class ResctrlKernel:
    """A machine with two caches. ``tasks`` are all threads alive, with the group that each is in.

    ``taken`` has by cache the ways that no one else may have; ``failing`` the errno of each next write.
    """

    def __init__(
        self,
        *,
        ways: int = 20,
        fewest: int = 1,
        caches: tuple[str, ...] = ("L3",),
        bandwidth: tuple[int, int, int] | None = (LARGEST_ON_INTEL, 10, 10),
        closids: int = 16,
        domains: tuple[int, ...] = (0, 1),
    ) -> None:
        self.full, self.fewest, self.closids = (1 << ways) - 1, fewest, closids
        self.bandwidth = bandwidth
        self.caches, self.domains = caches, domains
        self.usable = self.full
        self.taken: dict[int, int] = {}
        self.failing: list[int] = []
        self.absent: Finding | None = None
        self.read_only = False
        self.status = "ok"
        self.tasks: dict[int, str] = {}
        self.schemata: dict[str, dict[str, dict[int, int]]] = {}
        self.before_move: Callable[[int], None] = lambda _task: None
        self.writes = 0
        self._make("")

    def fork(self, parent: int, child: int) -> None:
        self.tasks[child] = self.tasks[parent]

    def inside(self, group: str) -> set[int]:
        return {task for task, its in self.tasks.items() if its == group}

    def remove(self, group: str) -> None:
        self.schemata.pop(group, None)
        self.tasks = {task: "" if its == group else its for task, its in self.tasks.items()}

    def free(self, cache: int) -> int:
        """The ways of a new group: the first contiguous ones that no exclusive group holds."""
        ways = self.usable & ~self.taken.get(cache, 0)
        return ways & ~(ways + (ways & -ways))

    def allocation(self) -> AllocationInfo | Finding:
        if self.absent is not None:
            return self.absent
        caches = dict.fromkeys(self.caches, (self.full, self.fewest))
        return AllocationInfo(caches, self.bandwidth[1:] if self.bandwidth else None)

    def groups(self) -> frozenset[str]:
        return frozenset(self.schemata) - {""}

    def read(self, group: str, file: str) -> str:
        if group not in self.schemata:
            raise Missing(f"{group}/{file}", "ENOENT")
        if file == "tasks":
            return "".join(f"{task}\n" for task in sorted(self.inside(group)))
        lines = []
        for resource, values in self.schemata[group].items():
            form = "d" if resource == "MB" else "x"
            lines.append(
                f"{resource:>6}:" + ";".join(f"{each}={value:{form}}" for each, value in values.items())
            )
        return "\n".join(lines) + "\n"

    def write(self, cgroup: str, file: str, text: str) -> None:
        self.writes += 1
        if self.read_only:
            raise writing_error(f"{cgroup}/{file}", OSError(errno.EROFS, ""), value=text)
        self.status = "ok"
        if self.failing:
            self._refuse(text, "drawn", self.failing.pop())
        if (file, text) != (DIRECTORY, MADE) and cgroup not in self.schemata:
            raise Missing(f"{cgroup}/{file}", "ENOENT")
        if file != DIRECTORY:
            self._set(cgroup, text)
        elif text == MADE:
            self._make(cgroup)
        else:
            self.remove(cgroup)

    def move(self, group: str, tasks: Iterable[int]) -> int:
        moved = 0
        for task in tasks:
            self.before_move(task)
            if group not in self.schemata:
                raise Missing(f"{group}/tasks", "ENODEV")
            if task in self.tasks:
                self.tasks[task] = group
                moved += 1
        return moved

    def _make(self, group: str) -> None:
        if len(self.schemata) == self.closids:
            self._refuse(group, "Out of CLOSIDs", errno.ENOSPC)
        for cache in self.domains:
            if self.free(cache).bit_count() < self.fewest:
                self._refuse(group, f"No space on L3:{cache}", errno.ENOSPC)
        made = {resource: {cache: self.free(cache) for cache in self.domains} for resource in self.caches}
        if self.bandwidth:
            made["MB"] = dict.fromkeys(self.domains, self.bandwidth[0])
        self.schemata[group] = made

    def _set(self, group: str, line: str) -> None:
        resource, _, values = line.partition(":")
        if resource not in self.schemata[group]:
            self._refuse(line, f"Unknown or unsupported resource name '{resource}'")
        staged = {}
        for each in values.split(";"):
            domain, _, value = each.partition("=")
            if int(domain) not in self.domains:
                self._refuse(line, "Unknown domain")
            if resource == "MB":
                staged[int(domain)] = self._bandwidth(line, value)
            else:
                staged[int(domain)] = self._mask(line, value, self.taken.get(int(domain), 0))
        self.schemata[group][resource] |= staged

    def _mask(self, line: str, text: str, taken: int) -> int:
        mask = int(text, 16)
        bits = f"{mask:b}".strip("0")
        if not mask or mask & ~self.full:
            self._refuse(line, f"Mask out of range {text}")
        if "0" in bits:
            self._refuse(line, f"The mask {mask:x} has non-consecutive 1-bits")
        if len(bits) < self.fewest:
            self._refuse(line, f"Need at least {self.fewest} bits in the mask")
        if mask & (taken | ~self.usable):
            self._refuse(line, "Overlaps with exclusive group")
        return mask

    def _bandwidth(self, line: str, text: str) -> int:
        assert self.bandwidth is not None
        largest, smallest, step = self.bandwidth
        value = int(text)
        if not smallest <= value <= largest:
            self._refuse(line, f"MB value {value} out of range [{smallest},{largest}]")
        return -(-value // step) * step

    def _refuse(self, value: str, status: str, code: int = errno.EINVAL) -> None:
        self.status = status
        error = writing_error(value, OSError(code, ""), value=value)
        message = f'{error} the kernel says "{status}"'
        raise type(error)(value, message, code=code)
