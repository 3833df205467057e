"""A model of one node and of everybody who writes to it, for the tests of histories.

A World is an immutable value: every event is a function from one World to the next, so that histories can be
enumerated as well as drawn at random. NodeAmounts are whole milli-CPU and bytes.

Who writes:
- kubelet sends the difference between its view, which may be stale, and what it computes from the machine;
- other writers send amounts of their own, or whole older statuses, or nothing about amounts at all;
- people set, damage and remove annotations, each through ``nodes``, where the status webhook is not called;
- the manager writes ratio annotations through nodes/status, touches, and repairs, by what the agent reports
  if there is one.

What must hold after every event, for each amount in status:

    amount = floor(base x ratio)       once, never twice; of allocatable perhaps 1 more, which asks kubelet

where ratio is 1.00 or was in force since all was last at rest, and base is a raw amount that the machine has
had since then. A repair leaves an amount alone that kubelet has stated, as long as the agent may not have
measured the machine since. Only where somebody else has managed to state an amount (while the webhook was
away or the node was not amplified, or by removing all that was known of an amplified amount) base may be what
they stated, until kubelet states that amount."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from corewise.amplification import (
    NodeAmounts,
    Repair,
    ReportedMachine,
    StatusAssessment,
    StatusObservation,
    StatusState,
    StatusWrite,
    assess,
    decide_ratio,
    decide_status,
    effective_ratios,
    read_ratios,
)
from corewise.amplification.amounts import StatusField, amplified_count
from corewise.amplification.annotations import (
    CELLS,
    RECORD,
    read_node,
)
from corewise.amplification.repair import PATIENCE, REPORT_PATIENCE
from corewise.quantities import ONE, Quantity, Ratio
from corewise.vocabulary import names
from corewise.vocabulary.reasons import Reason

Cells: TypeAlias = tuple[int, ...]
"""The four amounts of a node, in the order of CELLS."""
Annotations: TypeAlias = tuple[tuple[str, str], ...]
"""The annotations of a node, in the order of their names."""

MACHINE: Final[Cells] = (8000, 32_000_000_000, 7910, 31_000_000_007)
KNOWLEDGE: Final = (*RECORD, names.RAW_CAPACITY, names.RAW_ALLOCATABLE)
REMEMBERED: Final = 4
PATIENT: Final = PATIENCE + 1
LONG: Final = REPORT_PATIENCE + 1
MINUTES: Final = 4
"""For how long a node may take to come to rest."""


@dataclass(frozen=True, slots=True)
class World:
    """A node, what its writers know of it, and what has been stated about it."""

    machine: Cells = MACHINE
    status: Cells = MACHINE
    view: Cells = MACHINE
    past: tuple[Cells, ...] = ()
    annotations: Annotations = ()
    stored_generation: str = ""
    webhook: bool = True
    amplify_capacity: bool = True
    owned: int = 0
    folds: frozenset[int] = frozenset({0})
    normalization: Ratio | None = ONE
    report: Cells | None = None
    report_of_capacity_only: bool = False
    report_generation: str = ""
    report_same_boot: bool = True
    ratio_written: bool = False
    raws: frozenset[tuple[int, int]] = frozenset(enumerate(MACHINE))
    ratios: frozenset[tuple[str, Ratio]] = frozenset()
    foreign: frozenset[tuple[int, int]] = frozenset()
    tainted: frozenset[int] = frozenset()

    @property
    def notes(self) -> dict[str, str]:
        """The node's annotations."""
        return dict(self.annotations)


@cache
def quantity(resource: str, amount: int) -> Quantity:
    return (
        Quantity.of_milli(amount) if resource == "cpu" else Quantity.of_units(amount, Quantity.parse("1Ki"))
    )


def amounts(cells: Cells) -> NodeAmounts:
    lists: dict[StatusField, dict[str, Quantity]] = {"capacity": {}, "allocatable": {}}
    for (field, resource), amount in zip(CELLS, cells, strict=True):
        lists[field][resource] = quantity(resource, amount)
    return NodeAmounts(lists["capacity"], lists["allocatable"])


def cells_of(stated: NodeAmounts, others: Cells) -> Cells:
    """Return the amounts stated, and the others where none is."""
    return tuple(
        _count(resource, stated.of(field)[resource]) if resource in stated.of(field) else other
        for (field, resource), other in zip(CELLS, others, strict=True)
    )


def _count(resource: str, amount: Quantity) -> int:
    return amount.milli if resource == "cpu" else amount.units


# --- how a write is stored -------------------------------------------------------------------------------


def write_status(
    world: World, new: Cells, *, by_kubelet: bool = False, stated: Iterable[int] = (), foreign: bool = False
) -> World:
    """Store a write of nodes/status as the API server does, through the webhook if it is up.

    ``stated``: the cells a kubelet names. ``foreign``: the amounts are somebody else's.
    """
    final, notes = new, world.notes
    if world.webhook:
        final, pairs = admitted(world.status, new, world.annotations, world.stored_generation, by_kubelet)
        notes = dict(pairs)
    changed = {i for i, old in enumerate(world.status) if foreign and old not in {new[i], final[i]}}
    changed -= _protected(world) if world.webhook else set()
    cleared = {i for i in stated if _is_settled_by(new, final, i, notes)}
    return _stored(
        replace(
            world,
            foreign=world.foreign | {(i, new[i]) for i in changed},
            tainted=(world.tainted | changed) - cleared,
        ),
        final,
        notes,
    )


def _is_settled_by(stated: Cells, final: Cells, cell: int, notes: Mapping[str, str]) -> bool:
    """Whether nothing but the amount that kubelet has just stated is known of a cell."""
    known = read_node(notes).known[CELLS[cell]]
    if known.is_nothing:
        return stated[cell] == final[cell]
    return (stated[cell], final[cell]) == (known.raw, known.applied)


def admitted(
    status: Cells, new: Cells, annotations: Annotations, generation: str, by_kubelet: bool
) -> tuple[Cells, Annotations]:
    """Return the status and annotations that a write through the webhook stores."""
    before = dict(annotations)
    write = StatusWrite(amounts(new), amounts(status), before, by_kubelet, generation)
    verdict = decide_status(write)
    changes: Mapping[StatusField, Mapping[str, Quantity | None]] = {
        "capacity": verdict.capacity,
        "allocatable": verdict.allocatable,
    }
    final = []
    for (field, resource), sent in zip(CELLS, new, strict=True):
        amount = changes[field].get(resource, quantity(resource, sent))
        assert amount is not None
        final.append(_count(resource, amount))
    if verdict.put_back:
        assert tuple(final) == status != new
        assert not verdict.annotations
    notes = edited(before, verdict.annotations)
    stored = amounts(tuple(final))
    # A webhook behind the policy has nothing left to do in this write, and no one in the next.
    behind = StatusWrite(stored, amounts(status), notes, by_kubelet, generation)
    assert decide_status(behind).changes_nothing, (write, verdict, decide_status(behind))
    again = StatusWrite(stored, stored, notes, by_kubelet, notes.get(names.RECORD_GENERATION, ""))
    assert verdict.findings or decide_status(again).changes_nothing
    return tuple(final), tuple(sorted(notes.items()))


def _protected(world: World) -> set[int]:
    """Return the cells that no one but the kubelet can state, because they are or may be amplified."""
    stated = read_node(world.notes)
    return {
        i
        for i, cell in enumerate(CELLS)
        if stated.known[cell].raw is not None or (stated.known[cell].broken and stated.factor(cell) != ONE)
    }


def _stored(world: World, status: Cells, notes: Mapping[str, str]) -> World:
    past = world.past
    if status != world.status:
        past = (*(each for each in past if each != world.status), world.status)[-REMEMBERED:]
    return replace(
        world,
        status=status,
        past=past,
        annotations=tuple(sorted(notes.items())),
        stored_generation=notes.get(names.RECORD_GENERATION, ""),
    )


def edited(notes: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    merged = {**notes, **changes}
    return {name: text for name, text in merged.items() if text is not None}


# --- events ----------------------------------------------------------------------------------------------


def kubelet_writes(world: World, *, fresh: bool = True) -> World:
    """Send what differs between kubelet's view and the machine; a fresh kubelet has just read the node."""
    view = world.status if fresh else world.view
    stated = [i for i in range(len(CELLS)) if world.machine[i] != view[i]]
    new = tuple(world.machine[i] if i in stated else world.status[i] for i in range(len(CELLS)))
    return replace(write_status(world, new, by_kubelet=True, stated=stated), view=view)


def kubelet_reads(world: World) -> World:
    return replace(world, view=world.status)


def machine_becomes(world: World, machine: Cells, *, reboot: bool = False) -> World:
    raws = world.raws | frozenset(enumerate(machine))
    return replace(world, machine=machine, raws=raws, report_same_boot=world.report_same_boot and not reboot)


def agent_reports(world: World) -> World:
    """Measure the machine; the record's generation was read before."""
    return replace(
        world, report=world.machine, report_generation=world.stored_generation, report_same_boot=True
    )


def other_writes(world: World, new: Cells) -> World:
    return write_status(world, new, foreign=True)


def scheduler_binds(world: World, owned: int) -> World:
    """Enter a pod into the ledger, or remove one, through ``nodes/status``."""
    world = replace(world, owned=owned, folds=world.folds | {owned})
    notes = edited(world.notes, {names.OWNED_MILLI_CPU: str(owned)})
    return write_status(replace(world, annotations=tuple(sorted(notes.items()))), world.status)


def annotate(world: World, changes: Mapping[str, str | None]) -> World:
    """Change annotations through ``nodes``. Ratios in it are in force from now on."""
    world = _stored(world, world.status, edited(world.notes, changes))
    return _blinded(replace(world, ratios=world.ratios | frozenset(effective_ratios(world.notes).items())))


def forge(world: World, changes: Mapping[str, str], claims: Iterable[tuple[int, int]]) -> World:
    """Write annotations that look like corewise's and claim other raw amounts, cell by cell."""
    claimed = {*claims, *enumerate(world.status)}
    world = replace(
        world, foreign=world.foreign | claimed, tainted=world.tainted | frozenset(range(len(CELLS)))
    )
    return annotate(world, changes)


def _blinded(world: World) -> World:
    """Mark amplified amounts of which nothing is known any more: they cannot be told from raw ones."""
    blind = {i for i in range(len(CELLS)) if (i, world.status[i]) not in world.raws and _is_unnamed(world, i)}
    stated = {(i, world.status[i]) for i in blind}
    return replace(world, foreign=world.foreign | stated, tainted=world.tainted | blind)


def _is_unnamed(world: World, cell: int) -> bool:
    stated = read_node(world.notes)
    known = stated.known[CELLS[cell]]
    return known.is_nothing or (stated.factor(CELLS[cell]) == ONE and known.raw is known.named is None)


def manager_passes(world: World, *, seconds: int = LONG, old_record: bool = True) -> World:
    """One pass and one write: new ratios if the status is fit for them, else what the status needs.

    ``seconds``: for how long a mismatch has lasted; ``old_record``: the record has been as it is for long.
    """
    verdict = decide_ratio(world.notes, configured={}, normalization=world.normalization)
    flag = "false" if verdict.ratios and not world.amplify_capacity else None
    changes = dict(verdict.changes)
    if world.notes.get(names.AMPLIFY_CAPACITY) != flag:
        changes[names.AMPLIFY_CAPACITY] = flag
    found = look(world, seconds=seconds, record_seconds=LONG * old_record)
    if found.state is StatusState.SETTLED:
        world = replace(world, ratio_written=False)
    if found.repair is None and changes and found.unproven.isdisjoint(verdict.ratios):
        written = found.state is StatusState.SETTLED or found.touch
        return replace(write_ratios(world, changes), ratio_written=written)
    if found.repair is not None:
        if seconds <= REPORT_PATIENCE:
            _check_stated_amounts_stay(world, found.repair)
        return _repaired(world, found, found.repair)
    return write_status(world, world.status) if found.touch else world


def write_ratios(world: World, changes: Mapping[str, str | None]) -> World:
    """Change annotations through ``nodes/status``: the webhook sees them, and amplifies in the same write."""
    notes = edited(world.notes, changes)
    ratios = world.ratios | frozenset(effective_ratios(notes).items())
    return write_status(replace(world, annotations=tuple(sorted(notes.items())), ratios=ratios), world.status)


def _check_stated_amounts_stay(world: World, repair: Repair) -> None:
    """A repair by an agent's report that may be old leaves what kubelet has stated since."""
    stated, raw = read_node(world.notes), cells_of(repair.raw, world.status)
    for i, cell in enumerate(CELLS):
        if stated.known[cell].is_nothing and world.status[i] == world.machine[i] and i not in world.tainted:
            assert raw[i] == world.machine[i], (cell, raw[i], world.machine[i])


def _repaired(world: World, found: StatusAssessment, repair: Repair) -> World:
    raw = cells_of(repair.raw, world.status)
    grown = found.finding is not None and found.finding.reason is Reason.RAW_EQUALS_AMPLIFIED
    if grown and world.report_of_capacity_only:
        # Allocatable is then an estimate, with the recorded reservation, until kubelet states it.
        assert all(raw[i + 2] <= raw[i] or {i, i + 2} & world.tainted for i in (0, 1))
        world = replace(
            world, foreign=world.foreign | {(2, raw[2]), (3, raw[3])}, tainted=world.tainted | {2, 3}
        )
    kept = tuple(pair for pair in world.annotations if pair[0] not in repair.drop_annotations)
    return _blinded(write_status(replace(world, annotations=kept), raw))


def look(world: World, *, seconds: int = 0, record_seconds: int = 0) -> StatusAssessment:
    reported = None
    if world.report is not None:
        reported = Report(
            world.report, world.report_of_capacity_only, world.report_same_boot, world.report_generation
        )
    return assessed(world.status, world.annotations, reported, seconds, record_seconds, world.ratio_written)


class Report(NamedTuple):
    """What the agent has reported."""

    cells: Cells
    of_capacity_only: bool
    same_boot: bool
    generation: str


def assessed(
    status: Cells,
    annotations: Annotations,
    report: Report | None,
    seconds: int,
    record_seconds: int,
    ratio_written: bool,
) -> StatusAssessment:
    machine = None
    if report is not None:
        stated = amounts(report.cells)
        allocatable = {} if report.of_capacity_only else stated.allocatable
        machine = ReportedMachine(stated.capacity, allocatable, report.same_boot, report.generation)
    seen = StatusObservation(
        amounts(status), dict(annotations), machine, seconds, record_seconds, ratio_written
    )
    return assess(seen)


# --- what must hold --------------------------------------------------------------------------------------


def check(world: World) -> None:
    """Every amount in status is amplified at most once."""
    for i, (_, resource) in enumerate(CELLS):
        bases = {amount for cell, amount in world.raws if cell == i}
        if i in world.tainted:
            bases |= {amount for cell, amount in world.foreign if cell == i}
        ratios = {ONE} | {ratio for name, ratio in world.ratios if name == resource}
        allowed = {
            folded(i, base, ratio, owned) for base in bases for ratio in ratios for owned in world.folds
        }
        allowed |= {amount + 1 for amount in allowed if CELLS[i][0] == "allocatable"}
        assert world.status[i] in allowed, (CELLS[i], world.status[i], sorted(allowed))


def come_to_rest(world: World, *, agent: bool) -> World:
    """Let the webhook be back, people correct what they are told to, kubelet and manager do their work."""
    world = replace(world, webhook=True, normalization=world.normalization or ONE, report=None)
    world = annotate(world, _corrections(world))
    before = None
    for _ in range(MINUTES):
        if world == before:
            break
        before, world = world, _a_while(world, agent=agent)
        if look(world).state is StatusState.RAW_UNKNOWN:
            # What the finding tells a person to do.
            world = annotate(world, dict.fromkeys(KNOWLEDGE))
    check_rest(world, agent=agent)
    return replace(
        world,
        past=(),
        view=world.status,
        raws=frozenset(enumerate(world.machine)) | _recorded_raws(world),
        ratios=frozenset(effective_ratios(world.notes).items()),
        folds=frozenset({world.owned}),
        foreign=frozenset(),
        tainted=frozenset(),
    )


def _a_while(world: World, *, agent: bool) -> World:
    """Return the world half a minute later."""
    world = kubelet_writes(kubelet_reads(world))
    world = agent_reports(world) if agent else world
    return kubelet_writes(manager_passes(world))


def _corrections(world: World) -> dict[str, str | None]:
    return {
        name: None
        for name in (names.AMPLIFICATION_RATIO, names.AMPLIFICATION_ORIGINAL)
        if read_ratios(world.notes.get(name), annotation=name).findings
    }


def check_rest(world: World, *, agent: bool) -> None:
    """Status, record and raw annotations are exactly what machine and ratio say."""
    stated = read_node(world.notes)
    assert look(world).state is StatusState.SETTLED
    for i, (field, resource) in enumerate(CELLS):
        known, ratio = stated.known[field, resource], stated.factor((field, resource))
        assert ratio is not None
        if ratio == ONE:
            assert known.is_nothing
            assert world.status[i] == world.machine[i]
            continue
        assert known.raw is not None
        assert known.named == known.raw
        assert known.applied == world.status[i] == folded(i, known.raw, ratio, world.owned)
        seen = agent and (field == "capacity" or not world.report_of_capacity_only)
        assert known.raw == world.machine[i] or (world.machine[i] == world.status[i] and not seen)


def folded(cell: int, raw: int, ratio: Ratio, owned: int) -> int:
    """Return the offered part of a raw amount while pods own so many milli-CPU."""
    fold = -(-owned * (ratio.hundredths - 100) // 100) if CELLS[cell] == ("allocatable", "cpu") else 0
    return max(0, amplified_count(CELLS[cell][1], raw, ratio) - fold)


def _recorded_raws(world: World) -> frozenset[tuple[int, int]]:
    """Raw amounts in force that the machine has no longer: the case that cannot be told (see repair)."""
    known = read_node(world.notes).known
    found = ((i, known[cell].raw) for i, cell in enumerate(CELLS))
    return frozenset((i, raw) for i, raw in found if raw is not None)
