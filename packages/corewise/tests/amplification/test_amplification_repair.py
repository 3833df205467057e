"""What the manager makes of a node's status.

Raw is 8 CPUs (7 allocatable), the ratio 2.00, applied 16 (14), memory 32Gi without a ratio. A report is of
the same boot and of the record's generation, unless said otherwise.

    case                                                     then
    -------------------------------------------------------  ----------------------------------------------
    status is as recorded, by the ratio in force             settled
    no ratio, no record                                      settled
    the ratio is new or changed, status as recorded          pending: touch; repaired after 30 s
    the first ratio, just written                            pending: touch
    the first ratio, not just written, no agent              pending: nothing is proven raw
    ... and there has been no record for 30 s                pending: touch
    ... and the agent reports what status has                pending: touch
    ... and the agent reports no allocatable                 pending: capacity proves nothing of allocatable
    ... and status has had more than it for 90 s             repaired: the record was lost
    ... and for less                                         pending: the machine may have grown since
    status is not as recorded                                pending; repaired after 30 s
    ... and the agent reports another machine                repaired with what it reports
    Koordinator's raw annotation is still there              pending: touch; repaired after 30 s
    the machine has 16 (14)                                  repaired at once
    ... the agent reports no allocatable                     16, allocatable 16 - (8 - 7)
    ... allocatable alone has become 14                      repaired at once
    ... older than the record, or of another boot            settled
    the record contradicts itself                            repaired at once: report, then Koordinator's
    ... and nothing else is known                            raw unknown
    ... and the resource has no ratio                        pending: touch, which removes it
    the ratio cannot be read                                 never repaired
    memory cannot be told                                    cpu is repaired
"""

from __future__ import annotations

import pytest

from corewise.amplification import (
    NodeAmounts,
    ReportedMachine,
    StatusAssessment,
    StatusObservation,
    StatusState,
    assess,
)
from corewise.quantities import Quantity, Ratio
from corewise.vocabulary import names
from corewise.vocabulary.reasons import Reason
from node_records import recorded

TWICE = {names.AMPLIFICATION_RATIO: '{"cpu":2.00}'}
RAW_ONLY = {names.AMPLIFY_CAPACITY: "false"}


def cpus(capacity: str, allocatable: str) -> NodeAmounts:
    memory = {"memory": Quantity.parse("32Gi")}
    return NodeAmounts(
        {"cpu": Quantity.parse(capacity), **memory}, {"cpu": Quantity.parse(allocatable), **memory}
    )


def only(capacity: str, allocatable: str) -> NodeAmounts:
    return NodeAmounts({"cpu": Quantity.parse(capacity)}, {"cpu": Quantity.parse(allocatable)})


RAW, APPLIED = cpus("8", "7"), cpus("16", "14")
RECORD = recorded({"cpu": ("8", "16")}, {"cpu": ("7", "14")})


def report(
    capacity: str, allocatable: str | None, *, same_boot: bool = True, generation: str = "1"
) -> ReportedMachine:
    memory = {"memory": Quantity.parse("32Gi")}
    offered = {"cpu": Quantity.parse(allocatable), **memory} if allocatable else {}
    capacities = {"cpu": Quantity.parse(capacity), **memory}
    return ReportedMachine(capacities, offered, same_boot, generation)


def look(
    amounts: NodeAmounts,
    notes: dict[str, str],
    *,
    machine: ReportedMachine | None = None,
    seconds: int = 0,
    record_seconds: int = 0,
    ratio_written: bool = False,
) -> StatusAssessment:
    return assess(StatusObservation(amounts, notes, machine, seconds, record_seconds, ratio_written))


def summary(found: StatusAssessment) -> tuple[StatusState, bool, NodeAmounts | None]:
    return found.state, found.touch, found.repair.raw if found.repair else None


def test_node_matching_its_record_is_settled() -> None:
    found = look(APPLIED, TWICE | RECORD, seconds=99)
    assert summary(found) == (StatusState.SETTLED, False, None)
    assert (found.raw, found.ratios) == (RAW, {"cpu": Ratio(200)})


def test_a_node_without_ratio_and_record_is_settled() -> None:
    assert summary(look(RAW, {}, seconds=99)) == (StatusState.SETTLED, False, None)


@pytest.mark.parametrize("ratio", [{names.AMPLIFICATION_RATIO: '{"cpu":3.00}'}, {}])
def test_changed_ratio_is_touched_then_repaired_later(
    ratio: dict[str, str],
) -> None:
    assert summary(look(APPLIED, ratio | RECORD, seconds=30)) == (StatusState.PENDING, True, None)
    found = look(APPLIED, ratio | RECORD, seconds=31)
    assert summary(found) == (StatusState.REPAIR, False, only("8", "7"))
    assert found.repair is not None
    assert set(found.repair.drop_annotations) == set(RECORD) - {names.RECORD_GENERATION}
    assert found.finding is not None
    assert found.finding.reason is Reason.STATUS_REPAIRED


def test_generation_outlives_a_repair() -> None:
    found = look(RAW, TWICE | RECORD, seconds=31)
    assert found.repair is not None
    assert names.RECORD_GENERATION not in found.repair.drop_annotations


def test_first_ratio_is_touched_right_after_its_write() -> None:
    assert summary(look(RAW, TWICE, ratio_written=True)) == (StatusState.PENDING, True, None)


def test_later_touches_need_the_agent_to_confirm_raw() -> None:
    assert summary(look(RAW, TWICE)) == (StatusState.PENDING, False, None)
    confirmed = look(RAW, TWICE, machine=report("8", "7", generation=""), seconds=99)
    assert summary(confirmed) == (StatusState.PENDING, True, None)


@pytest.mark.parametrize("flag", [{}, RAW_ONLY])
def test_equal_capacity_does_not_prove_allocatable_is_raw(flag: dict[str, str]) -> None:
    half_more = {names.AMPLIFICATION_RATIO: '{"cpu":1.50}'} | flag
    amounts = cpus("4", "5250m")
    found = look(amounts, half_more, machine=report("4", None, generation=""), seconds=99)
    assert (found.unproven, found.touch) == (frozenset({"cpu"}), False)


def test_report_of_another_generation_or_boot_proves_nothing() -> None:
    for machine in (report("8", "7"), report("8", "7", generation="", same_boot=False)):
        assert look(RAW, TWICE, machine=machine).unproven == {"cpu"}


def test_amount_kubelet_left_without_a_record_is_raw() -> None:
    young, old = look(RAW, TWICE, seconds=99, record_seconds=30), look(RAW, TWICE, record_seconds=31)
    assert (young.unproven, young.touch) == (frozenset({"cpu"}), False)
    assert (old.unproven, old.touch) == (frozenset(), True)


def test_amount_not_proven_raw_is_not_called_raw() -> None:
    assert "cpu" not in look(APPLIED, TWICE).raw.allocatable


def test_a_status_beyond_the_report_waits_for_another() -> None:
    machine = report("8", "7", generation="")
    for seconds, expected in (
        (90, (StatusState.PENDING, False, None)),
        (91, (StatusState.REPAIR, False, only("8", "7"))),
    ):
        found = look(APPLIED, TWICE, machine=machine, ratio_written=True, seconds=seconds, record_seconds=99)
        assert found.unproven == frozenset({"cpu"})
        assert summary(found) == expected


def test_node_is_untouched_where_agent_cannot_report_all() -> None:
    machine = report("8", None, generation="")
    found = look(APPLIED, TWICE, machine=machine, ratio_written=True, seconds=99, record_seconds=99)
    assert (found.unproven, found.touch, found.repair) == (frozenset({"cpu"}), False, None)


@pytest.mark.parametrize("status", [RAW, cpus("16", "7"), cpus("64", "64")])
def test_status_unlike_its_record_is_repaired_later(status: NodeAmounts) -> None:
    assert summary(look(status, TWICE | RECORD, seconds=30)) == (StatusState.PENDING, False, None)
    assert summary(look(status, TWICE | RECORD, seconds=31)) == (StatusState.REPAIR, False, only("8", "7"))


def test_repair_trusts_a_report_newer_than_the_record() -> None:
    status, notes = cpus("7", "6400m"), TWICE | recorded({"cpu": ("4", "8")}, {"cpu": ("3500m", "7")})
    newer = look(status, notes, machine=report("7", "6400m"), seconds=31)
    assert summary(newer)[2] == only("7", "6400m")
    older = look(status, notes, machine=report("7", "6400m", generation="0"), seconds=31)
    assert summary(older)[2] == only("4", "3500m")


def test_what_koordinator_left_is_touched() -> None:
    notes = TWICE | {names.RAW_ALLOCATABLE: '{"cpu":"7"}'}
    found = look(cpus("8", "14"), notes, ratio_written=True)
    assert summary(found) == (StatusState.PENDING, True, None)
    assert found.raw == RAW
    assert summary(look(cpus("8", "14"), notes, seconds=31))[:2] == (StatusState.PENDING, False)
    assert summary(look(cpus("8", "14"), notes, seconds=31, record_seconds=31))[2] == only("8", "7")


@pytest.mark.parametrize("notes", [{}, {names.AMPLIFIED: "{}"}])
def test_machine_grown_to_its_amplified_size_is_repaired(notes: dict[str, str]) -> None:
    found = look(APPLIED, TWICE | RECORD | notes, machine=report("16", "14"))
    assert summary(found) == (StatusState.REPAIR, False, only("16", "14"))
    assert found.finding is not None
    assert found.finding.reason is Reason.RAW_EQUALS_AMPLIFIED


def test_growth_with_unknown_allocatable_keeps_recorded_reservation() -> None:
    found = look(APPLIED, TWICE | RECORD, machine=report("16", None))
    assert summary(found) == (StatusState.REPAIR, False, only("16", "15"))


def test_growth_of_allocatable_alone_is_seen() -> None:
    notes = TWICE | recorded({"cpu": ("16", "32")}, {"cpu": ("7", "14")})
    found = look(cpus("32", "14"), notes, machine=report("16", "14"))
    assert summary(found) == (StatusState.REPAIR, False, only("16", "14"))


def test_growth_is_seen_where_capacity_is_not_amplified() -> None:
    notes = TWICE | RAW_ONLY | recorded({}, {"cpu": ("3500m", "7")})
    found = look(cpus("8", "7"), notes, machine=report("8", "7"))
    assert summary(found) == (StatusState.REPAIR, False, only("8", "7"))


def test_allocatable_stated_by_kubelet_since_is_kept() -> None:
    notes = TWICE | recorded({"cpu": ("8", "16")}, {"cpu": ("15500m", "31")})
    found = look(cpus("16", "31"), notes, machine=report("16", None))
    assert summary(found)[2] == only("16", "15500m")


@pytest.mark.parametrize(
    "machine",
    [
        report("16", "14", same_boot=False),
        report("16", "14", generation="0"),
        report("16", "14", generation="2"),
        report("15", "13"),
        None,
    ],
)
def test_otherwise_an_applied_amount_is_taken_as_unchanged(machine: ReportedMachine | None) -> None:
    assert look(APPLIED, TWICE | RECORD, machine=machine, seconds=99).state is StatusState.SETTLED


def broken(*lost: str) -> dict[str, str]:
    """Return a record of which one amount is damaged, and annotations are lost."""
    notes = TWICE | RECORD | {names.recorded_applied("allocatable", "cpu"): "{"}
    return {key: text for key, text in notes.items() if key not in lost}


def test_contradictory_record_is_repaired_from_koordinator_annotations() -> None:
    found = look(APPLIED, broken())
    assert summary(found) == (StatusState.REPAIR, False, only("8", "7"))
    assert found.finding is not None
    assert found.finding.reason is Reason.RECORD_UNUSABLE


def test_without_these_the_agent_tells_what_is_raw() -> None:
    notes = broken(names.RAW_ALLOCATABLE)
    assert summary(look(APPLIED, notes)) == (StatusState.RAW_UNKNOWN, False, None)
    assert summary(look(APPLIED, notes, machine=report("8", "7")))[2] == only("8", "7")
    assert look(APPLIED, notes, machine=report("8", "7", generation="9")).repair is None


def test_unknown_amount_is_not_repaired_until_kubelet_reports() -> None:
    found = look(APPLIED, broken(names.RAW_ALLOCATABLE), seconds=999, record_seconds=999)
    assert summary(found) == (StatusState.RAW_UNKNOWN, False, None)
    assert found.finding is not None
    assert found.finding.reason is Reason.RAW_UNKNOWN
    assert names.recorded_raw("allocatable", "cpu") in found.finding.message


def test_damaged_record_without_a_ratio_is_touched_away() -> None:
    found = look(RAW, {names.recorded_raw("capacity", "memory"): "{"})
    assert summary(found) == (StatusState.PENDING, True, None)


def test_one_resource_is_repaired_while_other_is_unknown() -> None:
    both = {names.AMPLIFICATION_RATIO: '{"cpu":2.00,"memory":2.00}'}
    notes = both | broken() | {names.recorded_raw("capacity", "memory"): "?"}
    found = look(APPLIED, notes)
    assert summary(found) == (StatusState.REPAIR, False, only("8", "7"))
    assert found.repair is not None
    assert not any("memory" in name for name in found.repair.drop_annotations)


@pytest.mark.parametrize("text", ["?", '{"cpu":0.5}'])
def test_unreadable_ratio_stops_every_repair(text: str) -> None:
    bad = {names.AMPLIFICATION_RATIO: text}
    settled = look(APPLIED, bad | RECORD, seconds=99)
    assert settled.state is StatusState.SETTLED
    assert settled.finding is not None
    assert settled.finding.reason.startswith("Amplification")
    for notes in (bad | RECORD, broken() | bad):
        found = look(RAW, notes, machine=report("16", "14"), seconds=99)
        assert found.repair is None
        assert not found.touch


def test_bad_entry_of_refused_resource_delays_no_repair() -> None:
    notes = RECORD | {names.AMPLIFICATION_RATIO: '{"cpu":2.00,"nvidia.com/gpu":2.00}'}
    assert look(RAW, notes, seconds=31).state is StatusState.REPAIR


def test_a_node_without_amounts_is_settled() -> None:
    assert look(NodeAmounts({}, {}), TWICE, seconds=99).state is StatusState.SETTLED


def test_the_fold_of_owned_cpus_is_no_mismatch() -> None:
    notes = TWICE | recorded({"cpu": ("8", "16")}, {"cpu": ("7", "12")}) | {names.OWNED_MILLI_CPU: "2000"}
    found = look(cpus("16", "12"), notes, seconds=99)
    assert (found.state, found.raw, found.ratios) == (StatusState.SETTLED, RAW, {"cpu": Ratio(200)})


def test_record_of_an_earlier_version_is_touched_away() -> None:
    notes = TWICE | RECORD | {names.AMPLIFIED: "{}"}
    assert summary(look(APPLIED, notes)) == (StatusState.PENDING, True, None)
