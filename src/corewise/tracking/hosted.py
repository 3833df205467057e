"""Guests that are on a host already, and whether the host's options still suit them.

==================== ============================== ================================================
guest                options                        then
==================== ============================== ================================================
shares all its CPUs  no shared CPUs                 the agent does not start
pinned               no dedicated CPUs              the agent does not start
mixed                not both sets                  the agent does not start
pinned or mixed      pinned outside the set         a warning
==================== ============================== ================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from corewise.policy.guests import CPUPolicy, ThreadPolicy
from corewise.policy.reasons import Reason
from corewise.topology import CPUSet
from corewise.tracking.options import DEDICATED_SET, SHARED_SET, UNSET, HostOptions, OptionProblem
from corewise.tracking.values import text_of

_NO_CPUS = CPUSet()


@dataclass(frozen=True, slots=True)
class HostedGuest:
    """A guest as its host shows it.

    ``pinned``: the host CPUs of its dedicated guest CPUs, one each. ``shared``: how many guest CPUs share
    host CPUs. ``emulator``: the host CPU of its own that isolated emulator threads run on.
    """

    uuid: str
    name: str = ""
    pinned: CPUSet = _NO_CPUS
    shared: int = 0
    emulator: CPUSet = _NO_CPUS
    thread_policy: ThreadPolicy | None = None

    @property
    def policy(self) -> CPUPolicy:
        if not self.pinned:
            return CPUPolicy.SHARED
        return CPUPolicy.MIXED if self.shared else CPUPolicy.DEDICATED

    @property
    def label(self) -> str:
        """How a person finds it: its name and uuid."""
        return f"{self.name} ({self.uuid})" if self.name else self.uuid


class _Settings(Protocol):
    """What this module needs of the settings of a host."""

    @property
    def shared(self) -> CPUSet: ...
    @property
    def pinnable(self) -> CPUSet: ...
    @property
    def legacy(self) -> bool: ...


def guest_problems(
    options: HostOptions, guests: Sequence[HostedGuest], settings: _Settings
) -> tuple[list[OptionProblem], list[OptionProblem]]:
    """Return why the agent must not start, and what it warns of."""
    refusals = [each for guest in guests for each in _refusal(options, guest, settings)]
    remarks = [each for guest in guests for each in _outside(options, guest, settings)]
    return refusals, remarks


def _refusal(options: HostOptions, guest: HostedGuest, settings: _Settings) -> Iterator[OptionProblem]:
    dedicated = (DEDICATED_SET, text_of(options.cpu_dedicated_set) or UNSET)
    shared = (SHARED_SET, text_of(options.cpu_shared_set) or UNSET)
    match guest.policy:
        case CPUPolicy.SHARED if not settings.shared:
            why = f"guest {guest.label} shares CPUs, and the host has none to share"
            yield OptionProblem(Reason.GUEST_NEEDS_SHARED_CPUS, *shared, why)
        case CPUPolicy.DEDICATED if not settings.pinnable:
            why = f"guest {guest.label} is pinned to CPUs {guest.pinned}, and the host has no dedicated ones"
            yield OptionProblem(Reason.GUEST_NEEDS_DEDICATED_CPUS, *dedicated, why)
        case CPUPolicy.MIXED if settings.legacy or not (settings.shared and settings.pinnable):
            missing = dedicated if settings.legacy or not settings.pinnable else shared
            needs = f"{DEDICATED_SET} and {SHARED_SET}"
            why = f"guest {guest.label} has dedicated and shared CPUs, and needs both {needs}"
            yield OptionProblem(Reason.GUEST_NEEDS_BOTH_KINDS, *missing, why)


def _outside(options: HostOptions, guest: HostedGuest, settings: _Settings) -> Iterator[OptionProblem]:
    outside = guest.pinned - settings.pinnable
    if not outside or not settings.pinnable:
        return
    option, text = (DEDICATED_SET, options.cpu_dedicated_set)
    if settings.legacy:
        option, text = ("[DEFAULT] vcpu_pin_set", options.vcpu_pin_set)
    why = f"guest {guest.label} is pinned to CPUs {guest.pinned}, of which {outside} are not in the set"
    yield OptionProblem(Reason.GUEST_PINNED_OUTSIDE, option, text_of(text) or UNSET, why)
