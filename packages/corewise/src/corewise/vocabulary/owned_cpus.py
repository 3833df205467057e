"""The ledger on a Node, read and written: which pod owns which CPUs.

    node.corewise.io/owned-cpus       {"<pod uid>": {"pod": "ns/name", "cpus": "0-3", "bind": "5f0c9a1e"}}
    node.corewise.io/owned-milli-cpu  "4000", 1000 x the CPUs of all entries
    node.corewise.io/owned-request-milli-cpu
                                      "9000", 1000 x the CPUs that their pods request; absent: as many

The annotations are written together, by compare and swap on the Node's resourceVersion. ``bind`` names the
attempt that wrote the entry last: two attempts to bind the same pod never mistake each other's entry for
their own. ``request`` is in the entry of a pod that requests more CPUs than it owns, because its CPUs are
normalized: what it owns stays, whatever becomes of the node's ratio.

A ledger is damaged if a part of it cannot be read, if two pods own the same CPU, or if the annotations
contradict each other. What can still be read counts; nothing is bound by it until it has been repaired.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from corewise.quantities import LARGEST_MILLI, MILLI, Quantity
from corewise.topology import LARGEST_CPU, CPUSet, CPUSetError
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.names import OWNED_CPUS, OWNED_MILLI_CPU, OWNED_REQUESTS
from corewise.vocabulary.text_cache import CPU_BYTES, MIB, remembered, text_bytes

LONGEST_LEDGER: Final = 128 * 1024
"""Characters; all annotations of an object together may have 256 KiB."""
_LONGEST_ENTRY: Final = 512
"""Characters: an entry has at least one CPU, a pod of at most 317, and 101 of uid, bind, request and JSON."""
_MOST_CPUS: Final = LARGEST_CPU + 1
_REMEMBERED: Final = 32 * MIB
"""Ledgers: one of 100 entries takes 60 KB, and each write makes another one."""
_OWNER_BYTES: Final = 700
_POD: Final = re.compile(r"[a-z0-9][a-z0-9-]*/[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_SHOWN: Final = 40
_LARGEST_REQUEST: Final = LARGEST_MILLI // MILLI


@dataclass(frozen=True, slots=True)
class CPUOwner:
    """One entry: the pod, as namespace/name, and its CPUs. ``request``: the CPUs it requests; 0: as many."""

    pod: str
    cpus: CPUSet
    bind: str = ""
    request: int = 0

    @property
    def requested(self) -> int:
        """The CPUs that the pod requests."""
        return self.request or len(self.cpus)

    @property
    def surplus(self) -> int:
        """The milli-CPU that the pod requests beyond the CPUs it owns."""
        return (self.requested - len(self.cpus)) * MILLI

    @property
    def namespace(self) -> str:
        return self.pod.partition("/")[0]

    @property
    def name(self) -> str:
        return self.pod.partition("/")[2]


Owners: TypeAlias = Mapping[str, CPUOwner]
"""The entries, by the pod's uid."""
NO_OWNERS: Final[Owners] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class OwnedCPUs:
    """A ledger as it was read: what is readable of it, and why it is damaged ("" if it is not)."""

    owners: Owners = field(default_factory=lambda: NO_OWNERS)
    problem: str = ""


NOTHING_OWNED: Final = OwnedCPUs()


class _Entry(msgspec.Struct, omit_defaults=True):
    pod: str
    cpus: str
    bind: str = ""
    request: int = 0


_ENTRIES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENTRY = msgspec.json.Decoder(_Entry)


def whole_cpus(capacity: Quantity | None) -> int:
    """Return the number of CPUs that pods may own on a node of this capacity; None: unknown, the most."""
    return _MOST_CPUS if capacity is None else min(_MOST_CPUS, -(-capacity.milli // MILLI))


def longest_ledger(cpus: int) -> int:
    """Return the most characters that the ledger of a node with so many CPUs may have."""
    return min(LONGEST_LEDGER, _LONGEST_ENTRY * (max(0, cpus) + 1))


def read_owned_cpus(annotations: Mapping[str, str], cpus: int = _MOST_CPUS) -> OwnedCPUs:
    """Read the ledger of a Node of so many CPUs; a Node without one owns nothing.

    A ledger that is longer than these CPUs allow is not parsed.
    """
    text, milli = annotations.get(OWNED_CPUS), annotations.get(OWNED_MILLI_CPU)
    requests = annotations.get(OWNED_REQUESTS)
    if text is None and milli is None and requests is None:
        return NOTHING_OWNED
    longest = longest_ledger(cpus)
    if text is not None and len(text) > longest:
        return OwnedCPUs(problem=f"{OWNED_CPUS} has {len(text)} characters, more than {longest}")
    return _read(text or "{}", milli or "0", requests)


def _weight(read: OwnedCPUs, text: str, milli: str, requests: str | None) -> int:
    cpus = sum(len(owner.cpus) for owner in read.owners.values())
    texts = 2 * text_bytes(text) + text_bytes(milli) + text_bytes(requests) + text_bytes(read.problem)
    return texts + _OWNER_BYTES * (len(read.owners) + 1) + CPU_BYTES * cpus


@remembered(most=_REMEMBERED, weigh=_weight)
def _read(text: str, milli: str, requests: str | None) -> OwnedCPUs:
    try:
        entries = _ENTRIES.decode(text)
    except UNREADABLE as error:
        return OwnedCPUs(problem=f"{OWNED_CPUS} cannot be read: {error}")
    owners: dict[str, CPUOwner] = {}
    problem, taken, stated = "", CPUSet(), 0
    for uid, raw in entries.items():
        entry = _entry(uid, bytes(raw))
        stated += len(entry.cpus) if isinstance(entry, CPUOwner) else 0
        if stated > _MOST_CPUS:  # further entries would cost time, and cannot all be true
            problem = problem or f"{OWNED_CPUS} names more than {_MOST_CPUS} CPUs"
            break
        if isinstance(entry, CPUOwner) and entry.cpus & taken:
            entry = f"{OWNED_CPUS} gives CPUs {entry.cpus & taken} to {entry.pod} and to another pod"
        if isinstance(entry, str):
            problem = problem or entry
        else:
            owners[uid] = entry
            taken |= entry.cpus
    if not problem and milli != str(len(taken) * MILLI):
        problem = f"{OWNED_MILLI_CPU} is {milli[:_SHOWN]!r}, and {OWNED_CPUS} names {len(taken)} CPUs"
    requested = sum(owner.requested for owner in owners.values())
    if not problem and (milli if requests is None else requests) != str(requested * MILLI):
        stated_text = "absent" if requests is None else repr(requests[:_SHOWN])
        problem = f"{OWNED_REQUESTS} is {stated_text}, and the pods of {OWNED_CPUS} request {requested} CPUs"
    return OwnedCPUs(MappingProxyType(owners), problem)


def _entry(uid: str, text: bytes) -> CPUOwner | str:
    """Return an entry, or what is wrong with it."""
    try:
        entry = _ENTRY.decode(text)
        cpus = CPUSet.parse_claim(entry.cpus)
    except (*UNREADABLE, CPUSetError) as error:
        return f"{OWNED_CPUS}: the entry of {uid[:_SHOWN]!r} cannot be read: {error}"
    if not (uid and _POD.fullmatch(entry.pod) and cpus):
        return f"{OWNED_CPUS}: the entry of {uid[:_SHOWN]!r} names no pod, or no CPUs"
    if entry.request and not len(cpus) < entry.request < _LARGEST_REQUEST:
        return (
            f"{OWNED_CPUS}: the entry of {uid[:_SHOWN]!r} says that the pod requests {entry.request} CPUs "
            f"and owns {len(cpus)}"
        )
    return CPUOwner(entry.pod, cpus, entry.bind, entry.request)


def print_owned_cpus(owners: Owners) -> dict[str, str | None]:
    """Return the annotations, for a merge patch; None removes one where it says nothing."""
    if not owners:
        return {OWNED_CPUS: None, OWNED_MILLI_CPU: None, OWNED_REQUESTS: None}
    entries = {
        uid: _Entry(owner.pod, str(owner.cpus), owner.bind, owner.request if owner.surplus else 0)
        for uid, owner in sorted(owners.items())
    }
    owned = sum(len(owner.cpus) for owner in owners.values())
    requested = sum(owner.requested for owner in owners.values())
    return {
        OWNED_CPUS: msgspec.json.encode(entries).decode(),
        OWNED_MILLI_CPU: str(owned * MILLI),
        OWNED_REQUESTS: str(requested * MILLI) if requested != owned else None,
    }
