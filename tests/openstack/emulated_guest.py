"""A program that starts a guest without KVM, with the CPUs it is told, and tells where its threads may run.

And what this machine is made of, as its libvirt has it.

libvirt's QEMU driver is loaded into this process (``qemu:///embed``), so no daemon is needed, and everything
of the guest lies below a directory of its own. The driver wants an event loop, and a user that is not root.

Arguments: a directory; a JSON object with ``vcpus`` (guest CPU -> host CPU) and ``emulator`` (host CPU).
Answer: a JSON object with ``threads`` (name of a thread -> the CPUs that /proc says it may run on), and
with the CPUs of all ``cores``, ``numa_nodes`` and ``sockets``.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
from pathlib import Path
from typing import Any

from corewise.openstack.libvirt import connected
from corewise.openstack.libvirt_xml import CPUTuning
from corewise.topology import CPUSet, Host

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
    """Define the guest, give it its CPUs, start it, look, and end it."""
    library = importlib.import_module("libvirt")
    library.virEventRegisterDefaultImpl()
    threading.Thread(target=_events, args=(library,), daemon=True).start()
    vcpus = {int(vcpu): CPUSet.of([cpu]) for vcpu, cpu in wanted["vcpus"].items()}
    _configure(Path(directory))
    uri = f"qemu:///embed?root={directory}"
    with connected(uri) as libvirt:
        connection = library.open(uri)
        connection.defineXML(GUEST.format(vcpus=len(vcpus)))
        libvirt.tune(UUID, CPUTuning(vcpus, CPUSet.of([wanted["emulator"]]), {}))
        guest = connection.lookupByUUIDString(UUID)
        guest.create()
        try:
            sys.stdout.write(json.dumps({"threads": _threads(), **_machine(libvirt.host())}))
        finally:
            guest.destroy()


def _configure(directory: Path) -> None:
    """Have the guest log into a file: the daemon that would do it otherwise lives in the user's home."""
    (directory / "etc").mkdir()
    (directory / "etc/qemu.conf").write_text('stdio_handler = "file"\n')


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


def _threads() -> dict[str, str]:
    for process in Path("/proc").glob("[0-9]*"):
        if UUID.encode() in _bytes(process / "cmdline"):
            return {
                (task / "comm").read_text().strip(): _allowed((task / "status").read_text())
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
