"""Waits of a local cluster: each says what it waits for, and ends when something keeps it from ending.

A wait makes progress when what it counts changes. After :data:`STUCK` seconds without progress it looks for
the reason: a request that the API server refused since, or a line that a program logged since at level
warning or above. It says that it still waits, and for that reason. What happened twice lasts, and ends the
wait; so do :data:`GIVE_UP` seconds without progress.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from corewise_lab.control_plane import ClusterError

T = TypeVar("T")
STUCK = 8.0
GIVE_UP = 60.0
_POLL = 0.1
_SHOWN_AFTER = 1.0
_COMPLAINT = re.compile(r"^\S+Z (?:warning|error|critical) +(.*)$", re.MULTILINE)
"""A line of :mod:`corewise.service.logs`, in its text form."""
_NUMBER = re.compile(r"\d+")


@dataclass(slots=True)
class Failures:
    """The number of failed requests, and the message of the last one."""

    number: int = 0
    last: str = ""

    def note(self, error: Exception) -> None:
        """Count one more."""
        self.number, self.last = self.number + 1, str(error)


@dataclass
class Waits:
    """Makes waits.

    ``failures``: of requests that the simulation itself makes. ``logs``: the log of each program that runs,
    by name. ``tell`` gets lines that stay, about waits without progress; ``show`` what is waited for now.
    """

    failures: tuple[Failures, ...]
    logs: Callable[[], Mapping[str, Path]]
    tell: Callable[[str], None] = lambda _: None
    show: Callable[[str], None] = lambda _: None

    async def until(
        self, what: str, done: Callable[[], bool], *, progress: Callable[[], object] = lambda: None
    ) -> None:
        """Wait until a condition is true; no event stands for it.

        Raises:
            ClusterError: as for :meth:`ending`.
        """

        async def poll() -> None:
            while not done():  # noqa: ASYNC110 - see above
                await asyncio.sleep(_POLL)

        await self.ending(what, poll(), progress=progress)

    async def ending(
        self, what: str, work: Awaitable[T], *, progress: Callable[[], object] = lambda: None
    ) -> T:
        """Wait until ``work`` ends, and return what it returns.

        Raises:
            ClusterError: if something keeps it from ending; ``work`` is canceled then.
        """
        task = asyncio.ensure_future(work)
        stall = Stall(self, what, progress)
        try:
            while not (await asyncio.wait({task}, timeout=_SHOWN_AFTER))[0]:
                self.show(stall.text)
                stall.check()
            return await task
        finally:
            task.cancel()


@dataclass
class Stall:
    """Detects that a wait makes no progress, and finds the reason."""

    waits: Waits
    what: str
    progress: Callable[[], object]
    _at: object = field(init=False)
    _since: float = field(init=False)
    _started: float = field(init=False)
    _told: float = field(init=False)
    _failures: tuple[int, ...] = field(init=False)
    _sizes: dict[Path, int] = field(init=False)

    def __post_init__(self) -> None:
        self._begin()
        self._started = self._since
        self._sizes = {}  # until there is progress, all that was logged may be the reason

    @property
    def text(self) -> str:
        """The object of the wait, and how long it has lasted."""
        seconds = asyncio.get_running_loop().time() - self._started
        return f"waiting for {self.what} ({seconds:.0f} s)"

    def _begin(self) -> None:
        """Record the state of the wait: what went wrong before this progress is not the reason."""
        self._at, self._since = self.progress(), asyncio.get_running_loop().time()
        self._told = self._since
        self._failures = tuple(each.number for each in self.waits.failures)
        self._sizes = {log: log.stat().st_size for log in self.waits.logs().values() if log.exists()}

    def check(self, *, fatal: bool = True) -> None:
        """Report a stuck wait, with the reason if there is one.

        Raises:
            ClusterError: if it is stuck for a reason, or for too long. Never if not ``fatal``.
        """
        now = asyncio.get_running_loop().time()
        if self.progress() != self._at:
            self._begin()
            return
        stuck = now - self._since
        if stuck < STUCK:
            return
        lasting = self._reason(times=2)
        if fatal and (lasting or stuck >= GIVE_UP):
            logs = ", ".join(map(str, self.waits.logs().values()))
            why = lasting or f"  no log says why: {logs}"
            raise ClusterError(f"no progress for {stuck:.0f} s, waiting for {self.what}\n{why}")
        if now - self._told >= STUCK:
            self._told = now
            said = [f"still waiting for {self.what} ({stuck:.0f} s)", lasting or self._reason(times=1)]
            self.waits.tell("\n".join(filter(None, said)))

    def _reason(self, *, times: int) -> str:
        """Return the faults that came at least so many times since the last progress, indented."""
        found = []
        for failed, before in zip(self.waits.failures, self._failures, strict=True):
            if failed.number >= before + times:
                found.append(f"  a request failed: {failed.last}")
        for name, log in self.waits.logs().items():
            if complaint := last_complaint(log, since=self._sizes.get(log, 0), times=times):
                found.append(f"  the {name} logged: {complaint}\n  (in {log})")
        return "\n".join(found)


def last_complaint(log: Path, *, since: int, times: int) -> str:
    """Return the last line at level warning or above that a log has so many times, but for numbers in it."""
    try:
        with log.open("rb") as lines:
            lines.seek(since)
            found = _COMPLAINT.findall(lines.read().decode(errors="replace"))
    except OSError:
        return ""
    alike = Counter(_NUMBER.sub("#", each) for each in found)
    return next((each for each in reversed(found) if alike[_NUMBER.sub("#", each)] >= times), "")
