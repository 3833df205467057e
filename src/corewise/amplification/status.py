"""What the mutating webhook on nodes/status makes of a write: amplified amounts, never twice.

For cpu and memory, in capacity and in allocatable, the webhook first finds the raw amount. With new = object,
old = oldObject, applied = what the record of the **object** says is in status:

====  ==========  ===========  ====================================  =========================================
rule  record      writer       amounts                               then
====  ==========  ===========  ====================================  =========================================
1     has it      anybody      new == applied                        raw as recorded
2     has it      own kubelet  new != applied                        new is raw
3     has it      other        new != applied, new == old            left; kubelet or manager corrects it
3     has it      other        new != applied, new != old            undone to old, with a warning
4     without it  anybody      new == old, a raw annotation says     that is raw
4     without it  anybody      otherwise                             new is raw
====  ==========  ===========  ====================================  =========================================

Then status = floor(raw x ratio), and record and raw annotations are written with it. A resource without a
ratio gets its raw amounts back and leaves the record in that same write: the record outlives the ratio until
status is raw again, so removing and re-adding a ratio never doubles. The identity of the writer alone does
not make an amount raw: a kubelet sends the difference to what it has cached, and what it leaves out shows as
stored.

Three things keep what they have:
- a resource with a field that rule 3 leaves keeps its record, in both fields;
- a resource whose ratio cannot be read keeps the record's ratio, and without a record its amounts;
- amounts in doubt (see annotations.py) keep the stored ones, unless the kubelet states every one of them
  anew, which starts a new record.

**Quiet heartbeats.** A kubelet on an amplified node reads other amounts than it computes, and so patches the
node's status every 10 seconds instead of every 5 minutes, each time with fresh heartbeat times. Each such
patch would be stored and sent to every watcher of nodes. Keeping the stored times makes the write one that
changes nothing. A stored time is kept while it is younger than 4 min 30 s, which is below the 5 minutes that
kubelet itself promises; node health lives in the node's Lease and does not suffer. Age is counted on the
later of two clocks, ours and the kubelet's: a clock that lags never makes a time look young, and a stored
time that is ahead of both is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

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
)
from corewise.amplification.annotations import RAW_ANNOTATIONS, Stated, print_amounts, print_record, read_node
from corewise.quantities import ONE, Quantity, Ratio
from corewise.vocabulary import names
from corewise.vocabulary.reasons import Reason

_CONCERNED: Final = (names.AMPLIFICATION_RATIO, names.AMPLIFIED, names.RAW_CAPACITY, names.RAW_ALLOCATABLE)


@dataclass(frozen=True, slots=True)
class StatusWrite:
    """One write of a node's status, as the API server shows it to the webhook.

    ``annotations`` are those of the object. ``by_kubelet``: the writer is the node's own kubelet.
    """

    new: NodeAmounts
    old: NodeAmounts
    annotations: Mapping[str, str]
    by_kubelet: bool


@dataclass(frozen=True, slots=True)
class StatusVerdict:
    """What to change in the object before it is stored. None removes an amount or an annotation.

    ``put_back``: the write stated other amounts, and all of them are now again what is stored: the one
    condition for a quiet heartbeat that only this decision knows.
    ``findings``: why something was not done as asked; their messages are the admission warnings.
    """

    capacity: Mapping[str, Quantity | None]
    allocatable: Mapping[str, Quantity | None]
    annotations: Mapping[str, str | None]
    findings: tuple[Finding, ...]
    put_back: bool


UNTOUCHED: Final = StatusVerdict({}, {}, {}, (), put_back=False)


@dataclass(frozen=True, slots=True)
class _Cell:
    """One amount: what it becomes, and what record and raw annotation say of it afterwards."""

    final: Quantity | None
    raw: Quantity | None = None
    applied: Quantity | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    """One resource: its two amounts, and the ratio for the record."""

    cells: Mapping[StatusField, _Cell]
    ratio: Ratio
    findings: tuple[Finding, ...] = ()


def decide_status(
    write: StatusWrite, *, amplify_capacity: bool = True, maximum: Ratio = MAXIMUM
) -> StatusVerdict:
    """Apply the rules above to a write of nodes/status.

    ``amplify_capacity`` false amplifies allocatable alone; capacity is then raw.
    """
    if not any(name in write.annotations for name in _CONCERNED):
        return UNTOUCHED
    stated = read_node(write.annotations, maximum=maximum)
    if stated.doubt is not None:
        doubtful = [
            (field, resource)
            for field in FIELDS
            for resource in AMPLIFIABLE
            if stated.is_doubtful(field, resource, amplify_capacity=amplify_capacity)
        ]
        if not _states_anew(write, doubtful):
            # The stored amounts of everything in doubt stay; the rest of the write goes through.
            kept = {(field, name): write.old.of(field).get(name) for field, name in doubtful}
            return _verdict(write, kept, {}, (stated.doubt,))
        stated = replace(
            stated, raw={field: {} for field in FIELDS}, doubt=None, broken=None, unreadable=frozenset()
        )
    rows = {
        resource: _decide(write, stated, resource, amplify_capacity=amplify_capacity)
        for resource in AMPLIFIABLE
    }
    final = {(field, name): row.cells[field].final for field in FIELDS for name, row in rows.items()}
    refused = Reason.AMPLIFICATION_RESOURCE_REFUSED
    findings = [each for each in stated.ratios.findings if each.reason is not refused]
    findings += [finding for row in rows.values() for finding in row.findings]
    return _verdict(write, final, _annotations(write.annotations, stated, rows), tuple(findings))


def _states_anew(write: StatusWrite, doubtful: Collection[tuple[StatusField, str]]) -> bool:
    """Whether the kubelet states every amount in doubt anew."""
    return (
        write.by_kubelet
        and bool(doubtful)
        and all(write.new.of(field).get(name) != write.old.of(field).get(name) for field, name in doubtful)
    )


def _decide(write: StatusWrite, stated: Stated, resource: str, *, amplify_capacity: bool) -> _Row:
    ratio = stated.ratio(resource)
    left = [field for field in FIELDS if _is_left(write, stated, field, resource)]
    if ratio is None or left:
        return _keep(write, stated, resource, left)
    cells: dict[StatusField, _Cell] = {}
    for field in FIELDS:
        raw = _raw(write, stated, field, resource)
        factor = ratio if field == "allocatable" or amplify_capacity else ONE
        if raw is None or factor == ONE:
            cells[field] = _Cell(raw)
        else:
            final = amplified(resource, raw, factor)
            cells[field] = _Cell(final, raw, final)
    return _Row(cells, ratio)


def _is_left(write: StatusWrite, stated: Stated, field: StatusField, resource: str) -> bool:
    """Rule 3: somebody else's amount on a recorded one, which tells nothing about raw."""
    applied = stated.record.applied.of(field).get(resource) if stated.record else None
    return not write.by_kubelet and applied is not None and write.new.of(field).get(resource) != applied


def _raw(write: StatusWrite, stated: Stated, field: StatusField, resource: str) -> Quantity | None:
    """Rules 1, 2 and 4: the raw amount of a resource that rule 3 does not leave."""
    new = write.new.of(field).get(resource)
    record = stated.record
    if record is not None and resource in record.applied.of(field):
        return record.raw.of(field)[resource] if new == record.applied.of(field)[resource] else new
    unchanged = new == write.old.of(field).get(resource)
    return stated.raw[field].get(resource, new) if unchanged else new


def _keep(write: StatusWrite, stated: Stated, resource: str, left: Iterable[StatusField]) -> _Row:
    """Keep what is known of a resource; its amounts are as sent, and as stored where rule 3 leaves them."""
    record = stated.record
    cells: dict[StatusField, _Cell] = {}
    findings: list[Finding] = []
    for field in FIELDS:
        new, old = write.new.of(field).get(resource), write.old.of(field).get(resource)
        raw, applied = stated.raw[field].get(resource), None
        if record is not None and resource in record.applied.of(field):
            raw, applied = record.raw.of(field)[resource], record.applied.of(field)[resource]
        cells[field] = _Cell(old if field in left else new, raw, applied)
        if field in left and new != old:
            findings.append(_undone(field, resource, new, old))
    ratio = record.ratios.get(resource, ONE) if record else ONE
    return _Row(cells, ratio, tuple(findings))


def _undone(field: StatusField, resource: str, new: Quantity | None, old: Quantity | None) -> Finding:
    message = f"{field} {resource} stays {old}, not {new}: the amounts of an amplified node are its kubelet's"
    return Finding(Reason.STATUS_CHANGE_UNDONE, message, resource)


def _verdict(
    write: StatusWrite,
    final: Mapping[tuple[StatusField, str], Quantity | None],
    annotations: Mapping[str, str | None],
    findings: tuple[Finding, ...],
) -> StatusVerdict:
    """Return the changes that make the ``final`` amounts of the written ones."""
    changes: dict[StatusField, dict[str, Quantity | None]] = {field: {} for field in FIELDS}
    for (field, resource), amount in final.items():
        if amount != write.new.of(field).get(resource):
            changes[field][resource] = amount
    as_stored = all(
        changes[field].get(name, write.new.of(field).get(name)) == write.old.of(field).get(name)
        for field in FIELDS
        for name in AMPLIFIABLE
    )
    return StatusVerdict(
        changes["capacity"],
        changes["allocatable"],
        annotations,
        findings,
        put_back=as_stored and any(changes.values()) and not annotations,
    )


def _annotations(
    present: Mapping[str, str], stated: Stated, rows: Mapping[str, _Row]
) -> dict[str, str | None]:
    """Return what to change so that record and raw annotations say what the rows say."""
    applied = NodeAmounts(*(_column(rows, field, "applied") for field in FIELDS))
    named = {*applied.capacity, *applied.allocatable}
    ratios: Ratios = {resource: row.ratio for resource, row in rows.items() if resource in named}
    record = stated.record
    aims: dict[str, str | None] = {}
    if record is None or (record.ratios, record.applied) != (ratios, applied):
        aims[names.AMPLIFIED] = print_record(ratios, applied) if named else None
    for field in FIELDS:
        raw = _column(rows, field, "raw")
        if raw != stated.raw[field] or not raw:
            aims[RAW_ANNOTATIONS[field]] = print_amounts(raw) if raw else None
    return {name: text for name, text in aims.items() if text != present.get(name)}


def _column(rows: Mapping[str, _Row], field: StatusField, what: Literal["raw", "applied"]) -> ResourceList:
    amounts = {name: getattr(row.cells[field], what) for name, row in rows.items()}
    return {name: amount for name, amount in amounts.items() if amount is not None}


LIMIT: Final = 270
"""Seconds for which a stored time may be kept."""

_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d+)?Z", re.ASCII)
_DAYS_TO_1970: Final = 719468
_DAYS_PER_ERA: Final = 146097


def parse_time(text: str) -> int | None:
    """Read an API time (``2025-01-31T12:00:00Z``) as seconds since 1970; None if it is not one."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups())
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second <= 60):
        return None
    return ((_days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second


def _days(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01 in the Gregorian calendar, counted in years that begin in March."""
    shifted = year - (month <= 2)
    era, year_of_era = divmod(shifted, 400)
    day_of_year = (153 * ((month - 3) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * _DAYS_PER_ERA + day_of_era - _DAYS_TO_1970


def keeps_stored_times(
    stored: Mapping[str, str], written: Mapping[str, str], *, now: int, limit: int = LIMIT
) -> bool:
    """Whether the stored lastHeartbeatTimes (condition type -> time) may stand for the written ones.

    The caller has made sure that the write is by the node's own kubelet, that its amounts were just put back
    (StatusVerdict.put_back), and that object and oldObject differ in nothing but these times.
    """
    refreshed = [kind for kind, time in written.items() if time != stored.get(kind)]
    old = [parse_time(stored.get(kind, "")) for kind in refreshed]
    fresh = [parse_time(written[kind]) for kind in refreshed]
    known_old = [time for time in old if time is not None]
    known_fresh = [time for time in fresh if time is not None]
    if not refreshed or len(known_old) < len(old) or len(known_fresh) < len(fresh):
        return False
    age = max(now, *known_fresh) - min(known_old)
    ahead = max(known_old) > max(now, *known_fresh)
    return age < limit and not ahead
