"""Guests that hold resources of other providers than their host's are moved with these, or not at all.

================== ============== =================== ==================================
the other provider the guest      the other host      then
================== ============== =================== ==================================
a child of host a  moves to b     any                 refused
a child of host a  is resized     (in place)          it keeps what it has of the child
shares with both   moves to b     in its aggregate    it keeps what it has of it
shares with a      moves to b     in no aggregate     refused
shares with both   is resized     either              it has the new amount of it
two children       is resized     (in place)          kept, or refused if the amount differs
================== ============== =================== ==================================
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from click.testing import CliRunner

from compute.compute_world import IMPATIENT, World, guest, request, wanted
from corewise.cli import corewise
from corewise.cli.errors import Failure
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.moving import GuestMover, WantedMove
from corewise_openstack.compute.placement import PlacementOffers
from corewise_openstack.compute.verdicts import Placed
from corewise_openstack.openstack.embedded import served, start
from corewise_openstack.tracking import Flavor, GuestRequest, translate
from corewise_openstack.vocabulary.placement import Inventory

DEDICATED = {"hw:cpu_policy": "dedicated"}
GUEST, MOVE = guest(1), guest(77)
TOGETHER, ALONE = guest(500), guest(501)
"""Aggregates."""


def child(world: World, parent: str, name: str, **totals: int) -> None:
    """Create a provider in the tree of a host."""
    body = {"name": name, "parent_provider_uuid": world.providers[parent]}
    world.client.transport.send("POST", "/resource_providers", json.dumps(body).encode())
    made = world.client.find_provider(name)
    assert made is not None
    inventories = {each: Inventory(total, total) for each, total in totals.items()}
    world.client.put_inventories(made.uuid, made.generation, inventories)
    world.providers[name] = made.uuid


def storage(world: World, *traits: str) -> None:
    """Create a provider that shares its disk with the hosts of its aggregate."""
    made = world.client.create_provider("nfs")
    generation = world.client.put_inventories(made.uuid, 0, {"DISK_GB": Inventory(1000, 1000)})
    world.client.put_traits(made.uuid, generation, frozenset({"MISC_SHARES_VIA_AGGREGATE", *traits}))
    world.providers["nfs"] = made.uuid
    join(world, "nfs", TOGETHER)


def join(world: World, name: str, *aggregates: str) -> None:
    provider = world.client.provider(world.providers[name])
    body = {"aggregates": aggregates, "resource_provider_generation": provider.generation}
    path = f"/resource_providers/{provider.uuid}/aggregates"
    world.client.transport.send("PUT", path, json.dumps(body).encode())


def flavor(vcpus: int = 4, *, disk: int = 0, **more: str) -> GuestRequest:
    specs = {**DEDICATED, **{f"resources:{name}": amount for name, amount in more.items()}}
    made = translate(Flavor("f", vcpus, 1024, disk, extra_specs=specs))
    assert not isinstance(made, Finding)
    return made


def place(world: World, asked: GuestRequest) -> None:
    assert isinstance(world.scheduler().schedule(*wanted(1, asked)), Placed)


def begin(world: World, to: str, asked: GuestRequest | None = None) -> object:
    mover = GuestMover(PlacementOffers(world.client, patience=IMPATIENT), world.hosts)
    begun = mover.begin(WantedMove(GUEST, to, MOVE, asked, "f"))
    if not isinstance(begun, Finding):
        mover.confirm(GUEST)
    return begun


def held(world: World) -> Mapping[str, Mapping[str, int]]:
    names = {uuid: name for name, uuid in world.providers.items()}
    consumer = world.client.consumer(GUEST)
    assert consumer is not None
    return {names[uuid]: dict(amounts) for uuid, amounts in consumer.allocations.items()}


OWN = {"PCPU": 4, "MEMORY_MB": 1024}


def test_guest_with_a_device_stays_on_its_host(world: World) -> None:
    world.host("a")
    child(world, "a", "a_gpu", VGPU=4)
    place(world, flavor(VGPU="1"))
    world.host("b")
    child(world, "b", "b_gpu", VGPU=4)
    for asked in (None, flavor(6, VGPU="1")):
        refusal = begin(world, "b", asked)
        assert isinstance(refusal, Finding)
        assert refusal.reason is Reason.GUEST_TIED_TO_PROVIDER
        assert "host b: the guest holds 1 VGPU of provider a_gpu" in refusal.message
    assert held(world) == {"a": OWN, "a_gpu": {"VGPU": 1}}
    begin(world, "a", flavor(6, VGPU="1"))
    assert held(world) == {"a": {**OWN, "PCPU": 6}, "a_gpu": {"VGPU": 1}}
    begin(world, "a", flavor(4, VGPU="2"))
    assert held(world) == {"a": OWN, "a_gpu": {"VGPU": 2}}
    begin(world, "a", flavor(4))
    assert held(world) == {"a": OWN}


def test_amount_of_several_providers_stays_or_is_refused(world: World) -> None:
    world.host("a")
    child(world, "a", "a_gpu0", VGPU=2)
    child(world, "a", "a_gpu1", VGPU=2)
    specs = {"resources1:VGPU": "1", "resources2:VGPU": "1", "group_policy": "isolate"}
    place(world, request(4, {**DEDICATED, **specs}))
    gpus = {"a_gpu0": {"VGPU": 1}, "a_gpu1": {"VGPU": 1}}
    assert held(world) == {"a": OWN, **gpus}
    refusal = begin(world, "a", flavor(4, VGPU="1"))
    assert isinstance(refusal, Finding)
    assert "requests 1 VGPU, and the guest holds 2 of 2 providers" in refusal.message
    begin(world, "a", flavor(6, VGPU="2"))
    assert held(world) == {"a": {**OWN, "PCPU": 6}, **gpus}


@pytest.mark.parametrize("to", ["a", "b"])
def test_shared_storage_goes_along_within_its_aggregate(world: World, to: str) -> None:
    world.host("a")
    storage(world)
    join(world, "a", TOGETHER)
    place(world, flavor(disk=10))
    world.host("b")
    join(world, "b", TOGETHER, ALONE)
    begin(world, to, flavor(6, disk=10))
    assert held(world) == {to: {**OWN, "PCPU": 6}, "nfs": {"DISK_GB": 10}}
    begin(world, "b", flavor(4, disk=20))
    assert held(world) == {"b": OWN, "nfs": {"DISK_GB": 20}}
    begin(world, "a")
    assert held(world) == {"a": OWN, "nfs": {"DISK_GB": 20}}


def test_guest_never_leaves_hosts_of_its_storage(world: World) -> None:
    world.host("a")
    storage(world)
    join(world, "a", TOGETHER)
    place(world, flavor(disk=10))
    world.host("b")
    join(world, "b", ALONE)
    refusal = begin(world, "b")
    assert isinstance(refusal, Finding)
    assert refusal.message.endswith(
        "10 DISK_GB of provider nfs, which shares no aggregate with the other host"
    )


def test_trait_of_shared_storage_counts_for_its_guests(world: World) -> None:
    world.host("a")
    storage(world, "STORAGE_DISK_SSD")
    join(world, "a", TOGETHER)
    made = translate(
        Flavor("f", 4, 1024, 10, extra_specs={**DEDICATED, "trait:STORAGE_DISK_SSD": "required"})
    )
    assert not isinstance(made, Finding)
    place(world, made)
    world.host("b")
    join(world, "b", TOGETHER)
    assert not isinstance(begin(world, "b"), Finding)


def test_rebuild_counts_the_allocations_of_all_providers(world: World) -> None:
    world.host("a")
    storage(world)
    join(world, "a", TOGETHER)
    place(world, flavor(disk=10))
    file = world.folder / "flavor.json"

    def rebuild(disk: int, *more: str) -> str:
        """Return the reason of the refusal, if it is refused."""
        fields = {"name": "f", "vcpus": 4, "ram": 1024, "disk": disk, "extra_specs": DEDICATED}
        file.write_text(json.dumps(fields))
        options = ["--flavor", str(file), "--hosts", str(world.folder), *more]
        result = CliRunner().invoke(corewise, ["compute", "rebuild", GUEST, *options])
        assert isinstance(result.exception, Failure | None), result.exception
        return str(result.exception or "").partition(":")[0]

    with served(start()) as url:
        assert rebuild(10, "--placement-url", url) == ""
        assert rebuild(20, "--placement-url", url) == Reason.REBUILD_CHANGES_CLAIM
        image = world.folder / "image.json"
        image.write_text('{"properties": {"trait:HW_CPU_X86_AVX512F": "required"}}')
        assert rebuild(10, "--placement-url", url, "--image", str(image)) == Reason.HOST_LACKS_TRAIT
    assert rebuild(10) == Reason.PLACEMENT_NOT_NAMED
