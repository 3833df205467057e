"""Which plugins an engine has: the one place where engines are put together.

| the engine of                               | made by                          |
|---------------------------------------------|----------------------------------|
| the extender, beside kube-scheduler         | ``assemble()``                   |
| the extender, for pods with a stake alone   | ``interference_alone()``         |
| ``corewise explain pod``, ``corewise plan`` | ``assemble(kube_checks=True)``   |
| the local cluster's kube-scheduler          | ``kube_scheduler()``             |

The order is that in which plugins are asked: cheap and general refusals first, third-party plugins last.
"""

from __future__ import annotations

from collections.abc import Sequence

from corewise.engine.amplified_cpu import Allocation, AllocationScore, AmplifiedCPU, CPUPlacement
from corewise.engine.columns import ClusterSnapshot
from corewise.engine.facts import PodFacts
from corewise.engine.framework import Cause, Engine, Plugin, Verdicts, everywhere
from corewise.engine.interference import Interference
from corewise.engine.kube_plugins import NodeConstraints, NodePreferences, NodeResourcesFit, ResourceFit


class PodItself:
    """The plugin that refuses all nodes to a pod whose own statements are wrong."""

    name = "PodItself"
    by_node = True
    """Of pods without a problem, which are the only ones whose answers are remembered."""

    def filter(self, pod: PodFacts, snapshot: ClusterSnapshot) -> Verdicts | None:
        """Refuse all nodes to a pod with a problem."""
        if pod.problem is None:
            return None
        cause = Cause(pod.problem.reason, pod.problem.message, unresolvable=True)
        return everywhere(snapshot.size, cause)


BUILT_IN = frozenset(
    {PodItself.name, "NodeConstraints", "ResourceFit", "AmplifiedCPU", "CPUPlacement", "NodePreferences"}
    | {each.value for each in Allocation}
    | {Interference.name, "NodeResourcesFit"}
)
"""The names that third-party plugins cannot have."""


def assemble(
    allocation: Allocation = Allocation.LEAST,
    *,
    interference: Interference | None = None,
    plugins: Sequence[Plugin] = (),
    kube_checks: bool = False,
) -> Engine:
    """Return an engine. ``interference``: None if it is not configured; ``plugins``: those of third parties.

    ``kube_checks`` adds the checks that kube-scheduler makes itself.
    """
    chosen: list[Plugin] = [PodItself()]
    if kube_checks:
        chosen += [NodeConstraints(), ResourceFit()]
    chosen += [AmplifiedCPU(), AllocationScore(allocation), CPUPlacement()]
    if interference is not None:
        chosen.append(interference)
    return Engine.of(*chosen, *plugins)


def interference_alone(plugin: Interference | None) -> Engine:
    """Return the engine for pods with a stake, about which kube-scheduler decides everything else itself.

    So it refuses no pod for what else the pod states, such as a NUMA policy that cannot be read.
    """
    return Engine.of(plugin) if plugin else Engine.of()


def kube_scheduler() -> Engine:
    """Return an engine with the kube-scheduler plugins that local clusters need; none is corewise's."""
    return Engine.of(PodItself(), NodeConstraints(), NodeResourcesFit(), NodePreferences())
