"""Which plugins an engine has: the one place where engines are put together.

| the engine of                               | made by                          |
|---------------------------------------------|----------------------------------|
| the extender, beside kube-scheduler         | ``assemble()``                   |
| ``corewise explain pod``, ``corewise plan`` | ``assemble(kube_checks=True)``   |
| the local cluster's kube-scheduler          | ``kube_scheduler()``             |

The order is that in which plugins are asked: cheap and general refusals first, third-party plugins last.
"""

from __future__ import annotations

from collections.abc import Sequence

from corewise.engine.amplified_cpu import Allocation, AllocationScore, AmplifiedCPU, CPUPlacement
from corewise.engine.framework import POD_ITSELF, Engine, Plugin
from corewise.engine.interference import Interference
from corewise.engine.kube_plugins import NodeConstraints, NodePreferences, NodeResourcesFit, ResourceFit

BUILT_IN = frozenset(
    {POD_ITSELF, "NodeConstraints", "ResourceFit", "AmplifiedCPU", "CPUPlacement", "NodePreferences"}
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
    chosen: list[Plugin] = [NodeConstraints(), ResourceFit()] if kube_checks else []
    chosen += [AmplifiedCPU(), AllocationScore(allocation), CPUPlacement()]
    if interference is not None:
        chosen.append(interference)
    return Engine.of(*chosen, *plugins)


def kube_scheduler() -> Engine:
    """Return an engine with the kube-scheduler plugins that local clusters need; none is corewise's."""
    return Engine.of(NodeConstraints(), NodeResourcesFit(), NodePreferences())
