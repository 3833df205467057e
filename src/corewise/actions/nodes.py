"""Actions on Nodes, and the Events that tell about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from corewise.quantities import Quantity
from corewise.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True)
class PatchNode:
    """Set annotations of a node in one patch of nodes/status; None removes one. A changed node is a conflict.

    The status subresource takes annotations as well, and so the webhook amplifies by a new ratio in the very
    write that brings it.
    """

    name: str
    resource_version: str
    annotations: Mapping[str, str | None]
    reason: Reason
    why: str


@dataclass(frozen=True, slots=True)
class TouchNodeStatus:
    """Send an empty patch of nodes/status, so that the webhook applies a ratio that is not applied yet.

    A changed node is a conflict here too: what shows as raw may no longer be.
    """

    name: str
    resource_version: str
    reason: Reason
    why: str


@dataclass(frozen=True, slots=True)
class RepairNodeStatus:
    """Write **raw** amounts and drop the record, in one patch of nodes/status.

    Never amplified amounts and never two steps: the webhook amplifies what this writes.
    """

    name: str
    resource_version: str
    capacity: Mapping[str, Quantity]
    allocatable: Mapping[str, Quantity]
    drop_annotations: tuple[str, ...]
    reason: Reason
    why: str


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Tell about an object. ``namespace`` is empty for objects that have none, such as Nodes."""

    regarding_kind: str
    namespace: str
    name: str
    uid: str
    reason: Reason
    message: str
    warning: bool

    @property
    def why(self) -> str:
        return self.message


NodeAction: TypeAlias = PatchNode | TouchNodeStatus | RepairNodeStatus | EmitEvent
