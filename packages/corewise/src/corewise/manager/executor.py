"""Carries actions out; dry run swaps this for an executor that prints them.

Every write of a node is one merge patch of its status, annotations included, so that the webhook amplifies in
that same write. It names the resourceVersion it was decided on: a node that has changed is a ``Conflict`` and
no harm. Amounts are written as they were computed, never recomputed here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import msgspec

from corewise.actions import (
    EmitEvent,
    NodeAction,
    PatchNode,
    RepairNodeStatus,
    SetNodeCondition,
    TouchNodeStatus,
)
from corewise.kube.client import Client, PatchType
from corewise.kube.errors import Conflict, KubeError, NotFound
from corewise.prometheus.exposition import Exposition
from corewise.quantities import Quantity
from corewise.service.logs import fields
from corewise.vocabulary.metrics import EVENTS, WRITES
from corewise.vocabulary.names import MANAGER_COMPONENT
from corewise.workload.nodes import WORKLOAD_NODES

log = logging.getLogger(__name__)

STATUS = "status"


class Executor(Protocol):
    """Something that carries actions out."""

    async def carry_out(self, action: NodeAction) -> str | None:
        """Carry out one action.

        Returns the resourceVersion the node has afterwards; None if the action wrote to no node.

        Raises:
            KubeError: if the API server said no, or nothing.
        """


class Recorder(Protocol):
    """A receiver of Events; it neither waits nor fails."""

    def __call__(self, event: EmitEvent) -> None: ...


class APIExecutor:
    """Writes to the API server, and counts."""

    def __init__(self, client: Client, record: Recorder, metrics: Exposition) -> None:
        self._client = client
        self._record = record
        self._metrics = metrics

    async def carry_out(self, action: NodeAction) -> str | None:
        if isinstance(action, EmitEvent):
            self._metrics.count(EVENTS, action.reason)
            self._record(action)
            return None
        try:
            node = await self._client.patch(
                WORKLOAD_NODES,
                action.name,
                body_of(action),
                type=PatchType.STRATEGIC if isinstance(action, SetNodeCondition) else PatchType.MERGE,
                subresource=STATUS,
                field_manager=MANAGER_COMPONENT,
            )
        except KubeError as error:
            self._metrics.count(WRITES, type(action).__name__, _result(error))
            raise
        self._metrics.count(WRITES, type(action).__name__, "ok")
        level = logging.DEBUG if isinstance(action, TouchNodeStatus) else logging.INFO
        log.log(level, "wrote", extra=fields(node=action.name, action=type(action).__name__, why=action.why))
        return node.metadata.resource_version


class PrintingExecutor:
    """Prints what would be done, each thing once, as JSON lines."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._printed: dict[tuple[type, str, str], dict[str, Any]] = {}

    async def carry_out(self, action: NodeAction) -> str | None:
        # A condition that is not written is due again at each look, with the time of that look.
        lasting = _shown(replace(action, since="", at="") if isinstance(action, SetNodeCondition) else action)
        key = (type(action), action.name, action.reason if isinstance(action, EmitEvent) else "")
        if self._printed.get(key) != lasting:
            self._printed[key] = lasting
            self._write(msgspec.json.encode(_shown(action)).decode() + "\n")
        return None


def body_of(
    action: PatchNode | TouchNodeStatus | RepairNodeStatus | SetNodeCondition,
) -> Mapping[str, object]:
    """Return the patch of nodes/status that carries out an action: strategic for conditions, else a merge."""
    match action:
        case PatchNode():
            metadata = {"resourceVersion": action.resource_version, "annotations": dict(action.annotations)}
            return {"metadata": metadata}
        case TouchNodeStatus():
            return {"metadata": {"resourceVersion": action.resource_version}}
        case RepairNodeStatus():
            metadata = {
                "resourceVersion": action.resource_version,
                "annotations": dict.fromkeys(action.drop_annotations),
            }
            amounts = {"capacity": _texts(action.capacity), "allocatable": _texts(action.allocatable)}
            return {"metadata": metadata, "status": amounts}
        case SetNodeCondition():
            return {"status": {"conditions": [_condition(action)]}}


def _condition(action: SetNodeCondition) -> Mapping[str, str]:
    """Return the condition; with a time of heartbeat, without which those of kubelets are never dropped."""
    if not action.message:
        return {"$patch": "delete", "type": action.condition}
    return {
        "type": action.condition,
        "status": "True",
        "reason": action.reason,
        "message": action.message,
        "lastHeartbeatTime": action.at,
        "lastTransitionTime": action.since,
    }


def _texts(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    return {resource: str(amount) for resource, amount in amounts.items()}


def _result(error: KubeError) -> str:
    match error:
        case NotFound():
            return "gone"
        case Conflict():
            return "conflict"
        case _:
            return "error"


def _shown(action: NodeAction) -> dict[str, Any]:
    if isinstance(action, EmitEvent):
        kind = "Warning" if action.warning else "Normal"
        about = f"{action.regarding_kind}/{action.name}"
        return {
            "action": "EmitEvent",
            "object": about,
            "type": kind,
            "reason": action.reason,
            "why": action.why,
        }
    return {
        "action": type(action).__name__,
        "object": f"Node/{action.name}",
        "subresource": STATUS,
        "patch": body_of(action),
        "reason": action.reason,
        "why": action.why,
    }
