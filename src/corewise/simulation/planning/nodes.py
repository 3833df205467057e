"""What a configuration makes of the nodes: the ratios that the manager would write, and the amounts by them.

The manager's own decision is asked; what it leaves as it is stays as the node has it. Nothing is held back
for the sake of pods that run: a plan places all of them anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from corewise.amplification import AMPLIFIABLE, Ratios, ResourceList, amplified, raw_amounts
from corewise.engine import NodeFacts
from corewise.engine.facts import CPU
from corewise.engine.reading import amount_of, read_node_facts
from corewise.manager.assessment import Surroundings, normalization_of, wanted_ratio
from corewise.manager.configuration import ClusterConfiguration
from corewise.manager.view import NodeView, view_of
from corewise.quantities import ONE, Ratio
from corewise.simulation.planning.inputs import PlannedNode


@dataclass(frozen=True, slots=True)
class ConfiguredNode:
    """A node under a configuration. ``raw_milli``: its raw allocatable CPU."""

    facts: NodeFacts
    raw_milli: int
    normalization: Ratio


def configured(nodes: Iterable[PlannedNode], configuration: ClusterConfiguration) -> list[ConfiguredNode]:
    """Return the nodes as they are once the manager has applied a configuration."""
    around = Surroundings(configuration)
    return [_configured(node, around) for node in nodes]


def _configured(node: PlannedNode, around: Surroundings) -> ConfiguredNode:
    view: NodeView = view_of(node.managed, node.topology.metadata.annotations, lambda: ())
    normalization = normalization_of(view, around.configuration)
    ratios = wanted_ratio(view, normalization, around).ratios
    facts = read_node_facts(node.schedulable, node.topology).facts
    topology = facts.topology or node.assumed
    raw = raw_amounts(view.amounts, view.annotations).allocatable
    cpu = amount_of(CPU, raw[CPU]) if CPU in raw else 0
    if facts.ratio is None:
        return ConfiguredNode(replace(facts, topology=topology), cpu, ONE)
    amounts = {**facts.allocatable, **_amplified(raw, ratios)}
    facts = replace(facts, topology=topology, ratio=ratios.get(CPU, ONE), allocatable=amounts)
    return ConfiguredNode(facts, cpu, normalization.ratio or ONE)


def _amplified(raw: ResourceList, ratios: Ratios) -> dict[str, int]:
    return {
        name: amount_of(name, amplified(name, raw[name], ratios.get(name, ONE)))
        for name in AMPLIFIABLE
        if name in raw
    }
