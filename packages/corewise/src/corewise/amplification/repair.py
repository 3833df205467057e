"""Is a node's status what its ratio and record say, and if not, what does the manager do about it?

Most of what can go wrong corrects itself: a kubelet that reads other amounts than it computes states its own
within 10 seconds. The manager helps in two ways.

Touch: an empty patch of nodes/status, so that a ratio takes effect before kubelet's next write. The rule
(status.py) takes an amount of which nothing is recorded for raw, and so does any other write of nodes/status
with a ratio, such as the manager's own of a new one. So such an amount must first be *proven* raw:

- the ratio was just written, on a status that was as it should be;
- or the agent's report states the same amount;
- or the record, or its absence, is older than 30 s: a kubelet that computes another amount than it reads
  would have stated it since.

Repair: a single patch of nodes/status with **raw** amounts of cpu and memory, in capacity and allocatable,
that drops their record at once, so that the rule starts afresh. Never two steps, never amplified amounts.
It is made for a resource

- whose status is not what ratio and record say for longer than 30 s;
- whose record contradicts itself;
- whose amount in status has been more than the agent reports for 90 s, without a record: the record was lost.
  Until then the machine may have grown, and the report be older than what kubelet has stated;
- whose raw amount, by the report, equals the amplified one in status: the one case that neither kubelet nor
  the rule can see, since there is nothing for kubelet to correct.

Raw amounts come from the agent's report if it is newer than the record: of the same boot, and made when the
record had the generation it still has. Else from the record, else from Koordinator's annotations. Where none
knows an amount, its resource is not repaired until kubelet speaks. A report without allocatable (kubelet's
configuration could not be read) is completed with the recorded reservation. While the ratio of a resource
cannot be read, the rule keeps its amounts, and nothing is repaired.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from corewise.amplification.amounts import (
    AMPLIFIABLE,
    FIELDS,
    MAXIMUM,
    NodeAmounts,
    Ratios,
    ResourceList,
    StatusField,
    count,
    quantity,
)
from corewise.amplification.annotations import CELLS, RAW_ANNOTATIONS, Cell, Stated, read_node
from corewise.amplification.status import Decided, StatusWrite, decide_amount, doubt_about, status_verdict
from corewise.quantities import ONE, Quantity, Ratio
from corewise.vocabulary import names
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

PATIENCE: Final = 30
"""Seconds a mismatch may last before the manager repairs it."""

REPORT_PATIENCE: Final = 90
"""Seconds after which the agent, which measures the machine every 60 s, has reported any change of it."""


@dataclass(frozen=True, slots=True)
class ReportedMachine:
    """Raw amounts as the agent reports them in the NodeResourceTopology.

    ``same_boot``: the report is of the boot that kubelet reports (Node status.nodeInfo.bootID).
    ``generation``: of the node's record, read before the machine was measured; empty without a record.
    """

    capacity: ResourceList
    allocatable: ResourceList = field(default_factory=dict)
    same_boot: bool = False
    generation: str = ""


@dataclass(frozen=True, slots=True)
class StatusObservation:
    """The observed state of a node.

    ``mismatch_seconds``: for how long assess() has returned a state other than SETTLED. ``record_seconds``:
    for how long the record has been as it is, or absent. ``ratio_written``: the manager has just written the
    ratio annotation.
    """

    amounts: NodeAmounts
    annotations: Mapping[str, str]
    machine: ReportedMachine | None
    mismatch_seconds: int
    record_seconds: int = 0
    ratio_written: bool = False


class StatusState(Enum):
    """The relation of a node's status to its ratio."""

    SETTLED = "settled"
    PENDING = "pending"
    REPAIR = "repair"
    RAW_UNKNOWN = "raw unknown"


@dataclass(frozen=True, slots=True)
class Repair:
    """One patch of nodes/status: raw amounts, and the annotations to drop with it."""

    raw: NodeAmounts
    drop_annotations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StatusAssessment:
    """The manager's assessment of a node's status.

    ``raw``: the raw amounts of cpu and memory, where known.
    ``ratios``: by which the amounts in status are amplified, as the record says.
    ``touch``: an empty status patch would apply the ratio now.
    ``unproven``: resources whose amounts may be amplified though nothing is recorded of them.
    ``finding``: why, unless the node is settled or merely pending.
    """

    state: StatusState
    raw: NodeAmounts
    ratios: Ratios
    touch: bool = False
    unproven: frozenset[str] = frozenset()
    repair: Repair | None = None
    finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class _Amount:
    """One amount in status, in milli-CPU or bytes, what is known of it, and what a touch would make of it."""

    counted: int | None
    raw: int | None
    applied: int | None
    named: int | None
    reported: int | None
    touched: Decided
    doubt: Finding | None

    @property
    def is_unrecorded(self) -> bool:
        """Whether it is to be amplified, and nothing is known of it."""
        return self.touched.recorded is True and self.raw is None and self.named is None

    @property
    def is_foreign(self) -> bool:
        """Whether it is not as recorded."""
        return self.raw is not None and self.touched.undecided and self.counted != self.applied

    @property
    def is_due(self) -> bool:
        """Whether a touch would change it, or its record."""
        recorded = (self.touched.raw, self.touched.final) if self.touched.recorded else (None, None)
        return self.touched.recorded is not None and (
            self.touched.final != self.counted or recorded != (self.raw, self.applied)
        )

    @property
    def has_grown(self) -> bool:
        """Whether the machine now has what its earlier amount was amplified to."""
        return self.raw is not None and self.counted == self.applied == self.reported != self.raw

    @property
    def exceeds_report(self) -> bool:
        """Whether it is more than is reported: its record was lost, or the machine has grown since."""
        if self.counted is None or self.reported is None:
            return False
        return self.is_unrecorded and self.counted > self.reported

    @property
    def known_raw(self) -> int | None:
        """The raw amount, if the node states it."""
        if self.raw is not None or self.named is not None:
            return self.named if self.raw is None else self.raw
        return None if self.touched.undecided or self.exceeds_report else self.counted


def assess(seen: StatusObservation, *, maximum: Ratio = MAXIMUM) -> StatusAssessment:
    """Compare status, ratio annotation and record; say what to do."""
    known = _known(seen, maximum)
    if known.faults:
        return _repaired(seen, known.found, known.amounts, known.faults)
    touched = {cell: each.touched for cell, each in known.amounts.items()}
    touch = status_verdict(known.write, known.stated, touched)
    if touch.changes_nothing and not any(each.is_foreign for each in known.amounts.values()):
        return replace(known.found, state=StatusState.SETTLED)
    return replace(known.found, touch=not known.found.unproven and not touch.changes_nothing)


def assessed_raw(
    seen: StatusObservation, resources: Collection[str] = AMPLIFIABLE, *, maximum: Ratio = MAXIMUM
) -> NodeAmounts:
    """Return the raw amounts of :func:`assess` alone, of some resources."""
    known = _known(seen, maximum, resources)
    found = known.found
    return (_repaired(seen, found, known.amounts, known.faults) if known.faults else found).raw


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a status before it is touched. ``faults``: why to repair, by resource."""

    stated: Stated
    write: StatusWrite
    amounts: Mapping[Cell, _Amount]
    found: StatusAssessment
    faults: Mapping[str, Finding]


def _known(seen: StatusObservation, maximum: Ratio, resources: Collection[str] = AMPLIFIABLE) -> _Known:
    stated = read_node(seen.annotations, maximum=maximum)
    write = StatusWrite(
        seen.amounts, seen.amounts, seen.annotations, by_kubelet=False, old_generation=stated.generation
    )
    amounts = {cell: _amount(seen, stated, write, cell) for cell in CELLS if cell[1] in resources}
    unproven = frozenset(
        resource
        for (_, resource), each in amounts.items()
        if each.is_unrecorded and not _is_proven(seen, each)
    )
    found = StatusAssessment(
        StatusState.PENDING,
        _amounts({cell: each.known_raw for cell, each in amounts.items() if cell[1] not in unproven}),
        {name: ratio for name in AMPLIFIABLE if (ratio := stated.recorded_ratio(name)) != ONE},
        unproven=unproven,
        finding=next((each for each in stated.ratios.findings if each.about in {"", *AMPLIFIABLE}), None),
    )
    findings = {
        name: _fault(seen, stated, name, amounts, patient=name in unproven)
        for name in AMPLIFIABLE
        if name in resources
    }
    faults = {name: fault for name, fault in findings.items() if fault}
    return _Known(stated, write, amounts, found, faults)


def _amount(seen: StatusObservation, stated: Stated, write: StatusWrite, cell: Cell) -> _Amount:
    name, resource = cell
    machine, known = seen.machine, stated.known[cell]
    reported: ResourceList = {}
    if machine is not None and machine.same_boot and machine.generation == stated.generation:
        reported = machine.capacity if name == "capacity" else machine.allocatable
    return _Amount(
        counted=count(resource, seen.amounts.of(name).get(resource)),
        raw=known.raw,
        applied=known.applied,
        named=known.named,
        reported=count(resource, reported.get(resource)),
        touched=decide_amount(write, stated, cell),
        doubt=doubt_about(known, cell),
    )


def _is_proven(seen: StatusObservation, amount: _Amount) -> bool:
    """Whether an amount without a record is raw."""
    if amount.exceeds_report:
        return False
    waited = seen.ratio_written or seen.record_seconds > PATIENCE
    return waited or amount.counted in {None, amount.reported}


def _fault(
    seen: StatusObservation, stated: Stated, resource: str, amounts: Mapping[Cell, _Amount], *, patient: bool
) -> Finding | None:
    """Return the reason to repair a resource; None if there is no need, or not yet.

    ``patient``: wait for a proof that its amounts are raw, if that is all that is missing.
    """
    if stated.ratio(resource) is None:
        return None
    own = [amounts[name, resource] for name in FIELDS]
    doubt = next((each.doubt for each in own if each.doubt and each.touched.undecided), None)
    if doubt:
        return doubt
    if any(each.has_grown for each in own):
        return Finding(Reason.RAW_EQUALS_AMPLIFIED, Reason.RAW_EQUALS_AMPLIFIED.meaning, resource)
    if seen.mismatch_seconds > REPORT_PATIENCE and any(each.exceeds_report for each in own):
        message = (
            f"{resource} in status has been more than the agent reports for {REPORT_PATIENCE} s, and there "
            "is no record of an amplification"
        )
        return Finding(Reason.RECORD_UNUSABLE, message, resource)
    late = (
        not patient
        and seen.mismatch_seconds > PATIENCE
        and any(each.is_foreign or (each.is_due and not each.is_unrecorded) for each in own)
    )
    return Finding(Reason.STATUS_REPAIRED, Reason.STATUS_REPAIRED.meaning, resource) if late else None


def _repaired(
    seen: StatusObservation,
    found: StatusAssessment,
    amounts: Mapping[Cell, _Amount],
    faults: Mapping[str, Finding],
) -> StatusAssessment:
    """Repair each faulty resource of which all raw amounts are known."""
    raw = {cell: _raw(cell, amounts) for cell, each in amounts.items() if each.counted is not None}
    raw |= {
        cell: each.reported
        for cell, each in amounts.items()
        if each.is_unrecorded and cell[1] in found.unproven
    }
    unknown = {resource for (_, resource), amount in raw.items() if amount is None}
    repaired = [resource for resource in faults if resource not in unknown]
    if not repaired:
        resource = min(faults)
        message = (
            f"{faults[resource].message}; no other source has its raw amount, so nothing is repaired "
            "until kubelet states it. If it does not within a minute, remove "
            + ", ".join((*_record(seen, [resource]), *_named(seen)))
        )
        finding = Finding(Reason.RAW_UNKNOWN, message, resource)
        return replace(found, state=StatusState.RAW_UNKNOWN, finding=finding)
    stated = _amounts({cell: amount for cell, amount in raw.items() if cell[1] in repaired})
    kept = [each for cell, each in amounts.items() if cell[1] not in repaired]
    # Koordinator's annotations go too, unless they are all that is known of another resource.
    needed = any(each.raw is None and (each.named or each.touched.undecided) for each in kept)
    named = () if needed else _named(seen)
    drop = (*_record(seen, repaired), *named)
    return replace(
        found,
        state=StatusState.REPAIR,
        raw=NodeAmounts(
            {**found.raw.capacity, **stated.capacity}, {**found.raw.allocatable, **stated.allocatable}
        ),
        repair=Repair(stated, drop),
        finding=next(iter(faults[resource] for resource in repaired)),
    )


def _record(seen: StatusObservation, resources: Iterable[str]) -> tuple[str, ...]:
    """Return the annotations there that record these resources."""
    recorded = (names.recorded_raw, names.recorded_applied)
    notes = (name(field, resource) for resource in resources for field in FIELDS for name in recorded)
    return tuple(note for note in notes if note in seen.annotations)


def _named(seen: StatusObservation) -> tuple[str, ...]:
    """Return Koordinator's annotations that are there, and the record of earlier versions."""
    return tuple(name for name in (names.AMPLIFIED, *RAW_ANNOTATIONS.values()) if name in seen.annotations)


def _raw(cell: Cell, amounts: Mapping[Cell, _Amount]) -> int | None:
    """Return the raw amount to write, from the best source that has one; None if none has."""
    amount = amounts[cell]
    if amount.reported is not None:
        return amount.reported
    capacity = amounts["capacity", cell[1]]
    known, of_capacity = amount.known_raw, capacity.known_raw
    if known is None or of_capacity is None or capacity.reported is None or amount is capacity:
        return known
    reserved = of_capacity - known
    return capacity.reported - reserved if 0 <= reserved <= capacity.reported else known


def _amounts(counted: Mapping[Cell, int | None]) -> NodeAmounts:
    lists: dict[StatusField, dict[str, Quantity]] = {name: {} for name in FIELDS}
    for (name, resource), amount in counted.items():
        if amount is not None:
            lists[name][resource] = quantity(resource, amount)
    return NodeAmounts(lists["capacity"], lists["allocatable"])
