"""The claim of a guest on its new host, from what it holds and where its providers lie.

A guest holds CPUs and memory of its host's own provider. It may also hold resources of

- a provider in the tree of its host, such as a device: that stays, so the guest cannot go to another host;
- a provider that shares its resources with hosts through an aggregate, such as storage: the guest keeps
  these, if the other host is in such an aggregate too.

A move chooses no other provider in their place, as an allocation candidate of Placement would.
"""

from __future__ import annotations

from collections.abc import Mapping

from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.ledger import HostDemands
from corewise_openstack.compute.offers import Allocations, Relation
from corewise_openstack.tracking import GuestRequest
from corewise_openstack.vocabulary.guests import GuestCPUs
from corewise_openstack.vocabulary.placement import HYPER_THREADING_TRAIT, PCPU, VCPU, Provider


def tie_to_source(
    own: str, others: Allocations, destination: str, relations: Mapping[str, Relation]
) -> Finding | None:
    """Return a refusal if a guest cannot take to another host what it holds of ``others``.

    ``own`` and ``destination`` are the hosts' own providers; ``relations`` has all providers that exist.
    """
    root = relations[own].root if own in relations else own
    for uuid, held in others.items():
        other = relations[uuid]
        if other.root == root:
            why = "which belongs to the host that it leaves"
        elif not other.aggregates & relations[destination].aggregates:
            why = "which shares no aggregate with the other host"
        else:
            continue
        message = f"the guest holds {amounts_text(held)} of provider {other.name}, {why}"
        return Finding(Reason.GUEST_TIED_TO_PROVIDER, message)
    return None


def unsuited_traits(
    demands: HostDemands, cpus: GuestCPUs, provider: Provider, kept: frozenset[str], *, legacy: bool
) -> Finding | None:
    """Return a refusal if the traits of a host's provider do not suit a guest.

    ``kept`` are the traits of the other providers that it holds resources of. On a ``legacy`` host, as in its
    fallback query, the thread policy of a guest with dedicated CPUs decides instead of the trait of
    hyperthreads.
    """
    decided = {HYPER_THREADING_TRAIT} if legacy and cpus.host_cpus else set()
    lacking = set(demands.required) - provider.traits - kept - decided
    unwanted = (set(demands.forbidden) & provider.traits) - decided
    parts = [f"lacks trait {', '.join(sorted(lacking))}, which the guest requires"] if lacking else []
    parts += [f"has trait {', '.join(sorted(unwanted))}, which the guest forbids"] if unwanted else []
    if not parts:
        return None
    return Finding(Reason.HOST_LACKS_TRAIT, f"its provider {', and '.join(parts)}")


def claim_there(
    request: GuestRequest | None,
    cpus: GuestCPUs,
    before: Mapping[str, int],
    others: Allocations,
    provider: Provider,
) -> Allocations | Finding:
    """Return a guest's allocations after its move; ``before`` are those from its host's own provider.

    A resize takes a class from where the guest has it. Its amount can change if one provider gives all of it.
    """
    own = dict(_amounts(request, cpus, before, provider))
    after = {uuid: dict(held) for uuid, held in others.items()}
    classes = {name for held in others.values() for name in held} if request is not None else set()
    for name in sorted(classes):
        wanted, mine = own.pop(name, 0), before.get(name, 0)
        giving = [uuid for uuid, held in others.items() if name in held]
        total = mine + sum(others[uuid][name] for uuid in giving)
        if wanted == total:
            own |= {name: mine} if mine else {}
        elif mine or len(giving) > 1:
            count = len(giving) + bool(mine)
            message = f"the flavor requests {wanted} {name}, and the guest holds {total} of {count} providers"
            return Finding(Reason.GUEST_TIED_TO_PROVIDER, message)
        else:
            after[giving[0]][name] = wanted
    after[provider.uuid] = own
    left = {uuid: {name: amount for name, amount in held.items() if amount} for uuid, held in after.items()}
    return {uuid: held for uuid, held in left.items() if held}


def _amounts(
    request: GuestRequest | None, cpus: GuestCPUs, before: Mapping[str, int], provider: Provider
) -> Mapping[str, int]:
    """Return all that a request asks for, or what a moved guest holds of its new host's own provider.

    A legacy host counts dedicated CPUs as VCPU.
    """
    is_legacy = PCPU not in provider.inventories
    if request is not None:
        legacy = request.fallback if is_legacy else None
        return (legacy or request.query).resources
    if not cpus.host_cpus:
        return before
    others = {name: amount for name, amount in before.items() if name not in {VCPU, PCPU}}
    floating = cpus.vcpus - cpus.dedicated
    shared = {VCPU: cpus.vcpus} if is_legacy else {VCPU: floating} if floating else {}
    return others | shared | ({} if is_legacy else {PCPU: cpus.host_cpus})


def amounts_text(resources: Mapping[str, int]) -> str:
    """Describe amounts: "1024 MEMORY_MB, 8 PCPU"."""
    return ", ".join(f"{amount} {name}" for name, amount in sorted(resources.items()))
