"""The annotations: read exactly, printed exactly, and never the end of the program.

text                                              reads as
------------------------------------------------  ----------------------------------------------------
{"cpu":1.50,"memory":1.2}                         1.50 and 1.20
{"cpu":1.3800000000000001} (another program's)    1.38: further decimals are cut off
{"cpu":0.999}                                     below 1.00
{"cpu":"1.5"}, {"cpu":null}, {"cpu":-1}           not a ratio
{"nvidia.com/gpu":2}                              refused: only cpu and memory
"", null, [], {"cpu":1,5}, {"cpu":[]}             not readable at all: no flat JSON object
raw-capacity-cpu without applied-capacity-cpu     a record that contradicts itself
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.amplification import (
    amplified,
    print_amounts,
    print_ratios,
    read_amounts,
    read_ratios,
)
from corewise.amplification.annotations import LONGEST, Known, print_count, read_node
from corewise.quantities import Quantity, Ratio
from corewise.vocabulary import names
from corewise.vocabulary.reasons import Reason

NO_OBJECTS = (
    *("", "null", "[]", "1", "{" * 500, "\ud800", '{"cpu":1,5}', '{"cpu":[]}', '{"cpu":{}}', "{'cpu':2}"),
    *('{"cpu":2}x', '{"cpu":2,}', '{"cpu" 2}', '{"c\\u0070u":2}', '{"cpu":2.00' + " " * LONGEST + "}"),
)
ratios = st.integers(101, 1000).map(Ratio)
raw_cpu = st.integers(0, 10**7).map(Quantity.of_milli)
raw_memory = st.integers(0, 2**45).map(lambda count: Quantity.of_units(count, Quantity.parse("1Ki")))


def reading(text: str | None) -> tuple[dict[str, str], list[Reason], bool]:
    found = read_ratios(text, annotation="a")
    good = {resource: str(ratio) for resource, ratio in found.ratios.items()}
    return good, [finding.reason for finding in found.findings], found.readable


def test_good_ratios_are_read_exactly() -> None:
    assert reading('{"cpu":1.50,"memory":1.2}') == ({"cpu": "1.50", "memory": "1.20"}, [], True)
    assert reading('{"cpu":1}') == ({"cpu": "1.00"}, [], True)
    assert reading('{"cpu":1.3800000000000001}') == ({"cpu": "1.38"}, [], True)
    assert reading('{"cpu":10.009}') == ({"cpu": "10.00"}, [], True)
    assert reading(None) == ({}, [], True)
    assert reading("{}") == ({}, [], True)
    assert reading(' {\n "cpu" : 1.5 ,\t"memory":2 } ') == ({"cpu": "1.50", "memory": "2.00"}, [], True)


def test_the_first_entry_of_a_name_counts() -> None:
    assert reading('{"cpu":1.5,"cpu":2}') == ({"cpu": "1.50"}, [], True)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("0.999", Reason.AMPLIFICATION_ORIGINAL_BELOW_ONE),
        ("10.01", Reason.AMPLIFICATION_RATIO_OUT_OF_RANGE),
        ("-1", Reason.AMPLIFICATION_RATIO_INVALID),
        ("1e2", Reason.AMPLIFICATION_RATIO_INVALID),
        ("1" * 500, Reason.AMPLIFICATION_RATIO_INVALID),
        ("NaN", Reason.AMPLIFICATION_RATIO_INVALID),
        ('"1.5"', Reason.AMPLIFICATION_RATIO_INVALID),
        ("null", Reason.AMPLIFICATION_RATIO_INVALID),
        ("true", Reason.AMPLIFICATION_RATIO_INVALID),
    ],
)
def test_bad_entry_is_reported_and_good_one_counts(entry: str, reason: Reason) -> None:
    assert reading(f'{{"cpu":{entry},"memory":1.20}}') == ({"memory": "1.20"}, [reason], True)


def test_resources_other_than_cpu_and_memory_are_refused() -> None:
    good, reasons, _ = reading('{"nvidia.com/gpu":2.00,"cpu":1.20}')
    assert (good, reasons) == ({"cpu": "1.20"}, [Reason.AMPLIFICATION_RESOURCE_REFUSED])


@pytest.mark.parametrize("text", NO_OBJECTS)
def test_text_that_is_no_object_names_the_annotation(text: str) -> None:
    found = read_ratios(text, annotation="node.example/ratio")
    assert (found.ratios, found.readable) == ({}, False)
    assert "node.example/ratio" in found.findings[0].message


def test_the_largest_ratio_can_be_set() -> None:
    assert not read_ratios('{"cpu":10.00}', annotation="a").findings
    assert read_ratios('{"cpu":2.01}', annotation="a", maximum=Ratio(200)).findings


@given(st.dictionaries(st.sampled_from(["cpu", "memory"]), ratios))
def test_printed_ratios_read_back_and_have_two_decimals(stated: dict[str, Ratio]) -> None:
    text = print_ratios(stated)
    assert read_ratios(text, annotation="a").ratios == stated
    assert all(entry.split(".")[1].rstrip("}")[:2].isdigit() for entry in text.split(",") if stated)


def test_amounts_are_printed_canonically_and_read_like_kubernetes() -> None:
    amounts = {"cpu": Quantity.parse("7910m"), "memory": Quantity.parse("1024Mi")}
    assert print_amounts(amounts) == '{"cpu":"7910m","memory":"1Gi"}'
    assert read_amounts('{"cpu":48,"memory":"1e3","pods":"many"}') == {
        "cpu": Quantity.parse("48"),
        "memory": Quantity.parse("1000"),
    }


@pytest.mark.parametrize(
    "text", [None, "", "[]", '{"cpu":"x"}', '{"cpu":null}', '{"cpu":"-1"}', '{"cpu":{}}']
)
def test_one_unreadable_amount_makes_all_of_them_none(text: str | None) -> None:
    assert read_amounts(text) is None


def known(notes: dict[str, str]) -> Known:
    return read_node(notes).known["capacity", "cpu"]


RAW, APPLIED = names.recorded_raw("capacity", "cpu"), names.recorded_applied("capacity", "cpu")


def test_record_is_read_in_milli_cpu_and_bytes() -> None:
    assert known({RAW: "8", APPLIED: "12500m"}) == Known(8000, 12500)
    notes = {names.recorded_raw("allocatable", "memory"): "1Gi"}
    notes |= {names.recorded_applied("allocatable", "memory"): "1610612736"}
    assert read_node(notes).known["allocatable", "memory"] == Known(2**30, 2**30 * 3 // 2)


@pytest.mark.parametrize(
    "notes",
    [
        {RAW: "8"},
        {APPLIED: "8"},
        {RAW: "8", APPLIED: ""},
        {RAW: "eight", APPLIED: "16"},
        {RAW: "-8", APPLIED: "16"},
        {RAW: "1e400", APPLIED: "16"},
        {RAW: "16", APPLIED: "8"},
        {RAW: "10000001", APPLIED: "10000002"},
    ],
)
def test_contradictory_record_is_broken_and_says_why(notes: dict[str, str]) -> None:
    found = known(notes)
    assert (found.raw, found.applied) == (None, None)
    assert "capacity-cpu" in found.broken


def test_owned_cpus_may_lower_recorded_allocatable_below_raw() -> None:
    notes = {names.recorded_raw("allocatable", "cpu"): "8", names.recorded_applied("allocatable", "cpu"): "6"}
    assert read_node(notes).known["allocatable", "cpu"] == Known(8000, 6000)


@pytest.mark.parametrize("text", [None, "{}", '{"pods":"3"}', '{"nvidia.com/gpu":"8","hugepages-2Mi":0}'])
def test_raw_annotation_without_amounts_counts_as_absent(text: str | None) -> None:
    assert known({} if text is None else {names.RAW_CAPACITY: text}).is_nothing


@pytest.mark.parametrize("text", ["", "{", "null", '{"cpu":"x"}', '{"cpu":-1}', '{"cpu":{}}'])
def test_raw_annotation_with_an_unreadable_amount_says_so(text: str) -> None:
    found = known({names.RAW_CAPACITY: text})
    assert (found.named, found.named_badly) == (None, True)


def test_bad_amount_of_one_resource_spares_the_other() -> None:
    notes = {names.RAW_CAPACITY: '{"memory":"x","cpu":"8"}'}
    assert known(notes) == Known(named=8000)
    assert read_node(notes).known["capacity", "memory"] == Known(named_badly=True, bad_entry='"memory":"x"')


@given(st.integers(0, 10**10 - 1), st.integers(0, 2**52 - 1))
def test_printed_amounts_read_back(milli: int, units: int) -> None:
    notes = {RAW: print_count("cpu", milli), APPLIED: print_count("cpu", milli)}
    assert known(notes) == Known(milli, milli)
    amount = Quantity.parse(print_count("memory", units))
    assert amount.units == units


@given(ratio=ratios, raw=raw_cpu)
def test_different_raw_amounts_have_different_amplified_ones(ratio: Ratio, raw: Quantity) -> None:
    next_raw = Quantity.of_milli(raw.milli + 1)
    assert amplified("cpu", raw, ratio) < amplified("cpu", next_raw, ratio)


@given(ratio=ratios, raw=st.integers(1000, 512_000), owned=st.integers(0, 64))
def test_applied_ratio_can_be_read_from_the_record(ratio: Ratio, raw: int, owned: int) -> None:
    owned = min(owned, raw // 1000 - 1) * 1000
    fold = -(-owned * (ratio.hundredths - 100) // 100)
    notes = {names.OWNED_MILLI_CPU: str(owned)}
    notes[names.recorded_raw("allocatable", "cpu")] = print_count("cpu", raw)
    notes[names.recorded_applied("allocatable", "cpu")] = print_count(
        "cpu", raw * ratio.hundredths // 100 - fold
    )
    assert read_node(notes).recorded_ratio("cpu") in {ratio, Ratio(ratio.hundredths - 1)}


@given(text=st.text(), raw=st.text())
def test_reading_never_raises(text: str, raw: str) -> None:
    read_ratios(text, annotation="a")
    notes = {names.RAW_CAPACITY: raw, names.RAW_ALLOCATABLE: raw, names.OWNED_MILLI_CPU: text}
    notes[names.OWNED_REQUESTS] = raw
    read_node({RAW: text, APPLIED: raw, **notes})
