"""A program that runs a guest without KVM, gives it CPUs by ``corewise compute apply``, and takes them back.

It tells where the guest's threads may run after each step, and what this machine is made of, as its libvirt
has it. libvirt's QEMU driver is loaded into this process (``qemu:///embed``), so no daemon is needed, and
everything of the guest lies below a directory of its own. The driver wants an event loop, and a user that is
not root.

Arguments: a directory; a JSON object with ``vcpus`` (guest CPU -> host CPU) and ``emulator`` (host CPU).
Answer: a JSON object with the threads (name -> the CPUs that /proc says it may run on) ``before``, with the
plan made (``untouched``), ``applied``, ``restarted`` and ``undone``; the plan (``planned``); and the CPUs of
all ``cores``, ``numa_nodes`` and ``sockets``.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from corewise.cli import corewise
from corewise.topology import Host
from corewise_openstack.compute.ledger import GuestRecord, GuestState, LedgerFile
from corewise_openstack.guest_pinning.ledger import CellPins
from corewise_openstack.openstack.libvirt import connected
from corewise_openstack.vocabulary.guests import CPUPolicy

UUID = "8a2f6c6e-0f0e-4c47-9f0d-0a2c1a2b3c4d"
GUEST = f"""
<domain type='qemu'>
  <name>emulated</name>
  <uuid>{UUID}</uuid>
  <memory unit='MiB'>64</memory>
  <vcpu>{{vcpus}}</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
  <devices><emulator>/usr/bin/qemu-system-x86_64</emulator></devices>
</domain>
"""


def main(directory: str, wanted: dict[str, Any]) -> None:
    """Start the guest, give it its CPUs, restart it, take them back; look each time."""
    folder = Path(directory)
    uri = loaded(folder)
    ledger = _ledger(folder, {int(vcpu): cpu for vcpu, cpu in wanted["vcpus"].items()}, wanted["emulator"])
    here = [*ledger, "--libvirt", uri]
    with connected(uri) as libvirt:
        connection = importlib.import_module("libvirt").open(uri)
        connection.defineXML(GUEST.format(vcpus=len(wanted["vcpus"])))
        guest = connection.lookupByUUIDString(UUID)
        guest.create()
        try:
            seen = {"before": threads(), **_machine(libvirt.host())}
            seen["planned"] = _compute("apply", UUID, *here)
            seen["untouched"] = threads()
            _compute("apply", UUID, *here, "--write")
            seen["applied"] = threads()
            guest.destroy()
            guest.create()
            seen["restarted"] = threads()
            _compute("apply", UUID, *here, "--undo")
            seen["undone"] = threads()
            sys.stdout.write(json.dumps(seen))
        finally:
            guest.destroy()


def loaded(directory: Path) -> str:
    """Load the driver, whose files lie below a directory; return its URI."""
    library = importlib.import_module("libvirt")
    library.virEventRegisterDefaultImpl()
    threading.Thread(target=_events, args=(library,), daemon=True).start()
    (directory / "etc").mkdir()
    # The guest logs into a file: the daemon that would do it otherwise lives in the user's home.
    (directory / "etc/qemu.conf").write_text('stdio_handler = "file"\n')
    return f"qemu:///embed?root={directory}"


def _ledger(folder: Path, vcpus: dict[int, int], emulator: int) -> list[str]:
    """Enter the guest in a ledger of this machine; return the options that name both."""
    record = GuestRecord(
        GuestState.HELD,
        {},
        len(vcpus),
        cpu_policy=CPUPolicy.DEDICATED,
        cells=(CellPins(0, vcpus, 64),),
        emulator=emulator,
    )
    file = folder / "ledger.json"
    with LedgerFile(file, "n1").changing() as change:
        change.write({UUID: record})
    return ["--host", "n1", "--ledger", str(file)]


def _compute(*arguments: str) -> str:
    result = CliRunner().invoke(corewise, ["compute", *arguments], catch_exceptions=False)
    if result.exit_code:
        raise SystemExit(result.output)
    return result.stdout


def _machine(host: Host) -> dict[str, list[str]]:
    groups = {
        "cores": host.topology.cores,
        "numa_nodes": host.topology.numa_nodes,
        "sockets": host.topology.sockets,
    }
    return {name: [str(cpus) for cpus in group.values()] for name, group in groups.items()}


def _events(library: Any) -> None:
    while True:
        library.virEventRunDefaultImpl()


def threads() -> dict[str, str]:
    """Return the guest's threads, the main one as "main", and the CPUs that /proc says each may run on."""
    for process in Path("/proc").glob("[0-9]*"):
        if UUID.encode() in _bytes(process / "cmdline"):
            return {
                "main" if task.name == process.name else (task / "comm").read_text().strip(): _allowed(
                    (task / "status").read_text()
                )
                for task in (process / "task").iterdir()
            }
    raise SystemExit("the guest has no process")


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _allowed(status: str) -> str:
    return next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list:"))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
