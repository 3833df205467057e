"""The scheduling engine: a snapshot in, verdicts out. Pure; no plugin knows where nodes and pods come from.

- :mod:`nodes`, :mod:`pods`: what is read of a node and a pod, as values;
- :mod:`cluster`: nodes and pods put and taken away, and the snapshot of all of them in columns;
- :mod:`framework`, :mod:`engine`: what a plugin is, and how plugins make a decision;
- :mod:`amplified_cpu`, :mod:`cpu_placement`: CPUs that are owned count amplified; which CPUs and NUMA nodes;
- :mod:`interference`: memory bandwidth and cache; :mod:`estimates`, :mod:`pressure`: what it reads;
- :mod:`resource_fit`, :mod:`node_constraints`, :mod:`node_preferences`: what else makes a node suit a pod;
- :mod:`explain`: the record of a decision, for people.
"""

from corewise.engine.amplified_cpu import AmplifiedCPU
from corewise.engine.cluster import Cluster, Measured
from corewise.engine.cpu_placement import CPUPlacement
from corewise.engine.engine import NOWHERE, Decision, Engine, Weighted
from corewise.engine.estimates import Estimates
from corewise.engine.explain import NodeExplanation, PodExplanation, explain_node, explain_pod
from corewise.engine.framework import Cause, ChosenNode, Refused, Verdicts
from corewise.engine.interference import Interference
from corewise.engine.node_constraints import NodeConstraints
from corewise.engine.node_preferences import NodePreferences
from corewise.engine.nodes import NodeFacts, Taint, Zone
from corewise.engine.pods import Constraints, NodeRequirement, Placement, PodFacts, Toleration
from corewise.engine.resource_fit import ResourceFit
from corewise.engine.scoring import Allocation, AllocationScore
from corewise.engine.snapshot import ClusterSnapshot

__all__ = [
    "NOWHERE",
    "Allocation",
    "AllocationScore",
    "AmplifiedCPU",
    "CPUPlacement",
    "Cause",
    "ChosenNode",
    "Cluster",
    "ClusterSnapshot",
    "Constraints",
    "Decision",
    "Engine",
    "Estimates",
    "Interference",
    "Measured",
    "NodeConstraints",
    "NodeExplanation",
    "NodeFacts",
    "NodePreferences",
    "NodeRequirement",
    "Placement",
    "PodExplanation",
    "PodFacts",
    "Refused",
    "ResourceFit",
    "Taint",
    "Toleration",
    "Verdicts",
    "Weighted",
    "Zone",
    "explain_node",
    "explain_pod",
]
