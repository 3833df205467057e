"""Mutating webhook on nodes/status: raw amounts in, amplified amounts out, whoever writes.

The rules are ``amplification.decide_status``; here the review is decoded, the writer recognized, and the
verdict encoded as a JSON patch. Every amplified node's kubelet comes here every 10 seconds, so only what the
rules need is decoded, and heartbeats are compared only where they can be kept quiet.

**Quiet heartbeats.** On an amplified node kubelet writes its status every 10 seconds, since its raw amounts
differ from what it reads. When the amounts have been restored, what is left of most of these writes is fresh
``lastHeartbeatTime``s. If the stored times are restored too, the API server finds nothing changed, stores
nothing and notifies no watcher. The comparison is of JSON texts piece by piece, as both objects come from the
same encoder, and of values only where texts differ. managedFields are left aside, as the API server leaves
them when it decides whether anything has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from corewise.amplification import NodeAmounts, StatusVerdict, StatusWrite, decide_status, keeps_stored_times
from corewise.amplification.amounts import FIELDS
from corewise.kube.admission import AdmissionRequest, Operation, merge_operations, pointer, replace
from corewise.kube.decoding import decode_object
from corewise.kube.errors import DecodeError
from corewise.prometheus.exposition import Exposition
from corewise.quantities import Quantity
from corewise.ratios.cluster import ClusterContext
from corewise.ratios.nodes import quantities
from corewise.service.webhooks import Answer, allowed
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.metrics import CHANGES_UNDONE, HEARTBEATS_QUIETED
from corewise.vocabulary.names import RECORD_GENERATION
from corewise.vocabulary.reasons import Reason
from corewise.workload.nodes import WORKLOAD_NODES, Node

_TIME = "lastHeartbeatTime"
_COMPARED_APART = ("conditions", "capacity", "allocatable")


class _Pieces(msgspec.Struct):
    metadata: dict[str, msgspec.Raw]
    status: dict[str, msgspec.Raw]
    spec: msgspec.Raw = msgspec.Raw(b"null")


_PIECES = msgspec.json.Decoder(_Pieces)
_CONDITIONS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_NO_CONDITIONS = msgspec.Raw(b"[]")


@dataclass(frozen=True, slots=True)
class NodeStatusWebhook:
    """Answers reviews of nodes/status. ``context`` returns what applies to all nodes at the moment."""

    context: Callable[[], ClusterContext]
    kubelet_users: tuple[str, ...]
    quiet_heartbeats: bool
    metrics: Exposition

    async def review(self, request: AdmissionRequest) -> Answer:
        """Answer one review.

        Raises:
            DecodeError: if the objects are not Nodes.
        """
        context = self.context()
        new = decode_object(WORKLOAD_NODES, request.object, "object")
        old = decode_object(WORKLOAD_NODES, request.old_object, "oldObject")
        if context.koordinator:
            return allowed(request)
        name, user = new.metadata.name, request.user_info.username
        by_kubelet = bool(name) and any(user in {known, known + name} for known in self.kubelet_users)

        verdict = decide_status(
            StatusWrite(
                _amounts(new),
                _amounts(old),
                new.metadata.annotations,
                by_kubelet,
                old.metadata.annotations.get(RECORD_GENERATION, ""),
            ),
            maximum=context.largest,
        )
        times: list[Operation] = []
        if self.quiet_heartbeats and by_kubelet and verdict.put_back and _amounts_restored(new, old, verdict):
            times = stored_times(request.object, request.old_object)

        if times:
            self.metrics.count(HEARTBEATS_QUIETED)
        if any(finding.reason is Reason.STATUS_CHANGE_UNDONE for finding in verdict.findings):
            self.metrics.count(CHANGES_UNDONE)
        warnings = [f"node {name}: {finding.message} ({finding.reason})" for finding in verdict.findings]
        return allowed(request, patch=_patch(new, verdict) + times, warnings=warnings)


def _amounts(node: Node) -> NodeAmounts:
    return NodeAmounts(quantities(node.status.capacity), quantities(node.status.allocatable))


def _patch(node: Node, verdict: StatusVerdict) -> list[Operation]:
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


def _amounts_restored(new: Node, old: Node, verdict: StatusVerdict) -> bool:
    """Say whether all amounts, amplified or not, are after the patch what is stored, to the letter."""
    return (
        not verdict.annotations
        and _after(new.status.capacity, verdict.capacity) == dict(old.status.capacity)
        and _after(new.status.allocatable, verdict.allocatable) == dict(old.status.allocatable)
    )


def _after(written: Mapping[str, str], changes: Mapping[str, Quantity | None]) -> dict[str, str]:
    merged = {**written, **_texts(changes)}
    return {resource: text for resource, text in merged.items() if text is not None}


def stored_times(new: msgspec.Raw, old: msgspec.Raw) -> list[Operation]:
    """Return the patch that restores the stored times, so that ``new`` equals ``old``.

    Empty if the write must be stored, as every write of a node without capacity or allocatable. ``new`` and
    ``old`` are nodes; the caller has compared their capacity and allocatable.

    Raises:
        DecodeError: if one of them is not a node.
    """
    try:
        return _restored_times(_PIECES.decode(new), _PIECES.decode(old))
    except UNREADABLE as error:
        raise DecodeError(f"the object is not a Node: {error}") from error


def _restored_times(new: _Pieces, old: _Pieces) -> list[Operation]:
    new.metadata.pop("managedFields", None)
    old.metadata.pop("managedFields", None)
    if not (_same_members(new.metadata, old.metadata) and _same(new.spec, old.spec)):
        return []
    complete = all(name in each.status for each in (new, old) for name in FIELDS)
    rest = (_without(each.status, _COMPARED_APART) for each in (new, old))
    if not (complete and _same_members(*rest)):
        return []
    written, stored = _conditions(new), _conditions(old)
    if len(written) != len(stored) or any(_TIME not in each for each in (*written, *stored)):
        return []
    pairs = zip(written, stored, strict=True)
    if not all(_same_members(_without(a, (_TIME,)), _without(b, (_TIME,))) for a, b in pairs):
        return []
    new_times, old_times = _times(written), _times(stored)
    if not keeps_stored_times(old_times, new_times):
        return []
    return [
        replace(pointer("status", "conditions", index, _TIME), old_times[name])
        for index, name in enumerate(new_times)
        if new_times[name] != old_times[name]
    ]


def _conditions(node: _Pieces) -> list[dict[str, msgspec.Raw]]:
    return _CONDITIONS.decode(node.status.get("conditions", _NO_CONDITIONS))


def _times(conditions: Sequence[Mapping[str, msgspec.Raw]]) -> dict[str, str]:
    """Return type -> time, in the order of the conditions; a type appears once, as the API demands."""
    times = {_text(condition, "type"): _text(condition, _TIME) for condition in conditions}
    return times if len(times) == len(conditions) else {}


def _text(condition: Mapping[str, msgspec.Raw], key: str) -> str:
    value = msgspec.json.decode(condition[key]) if key in condition else ""
    return value if isinstance(value, str) else ""


def _without(members: Mapping[str, msgspec.Raw], keys: Sequence[str]) -> dict[str, msgspec.Raw]:
    return {key: value for key, value in members.items() if key not in keys}


def _same_members(a: Mapping[str, msgspec.Raw], b: Mapping[str, msgspec.Raw]) -> bool:
    return a.keys() == b.keys() and all(_same(value, b[key]) for key, value in a.items())


def _same(a: msgspec.Raw, b: msgspec.Raw) -> bool:
    return bytes(a) == bytes(b) or bool(msgspec.json.decode(a) == msgspec.json.decode(b))
