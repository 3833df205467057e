"""The policies of a guest's CPUs: from flavor, image, and from resources and traits that say the same.

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
``require`` with a different value in the image is refused. ``resources:PCPU`` is a policy ``dedicated``, and
the trait HW_CPU_HYPERTHREADING a thread policy, in Placement's words; saying both is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from corewise.policy.guests import CPUPolicy, EmulatorThreads, ThreadPolicy
from corewise.policy.placement import HYPER_THREADING_TRAIT, PCPU, VCPU
from corewise.policy.reasons import Reason
from corewise.tracking.flavor import Flavor, Image, Refused, choice, in_flavor, in_image
from corewise.tracking.groups import Explicit

_REFUSED_IMAGES = {
    CPUPolicy.SHARED: (CPUPolicy.DEDICATED, CPUPolicy.MIXED),
    CPUPolicy.MIXED: (CPUPolicy.DEDICATED,),
    CPUPolicy.DEDICATED: (),
}
_CLASSES = {
    CPUPolicy.SHARED: (VCPU,),
    CPUPolicy.DEDICATED: (PCPU,),
    CPUPolicy.MIXED: (VCPU, PCPU),
}
_OF_TRAIT = {"forbidden": ThreadPolicy.ISOLATE, "required": ThreadPolicy.REQUIRE}


@dataclass(frozen=True, slots=True)
class Policies:
    """``cpu_from_policy``: the CPU policy was stated as such, not as resources; so with the thread policy."""

    cpu: CPUPolicy
    threads: ThreadPolicy | None
    emulator: EmulatorThreads | None
    cpu_from_policy: bool
    threads_from_policy: bool


def read_policies(flavor: Flavor, image: Image, explicit: Explicit) -> Policies:
    """Read all policies, and refuse those that contradict each other."""
    stated = _cpu_policy(flavor, image)
    cpu = _with_resources(stated, explicit)
    threads = _thread_policy(flavor, image)
    trait = explicit.trait(HYPER_THREADING_TRAIT)
    if threads is not None and trait is not None:
        message = f"thread policy {threads} and trait {HYPER_THREADING_TRAIT}={trait}: keep one of them"
        raise Refused(Reason.THREAD_POLICY_WITH_TRAIT, message)
    emulator = choice(
        in_flavor(flavor, "emulator_threads_policy"), EmulatorThreads, Reason.EMULATOR_POLICY_UNKNOWN
    )
    if cpu is CPUPolicy.SHARED:
        _refuse_without_pinning(threads, trait, emulator)
    return Policies(
        cpu=cpu,
        threads=threads or (_OF_TRAIT[trait] if trait else None),
        emulator=emulator,
        cpu_from_policy=stated is not None,
        threads_from_policy=threads is not None,
    )


def _cpu_policy(flavor: Flavor, image: Image) -> CPUPolicy | None:
    in_the_flavor, in_the_image = in_flavor(flavor, "cpu_policy"), in_image(image, "cpu_policy")
    ours = choice(in_the_flavor, CPUPolicy, Reason.CPU_POLICY_UNKNOWN)
    theirs = choice(in_the_image, CPUPolicy, Reason.CPU_POLICY_UNKNOWN)
    if ours is not None and theirs in _REFUSED_IMAGES[ours]:
        raise Refused(Reason.CPU_POLICY_CONFLICT, f"{in_the_image}, which {in_the_flavor} does not allow")
    return ours or theirs


def _with_resources(stated: CPUPolicy | None, explicit: Explicit) -> CPUPolicy:
    """Join the stated policy with explicit amounts; an amount of 0 only takes a class out of the defaults."""
    vcpus, pcpus = explicit.amount(VCPU), explicit.amount(PCPU)
    if stated is not None:
        for name, amount in ((VCPU, vcpus), (PCPU, pcpus)):
            if amount or (name in _CLASSES[stated] and explicit.names(name)):
                request = f"an explicit request for {amount} {name}"
                message = f"CPU policy {stated} and {request}: keep one of them"
                raise Refused(Reason.CPU_POLICY_WITH_RESOURCES, message)
    if vcpus and pcpus:
        message = f"{vcpus} VCPU and {pcpus} PCPU cannot be requested explicitly in the same request"
        raise Refused(Reason.MIXED_CPU_RESOURCES, message)
    return stated or (CPUPolicy.DEDICATED if pcpus else CPUPolicy.SHARED)


def _thread_policy(flavor: Flavor, image: Image) -> ThreadPolicy | None:
    in_the_flavor, in_the_image = in_flavor(flavor, "cpu_thread_policy"), in_image(image, "cpu_thread_policy")
    ours = choice(in_the_flavor, ThreadPolicy, Reason.THREAD_POLICY_UNKNOWN)
    theirs = choice(in_the_image, ThreadPolicy, Reason.THREAD_POLICY_UNKNOWN)
    if ours in {ThreadPolicy.ISOLATE, ThreadPolicy.REQUIRE} and theirs not in {None, ours}:
        raise Refused(Reason.THREAD_POLICY_CONFLICT, f"{in_the_image}, which contradicts {in_the_flavor}")
    return ours or theirs


def _refuse_without_pinning(
    threads: ThreadPolicy | None, trait: str | None, emulator: EmulatorThreads | None
) -> None:
    if threads is not None:
        message = f"thread policy {threads} needs dedicated CPUs, and the guest has none"
        raise Refused(Reason.THREAD_POLICY_WITHOUT_PINNING, message)
    if trait is not None:
        message = f"trait {HYPER_THREADING_TRAIT}={trait} needs dedicated CPUs, and the guest has none"
        raise Refused(Reason.TRAIT_WITHOUT_PINNING, message)
    if emulator is EmulatorThreads.ISOLATE:
        message = "hw:emulator_threads_policy=isolate needs a dedicated CPU, and the guest has none"
        raise Refused(Reason.EMULATOR_POLICY_WITHOUT_PINNING, message)
