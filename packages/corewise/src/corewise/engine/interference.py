"""Interference: a pod goes where memory bandwidth is free, and where least contends for what slows it down.

- Filter: capacity - used - counterweights must exceed overprovisioning x profile, of bandwidth and of memory.
- Score: the nodes that passed are ranked by every metric; points of the positions, each times the pod's
  affinity to the metric, less what the pods there lose of their cache; 0 to 100.
- Reserve: records when the pod was placed. From then on it counts as a counterweight.

The arithmetic is that of :mod:`corewise.interference`. No query is made here: values come with the snapshot,
and those older than their series' maximum age are missing. DaemonSet pods are not filtered. A pod that two
profiles match fits nowhere, since it is unknown what it uses.

What depends on no pod is computed once and kept until something changes: the pressure until a value is
measured or grows too old, the outlook until a pod that counts in it comes or goes, and for a second at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from corewise.amplification.numa import BoolColumn, IntColumn
from corewise.config.interference.model import DEFAULT, InterferenceConfiguration, Profile
from corewise.engine.cluster import Estimates
from corewise.engine.columns import ClusterSnapshot
from corewise.engine.facts import MEMORY, Placement, PodFacts
from corewise.engine.framework import Cause, ChosenNode, Verdicts, everywhere, verdicts
from corewise.engine.interference_account import (
    SHORT_OF_BANDWIDTH,
    SHORT_OF_MEMORY,
    UNKNOWN_BANDWIDTH,
    UNKNOWN_MEMORY,
    InterferenceAccount,
)
from corewise.engine.table import Measures
from corewise.interference.filtering import (
    FilterVerdicts,
    PodRequests,
    ProfileConflict,
    Selected,
    filter_nodes,
    select_profile,
)
from corewise.interference.neighbors import cache_affinity
from corewise.interference.outlook import Outlook, Weights, outlook
from corewise.interference.pressure import Pressure
from corewise.interference.score import score_nodes
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY
from corewise.vocabulary.reasons import Reason

NAME = "Interference"
_MOST_TEMPLATES = 1024
_DECAYS_FOR = 1.0
"""Seconds that an outlook serves while nothing comes or goes: a counterweight loses 0.3 % of its weight."""


@dataclass(slots=True, eq=False)
class _Kept:
    """The pressure made of a snapshot, with its expiry; ``sampled``: when its values were sampled."""

    snapshot: ClusterSnapshot
    pressure: Pressure
    until: float
    sampled: Mapping[str, Measures]
    nodes: Outlook | None = None
    version: tuple[int, int] = (-1, -1)
    made_at: float = 0.0


class Interference:
    """The plugin, for one configuration. ``now`` is Unix time."""

    name = NAME
    weight = 1

    def __init__(self, configuration: InterferenceConfiguration, now: Callable[[], float]) -> None:
        self.configuration = configuration
        self._now = now
        self._ages = configuration.maximum_ages
        self._kept: _Kept | None = None
        self._alone: _Kept | None = None
        self._selected: dict[tuple[int, int], tuple[PodFacts, Selected | ProfileConflict]] = {}
        """By template: pods of one have the same objects, which the pod that is kept here keeps alive."""

    def estimates(self) -> Estimates:
        """Return the estimates for pods and nodes, which need no measurements, by the configuration."""
        settings = self.configuration
        return Estimates(
            self.profile_of,
            settings.counterweight,
            self._now,
            settings.capacity_by_rule,
            self.cache_affinity_of,
            shown_for=max(settings.window, settings.counterweight.expiry),
        )

    def profile_of(self, pod: PodFacts) -> Profile | None:
        """Return the expected use of a pod; None if two profiles match it."""
        selected = self.select(pod)
        return selected.profile if isinstance(selected, Selected) else None

    def cache_affinity_of(self, pod: PodFacts) -> int:
        """Return a pod's affinity to its cache; 0 if its type is unknown."""
        selected = self.select(pod)
        if isinstance(selected, ProfileConflict) or selected.name == DEFAULT:
            return 0
        return cache_affinity(selected.affinity)

    def select(self, pod: PodFacts) -> Selected | ProfileConflict:
        """Return the profile and affinities of a pod."""
        template = id(pod.labels), id(pod.requests)
        known = self._selected.get(template)
        if known is None:
            if len(self._selected) >= _MOST_TEMPLATES:
                self._selected.clear()
            selected = select_profile(pod.labels, interfering_requests(pod), self.configuration)
            known = self._selected[template] = pod, selected
        return known[1]

    def filter(self, pod: PodFacts, snapshot: ClusterSnapshot) -> Verdicts | None:
        """Refuse nodes without the memory bandwidth and the memory that a pod of this type needs."""
        if pod.daemon:
            return None
        selected = self.select(pod)
        if isinstance(selected, ProfileConflict):
            return everywhere(snapshot.size, Cause(Reason.PROFILE_CONFLICT, str(selected), unresolvable=True))
        if not selected.needs_any:
            return None
        nodes = self.nodes(snapshot)
        said = filter_nodes(nodes, selected, self.configuration)
        if said.passes.all():
            return None
        return verdicts(snapshot.size, _refusals(said), _inputs(said, nodes))

    def score(self, pod: PodFacts, snapshot: ClusterSnapshot, feasible: BoolColumn) -> IntColumn:
        """Return 0 to 100 for every node; 0 everywhere for a pod without affinities that takes no cache."""
        selected = self.select(pod)
        if isinstance(selected, ProfileConflict):
            return snapshot.nowhere()
        affinity, llc = selected.affinity, selected.profile.llc
        if not llc and not any(affinity.values()):
            return snapshot.nowhere()
        return score_nodes(self.nodes(snapshot), affinity, self.configuration, feasible, llc).normalized

    def reserve(self, pod: PodFacts, node: ChosenNode, placement: Placement) -> Placement | Finding:
        """Note when the pod was placed."""
        return replace(placement, since=self._now())

    def account(
        self, pod: PodFacts, snapshot: ClusterSnapshot, feasible: BoolColumn
    ) -> InterferenceAccount | None:
        """Return the explanation of a decision; it is computed only when somebody asks."""
        selected = self.select(pod)
        if isinstance(selected, ProfileConflict):
            return None
        return InterferenceAccount(
            selected,
            self.configuration,
            self.nodes(snapshot),
            feasible,
            sampled=self._made_of(snapshot).sampled,
            now=self._now(),
            exempt=pod.daemon,
        )

    def nodes(self, snapshot: ClusterSnapshot) -> Outlook:
        """Return the nodes as they are once the pods just placed show."""
        now, kept = self._now(), self._made_of(snapshot)
        version = snapshot.counterweights.version, snapshot.neighbors.version
        if kept.nodes is None or kept.version != version or not 0 <= now - kept.made_at < _DECAYS_FOR:
            weights = snapshot.counterweights.at(now, snapshot.size)
            neighbors = snapshot.neighbors.at(snapshot.size)
            kept.nodes = _made(kept.pressure, weights, self.configuration, neighbors)
            kept.version, kept.made_at = version, now
        return kept.nodes

    def _made_of(self, snapshot: ClusterSnapshot) -> _Kept:
        """Return the pressure made of a snapshot; that of a single node is kept beside that of all."""
        now, single = self._now(), snapshot.size == 1
        kept = self._alone if single else self._kept
        if kept is None or kept.snapshot is not snapshot or not now < kept.until:
            pressure, until = pressure_of(snapshot, self._ages, now)
            sampled = {name: column.copy() for name, column in snapshot.measured_at.items()}
            kept = _Kept(snapshot, pressure, until, sampled)
            if single:
                self._alone = kept
            else:
                self._kept = kept
        return kept


def interfering_requests(pod: PodFacts) -> PodRequests:
    """Return a pod's requests, batch amounts included: offline pods move data through the same memory."""
    cpu, memory = (pod.requests.get(each, 0) for each in (BATCH_CPU, BATCH_MEMORY))
    return PodRequests(pod.cpu + cpu, pod.requests.get(MEMORY, 0) + memory)


def pressure_of(
    snapshot: ClusterSnapshot, maximum_ages: Mapping[str, float], now: float
) -> tuple[Pressure, float]:
    """Return the pressure at a time, without values that are too old; and until when it stays so.

    The capacity that the node or the configuration states goes before the one that is measured.
    """
    columns: dict[str, Measures] = {}
    until = math.inf
    for name, values in snapshot.measured.items():
        sampled, age = snapshot.measured_at[name], maximum_ages.get(name, math.inf)
        fresh = sampled + age >= now
        columns[name] = np.where(fresh, values, np.nan)
        if fresh.any() and age < math.inf:
            until = min(until, float(sampled[fresh].min()) + age)
    stated = snapshot.stated_bandwidth
    measured = columns.get("memorybandwidth_capacity", np.full(snapshot.size, np.nan))
    columns["memorybandwidth_capacity"] = np.where(stated > 0, stated, measured)
    return Pressure.of(snapshot.size, columns).cleaned(), until


def _made(
    pressure: Pressure, weights: Weights, configuration: InterferenceConfiguration, neighbors: Measures
) -> Outlook:
    """Return the outlook; its columns stay as they are, so decisions that are remembered share them."""
    made = outlook(pressure, weights, configuration, neighbors)
    columns = [getattr(each, column.name) for each in (pressure, weights) for column in fields(each)]
    for column in (made.free_bandwidth, made.free_memory, made.neighbors, *columns):
        column.setflags(write=False)
    return made


def _refusals(said: FilterVerdicts) -> list[tuple[BoolColumn, Cause]]:
    found = []
    for each, short, unknown in (
        (said.bandwidth, SHORT_OF_BANDWIDTH, UNKNOWN_BANDWIDTH),
        (said.memory, SHORT_OF_MEMORY, UNKNOWN_MEMORY),
    ):
        refused = ~each.passes
        found += [(refused & each.missing, unknown), (refused & ~each.missing, short)]
    return found


def _inputs(said: FilterVerdicts, nodes: Outlook) -> Mapping[str, Any]:
    """Return both sides of both inequalities, and what the left ones are made of."""
    return {
        "needed_bandwidth": int(said.bandwidth.right),
        "free_bandwidth": nodes.free_bandwidth,
        "bandwidth_capacity": nodes.pressure.memorybandwidth_capacity,
        "bandwidth_used": nodes.pressure.memorybandwidth_used,
        "bandwidth_counterweights": nodes.weights.memory_bandwidth,
        "needed_memory": int(said.memory.right),
        "free_memory": nodes.free_memory,
        "memory_available": nodes.pressure.memory_available,
        "memory_counterweights": nodes.weights.memory,
    }
