"""``corewise compute`` against the real Placement over HTTP, and against ones that say no."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from compute.compute_world import DOCUMENT, World, configured, guest, put_host
from corewise.cli import corewise
from corewise.cli.errors import ExitCode, Failure
from corewise_openstack.openstack.embedded import served, start
from corewise_openstack.vocabulary.placement import PCPU
from machine_trees import Tree
from placement_world import SavedPlacement, client_of_placement, emptied
from placement_world import guest as consumer
from placement_world import host as placed_host

DEDICATED = {"hw:cpu_policy": "dedicated"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "hosts").mkdir()
    return World(tmp_path / "hosts", emptied(client_of_placement()))


@pytest.fixture
def endpoint() -> Iterator[str]:
    with served(start()) as url:
        yield url


def run(*arguments: str) -> Result:
    return CliRunner().invoke(corewise, ["compute", *arguments])


def ended(*arguments: str) -> tuple[int, str]:
    result = run(*arguments)
    assert isinstance(result.exception, Failure), result.exception or result.stdout
    return result.exception.exit_code, str(result.exception).partition(":")[0]


def flavor(folder: Path, vcpus: int = 8, extra_specs: Any = DEDICATED) -> list[str]:
    file = folder / "F.json"
    file.write_text(
        json.dumps({"name": "f", "vcpus": vcpus, "ram": 1024, "disk": 0, "extra_specs": extra_specs})
    )
    return ["--flavor", str(file)]


def machine_tree(folder: Path) -> Path:
    tree = Tree(folder / "root").cpulists("0-7", "0-7").meminfo(16 << 20).node(0, "0-7", kib=16 << 20)
    for cpu in range(8):
        tree.cpu(cpu, siblings=f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}", package=0)
    return tree.root


def test_a_guest_goes_through_all_commands(world: World, endpoint: str, tmp_path: Path) -> None:
    placement = ["--placement-url", endpoint]
    config = tmp_path / "nova.conf"
    config.write_text(configured({"cpu_dedicated_set": "2-5", "cpu_shared_set": "6-7"}))
    host = ["--host", "n1", "--config", str(config), "--root", str(machine_tree(tmp_path))]
    state = world.folder / "n1"
    agent = ["run", "--once", *host, "--state-dir", str(state), "--standalone", *placement]
    state.mkdir()
    first, second = run(*agent), run(*agent)
    assert first.stdout.count("\n") == 2
    assert (second.exit_code, second.stdout) == (0, "")
    told = json.loads(run("inventory", *host, *placement, "-o", "json").stdout)
    assert told["resource_provider_generation"] == 2
    assert set(told["inventories"]) == {"PCPU", "VCPU", "MEMORY_MB"}
    asked = json.loads(run("request", *flavor(tmp_path, 4), *placement, "-o", "json").stdout)
    child = {"name": "n1_gpu", "parent_provider_uuid": world.client.providers("n1")[0].uuid}
    world.client.transport.send("POST", "/resource_providers", json.dumps(child).encode())
    asked = json.loads(run("request", *flavor(tmp_path, 4), *placement, "-o", "json").stdout)
    assert asked["hostsFound"] == {"query": 1}
    hosts = ["--hosts", str(world.folder)]
    placed = run("schedule", *flavor(tmp_path, 4), *hosts, *placement, "--guest", guest(1), "-o", "json")
    assert json.loads(placed.stdout)["pinnedCPUs"] == "2-5"
    assert world.client.consumer(guest(1)) is not None
    assert ended("schedule", *flavor(tmp_path, 1), *hosts, *placement) == (6, "NoValidHost")
    assert run("delete", guest(1), *hosts, *placement).exit_code == 0
    assert world.client.consumer(guest(1)) is None


def listed(name: str, number: int, hosts: list[str], zone: str = "", **properties: str) -> dict[str, Any]:
    """An aggregate as ``openstack aggregate list --long -f json`` prints it."""
    return {
        "ID": number,
        "UUID": guest(500 + number),
        "Name": name,
        "Availability Zone": zone or None,
        "Properties": properties,
        "Hosts": hosts,
    }


AGGREGATES = [
    listed("owned", 1, ["a", "b"], "east", pinned="true", sockets="1, 2"),
    listed("common", 2, ["c"], pinned="false"),
]
WANTED_PINNED = {**DEDICATED, "aggregate_instance_extra_specs:pinned": "true"}


@pytest.fixture(scope="module")
def four_hosts(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, SavedPlacement]:
    """Four hosts, three of them in aggregates, and the Placement that has them."""
    world = World(tmp_path_factory.mktemp("hosts"), emptied(client_of_placement()))
    for name in "abcd":
        world.host(name)
        provider = world.client.provider(world.providers[name])
        within = [each["UUID"] for each in AGGREGATES if name in each["Hosts"]]
        body = {"aggregates": within, "resource_provider_generation": provider.generation}
        path = f"/resource_providers/{provider.uuid}/aggregates"
        world.client.transport.send("PUT", path, json.dumps(body).encode())
    return world, SavedPlacement()


@pytest.fixture
def zones(four_hosts: tuple[World, SavedPlacement], world: World, endpoint: str, tmp_path: Path) -> list[str]:
    """Copies of the four hosts; returns the options that name the hosts and the Placement."""
    hosts, placement = four_hosts
    placement.restore()
    shutil.copytree(hosts.folder, world.folder, dirs_exist_ok=True)
    world.providers = dict(hosts.providers)
    (tmp_path / "aggregates.json").write_text(json.dumps(AGGREGATES))
    return ["--hosts", str(world.folder), "--placement-url", endpoint]


@pytest.mark.parametrize("offline", [False, True])
@pytest.mark.parametrize(
    ("specs", "options", "hosts"),
    [
        ({}, (), "abcd"),
        ({}, ("--zone", "east"), "ab"),
        ({}, ("--zone", "nova"), "cd"),
        ({"pinned": "true"}, (), "ab"),
        ({"pinned": "false"}, (), "c"),
        ({"pinned": "<or> true <or> false"}, ("--not-aggregate", "owned"), "c"),
        ({"sockets": ">= 2"}, (), "ab"),
        ({}, ("--aggregate", "owned", "--aggregate", "common"), "abc"),
        ({}, ("--aggregate", guest(502)), "c"),
        ({}, ("--not-aggregate", "owned", "--not-aggregate", "common"), "d"),
        ({"pinned": "true"}, ("--zone", "east", "--not-aggregate", "common"), "ab"),
    ],
)
def test_guest_goes_only_to_its_zone_and_aggregates(
    zones: list[str],
    tmp_path: Path,
    specs: dict[str, str],
    options: tuple[str, ...],
    hosts: str,
    *,
    offline: bool,
) -> None:
    scoped = {f"aggregate_instance_extra_specs:{key}": value for key, value in specs.items()}
    asked = [*flavor(tmp_path, 8, {**DEDICATED, **scoped}), *(zones[:2] if offline else zones)]
    command = ["schedule", *asked, "--aggregates", str(tmp_path / "aggregates.json"), *options, "--strict"]
    taken = set()
    for number in range(2 * len(hosts)):
        result = run(*command, "--guest", guest(number + 1), "-o", "json")
        assert result.exit_code == 0, result.exception
        taken.add(json.loads(result.stdout)["host"])
    assert taken == set(hosts)
    full = run(*command, "-o", "json")
    assert isinstance(full.exception, Failure)
    assert full.exception.exit_code == ExitCode.REFUSED
    fallen = {each["demand"]: each["hosts"] for each in json.loads(full.stdout)["fallen"]}
    assert sum(fallen.values()) == 4


def test_each_demand_reports_how_many_hosts_it_eliminated(zones: list[str], tmp_path: Path) -> None:
    asked = [*flavor(tmp_path, 8, WANTED_PINNED), *zones, "--aggregates", str(tmp_path / "aggregates.json")]
    result = run("schedule", *asked, "--zone", "nova", "--aggregate", "common", "-o", "json")
    assert [(each["hosts"], each["demand"]) for each in json.loads(result.stdout)["fallen"]] == [
        (2, "availability zone nova"),
        (2, "aggregate_instance_extra_specs:pinned = true"),
    ]


def test_moved_guest_keeps_its_zone_and_flavor_aggregates(zones: list[str], tmp_path: Path) -> None:
    known = ["--aggregates", str(tmp_path / "aggregates.json")]
    placed = run(
        "schedule", *flavor(tmp_path, 2, WANTED_PINNED), *zones, *known, "--zone", "east", "--guest", guest(1)
    )
    assert placed.exit_code == 0, placed.exception
    assert ended("move", guest(1), "--to", "c", *zones, *known) == (6, "HostOutsideAggregates")
    unwanted = {**DEDICATED, "aggregate_instance_extra_specs:pinned": "false"}
    assert ended("resize", guest(1), *flavor(tmp_path, 2, unwanted), *zones, *known) == (
        6,
        "HostOutsideAggregates",
    )
    blind = run("move", guest(1), "--to", "c", *zones)
    assert "demands a host of availability zone east, pinned = true" in blind.stderr
    assert run("revert", guest(1), *zones).exit_code == 0
    allowed = run("move", guest(1), "--to", "b", *zones, *known)
    assert (allowed.exit_code, allowed.stderr) == (0, "")


def changed(**changes: Any) -> Any:
    """The first aggregate with other fields; None removes one."""
    made = {**AGGREGATES[0], **changes}
    return [{key: value for key, value in made.items() if value is not None}]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (AGGREGATES, ("--zone", "eats"), 'no aggregate has availability zone eats: did you mean "east"?'),
        (AGGREGATES, ("--aggregate", "ownd"), 'no aggregate is called ownd: did you mean "owned"?'),
        ([*AGGREGATES, AGGREGATES[0]], ("--aggregate", "owned"), "2 aggregates are called owned"),
        (changed(UUID=None), (), "has no uuid, and Placement identifies an aggregate by it"),
        (changed(Name=None), (), "has no name"),
        (changed(Hosts="a"), (), "must be a list"),
        (changed(Properties=["pinned=true"]), (), "must be"),
        ([], ("--zone", "east"), "no aggregate has availability zone east"),
    ],
)
def test_unusable_aggregate_file_or_name_is_refused(
    zones: list[str], tmp_path: Path, text: Any, options: tuple[str, ...], said: str
) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps(text))
    result = run("schedule", *flavor(tmp_path), *zones, "--aggregates", str(file), *options)
    assert result.exit_code != 0, result.stderr
    assert said in str(result.exception) + result.stderr


def test_unoffered_request_is_named_with_available_aggregates(zones: list[str], tmp_path: Path) -> None:
    specs = {**DEDICATED, "aggregate_instance_extra_specs:pinned": "yes"}
    asked = [
        "schedule",
        *flavor(tmp_path, 8, specs),
        "--aggregates",
        str(tmp_path / "aggregates.json"),
        *zones,
    ]
    result = run(*asked)
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == ExitCode.NOT_FOUND
    assert "no aggregate has a property for aggregate_instance_extra_specs:pinned = yes" in str(
        result.exception
    )
    assert "its values are false, true" in str(result.exception.hint)


def test_without_a_file_only_placement_and_uuids_work(zones: list[str], tmp_path: Path) -> None:
    command = ["schedule", *flavor(tmp_path, 8, WANTED_PINNED)]
    found = run(*command, *zones, "--aggregate", guest(502), "-o", "json")
    assert found.exception is None, found.exception
    assert json.loads(found.stdout)["host"] == "c"
    assert "host aggregates are not considered: name a file of them with --aggregates" in found.stderr
    for options, said in (
        ([*zones, "--zone", "east"], "add --aggregates FILE"),
        ([*zones, "--aggregate", "owned"], "'owned' is not a UUID"),
        ([*zones[:2], "--aggregate", guest(502)], "only a Placement knows aggregates"),
    ):
        result = run(*command, *options)
        assert result.exit_code == 2
        assert said in result.stderr


def test_upgrade_is_shown_then_done_then_leaves_nothing(world: World, endpoint: str, tmp_path: Path) -> None:
    world.host("n1", {}, cores=12, nodes=1)
    placement = ["--hosts", str(world.folder), "--placement-url", endpoint]
    assert run("schedule", *flavor(tmp_path), *placement, "--guest", guest(1)).exit_code == 0
    options = configured({"cpu_dedicated_set": "0-11", "cpu_shared_set": "12-23"})
    (world.folder / "n1" / "nova.conf").write_text(options)
    reshape = ["reshape", *placement, "--host", "n1", "-o", "json"]
    shown, done, again = (json.loads(run(*reshape, *more).stdout) for more in (["--dry-run"], [], []))
    assert (shown["written"], done["written"], again["written"]) == (False, True, False)
    assert shown["guests"] == done["guests"]
    assert again["guests"] == []
    assert world.held("n1") == {PCPU: 8, "MEMORY_MB": 1024}


def test_claims_in_placement_change_only_together_with_it(
    world: World, endpoint: str, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        world.host(name)
    hosts, placement = ["--hosts", str(world.folder)], ["--placement-url", endpoint]
    asked = flavor(tmp_path, 4)
    assert run("schedule", *asked, *hosts, *placement, "--guest", guest(1)).exit_code == 0
    refused = (ExitCode.REFUSED, "PlacementNotNamed")
    ledgers = [host.guests() for host in world.hosts.known.values()]
    assert ended("move", guest(1), "--to", "b", *hosts) == refused
    assert ended("evacuate", guest(1), "--to", "b", *hosts) == refused
    assert ended("resize", guest(1), *flavor(tmp_path, 6), *hosts) == refused
    assert ended("delete", guest(1), *hosts) == refused
    conf = tmp_path / "nova.conf"
    conf.write_text("[placement]\n")
    from_config = ["--placement-from-config", "--config", str(conf)]
    assert ended("delete", guest(1), *hosts, *from_config)[1] == "OpenStackUnusable"
    other = next(name for name, host in world.hosts.known.items() if not host.guests())
    unnamed = ended("delete", guest(1), *hosts, "--host", other, *placement)
    assert unnamed == (ExitCode.NOT_FOUND, "HostUnknown")
    assert [host.guests() for host in world.hosts.known.values()] == ledgers
    assert run("move", guest(1), "--to", "b", *hosts, *placement).exit_code == 0
    ledgers = [host.guests() for host in world.hosts.known.values()]
    assert ended("confirm", guest(1), *hosts) == refused
    assert ended("revert", guest(1), *hosts) == refused
    assert [host.guests() for host in world.hosts.known.values()] == ledgers
    assert run("confirm", guest(1), *hosts, *placement).exit_code == 0
    assert run("delete", guest(1), *hosts, *placement).exit_code == 0
    assert (world.held("a"), world.held("b")) == ({}, {})


@pytest.mark.parametrize(
    ("marked", "reason"), [("2-47", "NovaGivesCPUs"), ("0-1", "ProviderOfNova"), (None, "ProviderOfNova")]
)
def test_reshape_writes_nothing_to_a_provider_of_nova(
    world: World, endpoint: str, tmp_path: Path, marked: str | None, reason: str
) -> None:
    own = put_host(world.folder, "n1")
    if marked is not None:
        (own / "beside-nova").write_text(f"{marked}\n")
    provider = placed_host(world.client, "n1", ("COMPUTE_NODE", "OWNER_NOVA"), VCPU=48)
    world.client.put_consumer(consumer({provider.uuid: {"VCPU": 4}}, guest(1)))
    before = world.client.use(provider.uuid)
    guests = tmp_path / "guests.json"
    guests.write_text(json.dumps({guest(1): {"pinnedCPUs": "2-5"}}))
    more = ["--host", "n1", "--guests", str(guests), "--placement-url", endpoint]
    beside = ["--topology", str(own / "topology.json"), "--beside-nova", str(own / "nova.conf")]
    assert ended("reshape", "--hosts", str(world.folder), *more) == (ExitCode.REFUSED, reason)
    assert ended("reshape", *beside, *more) == (ExitCode.REFUSED, "NovaGivesCPUs")
    assert world.client.use(provider.uuid) == before
    shown = run("reshape", *beside, *more, "--dry-run", "-o", "json")
    assert json.loads(shown.stdout)["guests"][0]["after"] == {"PCPU": 4}


def test_an_unknown_trait_is_named(world: World, endpoint: str, tmp_path: Path) -> None:
    asked = flavor(tmp_path, 8, {**DEDICATED, "trait:CUSTOM_NEVER_HEARD_OF": "required"})
    result = run("request", *asked, "--placement-url", endpoint)
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == ExitCode.BAD_INPUT
    assert "Placement knows no trait CUSTOM_NEVER_HEARD_OF" in str(result.exception)


def test_missing_provider_and_non_uuid_guest_are_reported(
    world: World, endpoint: str, tmp_path: Path
) -> None:
    host = ["--root", str(machine_tree(tmp_path)), "--host", "n9", "--placement-url", endpoint]
    assert ended("inventory", *host) == (ExitCode.NOT_FOUND, "PlacementNotFound")
    put_host(world.folder, "n1", DOCUMENT)
    wrong = run(
        *("schedule", *flavor(tmp_path), "--hosts", str(world.folder)),
        *("--placement-url", endpoint, "--guest", "x"),
    )
    assert wrong.exit_code == ExitCode.USAGE


@contextmanager
def saying(status: int) -> Iterator[str]:
    """A Placement that answers everything but its versions with this status."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            version = {"versions": [{"min_version": "1.0", "max_version": "1.39", "id": "v1.0"}]}
            body = json.dumps(version if self.path == "/" else {"errors": [{"detail": "no"}]}).encode()
            self.send_response(200 if self.path == "/" else status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (401, ExitCode.UNAUTHORIZED, "PlacementUnauthorized"),
        (403, ExitCode.UNAUTHORIZED, "PlacementForbidden"),
        (500, ExitCode.CONNECTION, "PlacementDown"),
        (503, ExitCode.CONNECTION, "PlacementDown"),
    ],
)
def test_each_placement_refusal_has_reason_and_class(
    tmp_path: Path, status: int, code: ExitCode, reason: str
) -> None:
    put_host(tmp_path, "n1", DOCUMENT)
    with saying(status) as url:
        asked = ("schedule", *flavor(tmp_path), "--hosts", str(tmp_path), "--placement-url", url)
        assert ended(*asked) == (code, reason)
    assert not (tmp_path / "n1" / "ledger.json").exists()


def test_a_placement_that_is_down_is_told(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        assert ended("request", *flavor(tmp_path), "--placement-url", url) == (3, "PlacementDown")


def test_host_without_named_placement_gets_its_own(tmp_path: Path) -> None:
    state = tmp_path / "state"
    call = [
        "compute",
        "run",
        "--once",
        "--state-dir",
        state,
        "--root",
        machine_tree(tmp_path),
        "--host",
        "n1",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "corewise", *map(str, call)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "2 changes written; the host is n1\n")
    assert (state / "placement.sqlite").is_file()
