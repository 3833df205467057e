"""Workloads' wishes for a machine's CPUs, the CPUs they get, and the holder of each CPU.

========== ======================== =================================== ======================
use        Kubernetes               meaning                             Nova's thread policy
========== ======================== =================================== ======================
WHOLE      FullPCPUs                whole cores                         prefer, require
SPREAD     SpreadByPCPUs            one thread per core first           -
ISOLATED   -                        one thread per core; the core's     isolate
                                    other threads stay empty
========== ======================== =================================== ======================

A use that is not required gives way when the machine has enough CPUs, but not in that shape. Exclusivity
always gives way. ISOLATED is always required.

The ledger is folded from the claims of the machine's workloads, in the order they were made. A CPU has at
most one holder, the first that claims it; a later claim to it is a conflict and holds the rest of its CPUs.
When the first goes, the next claim to that CPU takes effect: the ledger depends only on the claims and their
order, not on what happened in between, and a restart that folds the same claims makes the same ledger. A
claim to a CPU that the machine does not have is a conflict too. An offline CPU keeps its holder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, lru_cache
from math import gcd
from types import MappingProxyType

from corewise.topology import CPUSet, Topology
from corewise.vocabulary.reasons import Reason

REMEMBERED = 128
"""Answers that are kept for machines on which the same CPUs are free; a large machine's take 8 KiB each."""


class CoreUse(Enum):
    """The arrangement of CPUs on cores."""

    WHOLE = "whole"
    SPREAD = "spread"
    ISOLATED = "isolated"


class Exclusivity(Enum):
    """The unit that a workload prefers not to share with others of the same wish."""

    NONE = "none"
    CORE = "core"
    NUMA_NODE = "numa node"


@dataclass(frozen=True, slots=True)
class Wish:
    """A number of CPUs, and where they should lie.

    ``within``: the only CPUs it may get, such as those of some NUMA nodes; None for any.
    """

    count: int
    use: CoreUse = CoreUse.WHOLE
    required: bool = False
    exclusive: Exclusivity = Exclusivity.NONE
    within: CPUSet | None = None

    @property
    def is_strict(self) -> bool:
        """Whether no other shape is acceptable."""
        return self.required or self.use is CoreUse.ISOLATED


@dataclass(frozen=True, slots=True)
class Grant:
    """The CPUs chosen. ``withheld``: other threads of their cores, which no other workload may get."""

    cpus: CPUSet
    withheld: CPUSet = field(default_factory=CPUSet)


_NO_CPUS = CPUSet()


@dataclass(frozen=True, slots=True)
class Claim:
    """The CPUs that one workload says are its own, and the threads beside them that must stay empty."""

    cpus: CPUSet
    withheld: CPUSet = _NO_CPUS
    exclusive: Exclusivity = Exclusivity.NONE


@dataclass(frozen=True, slots=True)
class ClaimConflict:
    """CPUs that a workload claims and does not hold. ``holder`` is "" where the machine has no such CPU."""

    owner: str
    cpus: CPUSet
    holder: str = ""

    @property
    def reason(self) -> Reason:
        return Reason.CPUS_TAKEN if self.holder else Reason.CPUS_UNKNOWN

    @property
    def message(self) -> str:
        """One sentence for the owner of the workload."""
        if self.holder:
            return f"{self.owner} claims CPUs {self.cpus}, which {self.holder} holds"
        return f"{self.owner} claims CPUs {self.cpus}, which the machine does not have"


@dataclass(frozen=True, slots=True)
class FreeCores:
    """The free part of a machine, or of a part of it, core by core.

    ``cpus``: all free CPUs; ``whole_cpus``: CPUs in wholly free cores; ``cores``: cores with a free thread;
    ``threads``: wholly free cores together always have a multiple of this many CPUs: the threads per core, or
    1 where some of those cores have one thread.
    """

    cpus: int
    whole_cpus: int
    cores: int
    threads: int


@dataclass(frozen=True)
class Ledger:
    """The CPUs of one machine and the claims to them.

    ``topology`` has the CPUs online, ``offline`` those that are not. ``reserved`` CPUs are never granted.
    ``kinds`` names the CPUs of each kind of core, the preferred kind first; empty if all cores are alike.
    """

    topology: Topology
    offline: CPUSet = _NO_CPUS
    reserved: CPUSet = _NO_CPUS
    kinds: Mapping[str, CPUSet] = field(default_factory=lambda: MappingProxyType({}))
    claims: Mapping[str, Claim] = field(default_factory=lambda: MappingProxyType({}))

    def with_claim(self, owner: str, claim: Claim) -> Ledger:
        """Return the ledger with a claim: it takes the place of the owner's earlier one, else the last."""
        return replace(self, claims=MappingProxyType({**self.claims, owner: claim}))

    def without(self, owner: str) -> Ledger:
        """Return the ledger without an owner's claim; itself if there is none."""
        if owner not in self.claims:
            return self
        others = {name: each for name, each in self.claims.items() if name != owner}
        return replace(self, claims=MappingProxyType(others))

    def on(self, topology: Topology, offline: CPUSet = _NO_CPUS) -> Ledger:
        """Return the ledger with other CPUs online; the claims stay."""
        return replace(self, topology=topology, offline=offline)

    @cached_property
    def holder(self) -> Mapping[int, str]:
        """The one owner of each CPU that is held or withheld."""
        known = self.topology.cpus | self.offline
        holders: dict[int, str] = {}
        for owner, claim in self.claims.items():
            for cpu in (claim.cpus & known).cpus:
                holders.setdefault(cpu, owner)
        for owner, claim in self.claims.items():
            for cpu in (claim.withheld & known).cpus:
                holders.setdefault(cpu, owner)
        return MappingProxyType(holders)

    def held_by(self, owner: str) -> CPUSet:
        """Return the CPUs that an owner's workload may run on: without what it has lost to others."""
        claim = self.claims.get(owner)
        if claim is None:
            return _NO_CPUS
        return CPUSet.of(cpu for cpu in claim.cpus.cpus if self.holder.get(cpu) == owner)

    @cached_property
    def held(self) -> CPUSet:
        """All CPUs that some workload runs on, withheld ones not among them."""
        return CPUSet.of(cpu for owner in self.claims for cpu in self.held_by(owner).cpus)

    @cached_property
    def free(self) -> CPUSet:
        """The CPUs online that can be granted."""
        return CPUSet.of(self.topology.cpus.cpus - self.holder.keys() - self.reserved.cpus)

    @cached_property
    def shared(self) -> CPUSet:
        """The CPUs online for workloads without CPUs of their own: all without a holder."""
        return CPUSet.of(self.topology.cpus.cpus - self.holder.keys())

    @cached_property
    def free_cores(self) -> FreeCores:
        """The free part of the machine, core by core."""
        return _free_of(self.topology, self.free, None)

    @cached_property
    def free_by_numa_node(self) -> Mapping[int, FreeCores]:
        """The free part of each NUMA node, core by core."""
        nodes = self.topology.numa_nodes
        return MappingProxyType({node: _free_of(self.topology, self.free, node) for node in nodes})

    @cached_property
    def conflicts(self) -> tuple[ClaimConflict, ...]:
        """The claims to CPUs that another owner holds or that do not exist, in the order of the claims."""
        return tuple(conflict for owner in self.claims for conflict in self._conflicts_of(owner))

    def _conflicts_of(self, owner: str) -> Iterable[ClaimConflict]:
        wanted = self.claims[owner].cpus
        unknown = wanted - self.topology.cpus - self.offline
        if unknown:
            yield ClaimConflict(owner, unknown)
        rivals: dict[str, set[int]] = {}
        for cpu in wanted - unknown:
            holder = self.holder[cpu]
            if holder != owner:
                rivals.setdefault(holder, set()).add(cpu)
        for rival, cpus in rivals.items():
            yield ClaimConflict(owner, CPUSet.of(cpus), rival)

    def exclusive_cpus(self, exclusive: Exclusivity) -> CPUSet:
        """Return the CPUs of the claims that wish this exclusivity."""
        claims = (claim.cpus.cpus for claim in self.claims.values() if claim.exclusive is exclusive)
        return CPUSet.of(frozenset[int]().union(*claims))


@lru_cache(maxsize=REMEMBERED)
def _free_of(topology: Topology, free: CPUSet, numa_node: int | None) -> FreeCores:
    """Count what is free of a machine, or of a NUMA node: once for all machines of a kind alike."""
    numa = {thread.core: thread.numa_node for thread in topology.threads}
    cores = [cpus for core, cpus in topology.cores.items() if numa_node in (None, numa[core])]
    left = [len(core.cpus & free.cpus) for core in cores]
    sizes = [len(core.cpus) for core in cores]
    whole = [size for size, number in zip(sizes, left, strict=True) if number == size]
    return FreeCores(
        cpus=sum(left),
        whole_cpus=sum(whole),
        cores=sum(number > 0 for number in left),
        threads=gcd(*(whole or sizes)) or 1,
    )
