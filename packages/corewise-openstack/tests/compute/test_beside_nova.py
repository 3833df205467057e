"""Where nova-compute runs, no command gives a CPU that Nova gives, whether the host or Placement says so.

========================= ==================== ==========================================
the host's directory says Placement says       then
========================= ==================== ==========================================
corewise alone            no trait of Nova's   the guest is placed
corewise alone            a trait of Nova's    refused: the provider is Nova's
Nova gives its CPUs       either               refused: Nova gives them
Nova gives other CPUs     no trait of Nova's   the guest is placed
Nova gives other CPUs     a trait of Nova's    refused: the provider is Nova's
========================= ==================== ==========================================
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from compute.compute_world import World, guest, request, wanted
from corewise.cli import corewise
from corewise.cli.errors import Failure
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.beside_nova import MARK, NovaGivesCPUs, ProviderOfNova
from corewise_openstack.compute.verdicts import NoValidHost, Placed
from corewise_openstack.vocabulary.placement import NOVA_TRAITS
from placement_world import guest as consumer

HOST = "n1"
DEDICATED = {"hw:cpu_policy": "dedicated"}


def mark(world: World, cpus: str) -> None:
    """Say in the host's directory that nova-compute gives these CPUs."""
    (world.folder / HOST / MARK).write_text(f"{cpus}\n")
    world.forget()


def trait(world: World, name: str = "COMPUTE_NODE") -> None:
    provider = world.client.provider(world.providers[HOST])
    world.client.put_traits(provider.uuid, provider.generation, provider.traits | {name})


def eliminated(world: World) -> Reason | None:
    outcome = world.scheduler().schedule(*wanted(1, request(4, DEDICATED)))
    assert isinstance(outcome, NoValidHost)
    assert world.held(HOST) == {}
    assert world.hosts.known[HOST].guests() == {}
    return outcome.eliminated[0].reason


@pytest.mark.parametrize("name", sorted(NOVA_TRAITS))
def test_no_guest_is_claimed_from_a_nova_provider(world: World, name: str) -> None:
    world.host(HOST)
    trait(world, name)
    assert eliminated(world) is Reason.PROVIDER_OF_NOVA


@pytest.mark.parametrize("nova", ["2-47", "17", "0-47"])
def test_no_guest_gets_a_cpu_that_nova_gives(world: World, nova: str) -> None:
    world.host(HOST)
    mark(world, nova)
    assert eliminated(world) is Reason.NOVA_GIVES_CPUS


def test_cpus_that_nova_does_not_give_are_given(world: World) -> None:
    world.host(HOST)
    mark(world, "0-1")
    assert isinstance(world.scheduler().schedule(*wanted(1, request(4, DEDICATED))), Placed)
    trait(world)
    outcome = world.scheduler().schedule(*wanted(2, request(4, DEDICATED)))
    assert isinstance(outcome, NoValidHost)
    assert "nova-compute" in outcome.message


def test_a_guest_of_nova_is_not_deleted(world: World) -> None:
    world.host(HOST)
    trait(world)
    world.client.put_consumer(consumer({world.providers[HOST]: {"PCPU": 4}}, guest(5)))
    with pytest.raises(ProviderOfNova):
        world.scheduler().delete(guest(5))
    assert world.held(HOST) == {"PCPU": 4}


def test_guest_in_ledger_beside_nova_is_not_deleted(world: World) -> None:
    world.host(HOST)
    world.scheduler().schedule(*wanted(1, request(4, DEDICATED)))
    mark(world, "2-47")
    with pytest.raises(NovaGivesCPUs):
        world.scheduler().delete(guest(1))
    assert world.held(HOST)["PCPU"] == 4
    assert guest(1) in world.hosts.known[HOST].guests()


def ended(*arguments: str) -> str:
    result = CliRunner().invoke(corewise, ["compute", *arguments])
    assert isinstance(result.exception, Failure), result.exception or result.stdout
    return str(result.exception).partition(":")[0]


def test_every_command_that_places_or_pins_refuses(world: World, tmp_path: Path) -> None:
    world.host(HOST)
    flavor = tmp_path / "flavor"
    flavor.write_text(json.dumps({"name": "f", "vcpus": 4, "ram": 1024, "extra_specs": DEDICATED}))
    domain = tmp_path / "domain"
    domain.write_text(f"<domain><uuid>{guest(1)}</uuid><vcpu>4</vcpu></domain>")
    hosts = ["--hosts", str(world.folder)]
    world.scheduler().schedule(*wanted(1, request(4, DEDICATED)))
    mark(world, "2-47")
    own = world.folder / HOST
    one = ["--topology", str(own / "topology.json"), "--beside-nova", str(own / "nova.conf")]
    assert ended("schedule", "--flavor", str(flavor), *hosts) == "NoValidHost"
    assert ended("schedule", "--flavor", str(flavor), *one) == "NoValidHost"
    assert ended("pin", "--flavor", str(flavor), *hosts) == Reason.NOVA_GIVES_CPUS
    assert ended("pin", "--flavor", str(flavor), *one) == Reason.NOVA_GIVES_CPUS
    assert ended("apply", guest(1), "--domain", str(domain), *hosts) == Reason.NOVA_GIVES_CPUS
    assert ended("delete", guest(1), *hosts) == Reason.NOVA_GIVES_CPUS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--beside-nova", "nova.conf", "--standalone"), "does: not with --beside-nova"),
        (("--beside-nova", "nova.conf", "--config", "own.conf"), "with --host"),
        (("--beside-nova", "nova.conf", "--state-dir", "state"), "name Nova's Placement"),
    ],
)
def test_agent_beside_nova_names_its_unsuitable_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nova.conf").write_text("[compute]\ncpu_shared_set = 0\n")
    result = CliRunner().invoke(corewise, ["compute", "run", "--once", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
