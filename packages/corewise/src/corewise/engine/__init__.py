"""The scheduling engine: a snapshot in, decisions out. Pure: no plugin knows where nodes and pods come from.

- :mod:`objects`, :mod:`reading`: nodes and pods of the API; :mod:`facts`: what the engine reads of them;
- :mod:`cluster`: nodes and pods put and removed; :mod:`columns`, :mod:`table`: the snapshot of all of them;
- :mod:`framework`: what a plugin is, and how plugins decide; :mod:`remembered`: many pods of few shapes;
  :mod:`assembly`: which plugins an engine has;
- :mod:`amplified_cpu`: CPUs that are owned, and which ones a pod gets; :mod:`kube_plugins`: what
  kube-scheduler checks itself; :mod:`interference`, :mod:`interference_account`: memory bandwidth and cache.
"""

from corewise.engine.amplified_cpu import Allocation, AllocationScore, AmplifiedCPU, CPUPlacement
from corewise.engine.assembly import assemble, interference_alone
from corewise.engine.cluster import Cluster, Estimates, Measured
from corewise.engine.columns import ClusterSnapshot
from corewise.engine.facts import (
    BlockingTaint,
    Constraints,
    NodeFacts,
    NodeRequirement,
    Placement,
    PodFacts,
    Toleration,
    Zone,
)
from corewise.engine.framework import (
    NOWHERE,
    Cause,
    ChosenNode,
    Decision,
    Engine,
    Plugin,
    Unschedulable,
    Verdicts,
    place,
    verdicts,
)
from corewise.engine.interference import Interference
from corewise.engine.kube_plugins import NodeConstraints, NodePreferences, ResourceFit
from corewise.engine.remembered import Placer

__all__ = [
    "NOWHERE",
    "Allocation",
    "AllocationScore",
    "AmplifiedCPU",
    "BlockingTaint",
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
    "NodeFacts",
    "NodePreferences",
    "NodeRequirement",
    "Placement",
    "Placer",
    "Plugin",
    "PodFacts",
    "ResourceFit",
    "Toleration",
    "Unschedulable",
    "Verdicts",
    "Zone",
    "assemble",
    "interference_alone",
    "place",
    "verdicts",
]
