"""Pods on their way to a node: asked about, or counted where they are going to be bound.

A pod counts from the decision where it goes until it is seen bound, unless its binding fails: it is *assumed*
there, as kube-scheduler does it. Nothing exact rests on that, which is the ledger's (binding.py); it keeps
decisions of the same moment from getting in each other's way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from corewise.engine import Placement, PodFacts
from corewise.engine.reading import holds_resources
from corewise.kube.cache import STALE_AFTER
from corewise.kube.clock import Clock
from corewise.scheduler.counted import CountedCluster
from corewise.workload.pods import Pod

_MOST_ASKED = 1024


@dataclass(slots=True)
class _Assumed:
    """A pod where it is going to be bound; ``until``: how long the watch has to show that it was."""

    facts: PodFacts
    placement: Placement
    until: float = math.inf


class AssumedPods:
    """Counts pods before they are seen bound. ``watched`` returns a pod as the watch shows it."""

    def __init__(self, counted: CountedCluster, watched: Callable[[str], Pod | None], clock: Clock) -> None:
        self._counted = counted
        self._watched = watched
        self._clock = clock
        self._assumed: dict[str, _Assumed] = {}
        self.asked: dict[str, Pod] = {}
        """Unbound pods that decisions were asked about lately, by uid."""

    def remember(self, pod: Pod) -> None:
        """Keep an unbound pod, which the watch does not show, for its binding; the oldest makes room."""
        self.asked.pop(pod.metadata.uid, None)
        self.asked[pod.metadata.uid] = pod
        if len(self.asked) > _MOST_ASKED:
            del self.asked[next(iter(self.asked))]

    def put(self, facts: PodFacts, placement: Placement) -> None:
        """Count a pod where it is going to be bound."""
        self._assumed[facts.uid] = _Assumed(facts, placement)
        self._counted.cluster.put_pod(facts, placement)

    def guess(self, facts: PodFacts, node: str, seconds: float) -> None:
        """Count a pod's profile, and nothing else of it, where it will probably be bound, for a while."""
        if facts.uid not in self._assumed and self._counted.has(facts.key, facts.uid):
            return  # it is bound
        placed = Placement(node, since=self._clock.now().timestamp())
        self.put(replace(facts, requests={}, owned_if_static=0), placed)
        self.keep(facts.uid, seconds)

    def keep(self, uid: str, seconds: float = STALE_AFTER) -> None:
        """Count an assumed pod, whose Binding was answered, until the watch shows it bound.

        A watch that restarts may never show it, if it is gone by then: so it expires.
        """
        if uid in self._assumed:
            self._assumed[uid].until = self._clock.monotonic() + seconds

    def seen(self, uid: str) -> None:
        """Assume nothing of a pod any more: the watch has shown where it is."""
        self._assumed.pop(uid, None)

    def expire(self) -> None:
        """Forget pods that the watch did not show bound in time."""
        now = self._clock.monotonic()
        for uid in [uid for uid, assumed in self._assumed.items() if assumed.until <= now]:
            self._assumed[uid].until = math.inf
            self.forget(uid)

    def forget(self, uid: str) -> None:
        """Count a pod no more where it was assumed, unless its Binding was answered.

        One that the watch has shown bound counts there again.
        """
        assumed = self._assumed.get(uid)
        if assumed is None or assumed.until < math.inf:
            return
        del self._assumed[uid]
        key = assumed.facts.key
        if not self._counted.has(key, uid):
            return
        pod = self._watched(key)
        if pod is not None and pod.metadata.uid == uid and holds_resources(pod):
            self._counted.put_pod(pod)
        else:
            self._counted.cluster.remove_pod(key)
        self._counted.on_room()

    @contextmanager
    def without(self, pod: Pod) -> Iterator[None]:
        """Leave out what is assumed of a pod and what ledgers keep for it, for a decision about it."""
        uid, cluster = pod.metadata.uid, self._counted.cluster
        assumed = self._assumed.get(uid)
        if assumed is not None:
            cluster.remove_pod(assumed.facts.key)
        try:
            with cluster.without_entries(uid):
                yield
        finally:
            if assumed is not None:
                cluster.put_pod(assumed.facts, assumed.placement)
