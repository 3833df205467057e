"""The host agent against the real Placement: periodic, idempotent, and it outlives outages."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from compute.agent_scene import HOST, Scene, run_for
from compute.compute_world import DOCUMENT, IMPATIENT, configured, guest, hosts_in, request, wanted
from compute.faults import down, storm
from corewise.vocabulary import metrics
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.adoption import LedgerChangeKind
from corewise_openstack.compute.beside_nova import NovaGivesCPUs, ProviderOfNova
from corewise_openstack.compute.errors import FileUnusable, LedgerDamaged
from corewise_openstack.compute.hosts import OptionsUnusable
from corewise_openstack.compute.placement import PlacementOffers
from corewise_openstack.compute.program import run_pass
from corewise_openstack.compute.scheduling import GuestScheduler, pin
from corewise_openstack.compute.verdicts import Placed
from corewise_openstack.openstack.errors import ConflictStorm, NovaConfError, PlacementDown, ProviderAwaited
from corewise_openstack.vocabulary.placement import HYPER_THREADING_TRAIT, MEMORY_MB, PCPU, VCPU, Inventory


def test_one_pass_corrects_placement_and_next_writes_nothing(scene: Scene) -> None:
    assert len(scene.run().writes) == 2
    provider = scene.client.provider(scene.uuid)
    assert {
        name: (each.total, str(each.allocation_ratio)) for name, each in provider.inventories.items()
    } == {
        PCPU: (16, "1.0"),
        VCPU: (30, "8.0"),
    }
    assert provider.traits == {HYPER_THREADING_TRAIT}
    reported = scene.state / "reported"
    os.utime(reported, (1000, 1000))
    scene.transport.asked.clear()
    assert scene.run().writes == ()
    assert reported.stat().st_mtime > 1000
    assert scene.transport.writes == []
    assert scene.client.provider(scene.uuid).generation == provider.generation


def test_beside_nova_agent_waits_for_nova_computes_provider(scene: Scene) -> None:
    beside = replace(scene.options, config=(), beside_nova=(scene.conf,))
    for options in (beside, replace(beside, dry_run=True)):
        with pytest.raises(ProviderAwaited, match=f"waiting for nova-compute to create the provider {HOST}"):
            run_pass(options, scene.transport.client(), patience=IMPATIENT)
    assert scene.client.providers(HOST) == ()
    made = scene.client.create_provider(HOST, guest(7))  # as nova-compute does: by its own UUID
    with pytest.raises(ProviderAwaited, match=f"provider {HOST} has no trait of nova-compute"):
        run_pass(beside, scene.transport.client(), patience=IMPATIENT)
    scene.client.put_traits(made.uuid, made.generation, frozenset({"COMPUTE_NODE"}))
    differences = run_pass(beside, scene.transport.client(), patience=IMPATIENT).writes
    assert [each.reason for each in differences] == [Reason.INVENTORY_REPORTED, Reason.TRAIT_REPORTED]
    assert scene.transport.writes == []
    assert scene.totals() == {}


def test_beside_nova_differences_are_logged_once_without_placing(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    made = scene.client.create_provider(HOST)
    scene.client.put_traits(made.uuid, made.generation, frozenset({"COMPUTE_NODE"}))
    scene.options = replace(scene.options, config=(), beside_nova=(scene.conf,))
    agent = run_for(scene, 300.0)
    said = [
        record.message for record in caplog.records if "Placement differs from nova.conf" in record.message
    ]
    assert len(said) == 2
    assert agent.metrics.value(metrics.COMPUTE_WRITES, "inventories") == 0
    assert scene.transport.writes == []
    host = hosts_in(scene.hosts).known[HOST]
    assert str(host.nova_cpus) == "2-47"
    with pytest.raises(NovaGivesCPUs, match="nova-compute runs on host n1 and gives CPUs 2-47"):
        pin(host, request(2), guest=None)


def test_agent_owning_its_host_leaves_nova_provider_alone(scene: Scene) -> None:
    made = scene.client.create_provider(HOST)
    scene.client.put_traits(made.uuid, made.generation, frozenset({"OWNER_NOVA"}))
    for options in (scene.options, replace(scene.options, dry_run=True)):
        with pytest.raises(ProviderOfNova, match=r"belongs to nova-compute \(trait OWNER_NOVA\)"):
            run_pass(options, scene.transport.client(), patience=IMPATIENT)
    assert scene.transport.writes == []


def test_beside_nova_only_cpus_nova_omits_are_given(scene: Scene) -> None:
    own = scene.root.parent / "own.conf"
    own.write_text(configured({"cpu_dedicated_set": "0-3"}))
    part = replace(scene.options, config=(own,), beside_nova=(scene.conf,))
    with pytest.raises(NovaGivesCPUs, match="gives CPUs 2-3"):
        run_pass(part, scene.client)
    own.write_text(configured({"cpu_dedicated_set": "0-1"}))
    run_pass(part, scene.client)
    assert scene.totals() == {PCPU: 2}
    asked = request(2, {"resources:PCPU": "2", "resources:MEMORY_MB": "0"})
    scheduler = GuestScheduler(PlacementOffers(scene.client), hosts_in(scene.hosts))
    assert isinstance(scheduler.schedule(*wanted(1, asked)), Placed)
    run_pass(scene.options, scene.client)  # Nova has left: the mark goes
    assert hosts_in(scene.hosts).known[HOST].nova_cpus is None


def test_what_others_have_written_of_the_provider_stays(scene: Scene) -> None:
    scene.run()
    provider = scene.client.provider(scene.uuid)
    memory = Inventory(total=4096, max_unit=4096)
    generation = scene.client.put_inventories(
        provider.uuid, provider.generation, {**provider.inventories, MEMORY_MB: memory}
    )
    scene.client.put_traits(provider.uuid, generation, provider.traits | {"HW_CPU_X86_AVX2"})
    scene.configure({**DOCUMENT, "cpu_dedicated_set": "2-9"})
    scene.run()
    assert scene.totals() == {PCPU: 8, VCPU: 30, MEMORY_MB: 4096}
    assert scene.client.provider(scene.uuid).traits == {HYPER_THREADING_TRAIT, "HW_CPU_X86_AVX2"}


def test_option_on_several_lines_reaches_schedulers(scene: Scene) -> None:
    scene.conf.write_text("[compute]\ncpu_dedicated_set = 2-3,\n  4-16,\n\t17\ncpu_shared_set =\n  18-47\n")
    scene.run()
    host = hosts_in(scene.hosts).known[HOST]
    assert (str(host.settings.dedicated), str(host.settings.shared)) == ("2-17", "18-47")


RESERVING = {"vcpu_pin_set": "2-15", "reserved_host_cpus": "2"}


def reserved(scene: Scene) -> int:
    return scene.client.provider(scene.uuid).inventories[VCPU].reserved


def test_upgrade_frees_cpus_reserved_by_the_option(scene: Scene) -> None:
    scene.configure(RESERVING)
    scene.run()
    assert reserved(scene) == 2
    scene.configure({"cpu_shared_set": "2-15"})
    scene.transport.fault = down
    with pytest.raises(PlacementDown):
        scene.run()
    scene.transport.fault = None
    scene.run()
    assert (scene.totals(), reserved(scene)) == ({VCPU: 14}, 0)
    provider = scene.client.provider(scene.uuid)
    by_hand = {VCPU: replace(provider.inventories[VCPU], reserved=3)}
    scene.client.put_inventories(provider.uuid, provider.generation, by_hand)
    for _ in range(2):
        scene.run()
    assert reserved(scene) == 3


@pytest.mark.parametrize("ignored", [{}, {"reserved_host_cpus": "2"}])
def test_upgrade_of_all_cpus_frees_reserved_ones(scene: Scene, ignored: dict[str, str]) -> None:
    scene.configure({"reserved_host_cpus": "2"})
    scene.run()
    scene.configure({"cpu_shared_set": "0-47", **ignored})
    for _ in range(2):
        scene.run()
    assert (scene.totals(), reserved(scene)) == ({VCPU: 48}, 0)


def test_a_host_without_threads_online_loses_the_trait(scene: Scene) -> None:
    scene.configure({"cpu_dedicated_set": "2-16"})
    scene.machine(",".join(str(cpu) for cpu in range(0, 48, 2)))
    with pytest.raises(OptionsUnusable, match="are offline"):
        scene.run()
    scene.configure({"cpu_dedicated_set": "2,4,6,8"})
    scene.run()
    assert scene.client.provider(scene.uuid).traits == frozenset()
    scene.machine("0-47")
    scene.run()
    assert scene.client.provider(scene.uuid).traits == {HYPER_THREADING_TRAIT}


def test_concurrent_write_of_another_tool_is_not_overwritten(scene: Scene) -> None:
    scene.run()
    scene.configure({**DOCUMENT, "cpu_shared_set": "20-47"})
    disk = {"DISK_GB": Inventory(total=100, max_unit=100)}

    def interfere(method: str, path: str) -> None:
        if path.endswith("/traits"):
            scene.transport.after = lambda _method, _path: None
            there = scene.client.provider(scene.uuid)
            scene.client.put_inventories(there.uuid, there.generation, {**there.inventories, **disk})

    scene.transport.after = interfere
    scene.run()
    assert scene.totals() == {PCPU: 16, VCPU: 28, "DISK_GB": 100}


def test_a_storm_of_conflicts_ends_and_changes_nothing(scene: Scene) -> None:
    scene.run()
    scene.configure({"cpu_shared_set": "0-47"})
    scene.transport.fault = storm
    with pytest.raises(ConflictStorm):
        scene.run()
    assert scene.totals() == {PCPU: 16, VCPU: 30}


def test_schedulers_find_host_files_and_place_by_them(scene: Scene) -> None:
    run_pass(replace(scene.options, standalone=True, disk_gb=10), scene.client)
    hosts = hosts_in(scene.hosts)
    assert str(hosts.known[HOST].settings.dedicated) == "2-17"
    scheduler = GuestScheduler(PlacementOffers(scene.client), hosts)
    assert isinstance(scheduler.schedule(*wanted(1, request(8, {"hw:cpu_policy": "dedicated"}))), Placed)
    assert scene.totals() == {PCPU: 16, VCPU: 30, MEMORY_MB: 65536, "DISK_GB": 10}


@pytest.mark.parametrize("text", ["half", "-1", "1.5", "\u0663", "9" * 5000])
def test_reserved_memory_is_a_bounded_whole_number(scene: Scene, text: str) -> None:
    options = replace(scene.options, standalone=True)
    scene.configure({**DOCUMENT, "reserved_host_memory_mb": text})
    with pytest.raises(FileUnusable, match="whole number of MiB") as refused:
        run_pass(options, scene.client)
    assert len(str(refused.value)) < 200


def test_options_unsuited_to_guests_keep_agent_from_starting(scene: Scene) -> None:
    run_pass(replace(scene.options, standalone=True), scene.client)
    GuestScheduler(PlacementOffers(scene.client), hosts_in(scene.hosts)).schedule(
        *wanted(1, request(8, {"hw:cpu_policy": "dedicated"}))
    )
    scene.configure({"cpu_shared_set": "0-47"})
    with pytest.raises(OptionsUnusable, match=guest(1)) as refused:
        scene.run()
    assert refused.value.reason is Reason.GUEST_NEEDS_DEDICATED_CPUS
    assert scene.totals()[PCPU] == 16


def test_a_damaged_ledger_keeps_the_agent_from_starting(scene: Scene) -> None:
    (scene.state / "ledger.json").write_text('{"version": 1, "serial"')
    with pytest.raises(LedgerDamaged):
        scene.run()
    assert scene.client.providers(HOST) == ()


def test_guests_of_a_real_libvirt_are_entered_once(scene: Scene) -> None:
    pytest.importorskip("libvirt", reason="needs the extra libvirt: make libvirt")
    options = replace(scene.options, libvirt="test:///default")
    first = run_pass(options, scene.client)
    assert [each.kind for each in first.state.changes] == [LedgerChangeKind.ADOPTED]
    assert [each.shared for each in first.state.offering.guests] == [2]
    assert run_pass(options, scene.client).state.changes == ()


def test_dry_run_reports_its_writes_without_writing(scene: Scene) -> None:
    dry = replace(scene.options, once=True, dry_run=True)
    assert [each.reason for each in run_pass(dry, scene.transport.client()).writes] == [
        Reason.INVENTORY_REPORTED,
        Reason.TRAIT_REPORTED,
    ]
    assert scene.transport.writes == []
    assert list(scene.state.iterdir()) == []


def test_placement_outage_changes_nothing_and_is_recovered_afterwards(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    def away() -> None:
        scene.transport.fault = down
        scene.configure({**DOCUMENT, "cpu_dedicated_set": "2-9"})

    def back() -> None:
        assert scene.totals()[PCPU] == 16
        scene.transport.fault = None

    agent = run_for(scene, 1000.0, (90.0, away), (690.0, back))
    assert scene.totals()[PCPU] == 8
    assert agent.metrics.value(metrics.COMPUTE_PASSES, Reason.PLACEMENT_DOWN) == 10
    assert sum("PlacementDown" in record.message for record in caplog.records if record.levelno == 30) == 1
    assert list(agent.program.problems()) == []


def test_placement_may_be_away_when_the_agent_starts(scene: Scene) -> None:
    scene.transport.fault = down

    def back() -> None:
        scene.transport.fault = None

    agent = run_for(scene, 200.0, (100.0, back))
    assert scene.totals() == {PCPU: 16, VCPU: 30}
    assert agent.metrics.value(metrics.COMPUTE_WRITES, "inventories") == 1


def test_options_turned_invalid_leave_written_ones_in_force(scene: Scene) -> None:
    agent = run_for(scene, 300.0, (90.0, lambda: scene.configure({**DOCUMENT, "cpu_dedicated_set": "2-20"})))
    assert scene.totals() == {PCPU: 16, VCPU: 30}
    assert next(iter(agent.program.problems())).startswith("CPUSetsOverlap")


def test_unparsable_options_file_ends_the_agent_at_start(scene: Scene) -> None:
    scene.conf.write_text("garbage\n")
    with pytest.raises(NovaConfError):
        run_for(scene, 100.0)


def test_wrong_options_at_start_end_the_agent(scene: Scene) -> None:
    scene.configure({**DOCUMENT, "cpu_dedicated_set": "2-20"})
    with pytest.raises(OptionsUnusable, match="must be disjoint"):
        run_for(scene, 100.0)
    assert scene.client.providers(HOST) == ()
