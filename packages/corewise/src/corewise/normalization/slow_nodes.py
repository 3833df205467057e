"""Nodes that are slower than their peers: heat, a power cap, a noisy host, a bad memory module. Pure.

**Peers** are the other nodes with the same CPU model, hyper-threading and turbo, measured with the same mix,
Python and zlib; at least :data:`LEAST_PEERS` of them. A *deviation* is how much slower than the median of its
peers' scores a node's score is. A score counts if it shares no run with the last one that counted, so that
the two are independent, and is at least :data:`_DAY` younger. An agent that does not report its oldest run
has one score that counts: the later ones may share runs with it.

**Noise.** A single score says little: with 3 % of noise, one in twenty of a healthy node is 5 % too low. The
noise of a group is taken from the group itself: sigma = 1.4826 x the median of all absolute deviations of its
nodes in the last :data:`REMEMBERED` scores, which slow nodes hardly change, and of at least
:data:`LEAST_DEVIATIONS`. The relative error of such an estimate is 1.17 / sqrt(m) for m deviations, so sigma
is divided by 1 - 3 x 1.17 / sqrt(m): it is then too small in one of 700 cases. It is at least 1 %, and for
each score at least the standard error that the node's own runs show: 0.93 x spread / sqrt(runs).

**Slow**: over its last k scores, for any k >= 2, a node is slower by more than 5 % on average and in most of
them, and by more than sqrt(30) = 5.5 standard errors of that average:

    sum > k x 5 %    and    sum^2 > 30 x (sigma_1^2 + ... + sigma_k^2)

So precise scores tell on the second day, noisy ones later, and one bad day tells nothing. Of normal noise, a
healthy node exceeds 5.5 standard errors once in 4.6 x 10^7 trials: with all 29 windows, at most once in
1.5 x 10^6 of its scores.

**No longer slow**: over its last k >= 2 scores, it is less than 5 % slower by more than 3 standard errors.
Earlier scores are then forgotten. In between a node stays what it is; so does one that was slow when the
manager started. A node without a recent score, or with too few peers, is not judged.

Sources: P. J. Rousseeuw, C. Croux, Alternatives to the Median Absolute Deviation, JASA 88 (1993), for the
estimate of sigma and its efficiency of 37 %; T. L. Lai, Sequential changepoint detection in quality control
and dynamical systems, JRSS B 57 (1995), for tests of all recent windows.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from math import isqrt

from corewise.normalization.calibration import ModelSetting
from corewise.normalization.fleet import LIMIT, ScoredNode, moment

LEAST_PEERS = 4
LEAST_DEVIATIONS = 30
REMEMBERED = 30
"""Scores of a node that count, at least a day apart."""
_DAY = timedelta(hours=20)
"""The least time between two scores that count: agents measure at about the same hour, not to the minute."""
_WHOLE = 10_000
_LIMIT = int(LIMIT * _WHOLE)
_LEAST_SIGMA = 100
_SLOW_SQUARED = 30
_OVER_SQUARED = 9
_LEAST_SCORES = 2


@dataclass(frozen=True, slots=True)
class Deviation:
    """A node's score against the median of its peers', in basis points: positive is slower.

    ``since`` and ``measured`` are the times of the score's oldest and newest run; ``since`` is None where the
    agent does not report it. ``error`` is the standard error of the score by the node's own runs.
    """

    since: datetime | None
    measured: datetime
    slower: int
    error: int
    peers: int

    def is_apart_from(self, earlier: Deviation) -> bool:
        """Whether this score shares no run with an earlier one, and is of another day."""
        since = self.since
        return since is not None and since > earlier.measured and self.measured - earlier.measured >= _DAY


@dataclass(frozen=True, slots=True)
class SlowNode:
    """A node that is slower than its peers: by ``slower`` basis points over ``scores`` scores."""

    name: str
    model: str
    slower: int
    scores: int
    peers: int

    @property
    def message(self) -> str:
        """One sentence with the numbers."""
        return (
            f"{self.slower / 100:.1f} % slower than the median of {self.peers} other nodes with "
            f'"{self.model}", over its last {self.scores} scores'
        )


@dataclass(frozen=True, slots=True)
class SlowNodes:
    """The verdict on all nodes.

    ``slow``: by name, those with evidence that they are slow. ``unchanged``: those that were slow before,
    without evidence of either. All others are not slow, or cannot be judged.
    """

    slow: Mapping[str, SlowNode]
    unchanged: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Peers:
    """What a node's score is compared with: so many peers, and the median of their scores.

    ``slower``: by how much the node's score is lower, in basis points.
    """

    count: int
    median: int
    slower: int


def peers_of(name: str, nodes: Iterable[ScoredNode], now: datetime) -> Peers | None:
    """Return the peers of a node; None if its score is not recent, or it has too few."""
    for group in _groups(nodes, now):
        for place, (node, _) in enumerate(group):
            if node.name == name:
                doubled = _doubled_median_without([each.report.score for each, _ in group], place)
                return Peers(len(group) - 1, doubled // 2, _slower(node, doubled))
    return None


def deviations(nodes: Iterable[ScoredNode], now: datetime) -> Mapping[str, Deviation]:
    """Return the deviation of each node that has a recent score and enough peers."""
    found = {}
    for group in _groups(nodes, now):
        scores = [node.report.score for node, _ in group]
        for place, (node, measured) in enumerate(group):
            slower = _slower(node, _doubled_median_without(scores, place))
            since = moment(node.report.measured_since)
            found[node.name] = Deviation(since, measured, slower, _own_error(node), len(group) - 1)
    return found


def _groups(nodes: Iterable[ScoredNode], now: datetime) -> Iterator[list[tuple[ScoredNode, datetime]]]:
    """Yield the nodes that are compared with each other, with the times of their scores, the lowest first."""
    groups: dict[object, list[tuple[ScoredNode, datetime]]] = defaultdict(list)
    for node in nodes:
        measured = node.measured
        if measured is not None and node.is_recent(now):
            groups[node.setting, node.toolchain].append((node, measured))
    for group in groups.values():
        if len(group) > LEAST_PEERS:
            yield sorted(group, key=lambda each: each[0].report.score)


def _slower(node: ScoredNode, doubled_median: int) -> int:
    return (doubled_median - 2 * node.report.score) * _WHOLE // doubled_median


def _doubled_median_without(scores: Sequence[int], place: int) -> int:
    """Return twice the median of sorted scores, without the one at a place."""
    others = len(scores) - 1
    middle = (others // 2, (others - 1) // 2)
    return sum(scores[each if each < place else each + 1] for each in middle)


def _own_error(node: ScoredNode) -> int:
    """Return the standard error of a median of runs: 1.25 sigma / sqrt(n), sigma = quartile width / 1.35."""
    return 93 * node.report.spread // (10 * isqrt(100 * node.report.runs))


@dataclass(slots=True)
class _History:
    """The last deviations of one node that count, the latest first; ``current``: that of its score."""

    setting: ModelSetting
    deviations: deque[Deviation] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    current: Deviation | None = None

    def forget_all_but(self, latest: int) -> None:
        self.deviations = deque(islice(self.deviations, latest), maxlen=REMEMBERED)


class ScoreHistory:
    """The deviations of all nodes by their last scores. It can be lost without harm: see the module."""

    def __init__(self) -> None:
        self._nodes: dict[str, _History] = {}

    def take(self, nodes: Collection[ScoredNode], now: datetime) -> None:
        """Note the scores that nodes have now; of nodes that have none, everything is forgotten."""
        found = deviations(nodes, now)
        settings = {each.name: each.setting for each in nodes}
        kept = {}
        for name, setting in settings.items():
            known = self._nodes.get(name)
            history = known if known is not None and known.setting == setting else _History(setting)
            deviation = found.get(name)
            history.current = deviation
            latest = history.deviations[0] if history.deviations else None
            if deviation is not None and (latest is None or deviation.is_apart_from(latest)):
                history.deviations.appendleft(deviation)
            kept[name] = history
        self._nodes = kept

    def relative_speeds(self) -> Mapping[str, float]:
        """Return the speed of each node by its score, where 1 is the median of its peers."""
        return {
            name: 1 - each.current.slower / _WHOLE
            for name, each in self._nodes.items()
            if each.current is not None
        }

    def judge(self, before: Collection[str] = ()) -> SlowNodes:
        """Return the slow nodes; ``before``: the names of those that were slow until now."""
        groups: dict[ModelSetting, list[int]] = defaultdict(list)
        for each in self._nodes.values():
            groups[each.setting] += [abs(deviation.slower) for deviation in each.deviations]
        sigmas = {setting: _sigma(found) for setting, found in groups.items()}
        slow, unchanged = {}, set()
        for name, history in self._nodes.items():
            sigma = sigmas[history.setting]
            if history.current is None:
                continue
            was_slow = name in before
            if sigma is None:
                if was_slow:
                    unchanged.add(name)
                continue
            if was_slow and (scores := _over(history.deviations, sigma)):
                history.forget_all_but(scores)
            elif found := _slow(name, history, sigma):
                slow[name] = found
            elif was_slow:
                unchanged.add(name)
        return SlowNodes(slow, frozenset(unchanged))


def _sigma(absolute: list[int]) -> int | None:
    """Return the noise of a group from its absolute deviations, at the upper end of its interval."""
    count = len(absolute)
    if count < LEAST_DEVIATIONS:
        return None
    absolute.sort()
    doubled = absolute[count // 2] + absolute[(count - 1) // 2]
    # 1.4826 / (1 - 3.51 / sqrt(count)), with the square root in hundredths
    root = isqrt(count * _WHOLE)
    return max(_LEAST_SIGMA, doubled * 14826 * root // (2 * _WHOLE * (root - 351)))


def _slow(name: str, history: _History, sigma: int) -> SlowNode | None:
    """Return the strongest evidence that a node is slow, if there is any."""
    total = variance = below = best = best_variance = scores = 0
    for count, each in enumerate(history.deviations, 1):
        total += each.slower
        variance += max(sigma, each.error) ** 2
        below += each.slower > _LIMIT
        is_slow = count >= _LEAST_SCORES and total > count * _LIMIT and 2 * below > count
        is_certain = total * total > _SLOW_SQUARED * variance
        if is_slow and is_certain and (not scores or total**2 * best_variance > best**2 * variance):
            best, best_variance, scores = total, variance, count
    if not scores:
        return None
    return SlowNode(name, history.setting[0], best // scores, scores, history.deviations[0].peers)


def _over(deviations: Iterable[Deviation], sigma: int) -> int:
    """Return over how many of its last scores a node is as fast as it should be; 0 if it is not."""
    missing = variance = 0
    for count, each in enumerate(deviations, 1):
        missing += _LIMIT - each.slower
        variance += max(sigma, each.error) ** 2
        if count >= _LEAST_SCORES and missing > 0 and missing**2 > _OVER_SQUARED * variance:
            return count
    return 0
