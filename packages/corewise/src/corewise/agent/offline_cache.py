"""Keeps what was seen and sampled on one node: its offline pods, its usage, and the offer that follows."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from corewise.actions import EmitEvent
from corewise.agent.cgroups import CgroupSetup
from corewise.agent.latest import Latest
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod
from corewise.agent.offline_decision import Measurement, NodeColocation
from corewise.agent.offline_pods import NodePods, PodTable
from corewise.agent.sampler import Miss, Missed, Sampler, Samples
from corewise.suppression.offer import Computed, OfferHistory, Usage
from corewise.suppression.quotas import utilization_of
from corewise.vocabulary.offline_report import LONGEST_CURVE


@dataclass(slots=True)
class SampleHistory:
    """The last samples of a node. ``wall``: when the last one was taken, in seconds since 1970."""

    wall: float = 0.0
    usage: Usage | None = None
    online: deque[int] = field(default_factory=lambda: deque(maxlen=LONGEST_CURVE))
    offline: deque[int] = field(default_factory=lambda: deque(maxlen=LONGEST_CURVE))

    def add(self, wall: float, usage: Usage, computed: Computed) -> None:
        self.wall, self.usage = wall, usage
        self.online.append(computed.online_milli)
        self.offline.append(usage.offline_milli)


class OfflineCache:
    """The pods and samples of one node. ``samples`` is asked for usage in place of the kernel's counters.

    ``utilization`` is that of the last sample, ``missed`` counts the samples that are missing.
    """

    def __init__(self, local: LocalNode, root: Path, samples: Samples | None) -> None:
        self._local = local
        self._samples = samples or Sampler(root, local.cgroups)
        self._sorted = Latest(PodTable(local.rules).sort)
        self._offers = OfferHistory()
        self.history = SampleHistory()
        self.utilization: Fraction | None = None
        self.missed: Counter[Miss] = Counter()
        self.pods = NodePods()

    @property
    def sampled_at(self) -> float | None:
        """The time of the last sample since oversubscription was turned on, in seconds since 1970."""
        return self.history.wall if self.history.usage else None

    def see(self, found: CgroupSetup, pods: Collection[QuotaPod]) -> list[EmitEvent]:
        """Take the pods of the node; return the warnings that are new."""
        before = set(self.pods.warnings)
        certain = self._local.certain_pods(pods).pods
        self.pods = self._sorted(certain, found.names, self._local.cpu_manager())
        return [each for each in self.pods.warnings if each not in before]

    def sample(self, now: float, wall: float, node: NodeColocation) -> Measurement:
        """Sample the interval that ends now; count the sample, or the miss, if the node offers."""
        usage = self._samples.sample(now, self.pods.pinned)
        if isinstance(usage, Missed):
            if node.on:
                self._offers = self._offers.with_miss(now)
            offer = self._offers.offer(now)
            if usage.kind is Miss.FIRST:
                return Measurement(offer)
            self.missed[usage.kind] += 1
            return Measurement(offer, problem=f"no sample of usage: {usage.why}")
        computed = node.computed(usage, self._samples.cpus)
        if node.on and computed is not None:
            self._offers = self._offers.with_sample(now, computed)
            self.history.add(wall, usage, computed)
        self.utilization = utilization_of(usage, self._samples.cpus)
        return Measurement(self._offers.offer(now), usage, self.utilization)

    def forget_offers(self) -> None:
        """Forget what was sampled for offers."""
        self._offers, self.history = OfferHistory(), SampleHistory()

    def forget_usage(self) -> None:
        """Start sampling over: the next reading is the first."""
        self._samples.forget()
        self.utilization = None
