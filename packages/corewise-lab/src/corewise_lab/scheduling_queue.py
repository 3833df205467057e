"""The order of scheduling: by priority, then by waiting time; and the time of the next try.

    ready    its turn comes: the largest priority first, of equal ones the first that came
    refused  found no node; nothing happens to it until the cluster changes
    delayed  to be tried again once its delay is over: 1, 2, 4, ... 10 s after the last try

A pod that nothing suited is not tried before something has changed, and is tried all the same after
``LONGEST_REST``. Times are monotonic seconds, given by the caller. Source: kube-scheduler's
backend/queue/scheduling_queue.go.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import Enum, auto

FIRST_DELAY = 1.0
LONGEST_DELAY = 10.0
LONGEST_REST = 300.0


class _State(Enum):
    READY = auto()
    TAKEN = auto()
    REFUSED = auto()
    DELAYED = auto()


@dataclass(slots=True)
class _Entry:
    """A pod. ``due``: when a refused or delayed one is tried again; ``again``: it changed while taken."""

    rank: tuple[int, int]
    state: _State
    tries: int = 0
    again: bool = False
    tried_at: float = 0.0
    due: float = 0.0


class SchedulingQueue:
    """Pods by their uid, each once."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._ready: list[tuple[tuple[int, int], str]] = []
        self._delayed: list[tuple[float, str]] = []
        self._came = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def is_idle(self) -> bool:
        """Whether no pod is ready or taken."""
        return all(each.state in {_State.REFUSED, _State.DELAYED} for each in self._entries.values())

    def is_refused(self, uid: str) -> bool:
        """Whether a pod could not be scheduled, and its next turn has not come yet."""
        entry = self._entries.get(uid)
        return entry is not None and entry.state in {_State.REFUSED, _State.DELAYED}

    def add(self, uid: str, priority: int) -> None:
        """Have a pod scheduled; one that is here already is tried again at once."""
        entry = self._entries.get(uid)
        if entry is None:
            self._came += 1
            entry = self._entries[uid] = _Entry((-priority, self._came), _State.DELAYED)
        if entry.state is _State.TAKEN:
            entry.again = True
        else:
            self._make_ready(uid, entry)

    def remove(self, uid: str) -> None:
        """Forget a pod: it is bound, or gone."""
        self._entries.pop(uid, None)

    def take(self, now: float) -> str | None:
        """Return the pod whose turn it is; it stays out of the queue's reach until it is given back."""
        while self._delayed and self._delayed[0][0] <= now:
            due, uid = heapq.heappop(self._delayed)
            entry = self._entries.get(uid)
            if entry and entry.due == due and entry.state in {_State.REFUSED, _State.DELAYED}:
                self._make_ready(uid, entry)
        while self._ready:
            rank, uid = heapq.heappop(self._ready)
            entry = self._entries.get(uid)
            if entry and entry.rank == rank and entry.state is _State.READY:
                entry.state, entry.tried_at, entry.tries = _State.TAKEN, now, entry.tries + 1
                return uid
        return None

    def refused(self, uid: str) -> None:
        """Give back a pod that no node suits."""
        self._give_back(uid, _State.REFUSED, LONGEST_REST)

    def failed(self, uid: str) -> None:
        """Give back a pod that could not be bound; it is tried again after its delay."""
        self._give_back(uid, _State.DELAYED)

    def changed(self) -> None:
        """Take note that the cluster has changed: refused pods are tried again after their delay."""
        for uid, entry in self._entries.items():
            if entry.state is _State.REFUSED:
                self._delay(uid, entry, _State.DELAYED, _delay_after(entry.tries))

    def try_all(self) -> None:
        """Have all pods tried again at once, whatever their delay."""
        for uid, entry in self._entries.items():
            if entry.state in {_State.REFUSED, _State.DELAYED}:
                self._make_ready(uid, entry)

    def next_due(self) -> float | None:
        """Return the end of the next delay; None if there is none. It may be that of a pod that is gone."""
        return self._delayed[0][0] if self._delayed else None

    def _give_back(self, uid: str, state: _State, delay: float = 0.0) -> None:
        entry = self._entries.get(uid)
        if entry is None or entry.state is not _State.TAKEN:
            return
        if entry.again:
            entry.again = False
            self._make_ready(uid, entry)
        else:
            self._delay(uid, entry, state, delay or _delay_after(entry.tries))

    def _delay(self, uid: str, entry: _Entry, state: _State, delay: float) -> None:
        entry.state, entry.due = state, entry.tried_at + delay
        heapq.heappush(self._delayed, (entry.due, uid))

    def _make_ready(self, uid: str, entry: _Entry) -> None:
        if entry.state is not _State.READY:
            entry.state = _State.READY
            heapq.heappush(self._ready, (entry.rank, uid))


def _delay_after(tries: int) -> float:
    return min(LONGEST_DELAY, FIRST_DELAY * float(1 << min(tries - 1, 10)))
