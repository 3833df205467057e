"""Which plugins an engine has: the one place where engines are put together.

| the engine of                               | kube_checks | kube_scores |
|---------------------------------------------|-------------|-------------|
| the extender, beside kube-scheduler         | no          | no          |
| ``corewise explain pod``, ``corewise plan`` | yes         | no          |
| the local cluster's scheduler               | yes         | yes         |

The order is that in which plugins are asked: cheap and general refusals first, third-party plugins last.
"""

from __future__ import annotations

from collections.abc import Sequence

from corewise.engine.amplified_cpu import Allocation, AllocationScore, AmplifiedCPU, CPUPlacement
from corewise.engine.framework import BEST_SCORE, POD_ITSELF, Engine, Plugin, Score
from corewise.engine.interference import Interference
from corewise.engine.kube_plugins import BatchShare, NodeConstraints, NodePreferences, ResourceFit

BUILT_IN = frozenset(
    {POD_ITSELF, "NodeConstraints", "ResourceFit", "AmplifiedCPU", "CPUPlacement", "NodePreferences"}
    | {each.value for each in Allocation}
    | {Interference.name, "BatchShare"}
)
"""The names that third-party plugins cannot have."""


def assemble(
    allocation: Allocation = Allocation.LEAST,
    *,
    interference: Interference | None = None,
    plugins: Sequence[Plugin] = (),
    kube_checks: bool = False,
    kube_scores: bool = False,
) -> Engine:
    """Return an engine. ``interference``: None if it is not configured; ``plugins``: those of third parties.

    ``kube_checks`` adds the checks that kube-scheduler makes itself; ``kube_scores`` its preferences, and for
    offline pods the share of batch CPU, which outweighs all other scores together.
    """
    chosen: list[Plugin] = [NodeConstraints(), ResourceFit()] if kube_checks else []
    chosen += [AmplifiedCPU(), AllocationScore(allocation), CPUPlacement()]
    if kube_scores:
        chosen.append(NodePreferences())
    if interference is not None:
        chosen.append(interference)
    chosen += plugins
    if kube_scores:
        others = sum(each.weight for each in chosen if isinstance(each, Score))
        chosen.append(BatchShare(weight=others * BEST_SCORE + 1))
    return Engine.of(*chosen)
