"""The annotations: read exactly, printed exactly, and never the end of the program.

text                                              reads as
------------------------------------------------  ----------------------------------------------------
{"cpu":1.50,"memory":1.2}                         1.50 and 1.20
{"cpu":1.3800000000000001} (another program's)    1.38: rounded half-even to hundredths
{"cpu":0.999}                                     below 1.00, though it would round to it
{"cpu":10.004}                                    above 10.00, though it would round to it
{"cpu":"1.5"}, {"cpu":null}, {"cpu":[]}           not a ratio
{"nvidia.com/gpu":2}                              refused: only cpu and memory
"", null, [], {"cpu":1,5}, {"cpu":NaN}            not readable at all
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.amplification import (
    NodeAmounts,
    Record,
    UnusableRecord,
    amplified,
    print_amounts,
    print_ratios,
    print_record,
    read_amounts,
    read_ratios,
    read_record,
)
from corewise.amplification.amounts import raw_from
from corewise.quantities import Quantity, Ratio
from corewise.vocabulary import names
from corewise.vocabulary.reasons import Reason

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
    assert reading(None) == ({}, [], True)
    assert reading("{}") == ({}, [], True)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("0.999", Reason.AMPLIFICATION_ORIGINAL_BELOW_ONE),
        ("-1", Reason.AMPLIFICATION_ORIGINAL_BELOW_ONE),
        ("10.004", Reason.AMPLIFICATION_RATIO_OUT_OF_RANGE),
        ("1e999999999999", Reason.AMPLIFICATION_RATIO_OUT_OF_RANGE),
        ("1" * 5000, Reason.AMPLIFICATION_RATIO_OUT_OF_RANGE),
        ('"1.5"', Reason.AMPLIFICATION_RATIO_INVALID),
        ("null", Reason.AMPLIFICATION_RATIO_INVALID),
        ("true", Reason.AMPLIFICATION_RATIO_INVALID),
        ("[]", Reason.AMPLIFICATION_RATIO_INVALID),
    ],
)
def test_a_bad_entry_is_told_and_the_good_one_counts(entry: str, reason: Reason) -> None:
    assert reading(f'{{"cpu":{entry},"memory":1.20}}') == ({"memory": "1.20"}, [reason], True)


def test_resources_other_than_cpu_and_memory_are_refused() -> None:
    good, reasons, _ = reading('{"nvidia.com/gpu":2.00,"cpu":1.20}')
    assert (good, reasons) == ({"cpu": "1.20"}, [Reason.AMPLIFICATION_RESOURCE_REFUSED])


@pytest.mark.parametrize("text", ["", "null", "[]", "1", '{"cpu":1,5}', '{"cpu":NaN}', "{" * 5000, "\ud800"])
def test_a_text_that_is_no_object_is_not_readable_and_the_finding_names_the_annotation(text: str) -> None:
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


def test_amounts_are_printed_canonically_and_read_as_the_api_reads_them() -> None:
    amounts = {"cpu": Quantity.parse("7910m"), "memory": Quantity.parse("1024Mi")}
    assert print_amounts(amounts) == '{"cpu":"7910m","memory":"1Gi"}'
    assert read_amounts('{"cpu":48,"memory":"1e3","pods":"many"}') == {
        "cpu": Quantity.parse("48"),
        "memory": Quantity.parse("1000"),
    }


@pytest.mark.parametrize(
    "text", [None, "", "[]", '{"cpu":"x"}', '{"cpu":null}', '{"cpu":"-1"}', '{"cpu":{}}']
)
def test_amounts_of_which_any_cannot_be_read_are_none(text: str | None) -> None:
    assert read_amounts(text) is None


@given(ratio=ratios, capacity=raw_cpu, allocatable=raw_cpu, memory=raw_memory)
def test_a_record_reads_back_and_gives_the_raw_amounts_even_without_their_annotations(
    ratio: Ratio, capacity: Quantity, allocatable: Quantity, memory: Quantity
) -> None:
    raw = NodeAmounts({"cpu": capacity, "memory": memory}, {"cpu": allocatable})
    applied = NodeAmounts(
        {name: amplified(name, amount, ratio) for name, amount in raw.capacity.items()},
        {name: amplified(name, amount, ratio) for name, amount in raw.allocatable.items()},
    )
    record = Record({"cpu": ratio, "memory": ratio}, applied, raw)
    notes = {names.AMPLIFIED: print_record(record.ratios, applied)}
    assert read_record(notes) == record
    notes |= {names.RAW_CAPACITY: print_amounts(raw.capacity), names.RAW_ALLOCATABLE: "damaged"}
    assert read_record(notes) == record


@given(ratio=ratios, raw=raw_cpu)
def test_no_two_raw_amounts_have_the_same_amplified_one(ratio: Ratio, raw: Quantity) -> None:
    assert raw_from("cpu", amplified("cpu", raw, ratio), ratio) == raw
    next_raw = Quantity.of_milli(raw.milli + 1)
    assert amplified("cpu", raw, ratio) < amplified("cpu", next_raw, ratio)


def test_an_amplified_amount_is_never_more_than_raw_times_ratio_even_below_a_milli() -> None:
    assert amplified("cpu", Quantity.parse("1500u"), Ratio(150)) == Quantity.parse("2m")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "{}",
        '{"ratio":{},"capacity":{},"allocatable":{}}',
        '{"ratio":{"cpu":2.00},"capacity":{},"allocatable":{}}',
        '{"ratio":{"cpu":2.005},"capacity":{"cpu":"2"},"allocatable":{}}',
        '{"ratio":{"cpu":1.00},"capacity":{"cpu":"2"},"allocatable":{}}',
        '{"ratio":{"cpu":1e99999},"capacity":{"cpu":"2"},"allocatable":{}}',
        '{"ratio":{"cpu":2.00},"capacity":{"cpu":"two"},"allocatable":{}}',
        '{"ratio":{"cpu":2.00},"capacity":{"cpu":"2","memory":"1"},"allocatable":{}}',
        '{"ratio":{"cpu":1.50},"capacity":{"cpu":"1m"},"allocatable":{"cpu":"2m"}}',
    ],
)
def test_what_corewise_would_not_have_written_is_no_record(text: str) -> None:
    assert isinstance(read_record({names.AMPLIFIED: text}), UnusableRecord)


def test_without_the_annotation_there_is_no_record() -> None:
    assert read_record({names.RAW_CAPACITY: '{"cpu":"8"}'}) is None


@given(text=st.text(), raw=st.text())
def test_reading_never_raises(text: str, raw: str) -> None:
    read_ratios(text, annotation="a")
    read_record({names.AMPLIFIED: text, names.RAW_CAPACITY: raw, names.RAW_ALLOCATABLE: raw})
