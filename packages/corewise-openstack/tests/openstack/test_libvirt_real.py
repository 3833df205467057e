"""A real libvirt: its two-node test host takes our documents; an emulated guest runs where it is pinned."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from corewise.kernel.machine import read_machine
from corewise.topology import CPUSet
from corewise_openstack.openstack.errors import LibvirtError
from corewise_openstack.openstack.libvirt import connected
from corewise_openstack.openstack.libvirt_xml import CPUTuning

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("libvirt") is None,
    reason="libvirt-python is not installed: make libvirt, which needs Debian's libvirt-dev",
)

TEST_HOST = "test:///default"
UUID = "8a2f6c6e-0f0e-4c47-9f0d-0a2c1a2b3c4d"
GUEST = f"""
<domain type='test'>
  <name>two-nodes</name>
  <uuid>{UUID}</uuid>
  <memory unit='MiB'>512</memory>
  <vcpu>4</vcpu>
  <os><type>hvm</type></os>
  <cpu><numa>
    <cell id='0' cpus='0-1' memory='256' unit='MiB'/>
    <cell id='1' cpus='2-3' memory='256' unit='MiB'/>
  </numa></cpu>
</domain>
"""
PROGRAM = Path(__file__).with_name("emulated_guest.py")
QEMU = Path("/usr/bin/qemu-system-x86_64")


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory with a short name: libvirt makes sockets below it, of 107 characters at most."""
    with tempfile.TemporaryDirectory(prefix="cw-", dir="/tmp") as directory:
        yield Path(directory)


def test_its_host_has_two_nodes_of_eight_cpus() -> None:
    with connected(TEST_HOST) as libvirt:
        host = libvirt.host()
    assert [str(cpus) for cpus in host.topology.numa_nodes.values()] == ["0-7", "8-15"]
    assert not host.topology.hyper_threading
    assert [memory.total >> 30 for memory in host.memory.values()] == [2, 4]


def test_its_guest_is_read() -> None:
    with connected(TEST_HOST) as libvirt:
        (guest,) = libvirt.domains()
    assert (guest.name, guest.vcpus, guest.pins) == ("test", 2, {})


def test_libvirt_takes_pins_emulator_and_nodes_then_restores() -> None:
    library = importlib.import_module("libvirt")
    wanted = {0: 2, 1: 3, 2: 10, 3: 11}
    tuning = CPUTuning({vcpu: CPUSet.of([cpu]) for vcpu, cpu in wanted.items()}, CPUSet.of([4]), {0: 0, 1: 1})
    with connected(TEST_HOST) as libvirt:
        there = library.open(TEST_HOST)
        there.defineXML(GUEST)
        libvirt.write(UUID, libvirt.differences(UUID, tuning)[0])
        (guest,) = (each for each in libvirt.domains() if each.uuid == UUID)
        assert guest.pins == wanted
        assert str(guest.emulator) == "4"
        assert [str(cell.host_nodes) for cell in guest.cells] == ["0", "1"]
        assert libvirt.differences(UUID, tuning) == ([], [])
        there.lookupByUUIDString(UUID).undefine()


def test_guest_deleted_during_reading_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(TEST_HOST) as libvirt:
        there = importlib.import_module("libvirt").open(TEST_HOST)
        going = there.defineXML(GUEST)
        listed = [*there.listAllDomains()]
        going.undefine()
        monkeypatch.setattr(libvirt._connection, "listAllDomains", lambda: listed)
        assert [guest.name for guest in libvirt.domains()] == ["test"]


def test_missing_guest_is_our_error_without_stderr_noise(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with connected(TEST_HOST) as libvirt, pytest.raises(LibvirtError, match="test:///default"):
        libvirt.differences(UUID, CPUTuning({}, None, {}))
    assert capfd.readouterr().err == ""


def test_libvirt_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(LibvirtError, match="nobody"),
        connected(f"qemu+unix:///session?socket={tmp_path}/nobody"),
    ):
        pass


def test_emulated_guest_runs_where_ledger_says_until_undone(short: Path) -> None:
    if not QEMU.exists():
        pytest.skip("there is no QEMU here: Debian's qemu-system-x86")
    here = sorted(os.sched_getaffinity(0))
    if len(here) < 2:
        pytest.skip("this test may run on one CPU only, so every thread is there whatever it is told")
    wanted = {"vcpus": {"0": here[-1], "1": here[0]}, "emulator": here[-1]}
    done = subprocess.run(
        [*_not_root(), sys.executable, str(PROGRAM), str(short), json.dumps(wanted)],
        env={
            **os.environ,
            **dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"), str(short)),
        },
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    if "unshare:" in done.stderr:
        pytest.skip(f"libvirt's embedded driver wants a user that is not root: {done.stderr.strip()}")
    if "no connection driver available" in done.stderr:
        pytest.skip("libvirt has no driver for QEMU here: Debian's libvirt-daemon-driver-qemu")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    machine = read_machine(Path("/")).host.topology
    for name in ("cores", "numa_nodes", "sockets"):
        assert told[name] == [str(cpus) for cpus in getattr(machine, name).values()]
    pinned = {"CPU 0/TCG": str(here[-1]), "CPU 1/TCG": str(here[0]), "main": str(here[-1])}

    def seen(step: str) -> dict[str, str]:
        return {name: cpus for name, cpus in told[step].items() if name in pinned}

    assert seen("before") == seen("untouched")
    assert set(seen("before").values()) == {str(CPUSet.of(here))}
    assert "vcpupin 0" in told["planned"]
    assert seen("applied") == seen("restarted") == pinned
    assert seen("undone") == seen("before")


def _not_root() -> list[str]:
    """Words before a command that make root look like somebody else to it."""
    if os.getuid() or not shutil.which("unshare"):
        return []
    return ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"]
