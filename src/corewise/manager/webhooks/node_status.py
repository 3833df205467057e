"""Mutating webhook on nodes/status: raw amounts in, amplified amounts out, whoever writes.

The rules are ``amplification.decide_status``; here the review is taken apart, the writer recognized, and
the verdict turned into a JSON patch. Every amplified node's kubelet comes here every 10 seconds, so only
what the rules need is decoded, and heartbeats are compared only where they can be kept quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from corewise.amplification import Amounts, StatusVerdict, StatusWrite, decide_status
from corewise.assessment.cluster import ClusterContext
from corewise.assessment.decision import amplifies_capacity
from corewise.assessment.nodes import MANAGED_NODES, ManagedNode, quantities
from corewise.kube.admission import AdmissionRequest
from corewise.kube.clock import Clock
from corewise.kube.decoding import decode_object
from corewise.kube.json_patch import Operation, merge_operations
from corewise.manager.webhooks.heartbeats import stored_times
from corewise.prometheus.exposition import Exposition
from corewise.quantities import Quantity
from corewise.service.webhooks.answers import Answer, allowed
from corewise.vocabulary.metrics.manager import CHANGES_UNDONE, HEARTBEATS_QUIETED
from corewise.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True)
class NodeStatusWebhook:
    """Answers reviews of nodes/status. ``context`` returns what applies to all nodes at the moment."""

    context: Callable[[], ClusterContext]
    kubelet_users: tuple[str, ...]
    quiet_heartbeats: bool
    metrics: Exposition
    clock: Clock

    async def review(self, request: AdmissionRequest) -> Answer:
        """Answer one review.

        Raises:
            DecodeError: if the objects are not Nodes.
        """
        context = self.context()
        new = decode_object(MANAGED_NODES, request.object, "object")
        old = decode_object(MANAGED_NODES, request.old_object, "oldObject")
        if context.koordinator:
            return allowed(request)
        by_kubelet = self._is_own_kubelet(request.user_info.username, new.metadata.name)
        verdict = decide_status(
            StatusWrite(_amounts(new), _amounts(old), new.metadata.annotations, by_kubelet),
            amplify_capacity=amplifies_capacity(new.metadata.labels, context.configuration),
            maximum=context.largest,
        )
        patch = _patch(new, verdict)
        if self.quiet_heartbeats and by_kubelet and verdict.put_back and _amounts_restored(new, old, verdict):
            patch += self._quieted(request)
        if any(finding.reason is Reason.STATUS_CHANGE_UNDONE for finding in verdict.findings):
            self.metrics.count(CHANGES_UNDONE)
        return allowed(request, patch=patch, warnings=_warnings(new.metadata.name, verdict))

    def _quieted(self, request: AdmissionRequest) -> list[Operation]:
        now = int(self.clock.now().timestamp())
        times = stored_times(request.object, request.old_object, now=now)
        if times:
            self.metrics.count(HEARTBEATS_QUIETED)
        return times

    def _is_own_kubelet(self, user: str, node: str) -> bool:
        return bool(node) and any(user in {known, known + node} for known in self.kubelet_users)


def _amounts(node: ManagedNode) -> Amounts:
    return Amounts(quantities(node.status.capacity), quantities(node.status.allocatable))


def _warnings(name: str, verdict: StatusVerdict) -> list[str]:
    return [f"node {name}: {finding.message} ({finding.reason})" for finding in verdict.findings]


def _patch(node: ManagedNode, verdict: StatusVerdict) -> list[Operation]:
    document = {
        "metadata": _present("annotations", node.metadata.annotations),
        "status": {
            **_present("capacity", node.status.capacity),
            **_present("allocatable", node.status.allocatable),
        },
    }
    changes = {
        "metadata": _present("annotations", verdict.annotations),
        "status": {
            **_present("capacity", _texts(verdict.capacity)),
            **_present("allocatable", _texts(verdict.allocatable)),
        },
    }
    return merge_operations(document, changes)


def _present(key: str, members: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {key: members} if members else {}


def _texts(amounts: Mapping[str, Quantity | None]) -> dict[str, str | None]:
    return {resource: None if amount is None else str(amount) for resource, amount in amounts.items()}


def _amounts_restored(new: ManagedNode, old: ManagedNode, verdict: StatusVerdict) -> bool:
    """Say whether all amounts, amplified or not, are after the patch what is stored, to the letter."""
    return (
        not verdict.annotations
        and _after(new.status.capacity, verdict.capacity) == dict(old.status.capacity)
        and _after(new.status.allocatable, verdict.allocatable) == dict(old.status.allocatable)
    )


def _after(written: Mapping[str, str], changes: Mapping[str, Quantity | None]) -> dict[str, str]:
    merged = {**written, **_texts(changes)}
    return {resource: text for resource, text in merged.items() if text is not None}
