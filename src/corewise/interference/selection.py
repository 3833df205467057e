"""Which profile is a pod's: by the value of its type label, or by a profile's selector; else the default one.

Two profiles that match one pod are a conflict, which is a verdict: nobody can say what the pod uses.
The default profile takes memory and CPU from the pod's requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corewise.config.interference import (
    Affinity,
    DefaultProfile,
    InterferenceConfiguration,
    Profile,
    WorkloadProfile,
)
from corewise.config.interference.model import DEFAULT

_MILLI = 1000


@dataclass(frozen=True, slots=True)
class PodRequests:
    """What a pod requests: milli-CPU and bytes."""

    cpu: int = 0
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Selected:
    """What a pod uses and how heavily each metric weighs on it; ``name`` is that of the profile."""

    name: str
    profile: Profile
    affinity: Affinity

    @property
    def is_default(self) -> bool:
        return self.name == DEFAULT


@dataclass(frozen=True, slots=True)
class Conflict:
    """Profiles that match one pod."""

    names: tuple[str, ...]
    lines: tuple[int, ...]

    def __str__(self) -> str:
        told = (f"{name} (line {line})" for name, line in zip(self.names, self.lines, strict=True))
        return f"profiles {' and '.join(told)} match the same pod: let them exclude each other"


def select_profile(
    labels: Mapping[str, str], requests: PodRequests, config: InterferenceConfiguration
) -> Selected | Conflict:
    """Return the profile of a pod with these labels and requests."""
    named = labels.get(config.type_label)
    matching = [each for each in config.profiles.values() if _matches(each, named, labels)]
    if not matching:
        return Selected(DEFAULT, default_profile(config.default, requests), config.default.affinity)
    if len(matching) > 1:
        return Conflict(tuple(each.name for each in matching), tuple(each.line for each in matching))
    return Selected(matching[0].name, matching[0].profile, matching[0].affinity)


def default_profile(default: DefaultProfile, requests: PodRequests) -> Profile:
    """Return what a pod of no known type counts as."""
    bandwidth = default.memory_bandwidth
    if bandwidth is None:
        bandwidth = default.bandwidth_per_core * requests.cpu // _MILLI
    return Profile(
        memory_bandwidth=bandwidth,
        memory=requests.memory if default.memory is None else default.memory,
        cpu=requests.cpu if default.cpu is None else default.cpu,
        llc=default.llc,
    )


def _matches(workload: WorkloadProfile, named: str | None, labels: Mapping[str, str]) -> bool:
    selected = workload.selector is not None and workload.selector.matches(labels)
    return workload.name == named or selected
