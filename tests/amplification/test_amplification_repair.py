"""What the manager makes of a node's status.

Raw is 8 CPUs (7 allocatable), the ratio 2.00, applied 16 (14), memory 32Gi without a ratio.

    case                                                     then
    -------------------------------------------------------  ----------------------------------------------
    status is as recorded, by the effective ratio            settled
    no ratio, no record                                      settled
    the ratio is new or changed, status as recorded          pending: touch; repaired after 30 s
    the first ratio, just written                            pending: touch
    the first ratio, not just written, no agent              pending: nothing is proven raw
    ... and there has been no record for 30 s                pending: touch
    ... and the agent reports the capacity that status has   pending: touch
    ... and status has more than the machine                 raw unknown: the record was lost
    status is not as recorded                                pending; repaired after 30 s
    Koordinator's raw annotation is still there              pending: touch; repaired after 30 s
    the machine, newer and of the same boot, has 16          repaired at once: 16, allocatable 16 - (8 - 7)
    ... older than the record, or of another boot            settled
    the record is damaged, raw annotations are good          repaired at once
    ... raw capacity is lost, the agent reports              repaired at once
    ... raw allocatable is lost                              raw unknown
    ... nothing seems to be amplified                        repaired after 30 s
    record and raw annotation contradict each other          whom status agrees with, the record first
    the ratio cannot be read                                 never repaired
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
    print_record,
)
from corewise.quantities import Quantity, Ratio
from corewise.vocabulary import names
from corewise.vocabulary.reasons import Reason

TWICE = {names.AMPLIFICATION_RATIO: '{"cpu":2.00}'}
KNOWLEDGE = (names.AMPLIFIED, names.RAW_CAPACITY, names.RAW_ALLOCATABLE)


def cpus(capacity: str, allocatable: str) -> NodeAmounts:
    memory = {"memory": Quantity.parse("32Gi")}
    return NodeAmounts(
        {"cpu": Quantity.parse(capacity), **memory}, {"cpu": Quantity.parse(allocatable), **memory}
    )


RAW, APPLIED = cpus("8", "7"), cpus("16", "14")
RECORD = {
    names.AMPLIFIED: print_record(
        {"cpu": Ratio(200)}, NodeAmounts({"cpu": Quantity.parse("16")}, {"cpu": Quantity.parse("14")})
    ),
    names.RAW_CAPACITY: '{"cpu":"8"}',
    names.RAW_ALLOCATABLE: '{"cpu":"7"}',
}


def machine(count: str, *, same_boot: bool = True, newer: bool = True) -> ReportedMachine:
    return ReportedMachine({"cpu": Quantity.parse(count), "memory": Quantity.parse("32Gi")}, same_boot, newer)


def look(
    amounts: NodeAmounts,
    notes: dict[str, str],
    *,
    report: ReportedMachine | None = None,
    seconds: int = 0,
    record_seconds: int = 0,
    ratio_written: bool = False,
    amplify_capacity: bool = True,
) -> StatusAssessment:
    seen = StatusObservation(amounts, notes, report, seconds, record_seconds, ratio_written)
    return assess(seen, amplify_capacity=amplify_capacity)


def summary(found: StatusAssessment) -> tuple[StatusState, bool, NodeAmounts | None]:
    return found.state, found.touch, found.repair.raw if found.repair else None


def test_a_node_as_recorded_by_the_ratio_in_force_is_settled_and_its_raw_amounts_are_known() -> None:
    found = look(APPLIED, TWICE | RECORD, seconds=99)
    assert summary(found) == (StatusState.SETTLED, False, None)
    assert (found.raw, found.ratios) == (RAW, {"cpu": Ratio(200)})


def test_a_node_without_ratio_and_record_is_settled() -> None:
    assert summary(look(RAW, {}, seconds=99)) == (StatusState.SETTLED, False, None)


@pytest.mark.parametrize("ratio", [{names.AMPLIFICATION_RATIO: '{"cpu":3.00}'}, {}])
def test_a_changed_or_removed_ratio_is_touched_and_repaired_only_after_30_seconds(
    ratio: dict[str, str],
) -> None:
    assert summary(look(APPLIED, ratio | RECORD, seconds=30)) == (StatusState.PENDING, True, None)
    found = look(APPLIED, ratio | RECORD, seconds=31)
    assert summary(found) == (StatusState.REPAIR, False, RAW)
    assert found.repair is not None
    assert found.repair.drop_annotations == KNOWLEDGE
    assert found.finding is not None
    assert found.finding.reason is Reason.STATUS_REPAIRED


def test_a_first_ratio_is_touched_right_after_it_was_written() -> None:
    assert summary(look(RAW, TWICE, ratio_written=True)) == (StatusState.PENDING, True, None)


def test_later_only_what_the_agent_confirms_to_be_raw_is_touched() -> None:
    assert summary(look(RAW, TWICE)) == (StatusState.PENDING, False, None)
    assert summary(look(RAW, TWICE, report=machine("8"), seconds=99)) == (StatusState.PENDING, True, None)


def test_what_kubelet_has_let_stand_without_a_record_is_raw() -> None:
    young, old = look(RAW, TWICE, seconds=99, record_seconds=30), look(RAW, TWICE, record_seconds=31)
    assert (young.unproven, young.touch) == (frozenset({"cpu"}), False)
    assert (old.unproven, old.touch) == (frozenset(), True)


def test_a_status_beyond_the_machine_without_a_record_is_never_touched() -> None:
    found = look(APPLIED, TWICE, report=machine("8"), ratio_written=True, seconds=99, record_seconds=99)
    assert found.unproven == frozenset({"cpu"})
    assert summary(found) == (StatusState.RAW_UNKNOWN, False, None)
    assert found.finding is not None
    assert found.finding.reason is Reason.RAW_UNKNOWN


@pytest.mark.parametrize("status", [RAW, cpus("16", "7"), cpus("64", "64")])
def test_a_status_that_is_not_as_recorded_is_repaired_after_30_seconds(status: NodeAmounts) -> None:
    assert summary(look(status, TWICE | RECORD, seconds=30)) == (StatusState.PENDING, False, None)
    assert summary(look(status, TWICE | RECORD, seconds=31)) == (StatusState.REPAIR, False, RAW)


def test_what_koordinator_left_is_touched() -> None:
    notes = TWICE | {names.RAW_ALLOCATABLE: '{"cpu":"7"}'}
    found = look(cpus("8", "14"), notes, ratio_written=True)
    assert summary(found) == (StatusState.PENDING, True, None)
    assert found.raw == RAW
    assert summary(look(cpus("8", "14"), notes, seconds=31))[2] == RAW


def test_a_machine_that_grew_to_what_it_was_amplified_to_is_repaired_at_once() -> None:
    found = look(APPLIED, TWICE | RECORD, report=machine("16"))
    assert summary(found) == (StatusState.REPAIR, False, cpus("16", "15"))
    assert found.finding is not None
    assert found.finding.reason is Reason.RAW_EQUALS_AMPLIFIED


def test_allocatable_that_the_kubelet_has_stated_since_is_kept() -> None:
    applied = NodeAmounts({"cpu": Quantity.parse("16")}, {"cpu": Quantity.parse("31")})
    notes = TWICE | {names.AMPLIFIED: print_record({"cpu": Ratio(200)}, applied)}
    found = look(cpus("16", "31"), notes, report=machine("16"))
    assert summary(found)[2] == cpus("16", "15500m")


@pytest.mark.parametrize(
    "report", [machine("16", same_boot=False), machine("16", newer=False), machine("15"), None]
)
def test_otherwise_an_applied_amount_is_taken_as_unchanged(report: ReportedMachine | None) -> None:
    assert look(APPLIED, TWICE | RECORD, report=report, seconds=99).state is StatusState.SETTLED


def test_a_damaged_record_is_repaired_at_once_from_the_raw_annotations() -> None:
    found = look(APPLIED, TWICE | RECORD | {names.AMPLIFIED: "{"})
    assert summary(found) == (StatusState.REPAIR, False, RAW)
    assert found.finding is not None
    assert found.finding.reason is Reason.RECORD_UNUSABLE


def lost(name: str) -> dict[str, str]:
    notes = TWICE | RECORD | {names.AMPLIFIED: "{"}
    return {key: text for key, text in notes.items() if key != name}


def test_a_lost_raw_capacity_is_taken_from_the_agent() -> None:
    notes = lost(names.RAW_CAPACITY)
    assert summary(look(APPLIED, notes)) == (StatusState.RAW_UNKNOWN, False, None)
    assert summary(look(APPLIED, notes, report=machine("8"))) == (StatusState.REPAIR, False, RAW)


def test_where_capacity_is_not_amplified_status_shows_it_raw() -> None:
    notes = lost(names.RAW_CAPACITY)
    assert summary(look(cpus("8", "14"), notes, amplify_capacity=False)) == (StatusState.REPAIR, False, RAW)


def test_without_raw_allocatable_nothing_is_repaired_until_kubelet_speaks() -> None:
    found = look(APPLIED, lost(names.RAW_ALLOCATABLE), report=machine("8"), seconds=999)
    assert summary(found) == (StatusState.RAW_UNKNOWN, False, None)
    assert found.finding is not None
    assert "raw allocatable cpu is known from nowhere else" in found.finding.message
    assert names.AMPLIFIED in found.finding.message


def test_a_damaged_record_of_a_node_that_is_not_amplified_is_dropped_after_30_seconds() -> None:
    notes = {names.AMPLIFIED: "{"}
    assert summary(look(RAW, notes, seconds=30)) == (StatusState.PENDING, False, None)
    found = look(RAW, notes, seconds=31)
    assert summary(found) == (StatusState.REPAIR, False, RAW)
    assert found.repair is not None
    assert found.repair.drop_annotations == (names.AMPLIFIED,)


@pytest.mark.parametrize(
    ("status", "noted", "raw"),
    [
        ("16", "16", "8"),  # the record: somebody wrote the amplified amount down as raw
        ("8", "16", "8"),  # the record: the webhook was away, kubelet wrote what is raw
        ("5", "5", "5"),  # the annotation: status is what it says
        ("6", "5", None),  # neither
    ],
)
def test_of_two_that_contradict_each_other_the_one_that_status_agrees_with_is_believed(
    status: str, noted: str, raw: str | None
) -> None:
    notes = TWICE | RECORD | {names.RAW_CAPACITY: f'{{"cpu":"{noted}"}}'}
    found = look(cpus(status, "14"), notes, report=machine("99"))
    assert summary(found)[2] == (None if raw is None else cpus(raw, "7"))


def test_a_resource_that_a_readable_record_does_not_name_is_raw_in_status() -> None:
    notes = TWICE | RECORD | {names.RAW_CAPACITY: '{"cpu":"16","memory":"1Gi"}'}
    assert summary(look(APPLIED, notes)) == (StatusState.REPAIR, False, RAW)


@pytest.mark.parametrize("text", ["?", '{"cpu":0.5}'])
def test_nothing_is_repaired_while_the_ratio_cannot_be_read(text: str) -> None:
    bad = {names.AMPLIFICATION_RATIO: text}
    settled = look(APPLIED, bad | RECORD, seconds=99)
    assert settled.state is StatusState.SETTLED
    assert settled.finding is not None
    assert settled.finding.reason.startswith("Amplification")
    for notes in (bad | RECORD, bad | RECORD | {names.AMPLIFIED: "{"}):
        found = look(RAW, notes, report=machine("16"), seconds=99)
        assert summary(found) == (StatusState.PENDING, False, None)


def test_a_bad_entry_of_a_refused_resource_does_not_hold_up_repair() -> None:
    notes = RECORD | {names.AMPLIFICATION_RATIO: '{"cpu":2.00,"nvidia.com/gpu":2.00}'}
    assert look(RAW, notes, seconds=31).state is StatusState.REPAIR


def test_a_node_without_amounts_is_settled() -> None:
    assert look(NodeAmounts({}, {}), TWICE, seconds=99).state is StatusState.SETTLED
