"""The rule of amplification: what becomes of a write of nodes/status. Raw amounts in, amplified ones out.

For each amount (cpu and memory, in capacity and in allocatable) the raw amount is found first, by the first
row that applies. new = object, old = oldObject; record = the object's annotations raw-... and applied-... of
this amount; "named" = the object's JSON annotation raw-capacity or raw-allocatable names the resource:

=========  =====================================================  ==========================================
record     the write                                              raw
=========  =====================================================  ==========================================
(ratio unreadable, anything known of the amount)                  undecided: the stored amount stays
there      new == applied, this write has written the record      as recorded: the policy did, before us
any        own kubelet, new != old                                new, even where it equals applied
there      new == applied                                         as recorded
there      own kubelet, new != applied                            new
there      somebody else, old == applied                          as recorded: undone, with a warning
there      somebody else                                          undecided: old stays, with a warning
broken     a ratio                                                undecided: old stays; the manager repairs it
none       a ratio, new == old, named with an unreadable amount   undecided: old stays; the manager repairs it
not there  new == old, named                                      as named: Koordinator's, or a lost record
not there  any other                                              new
=========  =====================================================  ==========================================

Then amount = floor(raw x ratio), of allocatable cpu less ceil(owned x ratio) - requests (at least 0) for the
CPUs that pods own, which take more than these pods request. The record of the amount, and Koordinator's JSON
annotations, are written in the same write. With ratio 1.00 the amount is raw and its record leaves in that
same write; it stays until then, so removing and adding a ratio never amplifies twice. An undecided amount
keeps its annotations.

The kubelet's identity alone does not make an amount raw: it sends the difference to what it has cached, and
what it leaves out shows as stored. What it sends differs from what is stored, or is the same.

So a kubelet that changes capacity and leaves allocatable at the amount applied may have computed that very
amount, or may have an old cache. It is asked: allocatable becomes 1 milli-CPU or 1 byte more, which kubelet
reads, computes otherwise, and states within 10 seconds. Then it is raw by the second row. The question stays
until then; any other change of the amount asks as well.

``record-generation`` grows in every write that changes the record or leaves other amounts than were stored.
It tells the webhook that the policy has already done the work in this write (both run while a cluster is
switched over), and the manager whether the agent has measured the machine since. It stays forever.

The MutatingAdmissionPolicy of :mod:`policy` states the same rule in CEL; a test holds the two together.

**Quiet heartbeats.** A kubelet on an amplified node reads other amounts than it computes, and so patches the
node's status every 10 seconds instead of every 5 minutes, each time with fresh heartbeat times. Each such
patch would be stored and sent to every watcher of nodes. Keeping the stored times makes the write one that
changes nothing. A stored time is kept while it is younger than 4 min 30 s, which is below the 5 minutes that
kubelet itself promises; node health lives in the node's Lease and does not suffer. The clock is the newest
time in the write: a policy has no other. A stored time that is ahead of it is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from corewise.amplification.amounts import (
    AMPLIFIABLE,
    FIELDS,
    MAXIMUM,
    UNCOUNTED,
    NodeAmounts,
    StatusField,
    amplified_count,
    count,
    quantity,
    shown,
)
from corewise.amplification.annotations import (
    CELLS,
    INTEGER,
    RAW_ANNOTATIONS,
    RECORD,
    Cell,
    Known,
    Stated,
    print_count,
    read_node,
)
from corewise.quantities import ONE, Quantity, Ratio
from corewise.vocabulary import names
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

CONCERNED: Final = (
    names.AMPLIFICATION_RATIO,
    *RECORD,
    *RAW_ANNOTATIONS.values(),
    names.AMPLIFIED,
)
"""A node that has none of these annotations has nothing to do with amplification."""


@dataclass(frozen=True, slots=True)
class StatusWrite:
    """One write of a node's status, as the API server shows it to an admission webhook.

    ``annotations`` are those of the object, ``old_generation`` is the record's in oldObject, empty without
    one. ``by_kubelet``: the writer is the node's own kubelet.
    """

    new: NodeAmounts
    old: NodeAmounts
    annotations: Mapping[str, str]
    by_kubelet: bool
    old_generation: str = ""


@dataclass(frozen=True, slots=True)
class StatusVerdict:
    """The changes to make to the object before it is stored. None removes an amount or an annotation.

    ``put_back``: the write stated other amounts, and all of them are now again what is stored: the one
    condition for a quiet heartbeat that only this decision knows.
    ``findings``: why something was not done as asked; their messages are the admission warnings.
    """

    capacity: Mapping[str, Quantity | None]
    allocatable: Mapping[str, Quantity | None]
    annotations: Mapping[str, str | None]
    findings: tuple[Finding, ...]
    put_back: bool

    @property
    def changes_nothing(self) -> bool:
        return not (self.capacity or self.allocatable or self.annotations)


UNTOUCHED: Final = StatusVerdict({}, {}, {}, (), put_back=False)


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision on one amount, in milli-CPU or bytes; None: it is absent.

    ``raw`` is None where it is undecided, too. ``recorded`` says whether the amount has a record afterwards;
    None: its annotations stay as they are, and so does the stored amount if it is ``undecided``.
    """

    final: int | None
    raw: int | None = None
    recorded: bool | None = False
    undecided: bool = False


def decide_status(write: StatusWrite, *, maximum: Ratio = MAXIMUM) -> StatusVerdict:
    """Apply the rule to a write of nodes/status."""
    stated = read_node(write.annotations, maximum=maximum)
    return status_verdict(write, stated, {cell: decide_amount(write, stated, cell) for cell in CELLS})


def status_verdict(write: StatusWrite, stated: Stated, decided: Mapping[Cell, Decided]) -> StatusVerdict:
    """Return the verdict that follows from the decisions on amounts; ``stated`` are the annotations."""
    if not any(name in write.annotations for name in CONCERNED):
        return UNTOUCHED
    changes: dict[StatusField, dict[str, Quantity | None]] = {field: {} for field in FIELDS}
    for (field, resource), cell in decided.items():
        new, old = write.new.of(field).get(resource), write.old.of(field).get(resource)
        if cell.final != count(resource, new):
            kept = cell.final == count(resource, old)
            changes[field][resource] = old if kept or cell.final is None else quantity(resource, cell.final)
    as_stored = all(cell.final == _count(write.old, each) for each, cell in decided.items())
    annotations = _annotations(write, stated, decided, as_stored=as_stored)
    put_back = as_stored and any(changes.values()) and not annotations
    findings = tuple(_findings(write, stated, decided))
    return StatusVerdict(changes["capacity"], changes["allocatable"], annotations, findings, put_back)


def _count(amounts: NodeAmounts, cell: Cell) -> int | None:
    field, resource = cell
    return count(resource, amounts.of(field).get(resource))


def decide_amount(write: StatusWrite, stated: Stated, cell: Cell) -> Decided:
    """Decide what becomes of one amount, by the table above.

    The numbers are the rows of docs/concepts/amplification-writes.md, in the same order.
    """
    new, old, known = _count(write.new, cell), _count(write.old, cell), stated.known[cell]
    factor, recorded = stated.factor(cell), known.raw is not None
    stated_anew = write.by_kubelet and new != old
    written_now = stated.generation != write.old_generation
    if factor is None:
        # 1: ratio unreadable: what is stored stays, unless nothing is known of the amount
        return Decided(new) if known.is_nothing else _undecided(old)
    as_recorded = recorded and new == known.applied and (written_now or not stated_anew)
    if as_recorded:
        # 2: new == applied, record written in this write; 4: new == applied, and not 3
        raw = known.raw
    elif stated_anew or (recorded and write.by_kubelet):
        # 3: own kubelet, new != old; 5: a record, own kubelet, new != applied
        raw = new
    elif recorded and old == known.applied:
        # 6: a record, somebody else, old == applied: undone
        raw = known.raw
    elif recorded or (factor != ONE and (known.broken or (new == old and known.named_badly))):
        # 7: a record, somebody else; 8: a ratio, record broken; 9: a ratio, new == old, named unreadably
        return _undecided(old)
    else:
        # 10: new == old, named: as named; 11: any other: new
        raw = known.named if new == old and known.named is not None else new
    if raw is None or factor == ONE:
        return Decided(raw, raw)
    amount = max(0, amplified_count(cell[1], raw, factor) - stated.folded(cell, factor))
    if as_recorded and _is_asked(write, stated, cell, amount, written_now=written_now):
        amount = min(amount + 1, UNCOUNTED[cell[1]] - 1)
    return Decided(amount, raw, recorded=True)


def _is_asked(write: StatusWrite, stated: Stated, cell: Cell, amount: int, *, written_now: bool) -> bool:
    """Whether kubelet is asked to state an amount of allocatable, or still is: see the module."""
    field, resource = cell
    if field == "capacity":
        return False
    new, old = (_count(amounts, ("capacity", resource)) for amounts in (write.new, write.old))
    changed = new is not None and new not in {old, stated.known["capacity", resource].raw}
    asks = changed and write.by_kubelet and not written_now
    return asks or stated.known[cell].applied == amount + 1


def _undecided(old: int | None) -> Decided:
    return Decided(old, recorded=None, undecided=True)


def _annotations(
    write: StatusWrite, stated: Stated, decided: Mapping[Cell, Decided], *, as_stored: bool
) -> dict[str, str | None]:
    """Return the changes after which the annotations state the decision."""
    aims: dict[str, str | None] = {names.AMPLIFIED: None}
    for (field, resource), cell in decided.items():
        if cell.recorded is None:
            continue
        known = stated.known[field, resource]
        if cell.recorded and (cell.raw, cell.final) == (known.raw, known.applied):
            continue
        amounts = (cell.raw, cell.final) if cell.recorded else (None, None)
        texts = (None if amount is None else print_count(resource, amount) for amount in amounts)
        notes = (names.recorded_raw(field, resource), names.recorded_applied(field, resource))
        aims |= dict(zip(notes, texts, strict=True))
    record_changes = any(write.annotations.get(name) != aims.get(name) for name in aims if name in RECORD)
    if (record_changes or not as_stored) and stated.generation == write.old_generation:
        aims[names.RECORD_GENERATION] = _next(stated.generation)
    for field in FIELDS:
        aims |= _named(field, stated, decided)
    return {name: text for name, text in aims.items() if text != write.annotations.get(name)}


def _next(generation: str) -> str:
    return str(int(generation) + 1 if re.fullmatch(INTEGER, generation) else 1)


def _named(field: StatusField, stated: Stated, decided: Mapping[Cell, Decided]) -> dict[str, str | None]:
    """Return Koordinator's annotation of the raw amounts; nothing if it may stay as it is.

    An unreadable entry of an undecided amount stays as it is written. What stands beside it does not: it may
    be another amount than the record's, and would be taken for raw once the record has gone.
    """
    known = {resource: stated.known[field, resource] for resource in AMPLIFIABLE}
    kept = {resource for resource in AMPLIFIABLE if decided[field, resource].recorded is None}
    bad = {resource: known[resource].bad_entry for resource in kept if known[resource].named_badly}
    if "" in bad.values():
        return {}
    raw = {
        resource: known[resource].named if resource in kept else decided[field, resource].raw
        for resource in AMPLIFIABLE
        if resource in kept or decided[field, resource].recorded
    }
    stays = all(
        name in bad or (each.named, each.named_badly) == (raw.get(name), False)
        for name, each in known.items()
    )
    texts = {name: f'"{name}":"{print_count(name, each)}"' for name, each in raw.items() if each is not None}
    entries = [text for _, text in sorted((texts | bad).items())]
    text = "{" + ",".join(entries) + "}" if entries else None
    return {} if stays and entries else {RAW_ANNOTATIONS[field]: text}


def _findings(write: StatusWrite, stated: Stated, decided: Mapping[Cell, Decided]) -> Iterable[Finding]:
    refused = Reason.AMPLIFICATION_RESOURCE_REFUSED
    yield from (each for each in stated.ratios.findings if each.reason is not refused)
    for (field, resource), cell in decided.items():
        known = stated.known[field, resource]
        doubt = doubt_about(known, (field, resource)) if cell.undecided else None
        if doubt:
            yield doubt
        new, old = write.new.of(field).get(resource), write.old.of(field).get(resource)
        foreign = cell.undecided or (
            known.raw is not None and _count(write.new, (field, resource)) != known.applied
        )
        if foreign and new != old and not write.by_kubelet:
            before, wanted = shown(resource, old), shown(resource, new)
            message = f"{field} {resource} stays {before}, not {wanted}: only kubelet states raw amounts"
            yield Finding(Reason.STATUS_CHANGE_UNDONE, message, resource)


def doubt_about(known: Known, cell: Cell) -> Finding | None:
    """Return the reason that an amount's annotations are unusable; None if they are usable, or absent."""
    field, resource = cell
    if known.broken:
        message = f"the record of {field} {resource} contradicts itself: {known.broken}"
        return Finding(Reason.RECORD_UNUSABLE, message, resource)
    if known.raw is None and known.named_badly:
        message = f"{field} {resource} has no record, and {RAW_ANNOTATIONS[field]} cannot be read"
        return Finding(Reason.RECORD_UNUSABLE, message, resource)
    return None


LIMIT: Final = 270
"""Seconds for which a stored time may be kept."""

TIME: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"

_TIME = re.compile(TIME)


def parse_time(text: str) -> int | None:
    """Read an API time (``2025-01-31T12:00:00Z``) as seconds since 1970; None if it is not one."""
    if not _TIME.fullmatch(text):
        return None
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except ValueError:
        return None


def keeps_stored_times(stored: Mapping[str, str], written: Mapping[str, str]) -> bool:
    """Whether the stored lastHeartbeatTimes (condition type -> time) may stand for the written ones.

    The caller has made sure that the write is by the node's own kubelet, that its amounts were just put back
    (StatusVerdict.put_back), and that object and oldObject differ in nothing but these times.
    """
    refreshed = [kind for kind, time in written.items() if time != stored.get(kind)]
    old = [parse_time(stored.get(kind, "")) for kind in refreshed]
    new = [parse_time(written[kind]) for kind in refreshed]
    if not refreshed or None in old or None in new:
        return False
    times = [time for time in new if time is not None]
    return all(max(times) - LIMIT < time <= max(times) for time in old if time is not None)
