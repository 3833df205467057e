"""``corewise topology --libvirt``, which corewise-openstack adds."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from corewise.cli import corewise
from corewise.cli.errors import ExitCode
from corewise.config.machine_file import parse_machine

CAPABILITIES = """<capabilities><host><topology><cells num='1'><cell id='0'>
  <memory unit='KiB'>4194304</memory>
  <cpus num='4'>
    <cpu id='0' socket_id='0' core_id='0' siblings='0-1'/>
    <cpu id='1' socket_id='0' core_id='0' siblings='0-1'/>
    <cpu id='2' socket_id='0' core_id='1' siblings='2'/><cpu id='3'/>
  </cpus>
</cell></cells></topology>
<cache><bank id='0' level='3' type='both' size='32' unit='MiB' cpus='0-3'/></cache></host></capabilities>"""


def test_libvirt_machine_is_shown_and_wrong_call_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = SimpleNamespace(getCapabilities=lambda: CAPABILITIES, close=lambda: None)
    library = SimpleNamespace(
        open=lambda _uri: connection, registerErrorHandler=lambda *_: None, libvirtError=RuntimeError
    )
    monkeypatch.setitem(sys.modules, "libvirt", library)
    result = CliRunner().invoke(corewise, ["topology", "--libvirt", "qemu:///system"])
    assert result.stdout.splitlines() == [
        "Model:    unknown",
        "Shape:    1 socket, 1 NUMA node, 1 last-level cache, 2 cores, 3 CPUs online",
        "Offline:  3",
        "Settings: hyper-threading on, turbo unknown",
        "Memory:   4.0 GiB",
        "",
        "SOCKET  NUMA  LLC    SIZE  CORES  ONLINE  CPUS  OFFLINE   MEMORY  HUGEPAGES",
        "     0     0    0  32 MiB      2       3  0-2   3        4.0 GiB    0.0 GiB",
    ]
    document = CliRunner().invoke(corewise, ["topology", "--libvirt", "qemu:///system", "-o", "json"]).stdout
    assert parse_machine(document).value is not None
    wrong = ["topology", "--root", str(tmp_path), "--libvirt", "qemu:///system"]
    assert CliRunner().invoke(corewise, wrong).exit_code == ExitCode.USAGE
