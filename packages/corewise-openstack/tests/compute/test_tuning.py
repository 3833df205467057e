"""The CPUs of a guest's emulator threads; guest CPU 0 is the only one that is not realtime.

========= ========= ======== ============== ===================================
policy    emulator  realtime cpu_shared_set the emulator threads run on
========= ========= ======== ============== ===================================
dedicated -         -        0-1            all CPUs of the guest
dedicated -         1-3      0-1            the CPU of guest CPU 0
dedicated share     1-3      0-1            cpu_shared_set
dedicated share     1-3      -              the CPU of guest CPU 0
dedicated share     all      -              all CPUs of the guest
dedicated isolate   1-3      0-1            a CPU of their own
mixed     -         -        0-1            its own CPUs, and the shared ones
mixed     -         1-3      0-1            the shared CPUs
shared    -         -        0-1            the shared CPUs
========= ========= ======== ============== ===================================
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compute.compute_world import hosts_in, put_host, request
from corewise_openstack.compute.hosts import tuning_of
from corewise_openstack.guest_pinning.ledger import GuestPins
from corewise_openstack.guest_pinning.placement import place

ALL = {"cpu_realtime": "yes"}
BUT_0 = {**ALL, "cpu_realtime_mask": "^0"}
SHARE = {"emulator_threads_policy": "share"}
ISOLATE = {"emulator_threads_policy": "isolate"}


@pytest.mark.parametrize(
    ("policy", "specs", "shared", "expected"),
    [
        ("dedicated", {}, "0-1", "2-5"),
        ("dedicated", BUT_0, "0-1", "2"),
        ("dedicated", {**BUT_0, **SHARE}, "0-1", "0-1"),
        ("dedicated", {**BUT_0, **SHARE}, "", "2"),
        ("dedicated", {**ALL, **SHARE}, "", "2-5"),
        ("dedicated", {**BUT_0, **ISOLATE}, "0-1", "6"),
        ("mixed", {"cpu_dedicated_mask": "^0"}, "0-1", "0-4"),
        ("mixed", BUT_0, "0-1", "0-1"),
        ("shared", {}, "0-1", "0-1"),
    ],
)
def test_emulator_threads_run_beside_no_realtime_cpu(
    tmp_path: Path, policy: str, specs: dict[str, str], shared: str, expected: str
) -> None:
    options = {"cpu_dedicated_set": "2-7"} | ({"cpu_shared_set": shared} if shared else {})
    put_host(tmp_path, "n1", options, cores=8, threads=1, nodes=1)
    host = hosts_in(tmp_path).known["n1"]
    asked = request(4, {"hw:cpu_policy": policy} | {f"hw:{name}": value for name, value in specs.items()})
    pins = place(host.ledger_with({}), asked.cpus)
    assert isinstance(pins, GuestPins)
    assert str(tuning_of(asked.cpus, pins, host).emulator) == expected
