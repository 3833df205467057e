"""The hosts that guests are placed on: what each is made of, what its CPUs are for, and its ledger.

A host is a directory, which its agent keeps (``corewise compute run --state-dir DIR/NAME``):

================== =====================================================================
``topology.json``  the machine, as ``corewise topology -o json`` prints it
``nova.conf``      the options that say what its CPUs are for
``ledger.json``    who holds which of them
``reported``       its time is when the agent has finished its last pass
``beside-nova``    only where nova-compute runs: the CPUs that it gives to its guests
================== =====================================================================

Or a host is the address of its agent, which serves the same over HTTPS
(:mod:`corewise_openstack.compute.remote`).

A host whose files cannot be used is left out and reported with the reason; nothing is guessed. A host also
says what each of its CPUs is used for, and where the domain of a guest may run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from corewise.config.decoding import Parsed
from corewise.config.machine_file import parse_machine
from corewise.pinning.ledger import ClaimConflict
from corewise.topology import CPUSet, CPUSetError, Host
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.beside_nova import MARK, given_cpus, refuse_cpus_of_nova
from corewise_openstack.compute.errors import (
    ComputeError,
    FileUnusable,
    GuestMoving,
    LedgerUnusable,
    NUMANodeGone,
)
from corewise_openstack.compute.ledger import (
    GuestClaim,
    GuestRecord,
    Guests,
    LedgerFile,
    LedgerStore,
    MoveRecord,
)
from corewise_openstack.guest_pinning.ledger import GuestLedger, GuestPins, HostCell, host_cells
from corewise_openstack.openstack.errors import NovaConfError
from corewise_openstack.openstack.libvirt_xml import CPUTuning
from corewise_openstack.tracking import (
    Compat,
    HostFacts,
    HostOffer,
    HostOptions,
    HostSettings,
    check_options,
    offer,
)
from corewise_openstack.vocabulary.guests import EmulatorThreads, GuestCPUs

TOPOLOGY, OPTIONS, LEDGER, REPORTED = "topology.json", "nova.conf", "ledger.json", "reported"


class LedgerAgent(Protocol):
    """The agent that has a host's ledger, and decides what changes in it.

    ``options`` are the host's; ``last_report`` is when it reported last, in seconds since the epoch.
    """

    options: HostOptions
    last_report: float | None

    def take(self, claim: GuestClaim) -> GuestRecord | Finding:
        """Give a guest CPUs, and claim them in Placement; or say why not."""

    def release(self, guest: str) -> None:
        """Release what a guest holds of the host."""


@dataclass(frozen=True)
class ComputeHost:
    """One host. ``nova_cpus``: those that nova-compute gives; None where it does not run.

    ``agent`` is asked for everything that changes the host's ledger, if that is known by its agent's address.
    """

    name: str
    machine: Host
    settings: HostSettings
    ledger: LedgerStore
    folder: Path | None = None
    nova_cpus: CPUSet | None = None
    agent: LedgerAgent | None = None

    def refuse_cpus_of_nova(self) -> None:
        """Refuse to give its CPUs to guests where Nova does.

        Raises:
            NovaGivesCPUs: if Nova gives one of them.
        """
        refuse_cpus_of_nova(self.name, self.settings, self.nova_cpus)

    def last_report(self) -> float | None:
        """Return when its agent reported last, in seconds since the epoch; None without an agent."""
        if self.agent is not None:
            return self.agent.last_report
        try:
            return None if self.folder is None else (self.folder / REPORTED).stat().st_mtime
        except OSError:
            return None

    @cached_property
    def offer(self) -> HostOffer:
        """The inventories it offers to Placement, guests or not."""
        return offer(self.settings, HostFacts.of(self.machine))

    @cached_property
    def cells(self) -> tuple[HostCell, ...]:
        """Its NUMA nodes, and what their CPUs are for."""
        settings = self.settings
        ratio = settings.initial_ratio if settings.ratio is None else settings.ratio
        return host_cells(self.machine, settings.pinnable, settings.shared, ratio)

    def ledger_with(self, guests: Guests) -> GuestLedger:
        """Return its ledger of CPUs, given these guests."""
        pins = MappingProxyType({uuid: guest.pins for uuid, guest in guests.items()})
        return GuestLedger(self.cells, self.machine.topology.hyper_threading, self.settings.legacy, pins)

    def guests(self) -> Mapping[str, GuestRecord]:
        """Return its guests.

        Raises:
            LedgerUnusable: if the ledger cannot be read.
        """
        return self.ledger.read().guests


def conflicts_of(guests: Guests) -> tuple[ClaimConflict, ...]:
    """Return the CPUs that several guests own."""
    pins = MappingProxyType({uuid: guest.pins for uuid, guest in guests.items()})
    return GuestLedger((), hyper_threading=False, guests=pins).conflicts


@dataclass(frozen=True)
class Hosts:
    """All hosts that are known, and why others are not."""

    known: Mapping[str, ComputeHost]
    unusable: Mapping[str, ComputeError]

    def having(self, guest: str) -> ComputeHost | None:
        """Return the host whose ledger has a guest; unusable ledgers are skipped."""
        for host in self.known.values():
            with suppress(LedgerUnusable):
                if guest in host.guests():
                    return host
        return None

    def move_of(self, guest: str) -> MoveRecord | None:
        """Return the unfinished move of a guest; the ledger of its destination says how far it has come."""
        for host in self.known.values():
            with suppress(LedgerUnusable):
                guests = host.guests()
                named = guests.get(guest)
                records = [named, *guests.values()] if named is not None else guests.values()
                for record in records:
                    move = record.move
                    if move is not None and (move.guest, move.destination) == (guest, host.name):
                        return move
        return None

    def refuse_moving(self, guest: str) -> None:
        """Refuse to change a guest that is being moved, or one of the two claims of such a guest.

        Raises:
            GuestMoving: if it is.
        """
        move = self.move_of(guest)
        if move is not None:
            hint = f"corewise compute confirm {guest}, or corewise compute revert {guest}"
            raise GuestMoving(
                f"guest {guest} is being moved from host {move.source} to host {move.destination} "
                f"({move.phase})",
                hint=hint,
            )

    def raise_unusable(self) -> None:
        """Raise for the first unusable host: a guest that is looked for may be there.

        Raises:
            ComputeError: if there is such a host.
        """
        for error in self.unusable.values():
            raise error
        for host in self.known.values():
            host.guests()


class OptionsUnusable(FileUnusable):
    """The options of a host have errors, so it is not used and its agent does not start.

    ``reason`` is that of the first error.
    """

    def __init__(self, message: str, reason: Reason) -> None:
        super().__init__(message, hint=reason.fix)
        self.reason = reason


def read_hosts(folder: Path, compat: Compat) -> Hosts:
    """Read the hosts of a directory, each in one of its own.

    Raises:
        FileUnusable: if the directory cannot be read, or holds no host.
    """
    known: dict[str, ComputeHost] = {}
    unusable: dict[str, ComputeError] = {}
    try:
        folders = sorted(each for each in folder.iterdir() if (each / TOPOLOGY).exists())
    except OSError as error:
        raise FileUnusable(f"{folder} cannot be read: {error.strerror}") from error
    if not folders:
        hint = f"each host is a directory with {TOPOLOGY}, {OPTIONS} and {LEDGER} in it"
        raise FileUnusable(f"there is no host in {folder}", hint=hint)
    for each in folders:
        try:
            known[each.name] = read_host(each, compat)
        except ComputeError as error:
            unusable[each.name] = error
    return Hosts(MappingProxyType(known), MappingProxyType(unusable))


def read_host(folder: Path, compat: Compat, name: str = "") -> ComputeHost:
    """Read the host of a directory, which is named after it, unless the host's name is given.

    Raises:
        FileUnusable: if a file of it cannot be used.
        LedgerUnusable: if its ledger cannot be read.
    """
    machine = read_machine_file(folder / TOPOLOGY)
    nova_cpus = _marked(folder / MARK)
    rules = compat if nova_cpus is None else Compat.NOVA
    name = name or folder.name
    settings = settings_of(name, options_in(folder / OPTIONS), machine, rules)
    ledger = LedgerFile(folder / LEDGER, name)
    host = ComputeHost(name, machine, settings, ledger, folder, nova_cpus)
    host.guests()
    return host


def _marked(file: Path) -> CPUSet | None:
    try:
        return CPUSet.parse(file.read_text())
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, CPUSetError) as error:
        raise FileUnusable(f"{file} does not say which CPUs Nova gives: {error}") from error


def read_machine_file(file: Path) -> Host:
    """Read a machine.

    Raises:
        FileUnusable: if the file cannot be used.
    """
    try:
        parsed = _machine(file.read_text("utf-8-sig"))
    except OSError as error:
        raise FileUnusable(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FileUnusable(f"{file} is not UTF-8: byte {error.start} is wrong") from error
    if parsed.value is None:
        raise FileUnusable(f"{file}: {parsed.errors[0]}")
    return parsed.value


@lru_cache(maxsize=64)
def _machine(text: str) -> Parsed[Host]:
    """Read a machine once for all hosts of one model: they have the same text."""
    return parse_machine(text)


def options_in(*files: Path) -> HostOptions:
    """Return the options of files, later ones count; none of one that is not there.

    Raises:
        FileUnusable: if it is not written as nova.conf is.
    """
    from corewise_openstack.openstack.nova_conf import read_nova_conf  # noqa: PLC0415 - it needs oslo.config

    there = [file for file in files if file.exists()]
    if not there:
        return HostOptions()
    try:
        return HostOptions.of(read_nova_conf(there).values)
    except NovaConfError as error:
        raise FileUnusable(str(error), hint=error.hint) from error


def settings_of(name: str, options: HostOptions, machine: Host, compat: Compat) -> HostSettings:
    """Return the settings of a host: the purpose of each of its CPUs.

    Raises:
        OptionsUnusable: if its options have errors.
    """
    checked = check_options(options, HostFacts.of(machine), compat=compat)
    if checked.settings is None:
        error = checked.errors[0]
        raise OptionsUnusable(f"host {name}: {error}", error.reason)
    return checked.settings


def nova_cpus_in(files: Sequence[Path], name: str, machine: Host) -> CPUSet | None:
    """Return the CPUs that nova-compute gives to guests by its files of options; None without files.

    Raises:
        FileUnusable: if a file cannot be read.
        OptionsUnusable: if its options have errors.
    """
    if not files:
        return None
    return given_cpus(settings_of(name, options_in(*files), machine, Compat.NOVA))


class UseKind(StrEnum):
    """The use of a CPU."""

    FREE = "dedicated, free"
    SHARED = "shared"
    BOTH = "shared, may be pinned"
    HOST = "host"
    PINNED = "pinned"
    EMULATOR = "emulator threads"
    WITHHELD = "kept empty"


@dataclass(frozen=True, slots=True)
class CPUUse:
    """One CPU; ``guest_cpu`` is the guest's CPU that runs there alone."""

    cpu: int
    node: int | None
    use: UseKind
    guest: str = ""
    guest_cpu: int | None = None


def cpu_uses(host: ComputeHost) -> Iterator[CPUUse]:
    """Yield the use of every CPU, online or dedicated, ascending. Of rival guests the first counts."""
    node_of = {thread.cpu: thread.numa_node for thread in host.machine.topology.threads}
    held = dict(_held(host))
    every = host.machine.topology.cpus | host.settings.dedicated | CPUSet.of(held)
    for cpu in every:
        node = node_of.get(cpu, host.machine.offline.get(cpu))
        use, guest, guest_cpu = held.get(cpu) or (_idle(cpu, host), "", None)
        yield CPUUse(cpu, node, use, guest, guest_cpu)


def _held(host: ComputeHost) -> Iterator[tuple[int, tuple[UseKind, str, int | None]]]:
    """Yield the CPUs that guests hold, later guests first, so that the first guest overrides them."""
    for uuid, guest in reversed(list(host.guests().items())):
        pins = guest.pins
        for cpu in pins.withheld:
            yield cpu, (UseKind.WITHHELD, uuid, None)
        if pins.emulator is not None:
            yield pins.emulator, (UseKind.EMULATOR, uuid, None)
        for cell in pins.cells:
            for own, cpu in cell.pins.items():
                yield cpu, (UseKind.PINNED, uuid, own)


def _idle(cpu: int, host: ComputeHost) -> UseKind:
    """Return the use of a CPU that no guest holds; on a legacy host it may be both shared and pinned."""
    settings = host.settings
    if cpu in settings.pinnable:
        return UseKind.BOTH if cpu in settings.shared else UseKind.FREE
    return UseKind.SHARED if cpu in settings.shared else UseKind.HOST


def tuning_of(guest: GuestCPUs, pins: GuestPins, host: ComputeHost) -> CPUTuning:
    """Return the tuning of a guest on a host; a guest of its ledger has ``record.cpus`` and ``record.pins``.

    CPUs that float within a NUMA node of the guest share the shared CPUs of its host node. Emulator threads
    run on a CPU of their own, or on the host's set for them, or where the guest's CPUs run that are not
    realtime: nothing else gets time on a CPU whose realtime thread is busy. If all are realtime, on all of
    them. Source: Nova's libvirt driver.

    Raises:
        NUMANodeGone: if the host does not have a NUMA node of the guest.
    """
    shared = host.settings.shared
    vcpus = dict.fromkeys(range(guest.vcpus), shared)
    for node, cell in zip(guest.nodes, pins.cells, strict=True):
        if cell.node not in host.machine.numa_nodes:
            raise NUMANodeGone(f"host {host.name} has no NUMA node {cell.node}, where CPUs of the guest are")
        near = shared & host.machine.numa_nodes[cell.node]
        vcpus |= dict.fromkeys(node.cpus, near)
        vcpus |= {own: CPUSet.of((cpu,)) for own, cpu in cell.pins.items()}
    cells = {index: cell.node for index, cell in enumerate(pins.cells)}
    if pins.emulator is not None:
        emulator = CPUSet.of((pins.emulator,))
    elif guest.emulator is EmulatorThreads.SHARE and host.settings.emulator:
        emulator = host.settings.emulator
    else:
        beside = CPUSet.of(cpu for own, cpus in vcpus.items() if own not in guest.realtime for cpu in cpus)
        emulator = beside or pins.cpus
    return CPUTuning(vcpus, emulator, cells, guest.realtime)
