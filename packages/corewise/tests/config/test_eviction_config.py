"""When offline pods are evicted: what is honored, what is inherited, what is refused, and where."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from corewise.config.decoding import Parsed
from corewise.config.eviction import (
    NO_EVICTION,
    NO_RESOURCE_THRESHOLD,
    EvictionConfig,
    EvictionSettings,
    parse_resource_threshold,
)
from corewise.vocabulary.foreign_names import FOREIGN_NAMES
from corewise.vocabulary.names import HONORED_EVICTION, RESOURCE_THRESHOLD_KEY, TABLE

MEMORY, MEMORY_LOWER = "memoryEvictThresholdPercent", "memoryEvictLowerPercent"
LOWER, UPPER = "cpuEvictBESatisfactionLowerPercent", "cpuEvictBESatisfactionUpperPercent"
SATISFACTION = {LOWER: 60, UPPER: 80}


def read(cluster: dict[str, Any], node: dict[str, Any] | None = None) -> Parsed[EvictionConfig]:
    nodes = [{"nodeSelector": {}, **node}] if node else []
    return parse_resource_threshold(json.dumps({"clusterStrategy": cluster, "nodeStrategies": nodes}))


def told(cluster: dict[str, Any], node: dict[str, Any] | None = None) -> list[str]:
    """Return the problems reported for a text; each column is where the member at fault begins."""
    problems = read(cluster, node).problems
    assert all(each.line == 1 and each.column > len('{"clusterStrategy": {') for each in problems)
    return [
        f"{each.severity} {each.path.removeprefix('clusterStrategy.')}: {each.message}" for each in problems
    ]


def applies(cluster: dict[str, Any], node: dict[str, Any] | None = None) -> EvictionSettings:
    config = read(cluster, node).value
    assert config is not None
    return config.strategy_for({})[0]


def test_every_value_can_be_written() -> None:
    written = {"enable": True, MEMORY: 80, MEMORY_LOWER: 70, **SATISFACTION}
    written |= {"cpuEvictBEUsageThresholdPercent": 95, "cpuEvictTimeWindowSeconds": 120}
    written |= {"evictCooldownSeconds": 30, "evictDryRun": True}
    assert told(written) == []
    assert applies(written) == EvictionSettings(80, 70, 60, 80, 95, 120, 30, True)


def test_pages_name_exactly_the_honored_members() -> None:
    (reference,) = (each.meaning for each in TABLE if each.name == RESOURCE_THRESHOLD_KEY)
    (koordinator,) = (each.instead for each in FOREIGN_NAMES if each.name.endswith(RESOURCE_THRESHOLD_KEY))
    for text in (reference, koordinator):
        named = set(re.findall("`(.+?)`", text.partition(" are honored")[0]))
        assert named == {*HONORED_EVICTION}


@pytest.mark.parametrize(
    "member",
    [
        *("cpuAllocatableEvictThresholdPercent", "cpuAllocatableEvictLowerPercent"),
        *("memoryAllocatableEvictThresholdPercent", "memoryAllocatableEvictLowerPercent"),
        "allocatableEvictPriorityThreshold",
    ],
)
def test_eviction_by_requests_is_not_honored(member: str) -> None:
    cluster = {"enable": True, MEMORY: 80}
    (problem,) = told({**cluster, member: 110})
    assert problem.startswith(f"warning {member}: not honored: ")
    assert applies({**cluster, member: 110}) == applies(cluster)


@pytest.mark.parametrize("cluster", [{}, {MEMORY: 80, **SATISFACTION}, {"enable": False, MEMORY: 80}])
def test_nobody_is_evicted_unless_enable_is_true(cluster: dict[str, Any]) -> None:
    assert applies(cluster) == NO_EVICTION


def test_no_threshold_has_a_default() -> None:
    settings = applies({"enable": True})
    assert not (settings.evicts_for_memory)
    assert not (settings.evicts_for_cpu)
    assert parse_resource_threshold("{}").value == NO_RESOURCE_THRESHOLD


def test_memory_eviction_ends_2_percent_below_its_threshold() -> None:
    assert applies({"enable": True, MEMORY: 80}).memory_lower_percent == 78
    assert applies({"enable": True, MEMORY: 1}).memory_lower_percent == 0


def test_entry_inherits_and_own_threshold_brings_own_lower() -> None:
    cluster = {"enable": True, MEMORY: 80, MEMORY_LOWER: 50, **SATISFACTION, "evictCooldownSeconds": 30}
    own = applies(cluster, {MEMORY: 40})
    assert (own.memory_threshold_percent, own.memory_lower_percent) == (40, 38)
    assert (own.cpu_satisfaction_lower_percent, own.cooldown_seconds) == (60, 30)
    assert applies({**cluster, "enable": False}, {"enable": True}) == applies(cluster)
    assert applies(cluster, {"enable": False}) == NO_EVICTION


def outside(name: str, number: int, bounds: str) -> tuple[dict[str, Any], list[str]]:
    written = {"enable": True, MEMORY: 80, **SATISFACTION, name: number}
    return written, [f"error {name}: {number} is outside {bounds}"]


PROBLEMS: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"enable": True, MEMORY: 80, MEMORY_LOWER: 80},
        [
            (
                f"error {MEMORY_LOWER}: eviction begins above 80 % and would end only below 80 %: "
                f"{MEMORY_LOWER} must be below {MEMORY}"
            )
        ],
    ),
    (
        {"enable": True, LOWER: 60, UPPER: 50},
        [
            (
                f"error {UPPER}: eviction begins below 60 % and would end already above 50 %: "
                f"{UPPER} must not be below {LOWER}"
            )
        ],
    ),
    (
        {"enable": True, LOWER: 60},
        [f"error {LOWER}: {UPPER} is missing: it says above which share eviction ends"],
    ),
    outside(MEMORY, 0, "1..99"),
    outside(MEMORY, 100, "1..99"),
    outside(UPPER, 101, "1..100"),
    outside("cpuEvictTimeWindowSeconds", 0, "1..3600"),
    outside("evictCooldownSeconds", 0, "1..86400"),
    (
        {"enable": True},
        [f"warning enable: evicts no pod: no threshold has a default here; write {MEMORY} or {LOWER}"],
    ),
    ({MEMORY: 80}, [f"warning {MEMORY}: evicts no pod until enable is true"]),
    ({"enable": False, MEMORY_LOWER: 50}, [f"warning {MEMORY_LOWER}: evicts no pod without {MEMORY}"]),
    ({"enable": False, UPPER: 50}, [f"warning {UPPER}: evicts no pod without {LOWER}"]),
    (
        {"enable": True, MEMORY: 80, "cpuSuppressThresholdPercent": 65, "cpuEvictPolicy": "evictByRealLimit"},
        [
            (
                "warning cpuSuppressThresholdPercent: not honored: cpu-suppression-config says how offline "
                "pods are held back"
            ),
            (
                "warning cpuEvictPolicy: not honored: eviction for CPU goes by what offline pods' quota is "
                "of their requests"
            ),
        ],
    ),
]


@pytest.mark.parametrize(("cluster", "problems"), PROBLEMS)
def test_contradicting_or_useless_settings_are_reported_in_place(
    cluster: dict[str, Any], problems: list[str]
) -> None:
    assert told(cluster) == problems


@pytest.mark.parametrize("value", ["80", 80.5, True, []])
def test_a_threshold_must_be_a_whole_number(value: object) -> None:
    parsed = read({"enable": True, MEMORY: value})
    assert [each.path for each in parsed.errors] == [f"clusterStrategy.{MEMORY}"]
    assert parsed.value is None


def test_misspelled_member_is_reported_with_the_intended_one() -> None:
    (problem,) = told({"enable": False, "CPUEvictTimeWindowSeconds": 60})
    assert problem.endswith('unknown key: did you mean "cpuEvictTimeWindowSeconds"?')


def test_bad_mix_with_inherited_thresholds_blames_the_entry() -> None:
    (problem,) = told({"enable": True, MEMORY: 80, MEMORY_LOWER: 70}, {MEMORY_LOWER: 90})
    assert problem.startswith(f"error nodeStrategies[0].{MEMORY_LOWER}: ")
