"""Which pods make way for a pod of higher priority on one node, counted as the engine counts.

kube-scheduler chooses victims by its own filters, to which an owned CPU is one CPU. What is decided here
starts from its choice and ends with a set without which the engine's filters admit the pod: a victim that
owns CPUs gives back these CPUs and its request x ratio; shapes of whole cores, NUMA zones and memory
bandwidth count.

How: all pods of lower priority leave, and come back one by one, the most important first, as long as the pod
still fits: kube-scheduler's own way. Those whose eviction violates a PodDisruptionBudget come back before all
others. Whoever cannot come back is a victim, so no set of victims has one too many. Of pods of equal
priority the older ones come back first; that can cost two pods where one larger would do, so two more orders
are tried (small pods first, large pods first), and the cheapest set counts, by kube-scheduler's criteria:

    fewest violations of budgets, lowest highest priority, smallest sum of priorities, fewest pods;
    then the least CPU, then the youngest pod

A victim of kube-scheduler's own comes back only if the room it needs explains why it was chosen (beside the
other victims it would not fit), and if there is room for it now by kube-scheduler's arithmetic: its other
filters, such as host ports and anti-affinity, are not known here.

What is measured of a node includes its pods. A victim that an interference profile describes takes its
profile with it, but for the part that counts as a counterweight, which measurements do not show yet. They are
averages, so for some minutes they include pods that have ended, such as earlier victims: their profiles are
taken out too, less with every second. So are the entries in the ledger of owners that have ended: the leader
removes them within seconds. So the same pod is not given further victims while all it lacks is that averages
and ledger follow (:func:`waits_for_ended`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from corewise.engine.amplified_cpu import needed_on, owned_on
from corewise.engine.cluster import Cluster, Measured
from corewise.engine.facts import PODS, Placement, PodFacts
from corewise.engine.framework import ChosenNode, Engine
from corewise.engine.kube_plugins import NodeConstraints, NodeResourcesFit
from corewise.engine.objects import BudgetSelector, DisruptionBudget
from corewise.vocabulary.selectors import NOTHING, LabelSelector, Operator, Requirement

_LOWEST: Final = 1 << 31
"""kube-scheduler adds it to every priority, so that many pods of negative priority cost more than few."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod of lower priority on the node.

    ``started``: Unix time. ``guarded``: its eviction violates a PodDisruptionBudget. ``proposed``: it is one
    of kube-scheduler's own victims.
    """

    pod: PodFacts
    placement: Placement
    uid: str
    priority: int
    started: float
    guarded: bool = False
    proposed: bool = False

    @property
    def importance(self) -> tuple[int, float]:
        """The key that sorts victims by importance, the most important first."""
        return -self.priority, self.started


def with_budgets(victims: Iterable[Victim], budgets: Sequence[DisruptionBudget]) -> list[Victim]:
    """Return victims by importance; guarded: its eviction, after those of all before it, violates a budget.

    Source: filterPodsWithPDBViolation of kube-scheduler. There an empty selector selects nothing.
    """
    selectors = [_selector(each.spec.selector) for each in budgets]
    left = [each.status.disruptions_allowed for each in budgets]
    found: list[Victim] = []
    for victim in sorted(victims, key=lambda each: each.importance):
        namespace, _, name = victim.pod.key.partition("/")
        violates = False
        for number, budget in enumerate(budgets):
            if budget.metadata.namespace != namespace or name in (budget.status.disrupted_pods or ()):
                continue
            if victim.pod.labels and selectors[number].matches(victim.pod.labels):
                left[number] -= 1
                violates |= left[number] < 0
        found.append(replace(victim, guarded=violates))
    return found


def _selector(stated: BudgetSelector | None) -> LabelSelector:
    """Return a budget's selector; one that cannot be read selects nothing."""
    if stated is None:
        return NOTHING
    requirements = [*LabelSelector.of_labels(stated.match_labels or {}).requirements]
    for each in stated.match_expressions or ():
        if each.operator not in set(Operator):
            return NOTHING
        requirements.append(Requirement(each.key, Operator(each.operator), frozenset(each.values or ())))
    return LabelSelector(tuple(requirements)) if requirements else NOTHING


def cheapest_victims(
    engine: Engine, node: Cluster, pod: PodFacts, victims: Sequence[Victim], published: Mapping[str, int]
) -> list[Victim] | None:
    """Return the victims that make room for a pod, by importance; None if all of them together do not.

    ``node``: the cluster of this node alone, with all pods; it has none of the victims afterwards.
    ``victims``: all pods that may be evicted. ``published``: the node's allocatable amounts, by which
    kube-scheduler counts.
    """
    room = _Room(engine, node, pod, victims, published)
    if not room.fits():
        return None
    sizes = {each.uid: _size(each, node) for each in victims}
    orders: tuple[Callable[[Victim], tuple[float, ...]], ...] = (
        lambda each: (each.started,),
        lambda each: (sizes[each.uid], each.started),
        lambda each: (-sizes[each.uid], each.started),
    )
    found: list[list[Victim]] = []
    for order in orders:
        ranked = sorted(victims, key=lambda each: (not each.guarded, -each.priority, *order(each)))
        found.append(room.left_out(ranked))
        if len(found[0]) <= 1:
            break

    def cost(chosen: list[Victim]) -> tuple[float, ...]:
        return (
            sum(each.guarded for each in chosen),
            max((each.priority for each in chosen), default=-_LOWEST),
            sum(each.priority + _LOWEST for each in chosen),
            len(chosen),
            sum(sizes[each.uid] for each in chosen),
            -min((each.started for each in chosen), default=0.0),
        )

    cheapest: list[Victim] = min(found, key=cost)
    return sorted(cheapest, key=lambda each: each.importance)


def waits_for_ended(engine: Engine, node: Cluster, pod: PodFacts) -> bool:
    """Whether a pod fits on a node but for what measurements and ledger still show of pods that have ended.

    kube-scheduler's own checks count too: for a node that was cordoned, or filled by others, no pod waits.
    ``node``: the cluster of this node alone, which is changed.
    """
    if engine.decide(pod, node.snapshot()).node is not None:
        return False
    if cheapest_victims(engine, node, pod, (), {}) is None:
        return False
    kube_checks = Engine.of(NodeConstraints(), NodeResourcesFit())
    return kube_checks.decide(pod, node.snapshot()).node is not None


def _size(victim: Victim, node: Cluster) -> int:
    """Return the amplified milli-CPU that a pod takes of the node."""
    snapshot, pod = node.snapshot(), replace(victim.pod, kept=len(victim.placement.cpus))
    needed = needed_on(pod, owned_on(pod, snapshot), snapshot)
    return needed if isinstance(needed, int) else int(needed[0])


class _Room:
    """One node, first without any of the victims; some of them come back."""

    def __init__(
        self,
        engine: Engine,
        node: Cluster,
        pod: PodFacts,
        victims: Sequence[Victim],
        published: Mapping[str, int],
    ) -> None:
        self._engine = engine
        self._node = node
        self._pod = pod
        self._published = published
        (self._facts,) = node.nodes.values()
        node.drop_ended_entries()
        self._lingering = node.lingering_use(self._facts.name)
        columns = {
            name: (node.snapshot().measured[name].copy(), node.snapshot().measured_at[name].copy())
            for name in node.snapshot().measured
        }
        self._measured = Measured((self._facts.name,), columns)
        self._requests = Counter[str]()
        for facts, _ in node.pods_on(self._facts.name).values():
            self._requests.update(_amounts(facts))
        beside_others = self._requests.copy()
        for each in victims:
            if each.proposed:
                beside_others.subtract(_amounts(each.pod))
        self._needed = {
            each.uid
            for each in victims
            if each.proposed and not self._has_room(beside_others + Counter(_amounts(each.pod)))
        }
        self._proposed = {each.uid for each in victims if each.proposed}
        self._gone: dict[str, Victim] = {}
        self._move(victims, back=False)

    def left_out(self, order: Sequence[Victim]) -> list[Victim]:
        """Let victims come back in this order as long as the pod fits; return the others. All leave again."""
        found = self._not_back(order)
        self._move([each for each in order if each.uid not in self._gone], back=False)
        return found

    def _not_back(self, run: Sequence[Victim]) -> list[Victim]:
        """Let a run of victims come back together; if the pod then does not fit, one half after the other.

        That lets the same ones back as trying one by one: less room never makes a pod fit.
        """
        if not run:
            return []
        self._move(run, back=True)
        if self.fits():
            return []
        self._move(run, back=False)
        if len(run) == 1:
            return list(run)
        half = len(run) // 2
        return [*self._not_back(run[:half]), *self._not_back(run[half:])]

    def fits(self) -> bool:
        """Whether the pod can be placed now, and kube-scheduler will see that it can."""
        if not self._kube_scheduler_sees_room():
            return False
        snapshot = self._node.snapshot()
        decision = self._engine.decide(self._pod, snapshot)
        if decision.node is None:
            return False
        chosen = ChosenNode.of(self._node, snapshot, decision.row)
        return isinstance(self._engine.reserve(self._pod, chosen), Placement)

    def _kube_scheduler_sees_room(self) -> bool:
        back = self._proposed - self._gone.keys()
        return not back or (back <= self._needed and self._has_room(self._requests))

    def _has_room(self, requests: Counter[str]) -> bool:
        wanted = _amounts(self._pod)
        return all(amount - requests[name] >= wanted.get(name, 0) for name, amount in self._published.items())

    def _move(self, victims: Iterable[Victim], *, back: bool) -> None:
        """Let victims come back, or leave."""
        for each in victims:
            if back:
                del self._gone[each.uid]
                self._node.put_pod(each.pod, each.placement)
                self._requests.update(_amounts(each.pod))
            else:
                self._gone[each.uid] = each
                self._node.remove_pod(each.pod.key)
                self._requests.subtract(_amounts(each.pod))
        if self._measured.columns:
            self._show_use()

    def _show_use(self) -> None:
        """Take out of what was measured what those that are gone use, and what ended ones still show."""
        gone = (self._node.lasting_use(each.pod, each.placement) for each in self._gone.values())
        self._node.measure(self._measured.without(self._facts.name, (self._lingering, *gone)))


def _amounts(pod: PodFacts) -> dict[str, int]:
    return {**pod.requests, PODS: 1}
