"""Nodes with measurements, and engines with the interference plugin, at a time that tests move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from corewise.config.interference.model import InterferenceConfiguration
from corewise.config.interference.reading import parse_interference
from corewise.engine import (
    ChosenNode,
    Cluster,
    Decision,
    Engine,
    Interference,
    Measured,
    Placement,
    PodFacts,
    assemble,
)
from corewise.vocabulary.findings import Finding
from engine.scenes import node, share

STREAM = """
interference:
  profiles:
    stream:
      profile: {memoryBandwidth: 5GB/s, memory: 0.2GB, cpu: 1, llc: 4MiB}
      affinity: {memorybandwidth: 60, memorylatency: 60, llc_occupancy: 0, llc_mpki: 0, cpu: 50}
"""
EXPIRY = 360.0
ROOMY = {
    "memorybandwidth_capacity": 100e9,
    "memorybandwidth_used": 20e9,
    "memory_available": 64e9,
    "memorylatency": 1e-7,
    "llc_occupancy": 10e6,
    "llc_capacity": 32.0 * 2**20,
    "llc_mpki": 1.0,
    "cpu": 0.3,
    "cpu_cores": 8.0,
}


def configuration(text: str = STREAM) -> InterferenceConfiguration:
    parsed = parse_interference(text)
    assert parsed.value is not None, parsed.errors
    return parsed.value


def stream(name: str, **more: Any) -> PodFacts:
    """A pod of the document's own example type."""
    return replace(share(f"ns/{name}", 0.1), labels={"app": "stream"}, **more)


@dataclass
class Scene:
    """A cluster whose nodes are measured. ``now`` is Unix time."""

    settings: InterferenceConfiguration = field(default_factory=configuration)
    nodes: Sequence[str] = ("n1", "n2", "n3")
    now: float = 10_000.0
    cluster: Cluster = field(default_factory=Cluster)

    def __post_init__(self) -> None:
        for name in self.nodes:
            self.cluster.put_node(node(name, 8))
        self.use(self.settings)
        self.measure()

    def use(self, settings: InterferenceConfiguration) -> None:
        self.settings = settings
        self.plugin = Interference(settings, lambda: self.now)
        self.engine: Engine = assemble(interference=self.plugin)
        self.cluster.estimate(self.plugin.estimates())

    def measure(self, sampled: float | None = None, **changes: Mapping[str, float] | float) -> None:
        """Measure all nodes now: roomy ones, but for columns that are given, for all or by node."""
        at = np.full(len(self.nodes), self.now if sampled is None else sampled)
        columns = {}
        for name, usual in ROOMY.items():
            given = changes.get(name, usual)
            values = [given.get(each, usual) if isinstance(given, Mapping) else given for each in self.nodes]
            columns[name] = (np.array(values, dtype=np.float64), at)
        self.cluster.measure(Measured(tuple(self.nodes), columns))

    def decide(self, pod: PodFacts) -> Decision:
        return self.engine.decide(pod, self.cluster.snapshot())

    def suits(self, pod: PodFacts) -> set[str]:
        decision = self.decide(pod)
        return {decision.names[row] for row in np.flatnonzero(decision.feasible).tolist()}

    def why(self, pod: PodFacts, name: str) -> str:
        """Return the reason a node is refused; "" if it is not."""
        decision = self.decide(pod)
        row = decision.names.index(name)
        return next((each.message for _, each in decision.refusals(row)), "")

    def place(self, pod: PodFacts) -> str:
        """Place a pod as the scheduler does; return its node."""
        decision = self.decide(pod)
        assert decision.node is not None
        chosen = ChosenNode.of(self.cluster, self.cluster.snapshot(), decision.row)
        placement = self.engine.reserve(pod, chosen)
        assert not isinstance(placement, Finding)
        self.cluster.put_pod(pod, placement)
        return placement.node

    def put(self, pod: PodFacts, name: str, since: float | None) -> None:
        """Have a pod be bound since a time."""
        self.cluster.put_pod(pod, Placement(name, since=since))

    def weighs(self, name: str) -> float:
        """Return the bytes/s that the counterweights of a node come to."""
        snapshot = self.cluster.snapshot()
        weights = snapshot.counterweights.at(self.now, snapshot.size)
        return float(weights.memory_bandwidth[snapshot.index[name]])
