"""Masks of guest CPUs: which are dedicated, which are realtime.

``0-2,5`` names CPUs; a mask that begins with ``^`` names those that are left out of all the guest's CPUs.
``hw:cpu_dedicated_mask`` counts with policy ``mixed`` only. A realtime mask counts with ``hw:cpu_realtime``;
the image's goes before the flavor's. It must leave a CPU out, unless the emulator's threads have a policy of
their own. Of a mixed guest exactly one of the two masks names the dedicated CPUs.
"""

from __future__ import annotations

from corewise.policy.guests import CPUPolicy, EmulatorThreads
from corewise.policy.reasons import Reason
from corewise.topology import CPUSet, CPUSetError, NoCPULeftError
from corewise.tracking.flavor import Flavor, Image, Refused, Written, in_flavor, in_image

_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
_NO_CPUS = CPUSet()


def all_cpus(flavor: Flavor) -> CPUSet:
    """Return the guest CPUs of a flavor."""
    return CPUSet.of(range(flavor.vcpus))


def dedicated_cpus(flavor: Flavor, policy: CPUPolicy, realtime: CPUSet) -> CPUSet:
    """Return the guest CPUs that are dedicated."""
    mask = in_flavor(flavor, "cpu_dedicated_mask")
    if policy is not CPUPolicy.MIXED:
        if mask is not None:
            message = f"{mask} counts only with hw:cpu_policy=mixed, and the policy is {policy}"
            raise Refused(Reason.DEDICATED_MASK_WITHOUT_MIXED, message)
        return all_cpus(flavor) if policy is CPUPolicy.DEDICATED else _NO_CPUS
    if mask is not None and realtime:
        message = f"{mask} and a realtime mask both name the dedicated CPUs; keep one of them"
        raise Refused(Reason.MIXED_WITH_TWO_MASKS, message)
    if mask is not None:
        return _dedicated(flavor, mask)
    if not realtime:
        message = "hw:cpu_policy=mixed needs hw:cpu_dedicated_mask, or hw:cpu_realtime with a mask"
        raise Refused(Reason.MIXED_WITHOUT_MASK, message)
    if realtime == all_cpus(flavor):
        message = "the realtime mask of a mixed guest must leave a CPU out, which is shared"
        raise Refused(Reason.REALTIME_MASK_INVALID, message)
    return realtime


def _dedicated(flavor: Flavor, mask: Written) -> CPUSet:
    try:
        cpus = _parse(flavor, mask.value)
    except NoCPULeftError as error:
        raise Refused(Reason.DEDICATED_MASK_EMPTY, f"{mask} leaves no dedicated CPU") from error
    except CPUSetError as error:
        raise Refused(Reason.DEDICATED_MASK_MALFORMED, f"{mask}: {error}") from error
    leaves_none_out = cpus == all_cpus(flavor)
    outside = (CPUSet.parse(mask.value.replace("^", "")) if leaves_none_out else cpus) - all_cpus(flavor)
    if outside:
        message = f"{mask} names guest CPUs {outside}; flavor {flavor.name} has CPUs {all_cpus(flavor)}"
        raise Refused(Reason.DEDICATED_MASK_OUTSIDE, message)
    if not cpus:
        raise Refused(Reason.DEDICATED_MASK_EMPTY, f"{mask} leaves no dedicated CPU")
    if leaves_none_out:
        raise Refused(Reason.DEDICATED_MASK_FULL, f"{mask} leaves no shared CPU")
    return cpus


def realtime_cpus(flavor: Flavor, image: Image, emulator: EmulatorThreads | None) -> CPUSet:
    """Return the guest CPUs that are realtime; none if the flavor does not ask for it."""
    wish = in_flavor(flavor, "cpu_realtime")
    if wish is None or wish.value.lower() not in _TRUE:
        return _NO_CPUS
    mask = in_image(image, "cpu_realtime_mask") or in_flavor(flavor, "cpu_realtime_mask")
    try:
        cpus = all_cpus(flavor) if mask is None else _parse(flavor, mask.value)
    except CPUSetError as error:
        raise Refused(Reason.REALTIME_MASK_INVALID, f"{mask}: {error}") from error
    outside = cpus - all_cpus(flavor)
    if outside or not cpus:
        message = f"{mask} names guest CPUs {cpus}; flavor {flavor.name} has CPUs {all_cpus(flavor)}"
        raise Refused(Reason.REALTIME_MASK_INVALID, message)
    if cpus == all_cpus(flavor) and emulator is None:
        message = (
            f"{mask or wish} leaves no ordinary CPU for the emulator's threads: leave one out with "
            "hw:cpu_realtime_mask, or set hw:emulator_threads_policy"
        )
        raise Refused(Reason.REALTIME_MASK_INVALID, message)
    return cpus


def _parse(flavor: Flavor, mask: str) -> CPUSet:
    return CPUSet.parse(f"0-{flavor.vcpus - 1},{mask}" if mask.startswith("^") else mask)
