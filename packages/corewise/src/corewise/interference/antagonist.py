"""Which neighbor makes a pod wait for CPUs, from what all pods of a node used and waited. Pure.

A task waits while somebody else runs on the CPUs it may use. So two figures tell what a neighbor does to a
pod, over the intervals t of a window:

    share(n)      = sum over t of waited(t) * used(n, t) / used by all others(t), divided by sum of waited(t)
    slowdown(n)   = waited * share(n) / (used + waited * share(n) + waited among itself)

``share`` divides the pod's wait among those who ran meanwhile, in proportion to what they ran: a neighbor
that always runs explains much of it, although its usage never varies and so correlates with nothing.
``slowdown`` is the part of the time in which the pod wants to run that it waits for this neighbor alone.

A pod that owns CPUs and the pods that share the rest never run in each other's way: neither is a suspect of
the other, and what the one uses explains nothing of the other's wait.

Who requests what it uses has a claim to it: the weights of cgroups follow requests. So a third figure,
*greed*, is what a neighbor uses while the pod waits, divided by its request. An antagonist is greedier than
its victim.

What a neighbor *wants* is the CPU time that it used and waited for. One that takes what others leave uses
less while the pod is busy, so usage and wait correlate falsely; what it wants does not.

The correlation, after Google's CPI2 (Zhang et al., EuroSys 2013), is of the neighbor's wanted CPUs with the
part of its wanted time that the pod waits, which takes the place of cycles per instruction: both do not
depend on how busy the pod is. It speaks against a neighbor whose wants vary while the wait does not follow.
It cannot name one: while CPUs are short, all pods wait, and all wants rise together.

A neighbor is named if it meets every condition of :func:`_is_antagonist`. Wrongly accused pods cost more
than unnamed ones: where two neighbors are much alike, or a pod is waited for that stays within its request,
none is named. None is named either where the pod waits little, where its own quota throttles it, or where
its own threads wait for one another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from corewise.vocabulary.reasons import Reason

OUTSIDE = "processes outside pods"
"""The neighbor that has the rest of the node's CPU time: daemons, kernel threads, interrupts."""
LONGEST = 120.0
"""Seconds of intervals that are of use: for the correlation; all else is of the last :data:`WINDOW`."""
WINDOW = 30.0
FEWEST, _FEWEST_ALONE = 8, 3
"""Intervals in the window, below which there is no verdict; of a pod that waits for itself, fewer tell."""
SHORTEST = 0.5
"""Seconds of an interval: the node's CPU time is counted in ticks of 10 ms."""

WAITS = 0.2
"""Of the time that a pod wants to run, the part that it waits, from which on it is slowed down."""
_WAITED_AT_LEAST = 0.02
_SHARE = 0.35
_SLOWDOWN = 0.15
_OUTSIDE_SLOWDOWN = 0.3
_AHEAD = 1.5
"""Times the share of the next suspect."""
_GREEDY = 1.1
"""Times its request that an antagonist uses."""
_SUSPECTS = 2
_AGAINST = -0.5
_VARIES = 0.2
"""Standard deviation relative to the mean, from which on a correlation says something."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What kept a pod from running, in CPU seconds per second: others, its own threads, its quota."""

    for_others: float
    among_itself: float = 0.0
    throttled: float = 0.0


@dataclass(frozen=True, slots=True)
class Interval:
    """CPUs used by each pod of a node and by :data:`OUTSIDE`, and the wait of each pod where it is known.

    ``owners``: the pods that run on CPUs of their own.
    """

    seconds: float
    cpus: int
    used: Mapping[str, float]
    waits: Mapping[str, Wait]
    owners: frozenset[str] = frozenset()

    def rivals(self, pod: str) -> Iterator[tuple[str, float]]:
        """Yield the names that may run where a pod runs, and the CPUs that each used."""
        for name, used in self.used.items():
            if name == OUTSIDE or (name != pod and self.owners.isdisjoint({name, pod})):
                yield name, used

    def wanted(self, name: str) -> float:
        """Return the CPUs that a pod used and waited for; of what has no known wait, those it used."""
        wait = self.waits.get(name)
        return self.used.get(name, 0.0) + (wait.for_others + wait.among_itself if wait else 0.0)

    def part_waited(self, name: str) -> float:
        """Return the part of its wanted time that a pod waited."""
        wanted = self.wanted(name)
        return self.waits[name].for_others / wanted if wanted > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Suspect:
    """A neighbor: the part of the wait that it explains, and what else speaks for and against it.

    ``used`` and ``wanted`` are CPUs; ``request`` too, None for processes outside pods. ``correlation`` is
    None where what it wants hardly varies.
    """

    name: str
    share: float
    slowdown: float
    used: float
    wanted: float
    request: float | None = None
    correlation: float | None = None


@dataclass(frozen=True, slots=True)
class Judgment:
    """The verdict on one pod. Amounts are means over the window; the most likely suspect comes first."""

    pod: str
    reason: Reason
    used: float
    wait: Wait
    samples: int
    seconds: float
    suspects: tuple[Suspect, ...] = ()

    @property
    def antagonist(self) -> str:
        """The neighbor that is named; empty if none is."""
        named = self.reason in {Reason.ANTAGONIST_NAMED, Reason.ANTAGONIST_OUTSIDE_PODS}
        return self.suspects[0].name if named else ""


def wait_for_others(
    tasks: Iterable[tuple[float, float]], own: float, others: float, throttled: float
) -> float:
    """Return the part of its tasks' wait in which others ran, of a cgroup that used ``own`` CPUs.

    ``tasks``: what each ran and waited, ``throttled`` seconds a second of it throttled. It waits for the
    other tasks of the cgroup and for ``others``, for each in proportion to what they ran.
    """
    total = 0.0
    for ran, waited in tasks:
        beside = others + max(0.0, own - ran)
        if beside > 0:
            total += max(0.0, waited - throttled) * others / beside
    return total


def is_waiting(pod: str, interval: Interval) -> bool:
    """Whether a pod waits so much for others in one interval that a closer look is worth its cost."""
    wait = interval.waits.get(pod)
    return wait is not None and wait.for_others >= _WAITED_AT_LEAST and interval.part_waited(pod) >= WAITS / 2


def is_held_by_itself(pod: str, interval: Interval) -> bool:
    """Whether a pod's own quota or threads keep it from running for a good part of one interval."""
    wait = interval.waits.get(pod)
    if wait is None:
        return False
    own = wait.among_itself + wait.throttled
    return own >= max(_WAITED_AT_LEAST, WAITS * (interval.wanted(pod) + wait.throttled))


def judge(pod: str, intervals: Sequence[Interval], requests: Mapping[str, float]) -> Judgment:
    """Decide which neighbor makes a pod wait, if one does.

    ``intervals``: the newest last. ``requests``: CPUs that pods request, without those that request none.
    """
    known = [each for each in intervals if each.seconds >= SHORTEST and pod in each.waits]
    window = _newest(known, WINDOW)
    seconds = sum(each.seconds for each in window)

    def mean(values: Iterable[float]) -> float:
        total = sum(value * each.seconds for value, each in zip(values, window, strict=True))
        return total / seconds if seconds else 0.0

    used = mean(each.used.get(pod, 0.0) for each in window)
    waits = [each.waits[pod] for each in window]
    wait = Wait(
        mean(each.for_others for each in waits),
        mean(each.among_itself for each in waits),
        mean(each.throttled for each in waits),
    )
    reason = _own_reason(used, wait, len(window))
    if reason is not None:
        return Judgment(pod, reason, used, wait, len(window), seconds)
    suspects = _suspects(pod, window, _newest(known, LONGEST), requests)
    reason = Reason.NO_SINGLE_ANTAGONIST
    greed = _greed(used, requests.get(pod, 0.0))
    if suspects and _is_antagonist(suspects, greed):
        is_outside = suspects[0].name == OUTSIDE
        reason = Reason.ANTAGONIST_OUTSIDE_PODS if is_outside else Reason.ANTAGONIST_NAMED
    return Judgment(pod, reason, used, wait, len(window), seconds, tuple(suspects))


def _newest(intervals: Sequence[Interval], seconds: float) -> Sequence[Interval]:
    count, total = 0, 0.0
    while count < len(intervals) and total + intervals[-1 - count].seconds <= seconds:
        count += 1
        total += intervals[-count].seconds
    return intervals[len(intervals) - count :]


def _own_reason(used: float, wait: Wait, samples: int) -> Reason | None:
    """Return the reason to look for no antagonist; None if there may be one."""
    if samples < _FEWEST_ALONE:
        return Reason.TOO_FEW_SAMPLES
    if wait.throttled >= max(_WAITED_AT_LEAST, wait.for_others):
        return Reason.OWN_QUOTA_THROTTLES
    others = Reason.TOO_FEW_SAMPLES if samples < FEWEST else None
    if wait.for_others >= max(_WAITED_AT_LEAST, WAITS * (used + wait.for_others + wait.among_itself)):
        return others
    if wait.among_itself >= max(_WAITED_AT_LEAST, WAITS * (used + wait.among_itself)):
        return Reason.OWN_THREADS_WAIT
    return others or Reason.WAITS_LITTLE


def _suspects(
    pod: str, window: Sequence[Interval], history: Sequence[Interval], requests: Mapping[str, float]
) -> list[Suspect]:
    """Return the most likely neighbors, the likeliest first; alike ones in the order of their names."""
    names = {name for each in window for name, _ in each.rivals(pod)}
    else_wanted = sum((each.wanted(pod) - each.waits[pod].for_others) * each.seconds for each in window)
    seconds = sum(each.seconds for each in window)
    weights = [each.waits[pod].for_others * each.seconds for each in window]
    waited = sum(weights)
    explained = dict.fromkeys(names, 0.0)
    for each in window:
        rivals = dict(each.rivals(pod))
        others = sum(rivals.values())
        for name, used in rivals.items():
            if others > 0:
                explained[name] += each.waits[pod].for_others * each.seconds * used / others
    order = sorted(explained, key=lambda name: (-explained[name], name))
    pace = [each.part_waited(pod) for each in history]

    def suspect(name: str) -> Suspect:
        return Suspect(
            name,
            share=explained[name] / waited,
            slowdown=explained[name] / (else_wanted + explained[name]) if explained[name] else 0.0,
            used=sum(w * each.used.get(name, 0.0) for w, each in zip(weights, window, strict=True)) / waited,
            wanted=sum(each.wanted(name) * each.seconds for each in window) / seconds,
            request=None if name == OUTSIDE else requests.get(name, 0.0),
            correlation=_correlation(pace, [each.wanted(name) for each in history]),
        )

    return [suspect(name) for name in order[:_SUSPECTS]]


def _is_antagonist(suspects: Sequence[Suspect], greed: float) -> bool:
    """Whether the first of the suspects is to be named; ``greed`` is that of the pod that waits."""
    first = suspects[0]
    others = [each.share for each in suspects[1:]]
    if first.share < max([_SHARE, *(_AHEAD * each for each in others)]):
        return False
    if first.correlation is not None and first.correlation <= _AGAINST:
        return False
    if first.request is None:
        return first.slowdown >= _OUTSIDE_SLOWDOWN
    return first.slowdown >= _SLOWDOWN and _greed(first.used, first.request) >= max(_GREEDY, greed)


def _greed(used: float, request: float) -> float:
    """Return the usage of a pod as a multiple of its request."""
    return used / request if request > 0 else math.inf


def _correlation(pace: Sequence[float], wanted: Sequence[float]) -> float | None:
    """Return Pearson's correlation; None where one of the two hardly varies."""
    count = len(pace)
    means = sum(pace) / count, sum(wanted) / count
    squares = [
        sum((each - mean) ** 2 for each in row) for row, mean in zip((pace, wanted), means, strict=True)
    ]
    if any(
        square <= 0 or math.sqrt(square / count) < _VARIES * mean
        for square, mean in zip(squares, means, strict=True)
    ):
        return None
    products = sum((a - means[0]) * (b - means[1]) for a, b in zip(pace, wanted, strict=True))
    return products / math.sqrt(squares[0] * squares[1])
