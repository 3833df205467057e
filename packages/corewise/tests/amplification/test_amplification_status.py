"""What becomes of one write of nodes/status.

Everywhere raw is 8 CPUs, the ratio 2.00 unless said otherwise, so 16 is the amplified amount.

    case                                                             becomes
    --------------------------------------------------------------  ------------------------------------------
    no annotation of amplification                                   as sent, nothing written
    recorded, new == applied, kubelet or other                       16, raw as recorded
    ... after the ratio changed to 3.00                              24: raw x new ratio, record rewritten
    ... after the ratio was removed                                  8, record and raw annotations gone
    recorded, kubelet states 8                                       16, put back
    recorded, kubelet states 10                                      20, record rewritten
    recorded, kubelet states 16 where 8 is stored                    32: what kubelet sends again is raw
    ... which the policy has made of its 8 in this write             16
    recorded, other, new == old != applied                           left, record as it is
    recorded, other, new != old                                      undone, with a finding
    not recorded, new == old, raw annotation says 8                  16 (Koordinator amplified it)
    not recorded, new != old                                         2 x new, whatever the raw annotation says
    not recorded, no raw annotation, or one that names others        2 x new
    not recorded, the raw annotation cannot be read                  left until kubelet states it
    amplify-capacity false                                           capacity raw, allocatable amplified
    amplify-capacity switched off                                    capacity raw again in the next write
    ... kubelet changes capacity and leaves allocatable at 16       allocatable 16001m, which asks kubelet
    ... ... and kubelet then states 16; or 8                         32; or 16
    a ratio that cannot be read                                      left; the other resource goes on
    ... of a resource of which nothing is known                      as sent
    ratio 0.99, 10.01, a string, another resource                    only the good entries count
    the record contradicts itself, kubelet states the amount again   2 x new, a new record
    ... any other write                                              left; other amounts go on
    4 CPUs owned                                                     allocatable 16 - 4, capacity 16
    memory                                                           floor in bytes
    the record of an earlier version                                 removed, not read
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.amplification import NodeAmounts, StatusVerdict, StatusWrite, decide_status
from corewise.quantities import Quantity
from corewise.vocabulary import names
from corewise.vocabulary.reasons import Reason
from node_records import recorded

TWICE = {names.AMPLIFICATION_RATIO: '{"cpu":2.00}'}
RAW_ONLY = {names.AMPLIFY_CAPACITY: "false"}


def cpus(capacity: str, allocatable: str | None = None, memory: str = "32Gi") -> NodeAmounts:
    rest = {"memory": Quantity.parse(memory), "pods": Quantity.parse("110")}
    return NodeAmounts(
        {"cpu": Quantity.parse(capacity), **rest}, {"cpu": Quantity.parse(allocatable or capacity), **rest}
    )


def record(raw: str = "8", applied: str = "16", generation: str = "1") -> dict[str, str]:
    return recorded({"cpu": (raw, applied)}, generation=generation)


def decide(
    new: NodeAmounts,
    old: NodeAmounts,
    annotations: Mapping[str, str],
    *,
    kubelet: bool = False,
    old_generation: str | None = None,
) -> tuple[NodeAmounts, dict[str, str], StatusVerdict]:
    """Return the stored amounts and annotations, and the verdict."""
    before = annotations.get(names.RECORD_GENERATION, "") if old_generation is None else old_generation
    verdict = decide_status(StatusWrite(new, old, annotations, kubelet, before))
    stored = NodeAmounts(
        {name: amount for name, amount in {**new.capacity, **verdict.capacity}.items() if amount},
        {name: amount for name, amount in {**new.allocatable, **verdict.allocatable}.items() if amount},
    )
    notes = {**annotations, **verdict.annotations}
    return stored, {name: text for name, text in notes.items() if text is not None}, verdict


def test_node_without_amplification_annotations_is_not_touched() -> None:
    notes = {"other": "x", names.OWNED_MILLI_CPU: "4000"}
    stored, after, verdict = decide(cpus("8"), cpus("4"), notes, kubelet=True)
    assert (stored, after, verdict.put_back) == (cpus("8"), notes, False)


def test_first_write_amplifies_and_records_raw_and_applied() -> None:
    stored, notes, _ = decide(cpus("8", "7910m"), cpus("8", "7910m"), TWICE)
    assert stored == cpus("16", "15820m")
    assert notes == {
        **TWICE,
        "node.corewise.io/raw-capacity-cpu": "8",
        "node.corewise.io/applied-capacity-cpu": "16",
        "node.corewise.io/raw-allocatable-cpu": "7910m",
        "node.corewise.io/applied-allocatable-cpu": "15820m",
        "node.corewise.io/record-generation": "1",
        "node.koordinator.sh/raw-capacity": '{"cpu":"8"}',
        "node.koordinator.sh/raw-allocatable": '{"cpu":"7910m"}',
    }


@pytest.mark.parametrize("kubelet", [True, False])
def test_an_applied_amount_stays_whoever_writes(kubelet: bool) -> None:
    stored, notes, verdict = decide(cpus("16"), cpus("16"), TWICE | record(), kubelet=kubelet)
    assert (stored, notes) == (cpus("16"), TWICE | record())
    assert not verdict.put_back


def test_new_ratio_applies_to_the_recorded_raw_amount() -> None:
    thrice = {names.AMPLIFICATION_RATIO: '{"cpu":3.00}'}
    stored, notes, _ = decide(cpus("16"), cpus("16"), thrice | record())
    assert (stored, notes) == (cpus("24"), thrice | record("8", "24", "2"))


def test_removed_ratio_restores_raw_status_and_drops_record() -> None:
    stored, notes, _ = decide(cpus("16"), cpus("16"), record())
    assert (stored, notes) == (cpus("8"), {names.RECORD_GENERATION: "2"})


def test_kubelet_amounts_are_raw_and_stored_ones_restored() -> None:
    stored, notes, verdict = decide(cpus("8"), cpus("16"), TWICE | record(), kubelet=True)
    assert (stored, notes) == (cpus("16"), TWICE | record())
    assert verdict.put_back


def test_changed_machine_gets_new_amounts_and_record() -> None:
    stored, notes, verdict = decide(cpus("10"), cpus("16"), TWICE | record(), kubelet=True)
    assert (stored, notes) == (cpus("20"), TWICE | record("10", "20", "2"))
    assert not verdict.put_back


def test_stored_raw_amount_is_amplified_again_after_outage() -> None:
    stored, notes, verdict = decide(cpus("8"), cpus("8"), TWICE | record(), kubelet=True)
    assert (stored, notes) == (cpus("16"), TWICE | record(generation="2"))
    assert not verdict.put_back


def test_amount_resent_by_kubelet_is_raw_despite_equality() -> None:
    stored, notes, _ = decide(cpus("16"), cpus("8"), TWICE | record(), kubelet=True)
    assert (stored, notes) == (cpus("32"), TWICE | record("16", "32", "2"))


def test_amount_amplified_by_policy_in_this_write_stays() -> None:
    after_policy = TWICE | record(generation="2")
    stored, notes, _ = decide(cpus("16"), cpus("8"), after_policy, kubelet=True, old_generation="1")
    assert (stored, notes) == (cpus("16"), after_policy)


def test_amount_unlike_its_record_waits_for_its_owners() -> None:
    stored, notes, verdict = decide(cpus("8"), cpus("8"), TWICE | record())
    assert (stored, notes, verdict.findings) == (cpus("8"), TWICE | record(), ())


def test_amounts_stated_by_others_are_reverted_and_warned() -> None:
    stored, notes, verdict = decide(cpus("64", "16"), cpus("16"), TWICE | record())
    assert (stored, notes) == (cpus("16"), TWICE | record())
    assert [finding.reason for finding in verdict.findings] == [Reason.STATUS_CHANGE_UNDONE]
    assert "capacity cpu stays 16 CPUs, not 64 CPUs" in verdict.findings[0].message


def test_it_is_undone_by_the_ratio_in_force() -> None:
    thrice = {names.AMPLIFICATION_RATIO: '{"cpu":3.00}'}
    stored, _, verdict = decide(cpus("64"), cpus("16"), thrice | record())
    assert stored == cpus("24")
    assert {finding.reason for finding in verdict.findings} == {Reason.STATUS_CHANGE_UNDONE}


def test_amount_left_alone_keeps_its_record_without_ratio() -> None:
    stored, notes, _ = decide(cpus("9"), cpus("9"), record())
    assert (stored, notes) == (cpus("9"), record())


def test_annotation_of_koordinator_amplified_node_holds_raw_amount() -> None:
    notes = TWICE | {names.RAW_ALLOCATABLE: '{"cpu":"8","memory":"32Gi"}'}
    stored, notes, _ = decide(cpus("8", "12"), cpus("8", "12"), notes)
    assert (stored, notes) == (cpus("16"), TWICE | record())


def test_unrecorded_changed_amount_is_raw_despite_raw_annotation() -> None:
    notes = TWICE | {names.RAW_ALLOCATABLE: '{"cpu":"8"}', names.RAW_CAPACITY: '{"cpu":"8"}'}
    stored, notes, _ = decide(cpus("10"), cpus("16"), notes, kubelet=True)
    assert (stored, notes) == (cpus("20"), TWICE | record("10", "20"))


def test_removed_ratio_restores_raw_amount_and_drops_annotation() -> None:
    stored, notes, _ = decide(cpus("8", "12"), cpus("8", "12"), {names.RAW_ALLOCATABLE: '{"cpu":"8"}'})
    assert (stored, notes) == (cpus("8"), {names.RECORD_GENERATION: "1"})


@pytest.mark.parametrize("text", ["{}", '{"pods":"110"}'])
def test_raw_annotation_without_cpu_or_memory_permits_amplification(text: str) -> None:
    stored, notes, _ = decide(cpus("8"), cpus("8"), TWICE | {names.RAW_ALLOCATABLE: text})
    assert (stored, notes) == (cpus("16"), TWICE | record())


def test_unreadable_raw_annotation_leaves_its_amount_to_kubelet() -> None:
    notes = TWICE | {names.RAW_ALLOCATABLE: "?"}
    stored, after, verdict = decide(cpus("8", "12"), cpus("8", "12"), notes)
    assert stored == cpus("16", "12")
    assert after[names.RAW_ALLOCATABLE] == "?"
    assert verdict.findings[0].reason is Reason.RECORD_UNUSABLE
    stored, after, _ = decide(cpus("16", "8"), stored, after, kubelet=True)
    assert (stored, after) == (cpus("16"), TWICE | record(generation="2"))


def test_repair_starts_afresh_even_where_raw_equals_applied() -> None:
    stored, notes, _ = decide(cpus("16"), cpus("16"), TWICE)
    assert (stored, notes) == (cpus("32"), TWICE | record("16", "32"))


def test_only_allocatable_is_amplified_when_capacity_is_excluded() -> None:
    stored, notes, _ = decide(cpus("8"), cpus("8"), TWICE | RAW_ONLY)
    assert stored == cpus("8", "16")
    assert not {names.RAW_CAPACITY, names.recorded_raw("capacity", "cpu")} & notes.keys()


def test_capacity_is_raw_again_once_it_is_excluded() -> None:
    stored, notes, _ = decide(cpus("16"), cpus("16"), TWICE | RAW_ONLY | record())
    assert stored == cpus("8", "16")
    assert names.RAW_CAPACITY not in notes
    del notes[names.AMPLIFY_CAPACITY]
    stored, notes, _ = decide(stored, stored, notes)
    assert (stored, notes) == (cpus("16"), TWICE | record(generation="3"))


RAW_CAPACITY = TWICE | RAW_ONLY | recorded({}, {"cpu": ("8", "16")})
ASKED = TWICE | RAW_ONLY | recorded({}, {"cpu": ("8", "16001m")}, generation="2")


def test_kubelet_changing_only_capacity_is_asked_for_allocatable() -> None:
    stored, notes, _ = decide(cpus("16"), cpus("8", "16"), RAW_CAPACITY, kubelet=True)
    assert (stored, notes) == (cpus("16", "16001m"), ASKED)
    behind, _, verdict = decide(stored, cpus("8", "16"), notes, kubelet=True, old_generation="1")
    assert behind == stored
    assert verdict.changes_nothing


@pytest.mark.parametrize("kubelet", [False, True])
def test_the_question_stays_until_kubelet_has_answered(kubelet: bool) -> None:
    _, _, verdict = decide(cpus("16", "16001m"), cpus("16", "16001m"), ASKED, kubelet=kubelet)
    assert verdict.changes_nothing


def test_it_is_also_asked_where_capacity_is_amplified() -> None:
    notes = TWICE | recorded({"cpu": ("9", "18")}, {"cpu": ("8", "16")})
    assert decide(cpus("20", "16"), cpus("18", "16"), notes, kubelet=True)[0] == cpus("40", "16001m")


def test_somebody_else_who_changes_capacity_asks_nothing() -> None:
    assert decide(cpus("16"), cpus("8", "16"), RAW_CAPACITY)[0] == cpus("16")


@pytest.mark.parametrize(("answer", "raw", "amplified"), [("16", "16", "32"), ("8", "8", "16")])
def test_what_kubelet_answers_is_raw(answer: str, raw: str, amplified: str) -> None:
    stored, notes, _ = decide(cpus("16", answer), cpus("16", "16001m"), ASKED, kubelet=True)
    assert stored == cpus("16", amplified)
    assert notes == TWICE | RAW_ONLY | recorded({}, {"cpu": (raw, amplified)}, generation="3")


@pytest.mark.parametrize(
    "text", ["", "{", "null", '{"cpu":0.99}', '{"cpu":10.01}', '{"cpu":"3"}', '{"cpu":NaN}']
)
def test_unreadable_ratio_leaves_amounts_and_record_unchanged(text: str) -> None:
    bad = {names.AMPLIFICATION_RATIO: text}
    stored, notes, verdict = decide(cpus("10", memory="16Gi"), cpus("16"), bad | record(), kubelet=True)
    assert (stored, notes) == (cpus("16", memory="16Gi"), bad | record(generation="2"))
    assert verdict.findings


def test_unreadable_ratio_without_record_keeps_what_koordinator_named() -> None:
    notes = {names.AMPLIFICATION_RATIO: "?", names.RAW_ALLOCATABLE: '{"cpu":"8"}'}
    stored, after, verdict = decide(cpus("9", "8"), cpus("8", "12"), notes, kubelet=True)
    assert stored == cpus("9", "12")
    assert after == notes | {names.RECORD_GENERATION: "1"}
    assert verdict.findings[0].reason is Reason.AMPLIFICATION_RATIO_INVALID


def test_good_entries_of_a_partly_bad_ratio_count() -> None:
    bad = {names.AMPLIFICATION_RATIO: '{"cpu":2.00,"memory":0.5,"nvidia.com/gpu":4}'}
    stored, _, verdict = decide(cpus("8"), cpus("8"), bad)
    assert stored == cpus("16")
    assert [finding.about for finding in verdict.findings] == ["memory"]


BROKEN = [
    {names.recorded_raw("capacity", "cpu"): ""},
    {names.recorded_raw("capacity", "cpu"): "x"},
    {names.recorded_applied("capacity", "cpu"): "4"},
]


@pytest.mark.parametrize("damage", BROKEN)
def test_amount_restated_by_kubelet_starts_a_new_record(damage: dict[str, str]) -> None:
    stored, notes, _ = decide(cpus("10", "16"), cpus("16"), TWICE | record() | damage, kubelet=True)
    assert stored == cpus("20", "16001m")
    assert notes == TWICE | recorded({"cpu": ("10", "20")}, {"cpu": ("8", "16001m")}, generation="2")


@pytest.mark.parametrize("damage", BROKEN)
@pytest.mark.parametrize(
    ("new", "kubelet"), [(cpus("16"), True), (cpus("8", "16"), False), (cpus("64", "16"), False)]
)
def test_amount_with_a_contradictory_record_stays_as_stored(
    damage: dict[str, str], new: NodeAmounts, kubelet: bool
) -> None:
    damaged = TWICE | record() | damage
    stored, notes, verdict = decide(new, cpus("16"), damaged, kubelet=kubelet)
    assert (stored, notes) == (cpus("16"), damaged)
    assert verdict.findings[0].reason is Reason.RECORD_UNUSABLE
    assert "capacity cpu" in verdict.findings[0].message


def test_the_other_resource_goes_on() -> None:
    both = {names.AMPLIFICATION_RATIO: '{"cpu":2.00,"memory":2.00}'}
    notes = both | recorded({"cpu": ("8", "16"), "memory": ("15Gi", "30Gi")})
    notes[names.recorded_raw("capacity", "memory")] = "?"
    stored, after, _ = decide(cpus("8", memory="15Gi"), cpus("8", memory="30Gi"), notes, kubelet=True)
    assert stored == cpus("16", memory="30Gi")
    assert after[names.recorded_raw("capacity", "memory")] == "15Gi"


def test_lost_raw_annotations_of_koordinator_come_back() -> None:
    notes = {name: text for name, text in (TWICE | record()).items() if name != names.RAW_CAPACITY}
    for damage in ({}, {names.RAW_CAPACITY: "?"}, {names.RAW_CAPACITY: '{"cpu":"16"}'}):
        stored, after, _ = decide(cpus("16"), cpus("16"), notes | damage)
        assert (stored, after) == (cpus("16"), TWICE | record())


def test_owned_cpus_reduce_allocatable_by_their_extra_cost() -> None:
    owned = TWICE | record() | {names.OWNED_MILLI_CPU: "4000"}
    stored, notes, _ = decide(cpus("16"), cpus("16"), owned)
    assert stored == cpus("16", "12")
    assert notes == owned | recorded({"cpu": ("8", "16")}, {"cpu": ("8", "12")}, generation="2")
    stored, after, verdict = decide(cpus("8"), stored, notes, kubelet=True)
    assert (stored, after, verdict.put_back) == (cpus("16", "12"), notes, True)
    stored, _, _ = decide(stored, stored, notes | {names.OWNED_MILLI_CPU: "0"})
    assert stored == cpus("16")


@pytest.mark.parametrize(("requests", "allocatable"), [("4000", "12"), ("7000", "15"), ("9000", "16")])
def test_owners_requests_make_the_fold_smaller(requests: str, allocatable: str) -> None:
    """4 CPUs take 8 amplified ones: 4 more than 4 pods' worth of requests, 1 more than 7, none beyond 8."""
    owned = {names.OWNED_MILLI_CPU: "4000", names.OWNED_REQUESTS: requests}
    stored, _, _ = decide(cpus("16"), cpus("16"), TWICE | record() | owned)
    assert stored == cpus("16", allocatable)


@pytest.mark.parametrize("text", ["", "-1", "4.5", "many", "1" * 16])
def test_an_unreadable_count_of_owned_cpus_is_none(text: str) -> None:
    stored, _, _ = decide(cpus("16"), cpus("16"), TWICE | record() | {names.OWNED_MILLI_CPU: text})
    assert stored == cpus("16")


def test_fold_is_rounded_up_and_never_below_zero() -> None:
    notes = {names.AMPLIFICATION_RATIO: '{"cpu":1.37}', names.OWNED_MILLI_CPU: "2001"}
    stored, _, _ = decide(cpus("8"), cpus("8"), notes)
    assert stored.allocatable["cpu"] == Quantity.of_milli(10960 - 741)
    stored, _, _ = decide(cpus("8"), cpus("8"), notes | {names.OWNED_MILLI_CPU: "99000"})
    assert stored.allocatable["cpu"] == Quantity(0)


def test_memory_is_floored_to_bytes() -> None:
    notes = {names.AMPLIFICATION_RATIO: '{"memory":1.29}'}
    stored, after, _ = decide(cpus("8", memory="65970697Ki"), cpus("8", memory="65970697Ki"), notes)
    assert str(stored.capacity["memory"]) == str(65970697 * 1024 * 129 // 100)
    stored, after, _ = decide(cpus("8", memory="100Gi"), cpus("8", memory="100Gi"), notes)
    assert str(stored.capacity["memory"]) == "129Gi"
    assert after[names.RAW_CAPACITY] == '{"memory":"100Gi"}'


def test_amount_removed_by_kubelet_stays_removed() -> None:
    new = NodeAmounts({}, {})
    stored, notes, _ = decide(new, cpus("16"), TWICE | record(), kubelet=True)
    assert (stored, notes) == (NodeAmounts({}, {}), TWICE | {names.RECORD_GENERATION: "2"})


def test_amount_removed_by_others_is_restored() -> None:
    stored, notes, _ = decide(NodeAmounts({}, {}), cpus("16"), TWICE | record())
    assert stored.capacity == {"cpu": Quantity.parse("16")}
    assert notes[names.recorded_applied("capacity", "cpu")] == "16"


def test_amounts_beyond_any_machine_are_never_amplified() -> None:
    notes = {names.AMPLIFICATION_RATIO: '{"memory":10.00}'}
    stored, after, _ = decide(cpus("8", memory="7Ei"), cpus("8", memory="7Ei"), notes)
    assert (stored, after) == (cpus("8", memory="7Ei"), notes)
    stored, after, _ = decide(cpus("8", memory="3Pi"), cpus("8", memory="3Pi"), notes)
    assert stored.capacity["memory"].units == 2**52 - 1
    again, _, _ = decide(stored, stored, after)
    assert again == stored


def test_record_of_an_earlier_version_is_removed_unread() -> None:
    old = {names.AMPLIFIED: '{"ratio":{"cpu":2.00},"capacity":{"cpu":"16"},"allocatable":{"cpu":"16"}}'}
    raw = {names.RAW_CAPACITY: '{"cpu":"8"}', names.RAW_ALLOCATABLE: '{"cpu":"8"}'}
    stored, notes, _ = decide(cpus("16"), cpus("16"), TWICE | old | raw)
    assert (stored, notes) == (cpus("16"), TWICE | record())


def test_generation_grows_with_every_change_and_restarts_unreadable() -> None:
    for before, after in (("", "1"), ("41", "42"), ("x", "1"), ("-1", "1")):
        notes = TWICE | ({names.RECORD_GENERATION: before} if before else {})
        _, stored, _ = decide(cpus("8"), cpus("8"), notes)
        assert stored[names.RECORD_GENERATION] == after


annotation_texts = st.one_of(
    st.text(max_size=40),
    st.sampled_from([text for each in (TWICE, record()) for text in each.values()]),
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


NAMES = [*TWICE, *recorded({"cpu": ("", ""), "memory": ("", "")}), names.AMPLIFIED, names.OWNED_MILLI_CPU]


@given(
    new=amounts,
    old=amounts,
    notes=st.dictionaries(st.sampled_from(NAMES), annotation_texts),
    kubelet=st.booleans(),
)
def test_any_odd_write_or_annotation_can_be_decided(
    new: NodeAmounts, old: NodeAmounts, notes: dict[str, str], kubelet: bool
) -> None:
    verdict = decide_status(StatusWrite(new, old, notes, by_kubelet=kubelet))
    assert not {*verdict.capacity, *verdict.allocatable} - {"cpu", "memory"}
    assert not set(verdict.annotations) - {*NAMES}
