"""The machines that amplification saves: the same online pods placed from scratch, with ratios and without.

Both times the pods go to the fullest node that fits, so that as few nodes as possible are used. Without
ratios, where a CPU is a raw CPU and nothing is amplified, pods may be left over: then copies of the cluster's
own nodes are added, in the order of their names, until all pods have a node that have one with the ratios.
Offline pods do not count: what they request is not amplified.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice

import msgspec

from corewise.engine import Allocation, Plugin
from corewise.engine.facts import CPU
from corewise.planner.inputs import PlanInput, PlannedNode
from corewise.planner.planner import configured, plan
from corewise.ratios.cluster import NOTHING_CONFIGURED, ClusterConfiguration
from corewise.vocabulary.names import (
    AMPLIFICATION_ORIGINAL,
    AMPLIFICATION_RATIO,
    BATCH_CPU,
    NORMALIZATION_ENABLED,
    NORMALIZATION_RATIO,
)

_MOST_COPIES = 4
"""Times as many nodes as there are: a pod that has no node then has none for another reason."""


_RATIOS = frozenset({AMPLIFICATION_ORIGINAL, AMPLIFICATION_RATIO, NORMALIZATION_RATIO})


@dataclass(frozen=True, slots=True)
class Savings:
    """The nodes that online pods use when packed, with the ratios and without; ``pods`` have a node in both.

    ``left_over`` pods have a node with the ratios, and on no number of copies of the nodes without them.
    """

    pods: int
    nodes: int
    nodes_without: int
    left_over: int = 0

    @property
    def saved(self) -> int:
        return self.nodes_without - self.nodes


def savings(given: PlanInput, configuration: ClusterConfiguration, plugins: Sequence[Plugin] = ()) -> Savings:
    """Place the online pods under a configuration and under none, and count the nodes used."""
    given = replace(given, pods=tuple(pod for pod in given.pods if BATCH_CPU not in pod.requests))
    amplified = plan(given, configuration, Allocation.MOST, plugins=plugins)
    bare, copies = tuple(map(_without_ratios, given.nodes)), 0
    while True:
        nodes = (*bare, *_copies(bare, copies))
        outcome = plan(replace(given, nodes=nodes), NOTHING_CONFIGURED, Allocation.MOST, plugins=plugins)
        missing = amplified.placed.keys() - outcome.placed.keys()
        if not missing or copies >= _MOST_COPIES * len(bare):
            break
        copies = min(copies + _needed(given, missing, bare), _MOST_COPIES * len(bare))
    if missing:
        both = tuple(pod for pod in given.pods if pod.key in outcome.placed)
        amplified = plan(replace(given, pods=both), configuration, Allocation.MOST, plugins=plugins)
    return Savings(len(amplified.placed), amplified.nodes_used, outcome.nodes_used, len(missing))


def _needed(given: PlanInput, missing: Iterable[str], nodes: Sequence[PlannedNode]) -> int:
    """Return the number of nodes of mean size that the pods need at the very least, 1 or more."""
    names = frozenset(missing)
    requested = sum(pod.requests.get(CPU, 0) for pod in given.pods if pod.key in names)
    raw = sum(node.raw_milli for node in configured(nodes, NOTHING_CONFIGURED))
    return max(1, requested * len(nodes) // raw) if raw else 1


def _without_ratios(node: PlannedNode) -> PlannedNode:
    """Return a node without ratios, stated or applied; its record still says what is raw."""
    meta = node.node.metadata
    plain = msgspec.structs.replace(
        meta,
        labels={key: text for key, text in meta.labels.items() if key != NORMALIZATION_ENABLED},
        annotations={key: text for key, text in meta.annotations.items() if key not in _RATIOS},
    )
    return replace(node, node=msgspec.structs.replace(node.node, metadata=plain))


def _copies(nodes: Sequence[PlannedNode], count: int) -> Iterable[PlannedNode]:
    """Yield so many copies of nodes, each with a name of its own."""
    in_order = sorted(nodes, key=lambda node: node.name)
    for number, node in enumerate(islice(cycle(in_order), count)):
        meta = msgspec.structs.replace(node.node.metadata, name=f"{node.name}+{number}")
        yield replace(node, node=msgspec.structs.replace(node.node, metadata=meta))
