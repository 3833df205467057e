"""CPU facts are read, or it is said what is wrong with them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.facts import CPUFacts, parse_cpu_basic_info
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import CPU_BASIC_INFO
from corewise.vocabulary.reasons import Reason


def test_all_facts_are_read() -> None:
    text = json.dumps(
        {
            "cpuModel": "AMD EPYC 9654 96-Core Processor",
            "hyperThreadEnabled": True,
            "turboEnabled": False,
            "catL3CbmMask": "ffff",
            "vendorID": "AuthenticAMD",
        }
    )
    expected = CPUFacts("AMD EPYC 9654 96-Core Processor", True, False, "ffff", "AuthenticAMD")
    assert parse_cpu_basic_info(text) == expected


def test_an_absent_or_null_flag_is_false() -> None:
    expected = CPUFacts("m")
    assert parse_cpu_basic_info('{"cpuModel": "m"}') == expected
    assert parse_cpu_basic_info('{"cpuModel": "m", "turboEnabled": null, "new": {"a": [1]}}') == expected


@pytest.mark.parametrize(
    ("text", "reason", "part"),
    [
        ("", Reason.CPU_FACTS_MALFORMED, "line 1, column 1"),
        ("{", Reason.CPU_FACTS_MALFORMED, "'}' is missing"),
        ("null", Reason.CPU_FACTS_MALFORMED, "not a JSON object"),
        ("[]", Reason.CPU_FACTS_MALFORMED, "not a JSON object"),
        ("{}", Reason.CPU_FACTS_MISSING, "no cpuModel"),
        ('{"cpuModel": " "}', Reason.CPU_FACTS_MISSING, "no cpuModel"),
        ('{"cpuModel": 8269}', Reason.CPU_FACTS_MALFORMED, "cpuModel must be a string, not 8269"),
        ('{"cpuModel": ["m"]}', Reason.CPU_FACTS_MALFORMED, "cpuModel must be a string, not a list"),
        (
            '{"cpuModel": "m", "turboEnabled": "true"}',
            Reason.CPU_FACTS_MALFORMED,
            "turboEnabled must be true or false, not 'true'",
        ),
        ('{"cpuModel": "m", "vendorID": true}', Reason.CPU_FACTS_MALFORMED, "a string, not true"),
        ('{"cpuModel": "m", "cpuModel": "n"}', Reason.CPU_FACTS_MALFORMED, "given twice"),
    ],
)
def test_unusable_facts_name_the_annotation_and_the_fault(text: str, reason: Reason, part: str) -> None:
    problem = parse_cpu_basic_info(text)
    assert isinstance(problem, Finding)
    assert problem.reason is reason
    assert CPU_BASIC_INFO in problem.message
    assert part in problem.message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda each: st.lists(each, max_size=3)
)
fields = st.sampled_from(["cpuModel", "hyperThreadEnabled", "turboEnabled", "catL3CbmMask", "vendorID", "x"])


@given(st.text() | st.dictionaries(fields, json_values).map(json.dumps))
def test_any_text_gives_facts_or_a_problem(text: str) -> None:
    facts = parse_cpu_basic_info(text)
    if isinstance(facts, CPUFacts):
        assert facts.model.strip()
    else:
        assert facts.reason.warning
