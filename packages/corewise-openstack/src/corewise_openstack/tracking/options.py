"""The purpose of a host's CPUs: from the options of nova.conf to the CPUs behind each resource class.

========================================== =================== ===================== ======================
configured                                 VCPU                PCPU                  pinned guests may get
========================================== =================== ===================== ======================
neither                                    online              none                  online (legacy)
shared only                                shared              none                  none
dedicated only                             none                dedicated             dedicated
both                                       shared              dedicated             dedicated
``vcpu_pin_set``, without dedicated        pin set             pin set (nova: none)  pin set (legacy)
``vcpu_pin_set`` and dedicated, no shared  pin set - dedicated dedicated             dedicated
========================================== =================== ===================== ======================

A host is legacy while no option says which CPUs are dedicated; its pinned guests run among the others. With
``vcpu_pin_set``, ``cpu_shared_set`` serves emulator threads only. ``reserved_host_cpus`` counts only while
neither new option is set. ``cpu_allocation_ratio = 0.0`` means unset, as in Nova. Shared CPUs must be online;
so must dedicated ones, unless cpu_power_management turns them off and on.

The guests that are already on the host must still have the CPUs they need:

==================== ============================== ================================================
guest                options                        then
==================== ============================== ================================================
shares all its CPUs  no shared CPUs                 the agent does not start
pinned               no dedicated CPUs              the agent does not start
mixed                not both sets                  the agent does not start
pinned or mixed      pinned outside the set         a warning
==================== ============================== ================================================

Option values are texts, exactly as the file has them; None and an empty text both mean unset. All problems
are collected, so that an operator sees them at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from enum import StrEnum

from corewise.topology import CPUSet, CPUSetError, Host, NoCPULeftError
from corewise.vocabulary.reasons import Reason
from corewise_openstack.vocabulary.guests import CPUPolicy, ThreadPolicy

UNSET = "(unset)"

DEDICATED_SET = "[compute] cpu_dedicated_set"
SHARED_SET = "[compute] cpu_shared_set"
ALLOCATION_RATIO = "[DEFAULT] cpu_allocation_ratio"
INITIAL_RATIO = "[DEFAULT] initial_cpu_allocation_ratio"
PIN_SET = "[DEFAULT] vcpu_pin_set"
RESERVED_CPUS = "[DEFAULT] reserved_host_cpus"
POWER_MANAGEMENT = "[libvirt] cpu_power_management"
DEFAULT_INITIAL_RATIO = Decimal("4.0")

_GROUPS = {"cpu_dedicated_set": "compute", "cpu_shared_set": "compute", "cpu_power_management": "libvirt"}
_NO_CPUS = CPUSet()
_RATIO = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,9})?")
_COUNT = re.compile(r"[0-9]{1,9}")
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


class Compat(StrEnum):
    """Whether to follow the specification, or what Nova finally shipped (for hosts beside Nova).

    ================================================ ============================= ==========================
    point                                            spec                          nova
    ================================================ ============================= ==========================
    ``vcpu_pin_set`` without ``cpu_dedicated_set``   its CPUs are PCPU and VCPU    VCPU only
    ``reserved_host_cpus`` with a new option         ignored, with a warning       start-up error; counts if
                                                                                   ``vcpu_pin_set`` is set
    ``vcpu_pin_set`` with ``cpu_dedicated_set``      ignored if both new options   start-up error
                                                     are set, with a warning
    fallback query                                   only if no host of the first  always, results joined
                                                     takes the guest
    reshape of ``isolate`` guests on SMT hosts       siblings count as PCPU too    they do not
    ================================================ ============================= ==========================
    """

    SPEC = "spec"
    NOVA = "nova"


@dataclass(frozen=True, slots=True)
class HostOptions:
    """The options as nova.conf states them, word for word."""

    cpu_dedicated_set: str | None = None
    cpu_shared_set: str | None = None
    cpu_allocation_ratio: str | None = None
    initial_cpu_allocation_ratio: str | None = None
    vcpu_pin_set: str | None = None
    reserved_host_cpus: str | None = None
    cpu_power_management: str | None = None

    @classmethod
    def of(cls, values: Mapping[tuple[str, str], str]) -> HostOptions:
        """Pick the options from everything a file says, (group, option) -> text."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: values.get((_GROUPS.get(name, "DEFAULT"), name)) for name in names})


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The kernel's facts. ``hyper_threading``: whether a core has more than one thread online."""

    online: CPUSet
    present: CPUSet
    hyper_threading: bool

    @classmethod
    def of(cls, host: Host) -> HostFacts:
        online = host.topology.cpus
        return cls(online, online | host.offline_cpus, host.topology.hyper_threading)


@dataclass(frozen=True, slots=True)
class HostedGuest:
    """A guest that runs on the host.

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
        """The name and UUID, for messages."""
        return f"{self.name} ({self.uuid})" if self.name else self.uuid


@dataclass(frozen=True, slots=True)
class OptionProblem:
    """A problem with an option: its name as ``[group] name``, its value, and why."""

    reason: Reason
    option: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.option} = {self.value}: {self.why}"


@dataclass(frozen=True, slots=True)
class HostSettings:
    """The settings that a host's options result in.

    ``shared`` and ``dedicated``: the CPUs behind VCPU and PCPU. ``pinnable``: those that pinned guests may
    get. ``emulator``: the set that ``cpu_shared_set`` names, for emulator threads of policy ``share``.
    ``ratio``: None if no option states one; then a provider keeps the one it has, and a new one gets
    ``initial_ratio``.
    """

    shared: CPUSet
    dedicated: CPUSet
    pinnable: CPUSet
    emulator: CPUSet = _NO_CPUS
    reserved: int = 0
    ratio: Decimal | None = None
    initial_ratio: Decimal = DEFAULT_INITIAL_RATIO
    legacy: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """Settings, or the errors that keep the agent from starting; and warnings in both cases."""

    settings: HostSettings | None
    errors: tuple[OptionProblem, ...] = ()
    warnings: tuple[OptionProblem, ...] = ()


def check_options(
    options: HostOptions,
    facts: HostFacts,
    guests: Sequence[HostedGuest] = (),
    compat: Compat = Compat.SPEC,
) -> Checked:
    """Return the settings of a host, or everything that is wrong with its options."""
    check = _Check(options, compat)
    dedicated = check.cpu_set(DEDICATED_SET, options.cpu_dedicated_set)
    shared = check.cpu_set(SHARED_SET, options.cpu_shared_set)
    pin = check.pin_set(shared)
    may_be_offline = check.flag(POWER_MANAGEMENT, options.cpu_power_management)
    check.are_usable(facts, dedicated, shared, pin, may_be_offline=may_be_offline)

    legacy = False
    if dedicated is not None:
        vcpu = shared or _NO_CPUS if pin is None else pin - dedicated
        pcpu = pinnable = dedicated
    elif pin is not None:
        vcpu, pcpu = pin, _NO_CPUS if compat is Compat.NOVA else pin
        pinnable, legacy = pin, True
    elif shared is not None:
        vcpu, pcpu, pinnable = shared, _NO_CPUS, _NO_CPUS
    else:
        vcpu, pcpu, pinnable, legacy = facts.online, _NO_CPUS, facts.online, True

    settings = HostSettings(
        shared=vcpu,
        dedicated=pcpu,
        pinnable=pinnable,
        emulator=shared or _NO_CPUS,
        reserved=check.reserved(
            len(vcpu),
            new_options=dedicated is not None
            or (shared is not None and (pin is None or compat is Compat.SPEC)),
        ),
        ratio=check.ratio(ALLOCATION_RATIO, options.cpu_allocation_ratio, zero_is_unset=True),
        initial_ratio=check.ratio(INITIAL_RATIO, options.initial_cpu_allocation_ratio)
        or DEFAULT_INITIAL_RATIO,
        legacy=legacy,
    )
    if not check.errors:
        for guest in guests:
            check.suits(guest, settings)
    return Checked(None if check.errors else settings, tuple(check.errors), tuple(check.warnings))


@dataclass(frozen=True, slots=True)
class _Check:
    """Reads option values and collects what is wrong. An invalid value counts as unset from then on."""

    options: HostOptions
    compat: Compat
    errors: list[OptionProblem] = field(default_factory=list)
    warnings: list[OptionProblem] = field(default_factory=list)

    def error(self, reason: Reason, option: str, value: str | None, why: str) -> None:
        self.errors.append(OptionProblem(reason, option, _stripped(value) or UNSET, why))

    def warn(self, reason: Reason, option: str, value: str | None, why: str) -> None:
        self.warnings.append(OptionProblem(reason, option, _stripped(value) or UNSET, why))

    def cpu_set(self, option: str, value: str | None) -> CPUSet | None:
        text = _stripped(value)
        if text is None:
            return None
        try:
            cpus = CPUSet.parse(text)
        except CPUSetError as error:
            empty = isinstance(error, NoCPULeftError)
            reason = Reason.CPU_SET_LEAVES_NOTHING if empty else Reason.CPU_SET_MALFORMED
            self.error(reason, option, text, str(error))
            return None
        if not cpus:
            self.error(Reason.CPU_SET_LEAVES_NOTHING, option, text, "it names no CPU")
        return cpus or None

    def ratio(self, option: str, value: str | None, *, zero_is_unset: bool = False) -> Decimal | None:
        text = _stripped(value)
        if text is None:
            return None
        number = Decimal(text) if _RATIO.fullmatch(text) else None
        if number == 0 and zero_is_unset:
            return None
        if not number:
            why = "a ratio is a decimal number above 0 and below 1000000, such as 8.0"
            self.error(Reason.ALLOCATION_RATIO_INVALID, option, text, why)
            return None
        return number

    def flag(self, option: str, value: str | None) -> bool:
        text = (_stripped(value) or "false").lower()
        if text not in _TRUE | _FALSE:
            self.error(Reason.POWER_MANAGEMENT_INVALID, option, text, "write true or false")
        return text in _TRUE

    def pin_set(self, shared: CPUSet | None) -> CPUSet | None:
        """Return the CPUs of ``vcpu_pin_set``; None where it is unset, ignored or forbidden."""
        text = _stripped(self.options.vcpu_pin_set)
        if text is None:
            return None
        if _stripped(self.options.cpu_dedicated_set) is not None:
            if self.compat is Compat.NOVA:
                why = f"it cannot stand beside {DEDICATED_SET}: unset it"
                self.error(Reason.PIN_SET_FORBIDDEN, PIN_SET, text, why)
                return None
            if _stripped(self.options.cpu_shared_set) is not None:
                why = f"ignored, since {DEDICATED_SET} and {SHARED_SET} are set: unset it"
                self.warn(Reason.PIN_SET_IGNORED, PIN_SET, text, why)
                return None
        why = f"deprecated: unset it, and set {DEDICATED_SET}, {SHARED_SET} or both"
        self.warn(Reason.PIN_SET_DEPRECATED, PIN_SET, text, why)
        if shared is not None:
            why = f"serves emulator threads only while {PIN_SET} is set, since VCPU is counted by that"
            self.warn(Reason.SHARED_SET_FOR_EMULATOR_ONLY, SHARED_SET, str(shared), why)
        return self.cpu_set(PIN_SET, text)

    def are_usable(
        self,
        facts: HostFacts,
        dedicated: CPUSet | None,
        shared: CPUSet | None,
        pin: CPUSet | None,
        *,
        may_be_offline: bool,
    ) -> None:
        """Report CPUs that are in two sets, that the host does not have, or that are offline."""
        options = self.options
        both = (dedicated or _NO_CPUS) & (shared or _NO_CPUS)
        if both:
            other = _stripped(options.cpu_shared_set)
            why = f"{_cpus_are(both)} in {SHARED_SET} = {other} too: the sets must be disjoint"
            self.error(Reason.CPU_SETS_OVERLAP, DEDICATED_SET, options.cpu_dedicated_set, why)
        for option, value, cpus, offline_too in (
            (DEDICATED_SET, options.cpu_dedicated_set, dedicated, may_be_offline),
            (SHARED_SET, options.cpu_shared_set, shared, False),
            (PIN_SET, options.vcpu_pin_set, pin, False),
        ):
            named = cpus or _NO_CPUS
            missing, offline = named - facts.present, (named & facts.present) - facts.online
            if missing:
                why = f"the host has no {_cpus(missing)}: it has CPUs {facts.present}"
                self.error(Reason.CPUS_NOT_PRESENT, option, value, why)
            if offline and not offline_too:
                self.error(Reason.CPUS_NOT_ONLINE, option, value, f"{_cpus_are(offline)} offline")

    def reserved(self, shared: int, *, new_options: bool) -> int:
        """Return the number of the ``shared`` CPUs that are reserved for the host."""
        text = _stripped(self.options.reserved_host_cpus)
        if text is None:
            return 0
        if not _COUNT.fullmatch(text):
            why = "it is not a whole number of CPUs, such as 2"
            self.error(Reason.RESERVED_CPUS_INVALID, RESERVED_CPUS, text, why)
            return 0
        reserved = int(text)
        if not reserved:
            return 0
        if new_options:
            why = (
                f"beside {DEDICATED_SET} or {SHARED_SET}: CPUs in neither are reserved for the host. Unset it"
            )
            if self.compat is Compat.NOVA:
                self.error(Reason.RESERVED_CPUS_FORBIDDEN, RESERVED_CPUS, text, f"it cannot stand {why}")
            else:
                self.warn(Reason.RESERVED_CPUS_IGNORED, RESERVED_CPUS, text, f"ignored {why}")
            return 0
        why = f"deprecated: set {SHARED_SET} or {DEDICATED_SET} to all CPUs but those for the host"
        self.warn(Reason.RESERVED_CPUS_DEPRECATED, RESERVED_CPUS, text, why)
        if reserved > shared:
            why = f"there are only {shared} CPUs to reserve from"
            self.error(Reason.RESERVED_CPUS_INVALID, RESERVED_CPUS, text, why)
        return reserved

    def suits(self, guest: HostedGuest, settings: HostSettings) -> None:
        """Report a guest of the host whose CPUs the settings no longer provide."""
        dedicated = (DEDICATED_SET, self.options.cpu_dedicated_set)
        shared = (SHARED_SET, self.options.cpu_shared_set)
        match guest.policy:
            case CPUPolicy.SHARED if not settings.shared:
                why = f"guest {guest.label} shares CPUs, and the host has none to share"
                self.error(Reason.GUEST_NEEDS_SHARED_CPUS, *shared, why)
            case CPUPolicy.DEDICATED if not settings.pinnable:
                pinned = f"guest {guest.label} is pinned to CPUs {guest.pinned}"
                why = f"{pinned}, and the host has no dedicated ones"
                self.error(Reason.GUEST_NEEDS_DEDICATED_CPUS, *dedicated, why)
            case CPUPolicy.MIXED if settings.legacy or not (settings.shared and settings.pinnable):
                missing = dedicated if settings.legacy or not settings.pinnable else shared
                needs = f"{DEDICATED_SET} and {SHARED_SET}"
                why = f"guest {guest.label} has dedicated and shared CPUs, and needs both {needs}"
                self.error(Reason.GUEST_NEEDS_BOTH_KINDS, *missing, why)
        outside = guest.pinned - settings.pinnable
        if outside and settings.pinnable:
            named = (PIN_SET, self.options.vcpu_pin_set) if settings.legacy else dedicated
            why = (
                f"guest {guest.label} is pinned to CPUs {guest.pinned}, of which {outside} are not in the set"
            )
            self.warn(Reason.GUEST_PINNED_OUTSIDE, *named, why)


def _stripped(value: str | None) -> str | None:
    return (value or "").strip() or None


def _cpus(cpus: CPUSet) -> str:
    return f"CPU{'' if len(cpus) == 1 else 's'} {cpus}"


def _cpus_are(cpus: CPUSet) -> str:
    return f"{_cpus(cpus)} {'is' if len(cpus) == 1 else 'are'}"
