"""The memory bandwidth that pods of a type use, where nobody counts it by pod: from what nodes use. Pure.

    used(node, t) = background(node) + sum over types of pods(type, node, t) x use(type)

is fitted by least squares over all nodes and times, no use being negative; ``pods`` counts those that run, by
the part of the window before ``t`` in which they did. Values closer than ``APART`` seconds say the same
twice, so one of them is taken.

It says something only of types whose pods come and go, not always together with those of another type: where
the spread (half of the 95 % interval) is above ``SURE`` of the use itself, nothing is said. Pods on a crowded
node use less than they would, so what is found is rather too little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from corewise.interference.analysis_fit import Numbers, least_squares
from corewise.interference.analysis_history import History, PodRecord, Series

APART = 600.0
SURE = 0.25
_NORMAL_95 = 1.96
_USED = "memorybandwidth"


@dataclass(frozen=True, slots=True)
class Share:
    """Bytes per second of one pod, and half of their 95 % interval."""

    value: float
    spread: float


def bandwidth_shares(history: History, window: float) -> dict[str, Share]:
    """Return what a pod of each type uses, where that can be said; values average ``window`` seconds."""
    types = sorted({pod.type for pod in history.pods})
    by_node: dict[str, list[PodRecord]] = {}
    for pod in history.pods:
        by_node.setdefault(pod.node, []).append(pod)
    seen = [(name, node[_USED]) for name, node in history.nodes.items() if _USED in node]
    parts = [_apart_from_background(series, by_node.get(name, []), types, window) for name, series in seen]
    if not parts or not types:
        return {}
    design = np.concatenate([counts for counts, _ in parts])
    if len(design) <= len(types):
        return {}
    uses, errors = least_squares(np.concatenate([used for _, used in parts]), design)
    found = {
        kind: Share(float(use), _NORMAL_95 * float(error))
        for kind, use, error in zip(types, uses, errors, strict=True)
    }
    return {kind: share for kind, share in found.items() if 0 < share.spread <= SURE * share.value}


def _apart_from_background(
    series: Series, pods: Sequence[PodRecord], types: Sequence[str], window: float
) -> tuple[Numbers, Numbers]:
    """Return how many pods of each type ran, and what the node used, both less their means on the node."""
    taken = _apart(series.times)
    times, values = series.times[taken], series.values[taken]
    places: Mapping[str, int] = {kind: place for place, kind in enumerate(types)}
    counts = np.zeros((len(times), len(types)))
    for pod in pods:
        gone = np.inf if pod.until is None else pod.until
        overlap = np.minimum(times, gone) - np.maximum(times - window, pod.start)
        counts[:, places[pod.type]] += np.clip(overlap, 0.0, window) / window
    return counts - counts.mean(axis=0), values - values.mean()


def _apart(times: Numbers) -> list[int]:
    """Return the places of times that are far enough from each other."""
    taken: list[int] = []
    for place, at in enumerate(times.tolist()):
        if not taken or at - times[taken[-1]] >= APART:
            taken.append(place)
    return taken
