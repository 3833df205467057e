"""``corewise up --scenario openstack``: the local cluster's hosts, guests and upgrade."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from corewise.cli import corewise
from corewise.cli.errors import ExitCode
from placement_world import client_of_placement, emptied


@pytest.fixture(autouse=True)
def empty_placement() -> Iterator[None]:
    """Share the one Placement of this process with other tests, which may have left hosts and guests."""
    emptied(client_of_placement())
    yield
    emptied(client_of_placement())


def test_the_scenario_shows_hosts_guests_and_the_upgrade() -> None:
    result = CliRunner().invoke(corewise, ["up", "--scenario", "openstack", "--for", "0.1s", "-o", "json"])
    assert result.exit_code == 0, result.exception
    told = json.loads(result.stdout)
    offered = {each["host"]: (each["VCPU"], each["PCPU"]) for each in told["hosts"]}
    assert offered["combined"] == (
        {"total": 30, "allocationRatio": 8.0},
        {"total": 16, "allocationRatio": 1.0},
    )
    hosts = [each["host"] for each in told["guests"]]
    assert hosts[:3] == ["old"] * 3
    assert hosts[5:7] == ["no-smt"] * 2
    assert hosts[-1] is None
    assert told["guests"][-1]["message"] == "none of 4 hosts can take the guest: 4 eliminated by PCPU"
    assert told["upgrade"]["before"] == {"VCPU": [32, 18]}
    assert told["upgrade"]["after"] == {"VCPU": [8, 2], "PCPU": [24, 24]}
    assert told["upgrade"]["writesOfSecondPass"] == 0
    held = [(host["host"], each["cpu"]) for host in told["cpus"] for each in host["cpus"] if each["guest"]]
    assert len(held) == len(set(held)) == 24 + 16 + 16
    if importlib.util.find_spec("libvirt") is None:
        assert told["owner"] is None
    else:
        owner = told["owner"]
        assert owner["pins"] == owner["chosen"] == {"0": 2, "1": 3, "2": 4, "3": 5}
        assert (owner["heldPCPU"], owner["leftPCPU"]) == (4, 0)
        assert [each["reason"] for each in owner["changes"]] == ["GuestApplied", "GuestGone"]


def test_scenario_refuses_other_up_options() -> None:
    assert (
        CliRunner().invoke(corewise, ["up", "--scenario", "openstack", "--nodes", "5"]).exit_code
        == ExitCode.USAGE
    )
