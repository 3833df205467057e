"""How a pod wants its CPUs, read from its annotations; every text gives a value or a problem."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.quantities import Quantity
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_annotations import (
    DEFAULT_BINDING,
    LONGEST_SPEC,
    LONGEST_STATUS,
    BindPolicy,
    CPUBinding,
    ExclusivePolicy,
    NumaPolicy,
    ResourceStatus,
    numa_policy,
    parse_cpu_binding,
    parse_numa_spec,
    parse_resource_status,
    print_resource_status,
)
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

FULL, SPREAD = BindPolicy.FULL_PCPUS, BindPolicy.SPREAD_BY_PCPUS


@pytest.mark.parametrize(
    ("text", "binding"),
    [
        (None, DEFAULT_BINDING),
        ("{}", CPUBinding(FULL)),
        ('{"preferredCPUBindPolicy":"Default"}', CPUBinding(FULL)),
        ('{"preferredCPUBindPolicy":"SpreadByPCPUs"}', CPUBinding(SPREAD)),
        ('{"requiredCPUBindPolicy":"FullPCPUs"}', CPUBinding(FULL, required=True)),
        ('{"requiredCPUBindPolicy":"SpreadByPCPUs","other":1}', CPUBinding(SPREAD, required=True)),
        (
            '{"requiredCPUBindPolicy":"SpreadByPCPUs","preferredCPUBindPolicy":"FullPCPUs"}',
            CPUBinding(SPREAD, required=True),
        ),
        ('{"preferredCPUBindPolicy":null,"requiredCPUBindPolicy":""}', CPUBinding(FULL)),
        (
            '{"preferredCPUExclusivePolicy":"PCPULevel"}',
            CPUBinding(FULL, exclusive=ExclusivePolicy.PCPU_LEVEL),
        ),
        (
            '{"preferredCPUExclusivePolicy":"NUMANodeLevel"}',
            CPUBinding(FULL, exclusive=ExclusivePolicy.NUMA_NODE_LEVEL),
        ),
    ],
)
def test_resource_spec_states_how_pod_wants_its_cpus(text: str | None, binding: CPUBinding) -> None:
    assert parse_cpu_binding(text) == binding


@pytest.mark.parametrize(
    ("text", "reason", "words"),
    [
        ("", Reason.RESOURCE_SPEC_INVALID, "cannot be read"),
        ("[]", Reason.RESOURCE_SPEC_INVALID, "cannot be read"),
        ('{"preferredCPUBindPolicy":1}', Reason.RESOURCE_SPEC_INVALID, "cannot be read"),
        ('{"preferredCPUBindPolicy":"Full"}', Reason.RESOURCE_SPEC_INVALID, "FullPCPUs, SpreadByPCPUs"),
        ('{"preferredCPUExclusivePolicy":"All"}', Reason.RESOURCE_SPEC_INVALID, "PCPULevel"),
    ],
)
def test_impossible_resource_spec_is_reported(text: str, reason: Reason, words: str) -> None:
    problem = parse_cpu_binding(text)
    assert isinstance(problem, Finding)
    assert problem.reason is reason
    assert words in problem.message


def test_numa_spec_names_a_policy_in_either_spelling() -> None:
    assert parse_numa_spec(None) is None
    assert parse_numa_spec("{}") is None
    assert parse_numa_spec('{"numaTopologyPolicy":"Restricted"}') is NumaPolicy.RESTRICTED
    assert parse_numa_spec('{"numaTopologyPolicy":"single-numa-node"}') is NumaPolicy.SINGLE_NUMA_NODE
    assert isinstance(parse_numa_spec('{"numaTopologyPolicy":"Tight"}'), Finding)
    assert isinstance(parse_numa_spec("x"), Finding)
    assert numa_policy("None") is NumaPolicy.NONE
    assert numa_policy("nonsense") is None


def test_resource_status_reads_back_as_written() -> None:
    zones = {
        0: {"cpu": Quantity.parse("4"), "memory": Quantity.parse("8Gi")},
        1: {"cpu": Quantity.parse("2")},
    }
    for status in (ResourceStatus(), ResourceStatus(CPUSet.parse("0-3,8")), ResourceStatus(CPUSet(), zones)):
        assert parse_resource_status(print_resource_status(status)) == status
    assert print_resource_status(ResourceStatus(CPUSet.parse("0-3"))) == '{"cpuset":"0-3"}'
    assert parse_resource_status(None) == ResourceStatus()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"cpuset":"x"}',
        '{"cpuset":7}',
        "[]",
        '{"cpuset":"0-3,2"}',
        '{"cpuset":"0-3,^2"}',
        '{"cpuset":"0-8192"}',
        f'{{"cpuset":"{"0-8191," * 36_000}"}}',
        '{"cpuset":"0"' + " " * LONGEST_STATUS + "}",
        '{"x":' + "[" * 2000 + "]" * 2000 + "}",
    ],
)
def test_unreadable_resource_status_says_what_is_wrong(text: str) -> None:
    problem = parse_resource_status(text)
    assert isinstance(problem, str)
    assert 0 < len(problem) < 200


def test_resource_status_is_parsed_once_over_many_reads() -> None:
    first, second = (parse_resource_status('{"cpuset":"4-7"}') for _ in range(2))
    assert first is second


@pytest.mark.parametrize("reader", [parse_cpu_binding, parse_numa_spec])
def test_overlong_cpu_annotation_of_a_pod_is_refused(reader: Callable[[str], object]) -> None:
    problem = reader("{" + " " * LONGEST_SPEC + "}")
    assert isinstance(problem, Finding)
    assert problem.reason is Reason.RESOURCE_SPEC_INVALID
    assert "4098 characters are more than the annotation may have (4096)" in problem.message


@pytest.mark.parametrize(
    "shares",
    ['[{"node":-1}]', '[{"node":0,"resources":{"cpu":"much"}}]', "{}", "7", '[{"node":0},{"node":0}]'],
)
def test_cpus_count_even_beside_unreadable_amounts(shares: str) -> None:
    status = parse_resource_status(f'{{"cpuset":"0-3","numaNodeResources":{shares}}}')
    assert isinstance(status, ResourceStatus)
    assert (status.cpus, dict(status.zones)) == (CPUSet.parse("0-3"), {})
    assert status.problem


@given(st.text(max_size=60))
def test_no_text_crashes_a_reader(text: str) -> None:
    for reader in (parse_cpu_binding, parse_numa_spec, parse_resource_status):
        reader(text)
