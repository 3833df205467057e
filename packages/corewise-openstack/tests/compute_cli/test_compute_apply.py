"""``corewise compute apply``: printed, written into a domain of libvirt's test driver, and undone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compute.compute_world import configured, guest, machine
from compute.driver_domains import URI, Domains, driver
from compute_cli.test_compute_commands import DEDICATED, ends, run
from corewise.cli.errors import ExitCode

domains = pytest.fixture(driver, name="domains")


@pytest.fixture
def kept(tmp_path: Path) -> list[str]:
    """A host whose ledger has guests 1 and 2 on CPUs 2-3 and 4-5."""
    topology, config, flavor = (tmp_path / name for name in ("T.json", "nova.conf", "F.json"))
    topology.write_text(json.dumps(machine(cores=8, threads=1, nodes=1)))
    config.write_text(configured({"cpu_dedicated_set": "2-7", "cpu_shared_set": "0-1"}))
    flavor.write_text(json.dumps({"name": "f", "vcpus": 2, "ram": 64, "disk": 0, "extra_specs": DEDICATED}))
    host = ["--topology", str(topology), "--config", str(config), "--host", "n1"]
    options = [*host, "--ledger", str(tmp_path / "ledger.json")]
    for number in (1, 2):
        run("schedule", "--flavor", str(flavor), *options, "--guest", guest(number))
    return options


def test_without_write_changes_are_printed_but_not_made(
    domains: Domains, kept: list[str], tmp_path: Path
) -> None:
    domains.define(1, {}, vcpus=2)
    before = domains.xml(1, stored=True)
    result = run("apply", guest(1), *kept, "--libvirt", URI)
    assert result.exit_code == 0
    assert [line.split()[1:] for line in result.stdout.splitlines()] == [
        ["OF", "SETTING", "BEFORE", "AFTER"],
        ["stored", "vcpupin", "0", "-", 'cpuset="2"'],
        ["stored", "vcpupin", "1", "-", 'cpuset="3"'],
        ["stored", "emulatorpin", "-", 'cpuset="2-3"'],
        ["stored", "memory", "-", 'mode="strict"', 'nodeset="0"'],
    ]
    assert "4 settings would be written; --write writes them" in result.stderr
    assert domains.xml(1, stored=True) == before
    assert not (tmp_path / "applied.json").exists()


def test_several_guests_are_written_and_undone(domains: Domains, kept: list[str]) -> None:
    for number in (1, 2):
        domains.define(number, {}, vcpus=2)
    both = [guest(1), guest(2), *kept, "--libvirt", URI]
    written = json.loads(run("apply", *both, "--write", "-o", "json").stdout)
    assert written["written"]
    assert [len(each["changes"]) for each in written["guests"]] == [4, 4]
    assert "cpuset='4'" in domains.xml(2, stored=True)
    assert "0 settings would be written" in run("apply", *both).stderr
    assert "8 settings would be restored" in run("apply", *both, "--undo", "--dry-run").stderr
    assert "cpuset='4'" in domains.xml(2, stored=True)
    assert run("delete", guest(1), *kept).exit_code == 0
    result = run("apply", *both, "--undo")
    assert "8 settings restored" in result.stderr
    assert "cpuset" not in domains.xml(1, stored=True) + domains.xml(2, stored=True)


def test_what_cannot_change_while_guest_runs_is_reported(domains: Domains, kept: list[str]) -> None:
    domains.define(1, {}, vcpus=2, more="<numatune><memory mode='preferred' nodeset='0'/></numatune>")
    domains.start(1)
    result = run("apply", guest(1), *kept, "--libvirt", URI, "--write")
    assert "memory counts from the next start on: libvirt moves memory of a running domain only if" in (
        " ".join(result.stderr.split())
    )
    assert "mode='strict'" in domains.xml(1, stored=True)


def test_what_others_have_changed_is_left_and_named(domains: Domains, kept: list[str]) -> None:
    domains.define(1, {}, vcpus=2)
    domains.start(1)
    here = [guest(1), *kept, "--libvirt", URI]
    run("apply", *here, "--write")
    domains.pin_by_hand(1, 0, 7)
    result = run("apply", *here, "--undo")
    code, message = ends(result)
    assert code == ExitCode.REFUSED
    assert message.startswith("DomainChanged: 1 setting left as others have set them")
    told = " ".join(result.stderr.split())
    assert f'guest {guest(1)}: vcpupin 0 (live) was set by others to cpuset="7": kept' in told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "say where the domain is"),
        (["--libvirt", URI, "--write", "--undo"], "exclude each other"),
        (["--libvirt", URI, "--dry-run"], "--dry-run goes with --undo"),
        (["--domain", "d.xml", "--write"], "--domain prints one domain"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: list[str], message: str) -> None:
    result = run("apply", guest(1), *options)
    assert result.exit_code == ExitCode.USAGE
    assert message in result.stderr


MORE_CPUS = "the domain has 8 CPUs, but the guest was given 2"


def test_domain_with_more_cpus_is_not_written(domains: Domains, kept: list[str]) -> None:
    domains.define(1, {}, vcpus=8)
    before = domains.xml(1, stored=True)
    code, message = ends(run("apply", guest(1), *kept, "--libvirt", URI, "--write"))
    assert (code, MORE_CPUS in message) == (ExitCode.BAD_INPUT, True)
    assert domains.xml(1, stored=True) == before


def test_domain_with_more_cpus_is_not_printed(kept: list[str], tmp_path: Path) -> None:
    document = tmp_path / "d.xml"
    document.write_text(
        f"<domain><name>g</name><uuid>{guest(1)}</uuid><memory>1</memory><vcpu>8</vcpu></domain>"
    )
    code, message = ends(run("apply", guest(1), *kept, "--domain", str(document)))
    assert (code, MORE_CPUS in message) == (ExitCode.BAD_INPUT, True)
    assert "corewise compute resize GUEST --flavor FILE" in message


def test_guest_on_a_missing_numa_node_is_named(kept: list[str], tmp_path: Path) -> None:
    one, two = (json.dumps(machine(cores=8, threads=1, nodes=nodes)) for nodes in (1, 2))
    (tmp_path / "T.json").write_text(two.replace('"numaNode": 0', '"numaNode": 3'))
    run("schedule", "--flavor", str(tmp_path / "F.json"), *kept, "--guest", guest(3))
    (tmp_path / "T.json").write_text(one)
    document = tmp_path / "d.xml"
    document.write_text(
        f"<domain><name>g</name><uuid>{guest(3)}</uuid><memory>1</memory><vcpu>2</vcpu></domain>"
    )
    code, message = ends(run("apply", guest(3), *kept, "--domain", str(document)))
    assert code == ExitCode.REFUSED
    assert message.startswith("GuestUnapplied: host n1 has no NUMA node ")
    assert "corewise compute move GUEST --to HOST" in message


def test_guest_without_a_domain_has_exit_code_4(domains: Domains, kept: list[str]) -> None:
    code, message = ends(run("apply", guest(1), *kept, "--libvirt", URI, "--write"))
    assert code == ExitCode.NOT_FOUND
    assert message.startswith("GuestUnknown: test:///default")


def test_reshape_of_domains_counts_no_shared_emulator_cpu(
    domains: Domains, kept: list[str], tmp_path: Path
) -> None:
    domains.define(1, {0: 2, 1: 3}, vcpus=2, tune="<emulatorpin cpuset='0'/>")
    domains.define(2, {0: 4, 1: 5}, vcpus=2, tune="<emulatorpin cpuset='6'/>")
    provider = tmp_path / "provider.json"
    allocations = {guest(number): {"resources": {"VCPU": 2}} for number in (1, 2)}
    document = {
        "inventories": {"VCPU": {"total": 8}},
        "resource_provider_generation": 1,
        "allocations": allocations,
    }
    provider.write_text(json.dumps(document))
    result = run("reshape", *kept, "--libvirt", URI, "--provider", str(provider), "-o", "json")
    after = {each["guest"]: each["after"] for each in json.loads(result.stdout)["guests"]}
    assert after == {guest(1): {"PCPU": 2}, guest(2): {"PCPU": 3}}


def test_agent_applies_only_known_domains_nova_leaves_unpinned(tmp_path: Path) -> None:
    alone = run("run", "--apply", "--state-dir", str(tmp_path))
    assert "--apply needs --libvirt" in alone.stderr
    conf = tmp_path / "nova.conf"
    conf.write_text("")
    there = ["--state-dir", str(tmp_path), "--libvirt", URI, "--beside-nova", str(conf)]
    assert "Nova pins the guests of this host" in run("run", "--apply", *there).stderr
