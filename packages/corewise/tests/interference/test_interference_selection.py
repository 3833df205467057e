"""Which profile is a pod's: by name, by selector, the default one, or a conflict."""

from __future__ import annotations

import math

import numpy as np

from corewise.config.interference.model import InterferenceConfiguration, Profile
from corewise.config.interference.reading import parse_interference
from corewise.interference.filtering import (
    PodRequests,
    ProfileConflict,
    Selected,
    select_profile,
    unplaceable,
)

TEXT = """\
interference:
  typeLabel: app
  profiles:
    default: {profile: {memoryBandwidthPerCore: 0.5GB/s, llc: 1MiB}}
    stream:
      profile: {memoryBandwidth: 5GB/s, memory: 0.2GB}
      affinity: {memorybandwidth: 100, memorylatency: 0, llc_occupancy: 0, llc_mpki: 0, cpu: 0}
    batch:
      selector: {matchLabels: {tier: batch}}
      profile: {memoryBandwidth: 60GB/s}
      affinity: {memorybandwidth: 0, memorylatency: 0, llc_occupancy: 0, llc_mpki: 0, cpu: 100}
"""


def config(text: str = TEXT) -> InterferenceConfiguration:
    parsed = parse_interference(text)
    assert parsed.value is not None
    return parsed.value


def name_of(**labels: str) -> str:
    selected = select_profile(labels, PodRequests(), config())
    assert isinstance(selected, Selected)
    return selected.name


def test_type_label_or_selector_chooses_the_profile() -> None:
    assert name_of(app="stream") == "stream"
    assert name_of(app="batch") == "batch"
    assert name_of(tier="batch", app="other") == "batch"


def test_two_profiles_matching_one_pod_conflict_naming_both() -> None:
    conflict = select_profile({"app": "stream", "tier": "batch"}, PodRequests(), config())
    assert isinstance(conflict, ProfileConflict)
    assert str(conflict).startswith("profiles stream (line 5) and batch (line 8) match the same pod")


def test_pod_of_unknown_type_counts_by_its_requests() -> None:
    for labels in ({}, {"app": "default"}, {"app": "nobody-knows"}):
        selected = select_profile(labels, PodRequests(cpu=2500, memory=10**9), config())
        assert isinstance(selected, Selected)
        assert selected.name == "default"
        assert selected.profile == Profile(1_250_000_000, 10**9, 2500, 2**20)
        assert len(set(selected.affinity.values())) == 1


def test_what_the_default_profile_states_wins_over_requests() -> None:
    stated = config(
        "interference: {profiles: {default: {profile: {memoryBandwidth: 1GB/s, memory: 2GB, cpu: 3}}}}"
    )
    selected = select_profile({}, PodRequests(cpu=2500, memory=10**9), stated)
    assert isinstance(selected, Selected)
    assert selected.profile == Profile(10**9, 2 * 10**9, 3000, 0)


def test_profile_larger_than_every_known_node_is_found() -> None:
    (found,) = unplaceable(config(), np.array([107e9, 120e9]))
    assert (found.name, found.line, found.needed, found.largest) == ("batch", 8, 120e9, 120e9)
    assert not list(unplaceable(config(), np.array([107e9, 120.1e9])))
    assert not list(unplaceable(config(), np.array([math.nan])))


def test_default_profile_larger_than_every_node_is_found() -> None:
    large = config("interference:\n  profiles:\n    default: {profile: {memoryBandwidth: 60GB/s}}\n")
    (found,) = unplaceable(large, np.array([107e9]))
    assert (found.name, found.line, found.needed) == ("default", 3, 120e9)


def test_unknown_capacity_takes_any_profile_unless_missing_fails() -> None:
    capacity = np.array([107e9, math.nan])
    assert not list(unplaceable(config(), capacity))
    strict = config(TEXT.replace("typeLabel: app", "missing: {filter: fail}"))
    assert [each.name for each in unplaceable(strict, capacity)] == ["batch"]
