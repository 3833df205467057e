"""The guests of a host as libvirt has them, and what that means for the ledger.

A guest CPU that is pinned to one host CPU owns it, unless that is a shared CPU, or, on a legacy host, several
CPUs of the guest are there. Emulator threads own a CPU if they are pinned to one that
guests may own, that no option names for emulator threads, and that none of the guest's CPUs has; one that the
ledger has given them stays theirs. What libvirt does not report stays absent: Placement knows what the guest
holds.

- A domain that the ledger does not have is adopted as it is. A domain that is shut off but defined keeps its
  CPUs: it gets them again at its next start.
- A guest that was scheduled keeps the CPUs that were chosen for it until its domain has had them once
  (``applied``); a domain without any pins is still waiting for them.
- From then on the domain counts. Pins that were changed by hand are adopted as they are, at once. CPUs that
  a domain only gives back, because it is gone, or pinned to fewer CPUs, stay its own for ``Grace`` longer: it
  may be rebooting, migrating, or defined again.
- A guest that is ``claiming`` belongs to its scheduler, one that is being moved to whoever moves it, and a
  ``busy`` one to whoever writes its domain.

:func:`domains_of` is the only place that talks to a hypervisor; another one is an adapter beside
``openstack.libvirt`` that returns the same :class:`Domain`, and a branch there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from dataclasses import replace as replaced
from enum import StrEnum
from types import MappingProxyType

from msgspec.structs import replace

from corewise.topology import CPUSet, Host
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.ledger import GuestRecord, Guests, GuestState
from corewise_openstack.compute.options import GRACE, Grace
from corewise_openstack.guest_pinning.ledger import CellPins
from corewise_openstack.openstack.libvirt import connected
from corewise_openstack.openstack.libvirt_xml import Domain
from corewise_openstack.tracking import HostedGuest, HostSettings
from corewise_openstack.vocabulary.guests import CPUPolicy, EmulatorThreads, ThreadPolicy
from corewise_openstack.vocabulary.placement import PCPU

_MIB = 1 << 20
_NO_CPUS = CPUSet()


class LedgerChangeKind(StrEnum):
    """The kind of change that a domain made to a ledger."""

    ADOPTED = "adopted"
    APPLIED = "applied"
    REPINNED = "repinned"
    UNPINNED = "unpinned"
    GONE = "gone"


_REASONS = {
    LedgerChangeKind.ADOPTED: Reason.GUEST_ADOPTED,
    LedgerChangeKind.APPLIED: Reason.GUEST_APPLIED,
    LedgerChangeKind.REPINNED: Reason.GUEST_REPINNED,
    LedgerChangeKind.UNPINNED: Reason.GUEST_UNPINNED,
    LedgerChangeKind.GONE: Reason.GUEST_GONE,
}


@dataclass(frozen=True, slots=True)
class LedgerChange:
    """One guest that the ledger has otherwise now: what it held, and what it holds; None: nothing."""

    guest: str
    kind: LedgerChangeKind
    before: GuestRecord | None
    after: GuestRecord | None

    @property
    def reason(self) -> Reason:
        return _REASONS[self.kind]

    @property
    def kept(self) -> int:
        """The PCPU that the guest still needs; withheld CPUs count if they counted before."""
        if self.before is None or self.after is None:
            return 0
        counted = self.before.resources.get(PCPU, 0) > _owned(self.before)
        return _owned(self.after) + (len(self.after.withheld) if counted else 0)

    @property
    def floating(self) -> int:
        """The number of guest CPUs that lose their host CPUs, and share others from then on."""
        before, after = (0 if each is None else each.cpus.dedicated for each in (self.before, self.after))
        return max(before - after, 0)

    @property
    def message(self) -> str:
        """A description of the change, for the log."""
        had = _held(self.before)
        match self.kind:
            case LedgerChangeKind.ADOPTED:
                return f"the domain is new to the ledger: it has {_held(self.after)}"
            case LedgerChangeKind.APPLIED:
                return f"the CPUs that were chosen were written into its domain: it has {had}"
            case LedgerChangeKind.REPINNED:
                return f"the domain was pinned by someone else: it had {had}, and now has {_held(self.after)}"
            case LedgerChangeKind.UNPINNED:
                return f"the domain is pinned to fewer CPUs: it had {had}, and now has {_held(self.after)}"
            case LedgerChangeKind.GONE:
                return f"its domain is gone: it gave back {had}"


def _owned(record: GuestRecord) -> int:
    return len(record.pins.cpus) + (record.emulator is not None)


def _held(record: GuestRecord | None) -> str:
    held = _NO_CPUS if record is None else record.pins.held
    return f"CPUs {held}" if held else "no CPUs of its own"


@dataclass(frozen=True, slots=True)
class Followed:
    """The changes to a host's ledger that its domains require.

    ``entered`` is to be written at once, and ``returned`` after Placement got back what these guests held.
    ``since`` has when each guest was first seen without CPUs that it holds: it is for the next pass.
    ``unapplied``: guests whose domains do not have the CPUs that were chosen for them.
    """

    guests: Guests
    entered: tuple[LedgerChange, ...]
    returned: tuple[LedgerChange, ...]
    since: Mapping[str, float]
    unapplied: tuple[str, ...]


def follow(
    guests: Guests,
    domains: Iterable[Domain],
    machine: Host,
    settings: HostSettings,
    *,
    since: Mapping[str, float] = MappingProxyType({}),
    now: float = 0.0,
    grace: Grace = GRACE,
    busy: Collection[str] = (),
) -> Followed:
    """Compare a ledger with all domains of its host.

    A guest that is pinned to a CPU which many guests share does not own it. ``busy``: guests that somebody is
    changing right now; they stay as they are.
    """
    found = {each.uuid: each for each in domains}
    after = dict(guests)
    entered: list[LedgerChange] = []
    returned: list[LedgerChange] = []
    waiting: dict[str, float] = {}
    unapplied: list[str] = []
    for uuid, record in guests.items():
        if record.state is GuestState.CLAIMING or record.move is not None or uuid in busy:
            continue
        change = _compared(uuid, record, found.get(uuid), machine, settings)
        if change is None:
            after[uuid] = replace(record, applied=True)
        elif change.kind is LedgerChangeKind.UNPINNED and not record.applied and not _pins(change.after):
            unapplied.append(uuid)
        elif change.kind in {LedgerChangeKind.ADOPTED, LedgerChangeKind.REPINNED}:
            entered.append(change)
        else:
            first = waiting[uuid] = since.get(uuid, now)
            if now - first >= (grace.applied if record.applied else grace.awaited):
                returned.append(change)
    moving = {record.move.guest for record in guests.values() if record.move is not None}
    for uuid in found.keys() - guests.keys() - moving:
        seen = record_of_domain(found[uuid], machine, settings)
        entered.append(LedgerChange(uuid, LedgerChangeKind.ADOPTED, None, seen))
    entered.sort(key=lambda each: list(found).index(each.guest))
    after |= {each.guest: each.after for each in entered if each.after is not None}
    return Followed(after, tuple(entered), tuple(returned), waiting, tuple(unapplied))


def _compared(
    uuid: str, record: GuestRecord, domain: Domain | None, machine: Host, settings: HostSettings
) -> LedgerChange | None:
    """Return the difference between a domain and its ledger entry, if there is one."""
    if domain is None:
        return LedgerChange(uuid, LedgerChangeKind.GONE, record, None)
    wanted = _pins(record)
    seen = record_of_domain(domain, machine, settings, record)
    if (wanted, record.emulator) == (_owned_pins(domain, settings, record), seen.emulator):
        return None
    after = replace(
        record,
        vcpus=seen.vcpus,
        cpu_policy=seen.cpu_policy,
        cells=seen.cells,
        emulator=seen.emulator,
        withheld=seen.withheld,
        applied=True,
    )
    lost = after.pins.held_mask != record.pins.held_mask and not (
        after.pins.held_mask & ~record.pins.held_mask
    )
    return LedgerChange(uuid, LedgerChangeKind.UNPINNED if lost else LedgerChangeKind.REPINNED, record, after)


def _pins(record: GuestRecord | None) -> Mapping[int, int]:
    cells = () if record is None else record.cells
    return {own: cpu for cell in cells for own, cpu in cell.pins.items()}


def _owned_pins(domain: Domain, settings: HostSettings, known: GuestRecord | None) -> Mapping[int, int]:
    """Return the pins of a domain to host CPUs that it owns: guest CPU -> host CPU.

    A guest CPU that owned one before owns the one that it is pinned to, whichever that is. Others do not own
    shared CPUs, unless the host has no CPUs to own: its options do not suit a pinned guest then, which is
    reported. A CPU of a legacy host with several CPUs of one guest is where that guest floats.
    """
    shared = settings.shared - settings.pinnable if settings.pinnable else _NO_CPUS
    times = Counter(domain.pins.values() if settings.legacy else ())
    return {
        vcpu: cpu
        for vcpu, cpu in domain.pins.items()
        if vcpu in _pins(known) or (cpu not in shared and times[cpu] <= 1)
    }


def domains_of(uri: str) -> tuple[Domain, ...]:
    """Return the guests that a hypervisor reports.

    Raises:
        LibvirtError: if it does not answer.
        ExtraMissing: if its package is not installed.
    """
    with connected(uri) as libvirt:
        return libvirt.domains()


def guests_of(uri: str, machine: Host, settings: HostSettings) -> tuple[HostedGuest, ...]:
    """Return a hypervisor's guests as the host sees them; raises as ``domains_of``."""
    return tuple(
        replaced(record_of_domain(each, machine, settings).hosted(each.uuid), name=each.name)
        for each in domains_of(uri)
    )


def record_of_domain(
    domain: Domain, machine: Host, settings: HostSettings, known: GuestRecord | None = None
) -> GuestRecord:
    """Return the ledger entry for a guest as its hypervisor reports it.

    ``known`` is the entry that the ledger has. Without a thread policy there, the domain's metadata count.
    """
    pins = _owned_pins(domain, settings, known)
    own = CPUSet.of(pins.values())
    threads = None if known is None else known.thread_policy
    policy = CPUPolicy.DEDICATED if len(pins) == domain.vcpus else CPUPolicy.MIXED
    stated = domain.extra_specs.get("hw:cpu_thread_policy") or domain.image_properties.get(
        "hw_cpu_thread_policy", ""
    )
    if threads is None and stated in set(ThreadPolicy):
        threads = ThreadPolicy(stated)
    withheld = CPUSet()
    if threads is ThreadPolicy.ISOLATE:
        siblings = (machine.topology.siblings(cpu) for cpu in own & machine.topology.cpus)
        withheld = CPUSet.of(beside for core in siblings for beside in core) - own
    return GuestRecord(
        state=GuestState.HELD,
        resources={},
        vcpus=domain.vcpus,
        flavor=domain.flavor,
        cpu_policy=policy if own else CPUPolicy.SHARED,
        thread_policy=threads,
        cells=tuple(_cells(domain, pins, machine)),
        emulator=_emulator(domain, settings, known),
        withheld=tuple(withheld),
        applied=True,
    )


def _emulator(domain: Domain, settings: HostSettings, known: GuestRecord | None) -> int | None:
    """Return the CPU that the emulator threads of a domain own, if they do."""
    used = CPUSet.of(domain.pins.values())
    if domain.emulator is None or len(domain.emulator) != 1 or domain.emulator <= used:
        return None
    cpu = next(iter(domain.emulator))
    if known is not None and known.emulator_threads is EmulatorThreads.ISOLATE and cpu == known.emulator:
        return cpu
    return cpu if domain.emulator <= settings.pinnable - settings.emulator else None


def _cells(domain: Domain, owned: Mapping[int, int], machine: Host) -> Iterable[CellPins]:
    """Yield the guest's NUMA nodes, or the host's nodes with its pins if it has none."""
    node_of = {thread.cpu: thread.numa_node for thread in machine.topology.threads}
    if not domain.cells:
        nodes = sorted({node_of.get(cpu, 0) for cpu in owned.values()})
        for node in nodes:
            pins = {own: cpu for own, cpu in owned.items() if node_of.get(cpu, 0) == node}
            yield CellPins(node, pins, domain.memory // _MIB // len(nodes))
        return
    for cell in domain.cells:
        pins = {own: cpu for own, cpu in owned.items() if own in cell.vcpus}
        bound = next(iter(cell.host_nodes), 0) if cell.host_nodes else 0
        node = next((node_of[cpu] for cpu in pins.values() if cpu in node_of), bound)
        yield CellPins(node, pins, cell.memory // _MIB, tuple(cell.vcpus - CPUSet.of(pins)))
