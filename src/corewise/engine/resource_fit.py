"""ResourceFit: what a pod requests is at most what is left of the node's allocatable, for every resource.

The plain arithmetic of kube-scheduler: requests as they are, pods counted among them. A pod that requests
nothing of a resource fits whatever is left of it. Source: plugins/noderesources/fit.go of kube-scheduler.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corewise.amplification import Column, Flags
from corewise.engine.framework import Cause, Inputs, Verdicts, verdicts
from corewise.engine.nodes import CPU, MEMORY, PODS
from corewise.engine.pods import PodFacts
from corewise.engine.snapshot import ClusterSnapshot
from corewise.quantities import Quantity
from corewise.quantities.quantity import NANO, Format
from corewise.vocabulary.reasons import Reason

_TOO_MANY_PODS = Cause(Reason.RESOURCE_INSUFFICIENT, "Too many pods")


@dataclass(frozen=True, slots=True)
class ResourceFit:
    """The filter."""

    name: str = "ResourceFit"

    def filter(self, pod: PodFacts, snapshot: ClusterSnapshot) -> Verdicts | None:
        """Refuse nodes that have too little left of any resource, or too many pods."""
        refusals = [(snapshot.free[PODS] < 1, _TOO_MANY_PODS)]
        inputs: dict[str, Column | int] = {PODS: snapshot.free[PODS]}
        for resource, request in pod.requests.items():
            short, free = _short(resource, request, snapshot)
            inputs[resource] = free
            refusals.append((short, _cause(resource, request)))
        return verdicts(snapshot.size, refusals, inputs)


def _short(resource: str, request: int, snapshot: ClusterSnapshot) -> tuple[Flags, Column]:
    free = snapshot.free.get(resource)
    if free is None:
        return np.ones(snapshot.size, dtype=np.bool_), snapshot.nowhere()
    return free < request, free


def _told(resource: str, amount: int) -> str:
    """Return an amount as users write it."""
    if resource == CPU:
        return str(Quantity.of_milli(amount))
    return str(Quantity(amount * NANO, Format.BINARY_SI if resource == MEMORY else Format.DECIMAL_SI))


def _cause(resource: str, request: int) -> Cause:
    def message(numbers: Inputs) -> str:
        wanted, left = (_told(resource, amount) for amount in (request, numbers[resource]))
        return f"requests {wanted} of {resource}, {left} is left"

    return Cause(Reason.RESOURCE_INSUFFICIENT, f"Insufficient {resource}", message=message)
