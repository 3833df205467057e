"""Why a host cannot take a guest: the first of these that holds.

1. the guest has more NUMA nodes than the host;
2. its thread policy does not suit the host's cores, whoever is on it;
3. fewer dedicated CPUs are free on the whole host than it is to own;
4. no NUMA node has the shared CPUs that one of its nodes needs;
5. with all memory free it would fit: memory is missing;
6. with another thread policy it would fit: cores are missing;
7. the CPUs that are free do not lie as its NUMA nodes need them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from corewise.pinning.guest_ledger import GuestLedger, GuestPins
from corewise.pinning.wish import Refusal
from corewise.vocabulary.guests import CPUPolicy, GuestCPUs, ThreadPolicy
from corewise.vocabulary.reasons import Reason

Fits = Callable[[GuestLedger, GuestCPUs], bool]

_NOBODY: Mapping[str, GuestPins] = MappingProxyType({})
_Why = tuple[Reason, str]


def refuse(ledger: GuestLedger, guest: GuestCPUs, fits: Fits) -> Refusal:
    """Say why a guest that does not fit does not. ``fits`` is asked for one that needs less."""
    reason, message = _host_as_such(ledger, guest) or _counts(ledger, guest) or _shape(ledger, guest, fits)
    return Refusal(reason, message, hopeless=not fits(replace(ledger, guests=_NOBODY), guest))


def _host_as_such(ledger: GuestLedger, guest: GuestCPUs) -> _Why | None:
    if len(guest.nodes) > len(ledger.cells):
        message = f"the guest has {len(guest.nodes)} NUMA nodes, the host {len(ledger.cells)}"
        return Reason.NUMA_NODES_INSUFFICIENT, message
    if guest.thread_policy is ThreadPolicy.REQUIRE and not ledger.hyper_threading:
        return Reason.HYPER_THREADS_MISSING, "the guest requires hyperthread siblings, and the host has none"
    if guest.thread_policy is ThreadPolicy.ISOLATE and ledger.hyper_threading and not ledger.legacy:
        return Reason.HYPER_THREADS_PRESENT, "the guest must not share cores, and the host has hyperthreads"
    return None


def _counts(ledger: GuestLedger, guest: GuestCPUs) -> _Why | None:
    free = (ledger.dedicated_mask & ~ledger.taken).bit_count()
    if guest.host_cpus > free:
        message = f"the guest needs {guest.host_cpus} dedicated CPUs, {free} are free"
        return Reason.DEDICATED_CPUS_INSUFFICIENT, message
    alone = guest.policy is CPUPolicy.SHARED
    most = max((len(cell.shared if alone else cell.shared_only) for cell in ledger.cells), default=0)
    needed = max((len(node.cpus) - len(node.dedicated) for node in guest.nodes), default=1)
    if needed > most:
        message = f"the guest needs a NUMA node with {needed} shared CPUs, the largest has {most}"
        return Reason.SHARED_CPUS_INSUFFICIENT, message
    return None


def _shape(ledger: GuestLedger, guest: GuestCPUs, fits: Fits) -> _Why:
    without_memory = replace(guest, nodes=tuple(replace(node, memory_mb=0) for node in guest.nodes))
    if fits(ledger, without_memory):
        sizes = ", ".join(f"{node.memory_mb} MiB" for node in guest.nodes)
        message = f"the CPUs are free, but not on NUMA nodes with the memory ({sizes})"
        return Reason.NUMA_MEMORY_INSUFFICIENT, message
    if guest.thread_policy is not None and fits(ledger, replace(guest, thread_policy=None)):
        message = f"the CPUs are free, but not on cores as thread policy {guest.thread_policy} demands"
        return Reason.THREAD_POLICY_UNMET, message
    parts = ", ".join(str(len(node.dedicated)) for node in guest.nodes)
    message = f"the CPUs are free, but no NUMA nodes have them together as the guest's need them ({parts})"
    return Reason.NUMA_NODES_UNFIT, message
