"""``compute apply --write`` on a running guest of QEMU: our share beside libvirt's own time.

libvirt's QEMU driver is loaded into a process of its own (``qemu:///embed``), which is this module run as a
program, in a user namespace if the user is root: the driver wants another one. The guest has 2 CPUs, and the
ledger swaps their host CPUs each time, so that every live and stored pin changes. All calls of libvirt's
Python package count as libvirt's.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from corewise.kernel.machine import read_machine
from corewise_openstack.compute.applying import apply, journal_of
from corewise_openstack.compute.hosts import ComputeHost, settings_of
from corewise_openstack.compute.ledger import GuestRecord, GuestState, LedgerFile
from corewise_openstack.guest_pinning.ledger import CellPins
from corewise_openstack.openstack.libvirt import Libvirt
from corewise_openstack.tracking import Compat, HostOptions
from corewise_openstack.vocabulary.guests import CPUPolicy
from tools.bench.table import Row, quantile

_ROUNDS = 40
_UUID = "8a2f6c6e-0f0e-4c47-9f0d-0a2c1a2b3c4d"
_GUEST = f"""
<domain type='qemu'>
  <name>measured</name>
  <uuid>{_UUID}</uuid>
  <memory unit='MiB'>64</memory>
  <vcpu>2</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
</domain>
"""


async def measure() -> list[Row]:
    """Apply to the guest again and again."""
    return await asyncio.to_thread(_measure)


def _measure() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="cw-", dir="/tmp") as folder:  # libvirt's sockets want it short
        homes = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")
        as_other = (
            ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"] if not os.getuid() else []
        )
        done = subprocess.run(
            [*as_other, sys.executable, "-m", "tools.bench.applying", folder],
            env={**os.environ, **dict.fromkeys(homes, folder)},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return [Row("apply to a running domain", "2 guest CPUs", f"not measured: {last}")]
    rounds: list[dict[str, float]] = json.loads(done.stdout)
    total, theirs, cpu = ([each[name] for each in rounds] for name in ("total", "libvirt", "cpu"))
    ours = [each["total"] - each["libvirt"] for each in rounds]

    def shown(values: list[float]) -> str:
        return ", ".join(f"{quantile(values, part) * 1000:.1f} ms" for part in (0.5, 0.9))

    size = "2 guest CPUs"
    share = quantile(ours, 0.5) / quantile(total, 0.5)
    return [
        Row("apply to a running domain, p50, p90", size, shown(total)),
        Row("libvirt's own time in it, p50, p90", size, shown(theirs)),
        Row("ours: plan, journal and ledger synced to disk, p50, p90", size, shown(ours)),
        Row("CPU time of ours, p50, p90", size, shown(cpu)),
        Row("our share", size, f"{share * 100:.0f} %"),
    ]


class _Timed:
    """An object of libvirt's; the time of its calls is added up."""

    spent = 0.0
    cpu = 0.0

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._real, name)

        def timed(*arguments: Any) -> Any:
            begun, cpu = time.perf_counter(), time.thread_time()
            try:
                answer = call(*arguments)
            finally:
                _Timed.spent += time.perf_counter() - begun
                _Timed.cpu += time.thread_time() - cpu
            return _Timed(answer) if type(answer).__name__ == "virDomain" else answer

        return timed


def _run(folder: Path) -> None:
    library = importlib.import_module("libvirt")
    library.virEventRegisterDefaultImpl()
    threading.Thread(target=_events, args=(library,), daemon=True).start()
    (folder / "etc").mkdir()
    (folder / "etc/qemu.conf").write_text('stdio_handler = "file"\n')  # no daemon for the guest's log
    uri = f"qemu:///embed?root={folder}"
    connection = library.open(uri)
    guest = connection.defineXML(_GUEST)
    guest.create()
    try:
        libvirt = Libvirt(uri, _Timed(connection), library.libvirtError)
        sys.stdout.write(json.dumps([_round(folder, libvirt, number) for number in range(1 + _ROUNDS)][1:]))
    finally:
        guest.destroy()


def _events(library: Any) -> None:
    while True:
        library.virEventRunDefaultImpl()


def _round(folder: Path, libvirt: Libvirt, number: int) -> dict[str, float]:
    """Apply once, to host CPUs in another order than the time before."""
    machine = read_machine(Path("/")).host
    settings = settings_of("host", HostOptions(), machine, Compat.SPEC)
    ledger = LedgerFile(folder / "ledger.json", "host")
    first, second = sorted(os.sched_getaffinity(0))[:2][:: 1 if number % 2 else -1]
    record = GuestRecord(
        GuestState.HELD,
        {},
        2,
        cpu_policy=CPUPolicy.DEDICATED,
        cells=(CellPins(0, {0: first, 1: second}, 64),),
        emulator=first,
    )
    with ledger.changing() as change:
        change.write({_UUID: record})
    host = ComputeHost("host", machine, settings, ledger)
    _Timed.spent = _Timed.cpu = 0.0
    begun, cpu = time.perf_counter(), time.thread_time()
    done = apply(libvirt, host, _UUID, journal_of(ledger.path))
    total, used = time.perf_counter() - begun, time.thread_time() - cpu
    if len(done.changes) < 6:
        raise SystemExit(f"only {len(done.changes)} settings changed")
    return {"total": total, "libvirt": _Timed.spent, "cpu": used - _Timed.cpu}


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
