"""The scheduling engine: a snapshot in, verdicts out. Pure; no plugin knows where nodes and pods come from.

- :mod:`nodes`, :mod:`pods`: what is read of a node and a pod, as values;
- :mod:`cluster`: nodes and pods put and taken away, and the snapshot of all of them in columns;
- :mod:`framework`, :mod:`engine`: what a plugin is, and how plugins make a decision;
- :mod:`amplified_cpu`, :mod:`cpu_placement`: CPUs that are owned count amplified; which CPUs and NUMA nodes;
- :mod:`interference`: memory bandwidth and cache; :mod:`estimates`, :mod:`pressure`: what it reads;
- :mod:`resource_fit`, :mod:`node_constraints`, :mod:`node_preferences`: what else makes a node suit a pod;
- :mod:`explain`: the record of a decision, for people.
"""

from corewise.engine.amplified_cpu import Allocation, AllocationScore, AmplifiedCPU, CPUPlacement
from corewise.engine.cluster import Cluster, Estimates, Measured
from corewise.engine.columns import ClusterSnapshot
from corewise.engine.explain import NodeExplanation, PodExplanation, explain_node, explain_pod
from corewise.engine.facts import (
    Constraints,
    NodeFacts,
    NodeRequirement,
    Placement,
    PodFacts,
    Taint,
    Toleration,
    Zone,
)
from corewise.engine.framework import (
    NOWHERE,
    Cause,
    ChosenNode,
    Decision,
    Engine,
    Refused,
    Verdicts,
    Weighted,
)
from corewise.engine.interference import Interference
from corewise.engine.kube_plugins import NodeConstraints, NodePreferences, ResourceFit

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
