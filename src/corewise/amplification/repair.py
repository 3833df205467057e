"""Is a node's status what its ratio and record say, and if not, what does the manager do about it?

Most of what can go wrong corrects itself: a kubelet that reads other amounts than it computes states its own
within 10 seconds. The manager helps in two ways.

Touch: an empty patch of nodes/status, so that a ratio takes effect before kubelet's next write. It is right
where record and status agree (rule 1 of the webhook). Without a record it makes what status shows raw, and
so does any other write of nodes/status with a ratio, such as the manager's own of a new one. So an amount
that is recorded nowhere must first be *proven* raw:

- the ratio was just written, on a status that was as it should be;
- or the agent's report shows the same capacity;
- or the record, or its absence, is older than 30 s: a kubelet that computes another amount than it reads
  would have stated it since.

A status that states more than the machine has is not raw: its record was lost.

Repair: a single patch of nodes/status with **raw** amounts of cpu and memory, in capacity and allocatable,
that drops the record and both raw annotations at once, so that the webhook starts afresh (rule 4). Never two
steps, never amplified amounts. It is made

- when status is not what ratio and record say for longer than 30 s;
- when the record is unusable;
- when the raw capacity of the machine, of the same boot and newer than the record, equals the amplified
  capacity in status: the one case that cannot be told from the object, since rule 1 takes it for unchanged.

Raw amounts come from the record and the raw annotations. Where these are unusable, capacity comes from the
machine as the agent reports it; where allocatable cannot be known nothing is repaired until kubelet speaks.
When record and raw annotation contradict each other, the one that status agrees with is believed, the record
first. While a ratio annotation cannot be read nothing is repaired: the record is what keeps the old ratio in
force.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from corewise.amplification.amounts import (
    AMPLIFIABLE,
    FIELDS,
    MAXIMUM,
    Finding,
    NodeAmounts,
    Ratios,
    ResourceList,
    StatusField,
    amplified,
    raw_from,
)
from corewise.amplification.annotations import Stated, read_node
from corewise.quantities import ONE, Quantity, Ratio
from corewise.vocabulary import names
from corewise.vocabulary.reasons import Reason

PATIENCE: Final = 30
"""Seconds a mismatch may last before the manager repairs it."""

_DROPPED: Final = (names.AMPLIFIED, names.RAW_CAPACITY, names.RAW_ALLOCATABLE)


@dataclass(frozen=True, slots=True)
class ReportedMachine:
    """Raw capacity as the agent reports it (NodeResourceTopology, annotation node.corewise.io/raw-capacity).

    ``same_boot``: the report is of the boot that kubelet reports (Node status.nodeInfo.bootID).
    ``newer_than_record``: the report changed after the node's record did; False if unknown.
    """

    capacity: ResourceList
    same_boot: bool = False
    newer_than_record: bool = False


@dataclass(frozen=True, slots=True)
class StatusObservation:
    """What is seen of a node.

    ``mismatch_seconds``: for how long assess() has not said SETTLED. ``record_seconds``: for how long the
    record has been as it is, or absent. ``ratio_written``: the manager has just written the ratio annotation.
    """

    amounts: NodeAmounts
    annotations: Mapping[str, str]
    machine: ReportedMachine | None
    mismatch_seconds: int
    record_seconds: int = 0
    ratio_written: bool = False


class StatusState(Enum):
    """How a node's status relates to its ratio."""

    SETTLED = "settled"
    PENDING = "pending"
    REPAIR = "repair"
    RAW_UNKNOWN = "raw unknown"


@dataclass(frozen=True, slots=True)
class Repair:
    """One patch of nodes/status: raw amounts of cpu and memory, and the annotations to drop with it."""

    raw: NodeAmounts
    drop_annotations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StatusAssessment:
    """What the manager makes of a node's status.

    ``raw``: the raw amounts of cpu and memory, as far as they are known.
    ``ratios``: by which the amounts in status are amplified, as the record says.
    ``touch``: an empty status patch would apply the ratio now.
    ``unproven``: amplified resources whose amounts are recorded nowhere and not proven raw.
    ``finding``: why, unless the node is settled or merely pending.
    """

    state: StatusState
    raw: NodeAmounts
    ratios: Ratios
    touch: bool = False
    unproven: frozenset[str] = frozenset()
    repair: Repair | None = None
    finding: Finding | None = None


class _Relation(Enum):
    """How one amount relates to record and ratio."""

    FINE = "as it should be"
    DUE = "as recorded, but another ratio applies"
    UNRECORDED = "to be amplified, and nothing is recorded yet"
    FOREIGN = "not as recorded"


def assess(
    seen: StatusObservation, *, amplify_capacity: bool = True, maximum: Ratio = MAXIMUM
) -> StatusAssessment:
    """Compare status, ratio annotation and record; say what to do."""
    stated = read_node(seen.annotations, maximum=maximum)
    ratios: Ratios = stated.record.ratios if stated.record else {}
    cells = _cells(seen, stated, amplify_capacity=amplify_capacity)
    unproven = _unproven(seen, stated, cells)
    pending = StatusAssessment(StatusState.PENDING, stated.known_raw(seen.amounts), ratios, unproven=unproven)
    settled = stated.doubt is None and all(cell is _Relation.FINE for cell in cells.values())
    unreadable = next((each for each in stated.ratios.findings if each.resource in {"", *AMPLIFIABLE}), None)
    if unreadable is not None:
        return replace(
            pending, state=StatusState.SETTLED if settled else StatusState.PENDING, finding=unreadable
        )
    if stated.doubt is not None:
        return _in_doubt(seen, stated, stated.doubt, pending, amplify_capacity=amplify_capacity)
    grown = _grown(seen, stated)
    if grown is not None:
        return _repaired(seen, pending, grown, Reason.RAW_EQUALS_AMPLIFIED)
    if settled:
        return replace(pending, state=StatusState.SETTLED)
    return _mismatched(seen, pending, cells)


def _cells(
    seen: StatusObservation, stated: Stated, *, amplify_capacity: bool
) -> Mapping[tuple[StatusField, str], _Relation]:
    return {
        (field, resource): _cell(
            seen, stated, field, resource, amplified_field=amplify_capacity or field == "allocatable"
        )
        for field in FIELDS
        for resource in AMPLIFIABLE
    }


def _cell(
    seen: StatusObservation, stated: Stated, field: StatusField, resource: str, *, amplified_field: bool
) -> _Relation:
    amount, ratio = seen.amounts.of(field).get(resource), stated.ratio(resource)
    if ratio is None:
        return _Relation.FINE
    target = ratio if amplified_field else ONE
    record = stated.record
    if record is not None and resource in record.applied.of(field):
        applied = record.applied.of(field)[resource]
        if amount != applied:
            return _Relation.FOREIGN
        return (
            _Relation.FINE
            if amplified(resource, record.raw.of(field)[resource], target) == applied
            else _Relation.DUE
        )
    if resource in stated.raw[field]:
        return _Relation.DUE
    return _Relation.FINE if amount is None or target == ONE else _Relation.UNRECORDED


def _unproven(
    seen: StatusObservation, stated: Stated, cells: Mapping[tuple[StatusField, str], _Relation]
) -> frozenset[str]:
    if stated.doubt is not None:
        return frozenset()  # The webhook leaves amounts in doubt as they are.
    proven = seen.ratio_written or seen.record_seconds > PATIENCE
    unrecorded = {resource for (_, resource), cell in cells.items() if cell is _Relation.UNRECORDED}
    return frozenset(
        resource
        for resource in unrecorded
        if _exceeds_machine(seen, resource) or not (proven or _equals_machine(seen, resource))
    )


def _mismatched(
    seen: StatusObservation, pending: StatusAssessment, cells: Mapping[tuple[StatusField, str], _Relation]
) -> StatusAssessment:
    lost = next((each for each in sorted(pending.unproven) if _exceeds_machine(seen, each)), None)
    if lost is not None:
        message = f"{lost} in status is more than the machine has, and there is no record of an amplification"
        return replace(
            pending, state=StatusState.RAW_UNKNOWN, finding=Finding(Reason.RAW_UNKNOWN, message, lost)
        )
    recorded = any(cell in {_Relation.DUE, _Relation.FOREIGN} for cell in cells.values())
    if recorded and seen.mismatch_seconds > PATIENCE:
        return _repaired(seen, pending, pending.raw, Reason.STATUS_REPAIRED)
    return replace(pending, touch=not pending.unproven and _Relation.FOREIGN not in cells.values())


def _exceeds_machine(seen: StatusObservation, resource: str) -> bool:
    machine, amount = _machine_amount(seen, resource), seen.amounts.capacity.get(resource)
    return machine is not None and amount is not None and amount > machine


def _equals_machine(seen: StatusObservation, resource: str) -> bool:
    return _machine_amount(seen, resource) == seen.amounts.capacity.get(resource)


def _machine_amount(seen: StatusObservation, resource: str) -> Quantity | None:
    return seen.machine.capacity.get(resource) if seen.machine else None


def _repaired(
    seen: StatusObservation, pending: StatusAssessment, raw: NodeAmounts, reason: Reason
) -> StatusAssessment:
    return replace(
        pending,
        state=StatusState.REPAIR,
        raw=raw,
        repair=Repair(raw, _dropped(seen)),
        finding=Finding(reason, reason.meaning),
    )


def _grown(seen: StatusObservation, stated: Stated) -> NodeAmounts | None:
    """Return the raw amounts of a machine whose new capacity is just what the old one was amplified to.

    Allocatable keeps the recorded reservation, machine - (raw capacity - raw allocatable), unless it is more
    than the old capacity: then kubelet has stated it since the machine grew.
    """
    machine, record = seen.machine, stated.record
    if machine is None or record is None or not (machine.same_boot and machine.newer_than_record):
        return None
    raw = stated.known_raw(seen.amounts)
    capacity, allocatable = dict(raw.capacity), dict(raw.allocatable)
    for resource, applied in record.applied.capacity.items():
        now = machine.capacity.get(resource)
        if now == applied == seen.amounts.capacity.get(resource) and resource in allocatable:
            reserved = capacity[resource].nano - allocatable[resource].nano
            capacity[resource] = now
            if reserved >= 0:
                allocatable[resource] = replace(allocatable[resource], nano=now.nano - reserved)
    return NodeAmounts(capacity, allocatable) if capacity != raw.capacity else None


def _in_doubt(
    seen: StatusObservation,
    stated: Stated,
    doubt: Finding,
    pending: StatusAssessment,
    *,
    amplify_capacity: bool,
) -> StatusAssessment:
    """Repair with what raw amounts are left, or wait for kubelet."""
    raw: dict[StatusField, dict[str, Quantity]] = {"capacity": {}, "allocatable": {}}
    doubtful = False
    for field in FIELDS:
        for resource in pending.raw.of(field):
            amount = seen.amounts.of(field)[resource]
            if stated.is_doubtful(field, resource, amplify_capacity=amplify_capacity):
                doubtful = True
                found = _recovered(seen, stated, field, resource)
                if found is None:
                    return replace(
                        pending, state=StatusState.RAW_UNKNOWN, finding=_unknown(seen, doubt, field, resource)
                    )
                amount = found
            raw[field][resource] = amount
    if not doubtful and seen.mismatch_seconds <= PATIENCE:
        # Nothing seems to be amplified. Were it otherwise, kubelet would state other amounts in this time.
        return replace(pending, finding=doubt)
    repaired = _repaired(seen, pending, NodeAmounts(raw["capacity"], raw["allocatable"]), doubt.reason)
    return replace(repaired, finding=doubt)


def _recovered(seen: StatusObservation, stated: Stated, field: StatusField, resource: str) -> Quantity | None:
    """Return a raw amount although the record cannot be used."""
    amount, noted = seen.amounts.of(field)[resource], stated.raw[field].get(resource)
    broken = stated.broken
    if broken is not None and stated.is_record_readable:
        applied = broken.applied.of(field).get(resource)
        if applied is None:
            return amount
        computed = raw_from(resource, applied, broken.ratios[resource])
        if amount in {applied, computed}:
            return computed
        return noted if amount == noted else None
    if noted is None and field == "capacity" and seen.machine is not None:
        return seen.machine.capacity.get(resource)
    return noted


def _unknown(seen: StatusObservation, doubt: Finding, field: StatusField, resource: str) -> Finding:
    message = (
        f"{doubt.message}; the raw {field} {resource} is known from nowhere else, so nothing is repaired "
        f"until kubelet states it. If it does not within a minute, remove {', '.join(_dropped(seen))}"
    )
    return Finding(Reason.RAW_UNKNOWN, message, resource)


def _dropped(seen: StatusObservation) -> tuple[str, ...]:
    return tuple(name for name in _DROPPED if name in seen.annotations)
