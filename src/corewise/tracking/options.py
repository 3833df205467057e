"""The options of nova.conf that say what a host's CPUs are for, as they stand there.

Values are texts, exactly as the file has them, None where it has none; an empty text is the same as none.
What they mean together is decided by :mod:`corewise.tracking.settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from corewise.policy.reasons import Reason
from corewise.topology import CPUSet, Host

UNSET = "(unset)"

DEDICATED_SET = "[compute] cpu_dedicated_set"
SHARED_SET = "[compute] cpu_shared_set"
ALLOCATION_RATIO = "[DEFAULT] cpu_allocation_ratio"
INITIAL_RATIO = "[DEFAULT] initial_cpu_allocation_ratio"
PIN_SET = "[DEFAULT] vcpu_pin_set"
RESERVED_CPUS = "[DEFAULT] reserved_host_cpus"
POWER_MANAGEMENT = "[libvirt] cpu_power_management"

_GROUPS = {"cpu_dedicated_set": "compute", "cpu_shared_set": "compute", "cpu_power_management": "libvirt"}


@dataclass(frozen=True, slots=True)
class HostOptions:
    """What nova.conf says, word for word."""

    cpu_dedicated_set: str | None = None
    cpu_shared_set: str | None = None
    cpu_allocation_ratio: str | None = None
    initial_cpu_allocation_ratio: str | None = None
    vcpu_pin_set: str | None = None
    reserved_host_cpus: str | None = None
    cpu_power_management: str | None = None

    @classmethod
    def of(cls, values: Mapping[tuple[str, str], str]) -> HostOptions:
        """Pick the options from all that a file says, (group, option) -> text."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: values.get((_GROUPS.get(name, "DEFAULT"), name)) for name in names})


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What the kernel says. ``hyper_threading``: whether a core has more than one thread online."""

    online: CPUSet
    present: CPUSet
    hyper_threading: bool

    @classmethod
    def of(cls, host: Host) -> HostFacts:
        online = host.topology.cpus
        return cls(online, online | host.offline_cpus, host.topology.hyper_threading)


@dataclass(frozen=True, slots=True)
class OptionProblem:
    """What is wrong with an option: its name as ``[group] name``, its value, and why."""

    reason: Reason
    option: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.option} = {self.value}: {self.why}"
