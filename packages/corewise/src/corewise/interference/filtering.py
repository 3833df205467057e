"""The choice of a pod's profile, and the nodes that have room for it.

A pod's profile is chosen by the value of its type label, or by a profile's selector; otherwise it has the
default profile, with memory and CPU from its requests. Two profiles that match one pod are a conflict, which
is a verdict: what the pod uses is unknown.

A node needs more room than overprovisioning x profile, of bandwidth and of memory. Strictly:

    capacity_bw - used_bw - counterweight_bw   >  overprovisioning x profile_bw
    available_mem         - counterweight_mem  >  overprovisioning x profile_mem

Memory that is the pod's request, as no profile states it, is not multiplied: a request is no average, and on
an idle node that kube-scheduler finds large enough, twice as much may not be there.

A dimension of which the profile needs nothing is not checked. Where the left side is missing, the
configuration says whether the node passes. A profile that fits no node even when it is idle is a mistake,
reported when the configuration is read (:func:`unplaceable`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from corewise.config.interference.model import (
    DEFAULT,
    AffinityPoints,
    DefaultProfile,
    InterferenceConfiguration,
    Profile,
)
from corewise.interference.outlook import Outlook
from corewise.interference.pressure import Flags, Values
from corewise.quantities import MILLI


@dataclass(frozen=True, slots=True)
class PodRequests:
    """The requests of a pod: milli-CPU and bytes."""

    cpu: int = 0
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Selected:
    """The use of a pod, and its sensitivity to each metric; ``name`` is that of the profile.

    ``requested_memory``: the profile's memory is what the pod requests.
    """

    name: str
    profile: Profile
    affinity: AffinityPoints
    requested_memory: bool = False

    @property
    def needs_any(self) -> bool:
        """Whether the filter has anything to check."""
        return self.profile.memory_bandwidth > 0 or self.profile.memory > 0


@dataclass(frozen=True, slots=True)
class ProfileConflict:
    """Profiles that match one pod."""

    names: tuple[str, ...]
    lines: tuple[int, ...]

    def __str__(self) -> str:
        each = (f"{name} (line {line})" for name, line in zip(self.names, self.lines, strict=True))
        return f"profiles {' and '.join(each)} match the same pod: make them exclude each other"


def select_profile(
    labels: Mapping[str, str], requests: PodRequests, config: InterferenceConfiguration
) -> Selected | ProfileConflict:
    """Return the profile of a pod with these labels and requests."""
    matching = config.types_of(labels)
    if not matching:
        default = config.default
        profile = _default_profile(default, requests)
        return Selected(DEFAULT, profile, default.affinity, requested_memory=default.memory is None)
    if len(matching) > 1:
        return ProfileConflict(tuple(each.name for each in matching), tuple(each.line for each in matching))
    return Selected(matching[0].name, matching[0].profile, matching[0].affinity)


def _default_profile(default: DefaultProfile, requests: PodRequests) -> Profile:
    bandwidth = default.memory_bandwidth
    if bandwidth is None:
        bandwidth = default.bandwidth_per_core * requests.cpu // MILLI
    return Profile(
        memory_bandwidth=bandwidth,
        memory=requests.memory if default.memory is None else default.memory,
        cpu=requests.cpu if default.cpu is None else default.cpu,
        llc=default.llc,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Inequality:
    """Both sides for every node: ``left`` > ``right`` must hold; of ``left`` NaN is missing."""

    left: Values
    right: float
    missing: Flags
    passes: Flags

    @property
    def asked(self) -> bool:
        """Whether anything is needed at all."""
        return self.right > 0


@dataclass(frozen=True, slots=True, eq=False)
class FilterVerdicts:
    """The two verdicts about every node."""

    bandwidth: Inequality
    memory: Inequality

    @property
    def passes(self) -> Flags:
        passing: Flags = self.bandwidth.passes & self.memory.passes
        return passing


def filter_nodes(nodes: Outlook, selected: Selected, config: InterferenceConfiguration) -> FilterVerdicts:
    """Return the nodes with the room that a pod's profile requires."""
    factor, profile = config.overprovisioning, selected.profile

    def inequality(left: Values, needed: Fraction | int) -> Inequality:
        missing, right = np.isnan(left), float(needed)
        if right <= 0:
            passes = np.ones(len(left), dtype=np.bool_)
        else:
            passes = left > right
            if config.missing_passes:
                passes |= missing
        return Inequality(left, right, missing, passes)

    return FilterVerdicts(
        inequality(nodes.free_bandwidth, factor * profile.memory_bandwidth),
        inequality(nodes.free_memory, profile.memory * (1 if selected.requested_memory else factor)),
    )


@dataclass(frozen=True, slots=True)
class Unplaceable:
    """A profile that needs more free memory bandwidth than any node has; in bytes/s."""

    name: str
    line: int
    needed: float
    largest: float


def unplaceable(config: InterferenceConfiguration, capacity: Values) -> Iterator[Unplaceable]:
    """Yield the profiles that fit none of the nodes with these capacities, in bytes/s; NaN is unknown.

    Where a capacity is unknown and what is missing passes, the node takes any profile.
    """
    known = capacity[~np.isnan(capacity)]
    if not len(known) or (config.missing_passes and len(known) < len(capacity)):
        return
    largest = float(known.max())
    for name, line, needed in config.stated_bandwidths():
        if needed >= largest:
            yield Unplaceable(name, line, float(needed), largest)
