"""The report on a cluster for people who decide: what CPUs are worth, and what corewise yields (pure).

Three kinds of CPU are never mixed in one figure. *Raw* CPUs are those that the kernel counts, *normalized*
ones raw x normalization ratio, *schedulable* ones raw x amplification ratio; all of allocatable. What one
CPU in a request is worth is in baseline CPUs: a node of ratio 2.00 does the work of two for each raw CPU.

    without corewise    the node's ratio by the configuration
    with corewise       that ratio / the ratio annotated on the node, by which its quotas are divided

A run of the local cluster measures both, and its figures then stand in their place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from corewise.planner.savings import Savings
from corewise.quantities import ONE, Ratio, RatioError
from corewise.views.machine_kinds import Kind, kind_names
from corewise.views.node_listing import ListedNode
from corewise.views.node_table import NodeRow, SummedAmounts, total_of
from corewise.views.offline_table import TopRow
from corewise.views.page.problems import KnownProblem
from corewise.vocabulary.reasons import Reason

_HUNDRED = 100
_REASONS = {each.value: each for each in Reason}


@dataclass(frozen=True, slots=True)
class Worth:
    """The worth of one requested CPU, in hundredths of a baseline CPU; None is unknown."""

    without: int | None
    now: int | None


@dataclass(frozen=True, slots=True)
class MachineKind:
    """Nodes of one CPU model with the same settings. ``amounts`` are the sums of :func:`sums_of`."""

    name: str
    nodes: int
    amounts: SummedAmounts
    worth: Worth


@dataclass(frozen=True, slots=True)
class ProblemGroup:
    """Objects with the same reason; ``command`` is the one that explains the first of them."""

    reason: str
    kind: str
    objects: tuple[str, ...]
    message: str
    fix: str
    command: str


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """All that the report shows. ``savings`` is None where the pods are not known.

    ``total``: the sums of :func:`sums_of`, which leave out ``without_raw`` nodes. ``offline`` has the nodes
    that report about offline pods, ``offline_total`` their sum (None: no node does). ``measured``: the worths
    are measured, not computed from ratios. ``missing``: unreadable objects.
    """

    source: str
    time: str
    kinds: tuple[MachineKind, ...]
    unknown: int
    total: SummedAmounts
    without_raw: int
    nodes: int
    savings: Savings | None
    offline: tuple[TopRow, ...]
    offline_total: TopRow | None
    problems: tuple[ProblemGroup, ...]
    missing: tuple[str, ...]
    measured: bool = False

    @property
    def gained(self) -> int:
        """The schedulable CPUs beyond the raw ones, in milli-CPU."""
        return (self.total.schedulable or 0) - (self.total.raw or 0)

    @property
    def gained_by_speed(self) -> int:
        """The part of the gain that is the speed of the CPUs, in milli-CPU; the rest is overcommitted."""
        return min(self.gained, (self.total.normalized or 0) - (self.total.raw or 0))

    def with_measured(self, without: Mapping[str, float], now: Mapping[str, float]) -> ClusterReport:
        """Return the report with the worths in baseline CPUs that a run has measured, by kind of machine."""

        def hundredths(value: float | None) -> int | None:
            return None if value is None else round(value * _HUNDRED)

        kinds = tuple(
            replace(each, worth=Worth(hundredths(without.get(each.name)), hundredths(now.get(each.name))))
            for each in self.kinds
        )
        return replace(self, kinds=_by_worth(kinds), measured=True)


def sums_of(rows: Iterable[NodeRow]) -> SummedAmounts:
    """Return the sums over nodes whose raw CPUs are known: what others offer has no raw CPUs beside it."""
    return total_of([row for row in rows if row.amounts.raw is not None]).amounts


def machine_kinds(listed: Iterable[ListedNode], rows: Sequence[NodeRow]) -> tuple[MachineKind, ...]:
    """Return the kinds of machines, the slowest first; nodes without CPU facts are in none."""
    nodes: dict[Kind, list[tuple[ListedNode, NodeRow]]] = defaultdict(list)
    for each, row in zip(listed, rows, strict=True):
        if row.facts.cpu_model:
            kind = (row.facts.cpu_model, bool(row.facts.hyper_threading), bool(row.facts.turbo))
            nodes[kind].append((each, row))
    names = kind_names(nodes)
    return _by_worth(_kind(names[kind], members) for kind, members in nodes.items())


def _by_worth(kinds: Iterable[MachineKind]) -> tuple[MachineKind, ...]:
    return tuple(sorted(kinds, key=lambda each: (each.worth.without or 0, each.name)))


def _kind(name: str, members: Sequence[tuple[ListedNode, NodeRow]]) -> MachineKind:
    worths = [_worth(listed, row) for listed, row in members]
    return MachineKind(
        name=name,
        nodes=len(members),
        amounts=sums_of(row for _, row in members),
        worth=Worth(_mean(each.without for each in worths), _mean(each.now for each in worths)),
    )


def _worth(listed: ListedNode, row: NodeRow) -> Worth:
    ratio = listed.assessment.normalization.ratio
    if ratio is None or listed.assessment.normalization.reason is Reason.NORMALIZATION_DISABLED:
        return Worth(None, None)  # nothing says how fast its CPUs are
    try:
        applied = Ratio.parse(row.facts.normalization_ratio or str(ONE))
    except RatioError:
        applied = ONE
    now = (ratio.hundredths * _HUNDRED + applied.hundredths // 2) // max(1, applied.hundredths)
    return Worth(ratio.hundredths, now)


def _mean(values: Iterable[int | None]) -> int | None:
    known = [each for each in values if each is not None]
    return (sum(known) + len(known) // 2) // len(known) if known else None


def grouped(problems: Iterable[KnownProblem]) -> tuple[ProblemGroup, ...]:
    """Return the problems by reason and kind of object, those of most objects first."""
    found: dict[tuple[str, str], list[KnownProblem]] = defaultdict(list)
    for each in problems:
        found[each.reason, each.kind].append(each)
    groups = (
        ProblemGroup(
            reason=reason,
            kind=kind,
            objects=tuple(dict.fromkeys(each.name for each in members)),
            message=_REASONS[reason].meaning
            if len(members) > 1 and reason in _REASONS
            else members[0].message,
            fix=members[0].fix,
            command=members[0].command,
        )
        for (reason, kind), members in found.items()
    )
    return tuple(sorted(groups, key=lambda each: (-len(each.objects), each.reason)))


def worth_range(kinds: Iterable[MachineKind], *, now: bool) -> tuple[int, int] | None:
    """Return the least and the largest worth of a requested CPU in hundredths; None if it is unknown."""
    values = [each for kind in kinds if (each := kind.worth.now if now else kind.worth.without) is not None]
    return (min(values), max(values)) if values else None
