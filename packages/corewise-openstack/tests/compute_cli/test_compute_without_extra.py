"""Without the extra ``openstack`` what needs nothing of it works, and the rest says what to install."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from compute.compute_world import machine
from corewise.cli.errors import ExitCode
from corewise.vocabulary.errors import install_hint

WITHOUT = """
import sys
for missing in ("keystoneauth1", "oslo_config", "placement", "requests", "openstack", "libvirt"):
    sys.modules[missing] = None
from corewise.cli import main
main(sys.argv[1:])
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)


def test_requests_and_pins_need_no_extra(tmp_path: Path) -> None:
    topology, flavor = tmp_path / "T.json", tmp_path / "F.json"
    topology.write_text(json.dumps(machine()))
    flavor.write_text(
        '{"name": "f", "vcpus": 2, "ram": 64, "disk": 0, "extra_specs": {"hw:cpu_policy": "dedicated"}}'
    )
    placed = run("compute", "schedule", "--flavor", str(flavor), "--topology", str(topology), "-o", "json")
    assert placed.stderr == ""
    assert json.loads(placed.stdout)["pinnedCPUs"] == "0-1"


def test_what_needs_the_extra_names_it() -> None:
    told = run("up", "--scenario", "openstack", "--for", "1s")
    assert told.returncode == ExitCode.BAD_INPUT
    assert told.stderr.splitlines() == [
        "corewise: OpenStackUnusable: the Python package keystoneauth1 is not installed",
        f"  {install_hint('openstack')}",
    ]
