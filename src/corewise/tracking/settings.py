"""From options to the CPUs behind each resource class, or to everything that is wrong with them.

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

A host is legacy while nothing says which CPUs are dedicated, and pinned guests lie among the others. The set
of shared CPUs beside ``vcpu_pin_set`` serves emulator threads only. ``reserved_host_cpus`` counts only while
neither new option is set. Shared CPUs must be online; dedicated ones too, unless cpu_power_management turns
them off and on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from corewise.policy.reasons import Reason
from corewise.topology import CPUSet
from corewise.tracking import values
from corewise.tracking.compat import Compat
from corewise.tracking.hosted import HostedGuest, guest_problems
from corewise.tracking.options import (
    ALLOCATION_RATIO,
    DEDICATED_SET,
    INITIAL_RATIO,
    PIN_SET,
    POWER_MANAGEMENT,
    RESERVED_CPUS,
    SHARED_SET,
    HostFacts,
    HostOptions,
    OptionProblem,
)

DEFAULT_INITIAL_RATIO = Decimal("4.0")
_NO_CPUS = CPUSet()


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What the options of a host come to.

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
    """Settings, or the errors for which the agent does not start; and warnings either way."""

    settings: HostSettings | None
    errors: tuple[OptionProblem, ...] = ()
    warnings: tuple[OptionProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class _Sets:
    """The sets that count, None where unset or ignored."""

    dedicated: CPUSet | None
    shared: CPUSet | None
    pin: CPUSet | None

    @property
    def are_new(self) -> bool:
        return self.dedicated is not None or self.shared is not None


@dataclass(frozen=True, slots=True)
class _Findings:
    """What is wrong and what is odd, as it is found."""

    errors: list[OptionProblem] = field(default_factory=list)
    warnings: list[OptionProblem] = field(default_factory=list)


def check_options(
    options: HostOptions,
    facts: HostFacts,
    guests: Sequence[HostedGuest] = (),
    compat: Compat = Compat.SPEC,
) -> Checked:
    """Say what the options of a host mean, or all that is wrong with them."""
    found = _Findings()
    errors = found.errors
    sets = _read_sets(options, compat, found)
    may_be_offline = values.flag(POWER_MANAGEMENT, options.cpu_power_management, errors)
    errors += _misplaced(options, sets, facts, may_be_offline=may_be_offline)
    shared, dedicated = _classes(sets, facts, compat)
    settings = HostSettings(
        shared=shared,
        dedicated=dedicated,
        pinnable=_pinnable(sets, facts),
        emulator=sets.shared or _NO_CPUS,
        reserved=_reserved(options, sets, len(shared), compat, found),
        ratio=values.ratio(ALLOCATION_RATIO, options.cpu_allocation_ratio, errors),
        initial_ratio=values.ratio(INITIAL_RATIO, options.initial_cpu_allocation_ratio, errors)
        or DEFAULT_INITIAL_RATIO,
        legacy=_is_legacy(sets),
    )
    if not errors:
        refusals, remarks = guest_problems(options, guests, settings)
        errors += refusals
        found.warnings.extend(remarks)
    return Checked(None if errors else settings, tuple(errors), tuple(found.warnings))


def _read_sets(options: HostOptions, compat: Compat, found: _Findings) -> _Sets:
    errors, warnings = found.errors, found.warnings
    dedicated = values.cpu_set(DEDICATED_SET, options.cpu_dedicated_set, errors)
    shared = values.cpu_set(SHARED_SET, options.cpu_shared_set, errors)
    pin_text = values.text_of(options.vcpu_pin_set)
    if pin_text is None:
        return _Sets(dedicated, shared, None)
    if values.text_of(options.cpu_dedicated_set) is not None:
        if compat is Compat.NOVA:
            why = f"it cannot stand beside {DEDICATED_SET}: unset it"
            errors.append(OptionProblem(Reason.PIN_SET_FORBIDDEN, PIN_SET, pin_text, why))
            return _Sets(dedicated, shared, None)
        if values.text_of(options.cpu_shared_set) is not None:
            why = f"ignored, since {DEDICATED_SET} and {SHARED_SET} are set: unset it"
            warnings.append(OptionProblem(Reason.PIN_SET_IGNORED, PIN_SET, pin_text, why))
            return _Sets(dedicated, shared, None)
    why = f"deprecated: unset it, and set {DEDICATED_SET}, {SHARED_SET} or both"
    warnings.append(OptionProblem(Reason.PIN_SET_DEPRECATED, PIN_SET, pin_text, why))
    if shared is not None:
        why = f"serves emulator threads only while {PIN_SET} is set, which is what VCPU is counted by"
        warnings.append(OptionProblem(Reason.SHARED_SET_FOR_EMULATOR_ONLY, SHARED_SET, str(shared), why))
    return _Sets(dedicated, shared, values.cpu_set(PIN_SET, pin_text, errors))


def _misplaced(
    options: HostOptions, sets: _Sets, facts: HostFacts, *, may_be_offline: bool
) -> Iterator[OptionProblem]:
    """Tell of CPUs that are in two sets, that the host has not, or that are offline."""
    named = (
        (DEDICATED_SET, options.cpu_dedicated_set, sets.dedicated, may_be_offline),
        (SHARED_SET, options.cpu_shared_set, sets.shared, False),
        (PIN_SET, options.vcpu_pin_set, sets.pin, False),
    )
    if sets.dedicated is not None and sets.shared is not None and sets.dedicated & sets.shared:
        both = sets.dedicated & sets.shared
        other = values.text_of(options.cpu_shared_set)
        why = f"{_cpus(both)} in {SHARED_SET} = {other} too: the sets must be disjoint"
        yield OptionProblem(Reason.CPU_SETS_OVERLAP, DEDICATED_SET, str(values.text_of(named[0][1])), why)
    for option, text, cpus, offline_too in named:
        if cpus is None:
            continue
        missing, offline = cpus - facts.present, (cpus & facts.present) - facts.online
        value = str(values.text_of(text))
        if missing:
            why = f"the host has no {_numbers(missing)}: it has CPUs {facts.present}"
            yield OptionProblem(Reason.CPUS_NOT_PRESENT, option, value, why)
        if offline and not offline_too:
            yield OptionProblem(Reason.CPUS_NOT_ONLINE, option, value, f"{_cpus(offline)} offline")


def _cpus(cpus: CPUSet) -> str:
    return f"{_numbers(cpus)} {'is' if len(cpus) == 1 else 'are'}"


def _numbers(cpus: CPUSet) -> str:
    return f"CPU{'' if len(cpus) == 1 else 's'} {cpus}"


def _classes(sets: _Sets, facts: HostFacts, compat: Compat) -> tuple[CPUSet, CPUSet]:
    """Return the CPUs behind VCPU and those behind PCPU."""
    dedicated = sets.dedicated or _NO_CPUS
    if sets.pin is not None:
        if sets.dedicated is not None:
            return sets.pin - dedicated, dedicated
        return sets.pin, _NO_CPUS if compat is Compat.NOVA else sets.pin
    if not sets.are_new:
        return facts.online, _NO_CPUS
    return sets.shared or _NO_CPUS, dedicated


def _is_legacy(sets: _Sets) -> bool:
    return sets.dedicated is None and (sets.pin is not None or sets.shared is None)


def _pinnable(sets: _Sets, facts: HostFacts) -> CPUSet:
    if sets.dedicated is not None:
        return sets.dedicated
    if sets.pin is not None:
        return sets.pin
    return facts.online if sets.shared is None else _NO_CPUS


def _reserved(options: HostOptions, sets: _Sets, shared: int, compat: Compat, found: _Findings) -> int:
    """Return how many CPUs are reserved for the host by number."""
    errors, warnings = found.errors, found.warnings
    text = values.text_of(options.reserved_host_cpus)
    reserved = values.count(RESERVED_CPUS, text, errors)
    if text is None or not reserved:
        return 0
    if sets.are_new:
        why = f"beside {DEDICATED_SET} or {SHARED_SET}: CPUs in neither are reserved for the host. Unset it"
        if compat is Compat.NOVA:
            why = f"it cannot stand {why}"
            errors.append(OptionProblem(Reason.RESERVED_CPUS_FORBIDDEN, RESERVED_CPUS, text, why))
        else:
            why = f"ignored {why}"
            warnings.append(OptionProblem(Reason.RESERVED_CPUS_IGNORED, RESERVED_CPUS, text, why))
        return 0
    why = f"deprecated: set {SHARED_SET} or {DEDICATED_SET} to all CPUs but those for the host"
    warnings.append(OptionProblem(Reason.RESERVED_CPUS_DEPRECATED, RESERVED_CPUS, text, why))
    if reserved > shared:
        why = f"there are only {shared} CPUs to reserve from"
        errors.append(OptionProblem(Reason.RESERVED_CPUS_INVALID, RESERVED_CPUS, text, why))
    return reserved
