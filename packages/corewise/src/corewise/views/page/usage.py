"""The CPU that pods and nodes use, as metrics.k8s.io says, and the most that each pod has used.

metrics-server measures every 15 s or more seldom, and its answer about 50,000 pods has 20 MiB, so it is
asked only while pages are open, and about many pods every minute. Where that API is absent or may not be
read, nothing is known, and ``remark`` says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.kube.errors import Forbidden, KubeError, NotFound
from corewise.kube.objects import ObjectMeta
from corewise.manager.busy_nodes import cpu_usages, read_metrics
from corewise.quantities import Quantity, QuantityError
from corewise.vocabulary.errors import UNREADABLE

EVERY, EVERY_OF_MANY = 15.0, 60.0
_MANY = 5000
"""Pods from which on usage is read every minute."""
WANTED_SECONDS = 120.0
"""How long after a page has asked, usage is still read."""
_LONGEST_GAP = 2
"""Intervals of reading between two looks from which on what happened between them is unknown."""
_TIMEOUT = 20.0
_IDLE = 1.0


class _Container(msgspec.Struct):
    usage: dict[str, str] = msgspec.field(default_factory=dict)


class _PodMetrics(msgspec.Struct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    containers: list[_Container] = msgspec.field(default_factory=list)


class _PodMetricsList(msgspec.Struct):
    items: list[_PodMetrics] = msgspec.field(default_factory=list)


_LIST = msgspec.json.Decoder(_PodMetricsList)


@dataclass(slots=True)
class MostUsed:
    """The most raw milli-CPU that a pod has used, in how many seconds, and when that was last read.

    Time in which no page had usage read is not among the seconds.
    """

    milli: int
    last: float
    measured: float = 0.0

    @property
    def seconds(self) -> int:
        return int(self.measured)


class Usages:
    """What is used now, in raw milli-CPU: of nodes by name, of pods by NAMESPACE/NAME."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._wanted_until = 0.0
        self.nodes: Mapping[str, int] = {}
        self.pods: Mapping[str, int] = {}
        self.most: dict[str, MostUsed] = {}
        self.remark = "What pods use has not been read yet."
        self.taken = 0
        """How many times usage has been read."""

    def want(self) -> None:
        """Have usage read for the next two minutes."""
        self._wanted_until = self._clock.monotonic() + WANTED_SECONDS

    @property
    def is_wanted(self) -> bool:
        """Whether a page has asked within the last two minutes."""
        return self._clock.monotonic() <= self._wanted_until

    async def run(self, on_change: Callable[[], None]) -> None:
        """Read usage again and again while it is wanted."""
        while True:
            if not self.is_wanted:
                await self._clock.sleep(_IDLE)
                continue
            await self.read()
            on_change()
            await self._clock.sleep(self._every)

    @property
    def _every(self) -> float:
        return EVERY if len(self.pods) < _MANY else EVERY_OF_MANY

    async def read(self) -> None:
        """Read usage once.

        Without an answer nothing is known of nodes; that of pods stays, and ``remark`` says why.
        """
        self.nodes = await cpu_usages(self._client)
        try:
            body = await read_metrics(self._client, "pods", _TIMEOUT)
            pods = await asyncio.to_thread(_used, body)
        except NotFound:
            self.remark = (
                "What pods use is not known: the cluster has no metrics.k8s.io. "
                "metrics-server serves it: https://github.com/kubernetes-sigs/metrics-server"
            )
        except Forbidden:
            self.remark = (
                "What pods use is not known: list of pods.metrics.k8s.io is forbidden. "
                "See: kubectl auth can-i list pods.metrics.k8s.io -A"
            )
        except (KubeError, *UNREADABLE) as error:
            self.remark = f"What pods use is not known now: {error}"
        else:
            self.remark = ""
            self.take(pods)

    def take(self, pods: Mapping[str, int]) -> None:
        """Keep what pods use now; what is known of pods that are gone is forgotten."""
        now, before = self._clock.monotonic(), self.most
        self.pods, self.most, self.taken = pods, {}, self.taken + 1
        for name, milli in pods.items():
            known = before.get(name)
            if known is None:
                known = MostUsed(milli, now)
            else:
                gap = now - known.last
                known.measured += gap if gap <= _LONGEST_GAP * self._every else 0.0
                known.milli, known.last = max(known.milli, milli), now
            self.most[name] = known


def _used(body: bytes) -> dict[str, int]:
    used = {}
    for each in _LIST.decode(body).items:
        try:
            milli = sum(Quantity.parse(container.usage["cpu"]).milli for container in each.containers)
        except (QuantityError, KeyError):
            continue
        used[f"{each.metadata.namespace}/{each.metadata.name}"] = milli
    return used
