"""What the webhook makes of one write of nodes/status.

Everywhere raw is 8 CPUs, the ratio 2.00 unless said otherwise, so 16 is the amplified amount.

    case                                                             becomes
    --------------------------------------------------------------  ------------------------------------------
    no annotation of amplification                                   as sent, nothing written
    rule 1  recorded, new == applied, kubelet or other               16, raw as recorded
    rule 1  the same after the ratio changed to 3.00                 24: raw x new ratio, record rewritten
    rule 1  the same after the ratio was removed                     8, record and raw annotations gone
    rule 2  recorded, kubelet states 8                               16, put back
    rule 2  recorded, kubelet states 10                              20, record rewritten
    rule 3  recorded, other, new == old != applied                   left, record as it is
    rule 3  recorded, other, new != old                              old, with a finding
    rule 4  not recorded, new == old, raw annotation says 8          16 (Koordinator amplified it)
    rule 4  not recorded, new != old                                 2 x new, whatever the raw annotation says
    rule 4  not recorded, no raw annotation                          2 x new
    amplifyCapacity false                                            capacity raw, allocatable amplified
    amplifyCapacity switched off                                     capacity raw again in the next write
    a ratio that cannot be read                                      the record's ratio; a finding
    ... of a resource that is not recorded                           as sent
    ratio 0.99, 10.01, a string, another resource                    only the good entries count
    record unusable, kubelet states all anew                         2 x new, a new record
    record unusable, kubelet states some anew                        old for what is in doubt, the rest passes
    record unusable, other writer                                    likewise
    record and raw annotation contradict each other                  likewise
    raw annotations lost, record intact                              raw computed from the record
    memory                                                           floor in bytes, suffix family of raw
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.amplification import (
    NodeAmounts,
    StatusVerdict,
    StatusWrite,
    decide_status,
    print_amounts,
    print_record,
)
from corewise.quantities import Quantity, Ratio
from corewise.vocabulary import names
from corewise.vocabulary.reasons import Reason

TWICE = {names.AMPLIFICATION_RATIO: '{"cpu":2.00}'}


def cpus(capacity: str, allocatable: str | None = None, memory: str = "32Gi") -> NodeAmounts:
    rest = {"memory": Quantity.parse(memory), "pods": Quantity.parse("110")}
    return NodeAmounts(
        {"cpu": Quantity.parse(capacity), **rest}, {"cpu": Quantity.parse(allocatable or capacity), **rest}
    )


def recorded(ratio: str = "2.00", raw: str = "8", applied: str = "16") -> dict[str, str]:
    raw_amounts = {"cpu": Quantity.parse(raw)}
    amounts = {"cpu": Quantity.parse(applied)}
    return {
        names.AMPLIFIED: print_record({"cpu": Ratio.parse(ratio)}, NodeAmounts(amounts, amounts)),
        names.RAW_CAPACITY: print_amounts(raw_amounts),
        names.RAW_ALLOCATABLE: print_amounts(raw_amounts),
    }


def decide(
    new: NodeAmounts,
    old: NodeAmounts,
    annotations: Mapping[str, str],
    *,
    kubelet: bool = False,
    amplify_capacity: bool = True,
) -> tuple[NodeAmounts, dict[str, str], StatusVerdict]:
    """Return the stored amounts and annotations, and the verdict."""
    write = StatusWrite(new, old, annotations, by_kubelet=kubelet)
    verdict = decide_status(write, amplify_capacity=amplify_capacity)
    stored = NodeAmounts(
        {name: amount for name, amount in {**new.capacity, **verdict.capacity}.items() if amount},
        {name: amount for name, amount in {**new.allocatable, **verdict.allocatable}.items() if amount},
    )
    notes = {**annotations, **verdict.annotations}
    return stored, {name: text for name, text in notes.items() if text is not None}, verdict


def test_a_node_without_annotations_of_amplification_is_not_touched() -> None:
    stored, notes, verdict = decide(cpus("8"), cpus("4"), {"other": "x"}, kubelet=True)
    assert (stored, notes, verdict.put_back) == (cpus("8"), {"other": "x"}, False)


def test_the_first_write_amplifies_and_records_raw_and_applied_amounts() -> None:
    stored, notes, _ = decide(cpus("8", "7910m"), cpus("8", "7910m"), TWICE)
    assert stored == cpus("16", "15820m")
    assert notes == {
        **TWICE,
        names.AMPLIFIED: '{"ratio":{"cpu":2.00},"capacity":{"cpu":"16"},"allocatable":{"cpu":"15820m"}}',
        names.RAW_CAPACITY: '{"cpu":"8"}',
        names.RAW_ALLOCATABLE: '{"cpu":"7910m"}',
    }


@pytest.mark.parametrize("kubelet", [True, False])
def test_rule_1_an_applied_amount_stays_whoever_writes(kubelet: bool) -> None:
    stored, notes, verdict = decide(cpus("16"), cpus("16"), TWICE | recorded(), kubelet=kubelet)
    assert (stored, notes) == (cpus("16"), TWICE | recorded())
    assert not verdict.put_back


def test_rule_1_a_new_ratio_applies_to_the_recorded_raw_amount() -> None:
    thrice = {names.AMPLIFICATION_RATIO: '{"cpu":3.00}'}
    stored, notes, _ = decide(cpus("16"), cpus("16"), thrice | recorded())
    assert (stored, notes) == (cpus("24"), thrice | recorded("3.00", "8", "24"))


def test_rule_1_without_a_ratio_status_is_raw_and_the_record_leaves_in_the_same_write() -> None:
    stored, notes, _ = decide(cpus("16"), cpus("16"), recorded())
    assert (stored, notes) == (cpus("8"), {})


def test_rule_2_what_the_kubelet_states_is_raw_and_the_stored_amounts_are_put_back() -> None:
    stored, notes, verdict = decide(cpus("8"), cpus("16"), TWICE | recorded(), kubelet=True)
    assert (stored, notes) == (cpus("16"), TWICE | recorded())
    assert verdict.put_back


def test_rule_2_a_changed_machine_gets_new_amounts_and_a_new_record() -> None:
    stored, notes, verdict = decide(cpus("10"), cpus("16"), TWICE | recorded(), kubelet=True)
    assert (stored, notes) == (cpus("20"), TWICE | recorded("2.00", "10", "20"))
    assert not verdict.put_back


def test_rule_2_after_an_outage_the_stored_raw_amount_is_amplified_again() -> None:
    stored, _, verdict = decide(cpus("8"), cpus("8"), TWICE | recorded(), kubelet=True)
    assert (stored, verdict.put_back) == (cpus("16"), False)


def test_rule_3_an_amount_that_is_not_as_recorded_is_left_to_kubelet_and_manager() -> None:
    stored, notes, verdict = decide(cpus("8"), cpus("8"), TWICE | recorded())
    assert (stored, notes, verdict.findings) == (cpus("8"), TWICE | recorded(), ())


def test_rule_3_what_somebody_else_states_is_undone_with_a_warning() -> None:
    stored, notes, verdict = decide(cpus("64", "16"), cpus("16"), TWICE | recorded())
    assert (stored, notes) == (cpus("16"), TWICE | recorded())
    assert [finding.reason for finding in verdict.findings] == [Reason.STATUS_CHANGE_UNDONE]
    assert "capacity cpu stays 16, not 64" in verdict.findings[0].message


def test_rule_3_a_resource_that_is_left_keeps_its_record_even_without_a_ratio() -> None:
    stored, notes, _ = decide(cpus("9", "16"), cpus("9", "16"), recorded())
    assert (stored, notes) == (cpus("9", "16"), recorded())


def test_rule_4_a_node_that_koordinator_amplified_has_its_raw_amount_in_the_annotation() -> None:
    notes = TWICE | {names.RAW_ALLOCATABLE: '{"cpu":"8","memory":"32Gi"}'}
    stored, notes, _ = decide(cpus("8", "12"), cpus("8", "12"), notes)
    assert (stored, notes) == (cpus("16"), TWICE | recorded())


def test_rule_4_an_amount_that_changes_is_raw_whatever_the_raw_annotation_says() -> None:
    notes = TWICE | {names.RAW_ALLOCATABLE: '{"cpu":"8"}', names.RAW_CAPACITY: '{"cpu":"8"}'}
    stored, notes, _ = decide(cpus("10"), cpus("16"), notes, kubelet=True)
    assert (stored, notes) == (cpus("20"), TWICE | recorded("2.00", "10", "20"))


def test_rule_4_without_a_ratio_the_raw_amount_comes_back_and_the_annotation_leaves() -> None:
    stored, notes, _ = decide(cpus("8", "12"), cpus("8", "12"), {names.RAW_ALLOCATABLE: '{"cpu":"8"}'})
    assert (stored, notes) == (cpus("8"), {})


def test_a_repair_starts_afresh_even_where_raw_equals_what_was_applied() -> None:
    stored, notes, _ = decide(cpus("16"), cpus("16"), TWICE)
    assert (stored, notes) == (cpus("32"), TWICE | recorded("2.00", "16", "32"))


def test_only_allocatable_is_amplified_when_capacity_shall_not_be() -> None:
    stored, notes, _ = decide(cpus("8"), cpus("8"), TWICE, amplify_capacity=False)
    assert stored == cpus("8", "16")
    assert names.RAW_CAPACITY not in notes


def test_capacity_is_raw_again_in_the_first_write_after_it_shall_not_be_amplified() -> None:
    stored, notes, _ = decide(cpus("16"), cpus("16"), TWICE | recorded(), amplify_capacity=False)
    assert stored == cpus("8", "16")
    assert names.RAW_CAPACITY not in notes
    stored, notes, _ = decide(stored, stored, notes)
    assert (stored, notes) == (cpus("16"), TWICE | recorded())


@pytest.mark.parametrize(
    "text", ["", "{", "null", '{"cpu":0.99}', '{"cpu":10.01}', '{"cpu":"3"}', '{"cpu":NaN}']
)
def test_an_unreadable_ratio_leaves_the_recorded_one_in_force(text: str) -> None:
    bad = {names.AMPLIFICATION_RATIO: text}
    stored, notes, verdict = decide(cpus("10"), cpus("16"), bad | recorded(), kubelet=True)
    assert (stored, notes) == (cpus("20"), bad | recorded("2.00", "10", "20"))
    assert verdict.findings


def test_without_a_record_an_unreadable_ratio_leaves_amounts_and_raw_annotation_as_they_are() -> None:
    notes = {names.AMPLIFICATION_RATIO: "?", names.RAW_ALLOCATABLE: '{"cpu":"8"}'}
    stored, after, verdict = decide(cpus("8", "12"), cpus("8", "12"), notes)
    assert (stored, after) == (cpus("8", "12"), notes)
    assert verdict.findings[0].reason is Reason.AMPLIFICATION_RATIO_INVALID


def test_good_entries_of_a_partly_bad_ratio_count() -> None:
    bad = {names.AMPLIFICATION_RATIO: '{"cpu":2.00,"memory":0.5,"nvidia.com/gpu":4}'}
    stored, _, verdict = decide(cpus("8"), cpus("8"), bad)
    assert stored == cpus("16")
    assert [finding.resource for finding in verdict.findings] == ["memory"]


@pytest.mark.parametrize("text", ["", "{", "{}", '{"ratio":{"cpu":2.00}}', '{"ratio":{"cpu":"x"}}'])
def test_a_kubelet_that_states_every_amplified_amount_anew_starts_a_new_record(text: str) -> None:
    damaged = TWICE | recorded() | {names.AMPLIFIED: text}
    stored, notes, _ = decide(cpus("10"), cpus("16"), damaged, kubelet=True)
    assert (stored, notes) == (cpus("20"), TWICE | recorded("2.00", "10", "20"))


@pytest.mark.parametrize(
    ("new", "kubelet"), [(cpus("8", "16"), True), (cpus("8"), False), (cpus("64"), False)]
)
def test_otherwise_amounts_in_doubt_keep_what_is_stored(new: NodeAmounts, kubelet: bool) -> None:
    damaged = TWICE | recorded() | {names.AMPLIFIED: "{"}
    stored, notes, verdict = decide(new, cpus("16"), damaged, kubelet=kubelet)
    assert (stored, notes) == (cpus("16"), damaged)
    assert verdict.findings[0].reason is Reason.RECORD_UNUSABLE


def test_what_is_not_in_doubt_goes_through() -> None:
    damaged = TWICE | recorded() | {names.AMPLIFIED: "{"}
    stored, _, _ = decide(cpus("8", "16", memory="16Gi"), cpus("16"), damaged, kubelet=True)
    assert stored == cpus("16", memory="16Gi")


def test_a_record_that_the_raw_annotation_contradicts_is_in_doubt() -> None:
    forged = TWICE | recorded() | {names.RAW_CAPACITY: '{"cpu":"16"}'}
    stored, notes, verdict = decide(cpus("16"), cpus("16"), forged)
    assert (stored, notes) == (cpus("16"), forged)
    assert "contradict each other" in verdict.findings[0].message


@pytest.mark.parametrize("raw", [None, "", "?", "{}"])
def test_a_record_stands_in_for_lost_raw_annotations(raw: str | None) -> None:
    notes = {name: text for name, text in (TWICE | recorded()).items() if name != names.RAW_CAPACITY}
    notes |= {} if raw is None else {names.RAW_CAPACITY: raw}
    stored, after, _ = decide(cpus("16"), cpus("16"), notes)
    assert (stored, after) == (cpus("16"), TWICE | recorded())


def test_a_raw_annotation_that_cannot_be_read_is_doubt_when_there_is_no_record() -> None:
    notes = TWICE | {names.RAW_ALLOCATABLE: "?"}
    stored, after, verdict = decide(cpus("8", "12"), cpus("8", "12"), notes)
    assert (stored.allocatable, after) == (cpus("12").allocatable, notes)
    assert verdict.findings[0].reason is Reason.RECORD_UNUSABLE


def test_such_doubt_is_about_that_field_alone() -> None:
    notes = TWICE | {names.RAW_ALLOCATABLE: "?"}
    stored, after, _ = decide(cpus("8"), cpus("8", "12"), notes, kubelet=True)
    assert (stored, after) == (cpus("16"), TWICE | recorded())


def test_doubt_is_not_about_a_resource_that_the_raw_annotations_do_not_name() -> None:
    both = {names.AMPLIFICATION_RATIO: '{"cpu":2.00,"memory":1.50}'}
    damaged = both | recorded() | {names.AMPLIFIED: "{"}
    stored, after, _ = decide(cpus("8"), cpus("16"), damaged, kubelet=True)
    assert stored == cpus("16", memory="48Gi")
    assert after[names.RAW_CAPACITY] == '{"cpu":"8","memory":"32Gi"}'


def test_memory_is_floored_to_bytes_in_the_suffix_family_of_the_raw_amount() -> None:
    notes = {names.AMPLIFICATION_RATIO: '{"memory":1.29}'}
    stored, after, _ = decide(cpus("8", memory="65970697Ki"), cpus("8", memory="65970697Ki"), notes)
    assert str(stored.capacity["memory"]) == str(65970697 * 1024 * 129 // 100)
    stored, after, _ = decide(cpus("8", memory="100Gi"), cpus("8", memory="100Gi"), notes)
    assert str(stored.capacity["memory"]) == "129Gi"
    assert after[names.RAW_CAPACITY] == '{"memory":"100Gi"}'


def test_an_amount_that_the_kubelet_takes_away_is_taken_away() -> None:
    new = NodeAmounts({}, {})
    stored, notes, _ = decide(new, cpus("16"), TWICE | recorded(), kubelet=True)
    assert (stored, notes) == (NodeAmounts({}, {}), TWICE)


def test_an_amount_that_somebody_else_takes_away_comes_back() -> None:
    stored, notes, _ = decide(NodeAmounts({}, {}), cpus("16"), TWICE | recorded())
    assert stored.capacity == {"cpu": Quantity.parse("16")}
    assert notes == TWICE | recorded()


def test_the_largest_amounts_do_not_grow_beyond_what_the_api_can_hold() -> None:
    notes = {names.AMPLIFICATION_RATIO: '{"memory":10.00}'}
    stored, after, _ = decide(cpus("8", memory="7Ei"), cpus("8", memory="7Ei"), notes)
    assert stored.capacity["memory"] == Quantity.parse("9223372036854775807")
    again, _, _ = decide(stored, stored, after)
    assert again == stored


annotation_texts = st.one_of(
    st.text(max_size=40),
    st.sampled_from([text for each in (TWICE, recorded()) for text in each.values()]),
    st.recursive(
        st.none() | st.booleans() | st.decimals(allow_nan=False).map(str) | st.text(max_size=5),
        lambda inner: st.dictionaries(st.sampled_from(["cpu", "memory", "ratio", "capacity"]), inner),
        max_leaves=5,
    ).map(str),
)
quantities = st.integers(0, 2**64).map(Quantity)
amounts = st.builds(
    NodeAmounts,
    *[st.dictionaries(st.sampled_from(["cpu", "memory", "pods"]), quantities)] * 2,
)


@given(
    new=amounts,
    old=amounts,
    notes=st.dictionaries(st.sampled_from([*TWICE, *recorded()]), annotation_texts),
    kubelet=st.booleans(),
    amplify_capacity=st.booleans(),
)
def test_no_write_and_no_annotation_is_too_odd_to_decide(
    new: NodeAmounts, old: NodeAmounts, notes: dict[str, str], kubelet: bool, amplify_capacity: bool
) -> None:
    write = StatusWrite(new, old, notes, by_kubelet=kubelet)
    verdict = decide_status(write, amplify_capacity=amplify_capacity)
    assert not {*verdict.capacity, *verdict.allocatable} - {"cpu", "memory"}
    assert not set(verdict.annotations) - {*TWICE, *recorded()}
