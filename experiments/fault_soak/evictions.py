"""Evictions of offline pods on nodes that are short of memory all the time, by the agent's own evictor.

The stand-ins of agents in a local cluster evict no pods, so this is the agent's decision and its request
(:mod:`corewise.agent.eviction`) on a watch of its own, with a sample that is made up. What the API server
accepted is read where the faults are injected.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from corewise.agent.eviction import Evictor, evict
from corewise.agent.objects import QUOTA_PODS
from corewise.agent.offline_pods import MarkedPod
from corewise.config.eviction import EvictionSettings
from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.quantities import ONE
from corewise.suppression.offer import Usage
from experiments.fault_soak.api_proxy import Eviction
from experiments.fault_soak.users import OFFLINE

COOLDOWN: Final = 10
"""Seconds between the sending of two evictions of a node; the first one may arrive late."""
_EVERY: Final = 2.0
_SETTINGS: Final = EvictionSettings(
    memory_threshold_percent=80, memory_lower_percent=70, cooldown_seconds=COOLDOWN
)
_GIBI: Final = 1 << 30
_SHORT: Final = Usage(0, 0, (), 95 * _GIBI, 0, memory_total=100 * _GIBI)


class Evictions:
    """The evictors of all nodes; ``client`` is on the agents' link."""

    def __init__(self, client: Client, nodes: Iterable[str]) -> None:
        self._client = client
        self._nodes = tuple(nodes)
        self._pods = Cache(client, QUOTA_PODS, field_selector="spec.nodeName!=")
        self.node_of: dict[str, str] = {}
        """Where the pods were, by uid, that an eviction was sent for."""
        self.sent: Counter[str] = Counter()
        """How many were sent, by result."""

    async def run(self) -> None:
        """Evict until canceled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run())
            for node in self._nodes:
                tasks.create_task(self._run_on(node))

    async def _run_on(self, node: str) -> None:
        evictor = Evictor(node)
        evictor.settings = _SETTINGS
        while True:
            await asyncio.sleep(_EVERY)
            now = time.monotonic()
            evictor.observe(now, _SHORT, None, self._marked(node), ONE)
            while (verdict := evictor.due(now, self._marked(node), ONE)) is not None and verdict.pod:
                self.node_of[verdict.pod.uid] = node
                result, why = await evict(self._client, verdict.pod)
                self.sent[result] += 1
                now = time.monotonic()
                evictor.record(verdict, result, why, now, time.time())
                if not result.passes_over:
                    break

    def _marked(self, node: str) -> list[MarkedPod]:
        return [
            MarkedPod(pod, "batch")
            for pod in self._pods.items.values()
            if pod.spec.node_name == node and pod.metadata.name.startswith(OFFLINE)
        ]


def wrong_evictions(accepted: Iterable[Eviction], node_of: Mapping[str, str]) -> Iterator[str]:
    """Yield the evictions that must not have been accepted: of one pod twice, or too soon after another."""
    sent: defaultdict[str, list[float]] = defaultdict(list)
    times: Counter[str] = Counter()
    for eviction in accepted:
        times[eviction.uid] += 1
        sent[node_of[eviction.uid]].append(eviction.sent)
    yield from (f"pod {uid} was evicted {number} times" for uid, number in times.items() if number > 1)
    for node, moments in sent.items():
        gaps = (later - earlier for earlier, later in pairwise(sorted(moments)))
        yield from (
            f"node {node}: two pods were evicted within {gap:.0f} s" for gap in gaps if gap < COOLDOWN
        )
