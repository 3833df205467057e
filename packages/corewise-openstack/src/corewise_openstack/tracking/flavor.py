"""Flavors and images as users write them, and the CPUs of a guest that they describe.

A refusal travels as :class:`FlavorRefused` within this package; :func:`corewise_openstack.tracking.translate`
returns it as a Finding. Flavors write ``hw:cpu_policy`` where images write ``hw_cpu_policy``.

CPU policy, flavor against image:

========== ========= ========= =========
flavor     dedicated mixed     shared
========== ========= ========= =========
dedicated  dedicated dedicated dedicated
mixed      refused   mixed     mixed
shared     refused   refused   shared
unset      dedicated mixed     shared
========== ========= ========= =========

Thread policy: an unset one gives way, and so does the image's to a flavor's ``prefer``; ``isolate`` or
``require`` with a different value in the image is refused.

Masks of guest CPUs: ``0-2,5`` names CPUs; a mask that begins with ``^`` names those to leave out of all the
guest's CPUs. ``hw:cpu_dedicated_mask`` counts only with policy ``mixed``. A realtime mask counts with
``hw:cpu_realtime``; the image's overrides the flavor's. It must leave a CPU out, unless the emulator's
threads have a policy of their own. For a mixed guest exactly one of the two masks names the dedicated CPUs.

NUMA nodes: ``hw:numa_nodes``, ``hw:numa_cpus.N``, ``hw:numa_mem.N``, or those of an image, but not both.
Nodes without CPUs and memory of their own share both evenly, and must be able to. Otherwise every node states
both, every guest CPU belongs to one node, and the memory adds up. A guest with dedicated CPUs has at least
one node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from corewise.config.decoding import did_you_mean
from corewise.topology import LARGEST_CPU, CPUSet, CPUSetError, NoCPULeftError
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.vocabulary.guests import CPUPolicy, EmulatorThreads, GuestNode, ThreadPolicy

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

LARGEST_AMOUNT = 2**31 - 1
"""The largest amount that Placement can store."""

MOST_VCPUS = LARGEST_CPU + 1
"""No host has more CPUs than the kernel can count."""

_LONGEST_SHOWN = 60
_MOST_NODES = 128
_DIGITS = 9
_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
_NO_CPUS = CPUSet()
_REFUSED_IMAGES = {
    CPUPolicy.SHARED: (CPUPolicy.DEDICATED, CPUPolicy.MIXED),
    CPUPolicy.MIXED: (CPUPolicy.DEDICATED,),
    CPUPolicy.DEDICATED: (),
}


@dataclass(frozen=True, slots=True)
class Flavor:
    """A flavor: ``ram`` and ``swap`` in MiB, ``disk`` and ``ephemeral`` in GiB."""

    name: str
    vcpus: int
    ram: int = 0
    disk: int = 0
    ephemeral: int = 0
    swap: int = 0
    extra_specs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def cpus(self) -> CPUSet:
        """The guest's CPUs."""
        return CPUSet.of(range(self.vcpus))

    @property
    def disk_gb(self) -> int:
        """All local disk that a guest gets; a started GiB of swap counts as a whole one."""
        return self.disk + self.ephemeral + -(-self.swap // 1024)


@dataclass(frozen=True, slots=True)
class Image:
    """The properties of an image."""

    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


NO_IMAGE = Image()


class FlavorRefused(Exception):  # noqa: N818 - a verdict on its way to the caller, no error
    """Carries a refusal up to the caller of this package."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.refusal = Finding(reason, message)


@dataclass(frozen=True, slots=True)
class StatedValue:
    """One value as it was written, and where: "flavor extra spec hw:cpu_policy"."""

    where: str
    value: str

    def __str__(self) -> str:
        return f"{self.where} = {shown(self.value)}"


def in_flavor(flavor: Flavor, key: str) -> StatedValue | None:
    """Return ``hw:<key>`` of a flavor; an empty value counts as none."""
    value = flavor.extra_specs.get(f"hw:{key}", "").strip()
    return StatedValue(f"flavor extra spec hw:{key}", value) if value else None


def in_image(image: Image, key: str) -> StatedValue | None:
    """Return ``hw_<key>`` of an image; an empty value counts as none."""
    value = image.properties.get(f"hw_{key}", "").strip()
    return StatedValue(f"image property hw_{key}", value) if value else None


def choice(written: StatedValue | None, choices: type[E], reason: Reason) -> E | None:
    """Read one of the values of an enum."""
    if written is None:
        return None
    known = [each.value for each in choices]
    if written.value not in known:
        hint = did_you_mean(written.value, known) or f": write {', '.join(known[:-1])} or {known[-1]}"
        raise FlavorRefused(reason, f"{written} means nothing{hint}")
    return choices(written.value)


def shown(value: str) -> str:
    """Return a value for a message, cut where it is long."""
    return value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}..."


def check_flavor(flavor: Flavor) -> None:
    """Refuse a flavor that no guest can be made of."""
    if not 1 <= flavor.vcpus <= MOST_VCPUS:
        message = f"flavor {flavor.name}: vcpus must be between 1 and {MOST_VCPUS}, got {flavor.vcpus}"
        raise FlavorRefused(Reason.FLAVOR_INVALID, message)
    for name in ("ram", "disk", "ephemeral", "swap"):
        amount = getattr(flavor, name)
        if not 0 <= amount <= LARGEST_AMOUNT:
            message = f"flavor {flavor.name}: {name} must be between 0 and {LARGEST_AMOUNT}, got {amount}"
            raise FlavorRefused(Reason.FLAVOR_INVALID, message)


def cpu_policy(flavor: Flavor, image: Image) -> CPUPolicy | None:
    """Return the CPU policy that flavor and image state as such."""
    in_the_flavor, in_the_image = in_flavor(flavor, "cpu_policy"), in_image(image, "cpu_policy")
    ours = choice(in_the_flavor, CPUPolicy, Reason.CPU_POLICY_UNKNOWN)
    theirs = choice(in_the_image, CPUPolicy, Reason.CPU_POLICY_UNKNOWN)
    if ours is not None and theirs in _REFUSED_IMAGES[ours]:
        raise FlavorRefused(
            Reason.CPU_POLICY_CONFLICT, f"{in_the_image}, which {in_the_flavor} does not allow"
        )
    return ours or theirs


def thread_policy(flavor: Flavor, image: Image) -> ThreadPolicy | None:
    """Return the thread policy that flavor and image state as such."""
    in_the_flavor, in_the_image = in_flavor(flavor, "cpu_thread_policy"), in_image(image, "cpu_thread_policy")
    ours = choice(in_the_flavor, ThreadPolicy, Reason.THREAD_POLICY_UNKNOWN)
    theirs = choice(in_the_image, ThreadPolicy, Reason.THREAD_POLICY_UNKNOWN)
    if ours in {ThreadPolicy.ISOLATE, ThreadPolicy.REQUIRE} and theirs not in {None, ours}:
        raise FlavorRefused(
            Reason.THREAD_POLICY_CONFLICT, f"{in_the_image}, which contradicts {in_the_flavor}"
        )
    return ours or theirs


def dedicated_cpus(flavor: Flavor, policy: CPUPolicy, realtime: CPUSet) -> CPUSet:
    """Return the guest CPUs that are dedicated."""
    mask = in_flavor(flavor, "cpu_dedicated_mask")
    if policy is not CPUPolicy.MIXED:
        if mask is not None:
            message = f"{mask} counts only with hw:cpu_policy=mixed, and the policy is {policy}"
            raise FlavorRefused(Reason.DEDICATED_MASK_WITHOUT_MIXED, message)
        return flavor.cpus if policy is CPUPolicy.DEDICATED else _NO_CPUS
    if mask is not None and realtime:
        message = f"{mask} and a realtime mask both name the dedicated CPUs; keep one of them"
        raise FlavorRefused(Reason.MIXED_WITH_TWO_MASKS, message)
    if mask is not None:
        return _dedicated(flavor, mask)
    if not realtime:
        message = "hw:cpu_policy=mixed needs hw:cpu_dedicated_mask, or hw:cpu_realtime with a mask"
        raise FlavorRefused(Reason.MIXED_WITHOUT_MASK, message)
    if realtime == flavor.cpus:
        message = "the realtime mask of a mixed guest must leave a CPU out, which is shared"
        raise FlavorRefused(Reason.REALTIME_MASK_INVALID, message)
    return realtime


def _dedicated(flavor: Flavor, mask: StatedValue) -> CPUSet:
    try:
        cpus = _parse(flavor, mask.value)
    except NoCPULeftError as error:
        raise FlavorRefused(Reason.DEDICATED_MASK_EMPTY, f"{mask} leaves no dedicated CPU") from error
    except CPUSetError as error:
        raise FlavorRefused(Reason.DEDICATED_MASK_MALFORMED, f"{mask}: {error}") from error
    leaves_none_out = cpus == flavor.cpus
    outside = (CPUSet.parse(mask.value.replace("^", "")) if leaves_none_out else cpus) - flavor.cpus
    if outside:
        message = f"{mask} names guest CPUs {outside}; flavor {flavor.name} has CPUs {flavor.cpus}"
        raise FlavorRefused(Reason.DEDICATED_MASK_OUTSIDE, message)
    if not cpus:
        raise FlavorRefused(Reason.DEDICATED_MASK_EMPTY, f"{mask} leaves no dedicated CPU")
    if leaves_none_out:
        raise FlavorRefused(Reason.DEDICATED_MASK_FULL, f"{mask} leaves no shared CPU")
    return cpus


def realtime_cpus(flavor: Flavor, image: Image, emulator: EmulatorThreads | None) -> CPUSet:
    """Return the guest CPUs that are realtime; none if the flavor does not ask for it."""
    wish = in_flavor(flavor, "cpu_realtime")
    if wish is None or wish.value.lower() not in _TRUE:
        return _NO_CPUS
    mask = in_image(image, "cpu_realtime_mask") or in_flavor(flavor, "cpu_realtime_mask")
    try:
        cpus = flavor.cpus if mask is None else _parse(flavor, mask.value)
    except CPUSetError as error:
        raise FlavorRefused(Reason.REALTIME_MASK_INVALID, f"{mask}: {error}") from error
    outside = cpus - flavor.cpus
    if outside or not cpus:
        message = f"{mask} names guest CPUs {cpus}; flavor {flavor.name} has CPUs {flavor.cpus}"
        raise FlavorRefused(Reason.REALTIME_MASK_INVALID, message)
    if cpus == flavor.cpus and emulator is None:
        message = (
            f"{mask or wish} leaves no ordinary CPU for the emulator's threads: leave one out with "
            "hw:cpu_realtime_mask, or set hw:emulator_threads_policy"
        )
        raise FlavorRefused(Reason.REALTIME_MASK_INVALID, message)
    return cpus


def _parse(flavor: Flavor, mask: str) -> CPUSet:
    return CPUSet.parse(f"0-{flavor.vcpus - 1},{mask}" if mask.startswith("^") else mask)


def guest_nodes(flavor: Flavor, image: Image, policy: CPUPolicy, dedicated: CPUSet) -> tuple[GuestNode, ...]:
    """Return the guest's NUMA nodes; none if its CPUs float over the whole host."""
    wish = _one_of(flavor, image, "numa_nodes")
    if wish is None and policy is CPUPolicy.SHARED:
        return ()
    count = 1 if wish is None else _whole(wish)
    if not 1 <= count <= _MOST_NODES:
        raise _invalid(f"{wish}: a guest has 1 to {_MOST_NODES} NUMA nodes")
    cpus = _listed(flavor, image, "numa_cpus", count, _cpu_set)
    memory = _listed(flavor, image, "numa_mem", count, _whole)
    if cpus is None and memory is None:
        return _even(flavor, count, dedicated)
    if cpus is None or memory is None:
        raise _invalid("hw:numa_cpus.N and hw:numa_mem.N are stated for all NUMA nodes together, or for none")
    _check(flavor, cpus, memory)
    return tuple(GuestNode(own, own & dedicated, amount) for own, amount in zip(cpus, memory, strict=True))


def _invalid(message: str) -> FlavorRefused:
    return FlavorRefused(Reason.GUEST_NUMA_INVALID, message)


def _one_of(flavor: Flavor, image: Image, key: str) -> StatedValue | None:
    ours, theirs = in_flavor(flavor, key), in_image(image, key)
    if ours is not None and theirs is not None:
        raise _invalid(f"{ours}: the image must not state it too ({theirs})")
    return ours or theirs


def _listed(
    flavor: Flavor, image: Image, key: str, count: int, read: Callable[[StatedValue], T]
) -> list[T] | None:
    """Read ``key.0`` to ``key.<count - 1>``; None if there are none of them."""
    written = [_one_of(flavor, image, f"{key}.{node}") for node in range(count)]
    beyond = _one_of(flavor, image, f"{key}.{count}")
    if beyond is not None:
        raise _invalid(f"{beyond}: the guest has {count} NUMA nodes, numbered from 0")
    present = [each for each in written if each is not None]
    if present and len(present) != count:
        raise _invalid(f"hw:{key}.N is stated for {len(present)} of {count} NUMA nodes")
    return [read(each) for each in present] or None


def _whole(written: StatedValue) -> int:
    text = written.value
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        return int(text)
    raise _invalid(f"{written} is not a whole number")


def _cpu_set(written: StatedValue) -> CPUSet:
    try:
        return CPUSet.parse(written.value)
    except CPUSetError as error:
        raise _invalid(f"{written}: {error}") from error


def _even(flavor: Flavor, count: int, dedicated: CPUSet) -> tuple[GuestNode, ...]:
    if flavor.vcpus % count or flavor.ram % count:
        message = f"{flavor.vcpus} vcpus and {flavor.ram} MiB cannot be shared evenly by {count} NUMA nodes"
        raise _invalid(f"flavor {flavor.name}: {message}")
    each, memory = flavor.vcpus // count, flavor.ram // count
    parts = [CPUSet.of(range(node * each, (node + 1) * each)) for node in range(count)]
    return tuple(GuestNode(cpus, cpus & dedicated, memory) for cpus in parts)


def _check(flavor: Flavor, cpus: list[CPUSet], memory: list[int]) -> None:
    seen = CPUSet()
    for node, own in enumerate(cpus):
        outside, twice = own - flavor.cpus, own & seen
        if outside:
            raise _invalid(f"hw:numa_cpus.{node} names guest CPUs {outside}; there are {flavor.cpus}")
        if twice:
            raise _invalid(f"hw:numa_cpus.{node} names guest CPUs {twice}, which belong to another node")
        seen |= own
    if seen != flavor.cpus:
        raise _invalid(f"guest CPUs {flavor.cpus - seen} belong to no NUMA node (hw:numa_cpus.N)")
    if sum(memory) != flavor.ram:
        message = f"hw:numa_mem.N adds up to {sum(memory)} MiB, and the flavor has {flavor.ram} MiB"
        raise _invalid(message)
