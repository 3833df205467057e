"""The tables of a file of results: each arm beside kube-scheduler alone, under the same arrivals. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

from experiments.interference_cluster.cells import COREWISE, OWN, STOCK, Outcome
from experiments.interference_cluster.mixes import MIXES
from experiments.markdown import table

Of = Callable[[Outcome], float]
_COLUMNS = (
    *("mix", "pairs", "mean slowdown alone", "with corewise", "difference, points"),
    *("p99 alone", "with corewise", "difference, points"),
)
_NEIGHBORS = (
    *("mix", "pairs", "mean slowdown", "difference from alone", "difference from own"),
    *("p99", "difference from alone", "difference from own"),
)
_PRICES = (*("mix", "makespan", "pods/s", "nodes used", "mean wait for a node", "longest wait"),)


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean of paired differences, and the half-width of its 95 % confidence interval by Student's t."""

    mean: float
    half: float

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ({self.mean - self.half:+.2f} to {self.mean + self.half:+.2f})"


@dataclass(frozen=True, slots=True)
class Pairs:
    """The cells of a mix in an arm, each with that of another arm under the same arrivals."""

    mix: str
    arm: str
    cells: Sequence[Outcome]
    others: Sequence[Outcome]

    def differences(self, of: Of) -> list[float]:
        """Return the differences of the arm from the other one, by pair."""
        return [of(one) - of(other) for one, other in zip(self.cells, self.others, strict=True)]

    def both(self, of: Of, form: str) -> tuple[str, str]:
        """Return the means of the other arm and of this one as texts."""
        others, cells = (fmean(map(of, side)) for side in (self.others, self.cells))
        return format(others, form), format(cells, form)


def difference(of_pairs: Sequence[float]) -> Difference:
    """Return the mean of paired differences; of a single pair the interval has no bounds."""
    if len(of_pairs) == 1:
        return Difference(of_pairs[0], math.inf)
    half = _student(len(of_pairs) - 1) * stdev(of_pairs) / math.sqrt(len(of_pairs))
    return Difference(fmean(of_pairs), half)


def _student(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t, to 0.3 % from 4 degrees of freedom on (Cornish-Fisher)."""
    z = NormalDist().inv_cdf(0.975)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / float(freedom) ** power for power, term in enumerate(terms, 1))


def pairs(outcomes: Sequence[Outcome]) -> Iterator[Pairs]:
    """Yield the pairs of each mix and arm with kube-scheduler alone."""
    arms = dict.fromkeys(each.arm for each in outcomes if each.arm != STOCK)
    for mix in MIXES:
        for arm in arms:
            found = paired(outcomes, mix, arm, STOCK)
            if found.cells:
                yield found


def paired(outcomes: Sequence[Outcome], mix: str, arm: str, other: str) -> Pairs:
    """Return the pairs of a mix in an arm and in another one."""
    of_mix = [each for each in outcomes if each.mix == mix]
    others = {each.seed: each for each in of_mix if each.arm == other}
    cells = [each for each in of_mix if each.arm == arm and each.seed in others]
    return Pairs(mix, arm, cells, [others[each.seed] for each in cells])


def slowdowns(outcomes: Sequence[Outcome]) -> str:
    """Return the table of slowdowns: means over the seeds, and their differences in points of percent."""
    return table(
        _COLUMNS,
        [
            (
                each.mix,
                str(len(each.cells)),
                *each.both(_slowdown, ".2f"),
                str(difference(each.differences(_slowdown))),
                *each.both(_p99, ".1f"),
                str(difference(each.differences(_p99))),
            )
            for each in pairs(outcomes)
        ],
    )


def neighbors(outcomes: Sequence[Outcome]) -> str:
    """Return the table of corewise beside kube-scheduler alone, and beside a score of the pod's own loss."""
    rows = []
    for mix in MIXES:
        alone, own = (paired(outcomes, mix, COREWISE, other) for other in (STOCK, OWN))
        if not alone.cells:
            continue
        row = [mix, str(len(alone.cells))]
        for of, form in ((_slowdown, ".2f"), (_p99, ".1f")):
            before, after = alone.both(of, form)
            row.append(f"{before} → {own.both(of, form)[0]} → {after}")
            row += [str(difference(each.differences(of))) for each in (alone, own)]
        rows.append(row)
    return table(_NEIGHBORS, rows)


def prices(outcomes: Sequence[Outcome]) -> str:
    """Return the table of what it costs: kube-scheduler alone, then with corewise."""
    columns: Sequence[tuple[Of, str, str]] = (
        (lambda each: each.makespan, ".0f", " s"),
        (lambda each: each.pods / each.makespan, ".2f", ""),
        (lambda each: each.nodes, ".1f", ""),
        (lambda each: each.wait, ".2f", " s"),
        (lambda each: each.longest_wait, ".1f", " s"),
    )
    return table(
        _PRICES,
        [
            (each.mix, *(" → ".join(each.both(of, form)) + unit for of, form, unit in columns))
            for each in pairs(outcomes)
        ],
    )


def arms(outcomes: Sequence[Outcome]) -> str:
    """Return a table of several arms, over the seeds that all of them have in a mix.

    A cell has the differences from kube-scheduler alone: in mean slowdown, then in p99.
    """
    found = list(pairs(outcomes))
    names = sorted({each.arm for each in found})
    seeds = {
        mix: set.intersection(
            *({each.seed for each in outcomes if (each.mix, each.arm) == (mix, arm)} for arm in names)
        )
        for mix in MIXES
    }
    common = list(pairs([each for each in outcomes if each.seed in seeds[each.mix]]))
    rows = [
        (
            mix,
            str(len(seeds[mix])),
            *(_both(each for each in common if each.mix == mix and each.arm == arm) for arm in names),
        )
        for mix in MIXES
        if seeds[mix]
    ]
    every = [_both(each for each in common if each.arm == arm) for arm in names]
    return table(("mix", "pairs", *names), [*rows, ("all", str(sum(map(len, seeds.values()))), *every)])


def _both(some: Iterable[Pairs]) -> str:
    every = list(some)
    return "; ".join(
        str(difference([each for one in every for each in one.differences(of)])) for of in (_slowdown, _p99)
    )


def _slowdown(outcome: Outcome) -> float:
    return 100 * outcome.slowdown


def _p99(outcome: Outcome) -> float:
    return 100 * outcome.p99
