"""``corewise compute``, offline: what each command prints, and how each class of error ends it."""

from __future__ import annotations

import json
import socket
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

import machine_trees
from compute.compute_world import DOCUMENT, configured, guest, machine
from corewise.cli import corewise
from corewise.cli.errors import ExitCode, Failure
from corewise_openstack.cli.options import host_name, nova_conf
from corewise_openstack.compute.ledger import LedgerFile

DEDICATED = {"hw:cpu_policy": "dedicated"}
ISOLATED = {**DEDICATED, "hw:cpu_thread_policy": "isolate"}


class Files:
    """Files of one host and of guests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.topology = self.put("T.json", json.dumps(machine()))
        self.config = self.put("nova.conf", configured(DOCUMENT))
        self.ledger = folder / "ledger.json"

    def put(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.write_text(text)
        return file

    def flavor(self, vcpus: int = 8, extra_specs: Mapping[str, Any] = DEDICATED, **more: Any) -> list[str]:
        flavor = {"name": "f", "vcpus": vcpus, "ram": 1024, "disk": 0, "extra_specs": extra_specs, **more}
        return ["--flavor", str(self.put("F.json", json.dumps(flavor)))]

    def image(self, **properties: Any) -> list[str]:
        return ["--image", str(self.put("I.json", json.dumps({"properties": properties})))]

    @property
    def host(self) -> list[str]:
        return ["--topology", str(self.topology), "--config", str(self.config), "--host", "n1"]

    @property
    def kept(self) -> list[str]:
        return [*self.host, "--ledger", str(self.ledger)]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(corewise, ["compute", *arguments])


def ends(result: Result) -> tuple[int, str]:
    """The exit code, and what is said on stderr by the command line around the commands."""
    assert isinstance(result.exception, Failure), result.exception or result.stdout
    return result.exception.exit_code, str(result.exception)


def document(*arguments: str) -> Any:
    result = run(*arguments, "-o", "json")
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


def test_inventory_prints_placements_body_and_the_traits(files: Files) -> None:
    assert document("inventory", *files.host) == {
        "inventories": {
            "PCPU": {
                "total": 16,
                "reserved": 0,
                "min_unit": 1,
                "max_unit": 16,
                "step_size": 1,
                "allocation_ratio": 1.0,
            },
            "VCPU": {
                "total": 30,
                "reserved": 0,
                "min_unit": 1,
                "max_unit": 30,
                "step_size": 1,
                "allocation_ratio": 8.0,
            },
        },
        "resource_provider_generation": 0,
        "traits": ["HW_CPU_HYPERTHREADING"],
    }


def test_inventory_reads_a_recorded_tree_as_well(tmp_path: Path, files: Files) -> None:
    tree = machine_trees.offline(tmp_path / "host")
    files.put("nova.conf", configured({"cpu_shared_set": "0,2-3"}))
    told = document("inventory", "--root", str(tree.root), "--config", str(files.config))
    assert told["inventories"]["VCPU"]["total"] == 3
    files.put("nova.conf", configured({"cpu_dedicated_set": "0-3"}))
    code, message = ends(run("inventory", "--root", str(tree.root), "--config", str(files.config)))
    assert code == ExitCode.BAD_INPUT
    assert message.startswith("CPUsNotOnline: [compute] cpu_dedicated_set = 0-3: CPU 1 is offline")


def test_table_and_yaml_agree_with_json(files: Files) -> None:
    assert run("inventory", *files.host).stdout.splitlines() == [
        "CLASS  TOTAL  RESERVED  MIN  MAX  STEP  RATIO  CAPACITY",
        "PCPU      16         0    1   16     1    1.0        16",
        "VCPU      30         0    1   30     1    8.0       240",
        "",
        "Traits: HW_CPU_HYPERTHREADING",
    ]
    printed = run("inventory", *files.host, "-o", "yaml").stdout
    assert yaml.safe_load(printed) == document("inventory", *files.host)


def test_legacy_host_offers_pins_twice_beside_nova_once(files: Files) -> None:
    files.put("nova.conf", configured({"vcpu_pin_set": "2-17"}))
    spec = run("inventory", *files.host, "-o", "json")
    assert set(json.loads(spec.stdout)["inventories"]) == {"PCPU", "VCPU"}
    assert "warning: PinSetDeprecated: [DEFAULT] vcpu_pin_set = 2-17" in spec.stderr
    assert set(document("inventory", *files.host, "--compat", "nova")["inventories"]) == {"VCPU"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"cpu_dedicated_set": "2-17", "cpu_shared_set": "17-20"},
            "CPUSetsOverlap: [compute] cpu_dedicated_set = 2-17",
        ),
        ({"cpu_dedicated_set": "2-50"}, "CPUsNotPresent: [compute] cpu_dedicated_set = 2-50"),
        ({"cpu_shared_set": "^3"}, "CPUSetLeavesNothing: [compute] cpu_shared_set = ^3"),
        ({"cpu_shared_set": "5-2"}, "CPUSetMalformed: [compute] cpu_shared_set = 5-2"),
        ({"cpu_shared_set": "-1"}, "CPUSetMalformed: [compute] cpu_shared_set = -1"),
        ({"cpu_shared_set": "1-2-3"}, "CPUSetMalformed: [compute] cpu_shared_set = 1-2-3"),
        ({"cpu_allocation_ratio": "-2"}, "AllocationRatioInvalid: [DEFAULT] cpu_allocation_ratio = -2"),
    ],
)
def test_wrong_options_are_reported_with_value_and_reason(
    files: Files, options: dict[str, str], said: str
) -> None:
    files.put("nova.conf", configured(options))
    result = run("inventory", *files.host)
    code, message = ends(result)
    assert (code, result.stdout) == (ExitCode.BAD_INPUT, "")
    assert message.startswith(said)


def test_every_wrong_option_is_told_at_once(files: Files) -> None:
    files.put("nova.conf", configured({"cpu_dedicated_set": "2-60", "cpu_shared_set": "x"}))
    _, message = ends(run("inventory", *files.host))
    assert "CPUSetMalformed" in message
    assert "CPUsNotPresent" in message


def test_the_query_is_exactly_what_is_sent(files: Files) -> None:
    result = run("request", *files.flavor(8, ISOLATED), "-o", "query")
    assert result.stdout == "limit=1000&required=!HW_CPU_HYPERTHREADING&resources=MEMORY_MB:1024,PCPU:8\n"


def test_request_has_query_and_fallback_or_null(files: Files) -> None:
    legacy = document("request", *files.flavor(8, DEDICATED))
    assert legacy["query"] == "limit=1000&resources=MEMORY_MB:1024,PCPU:8"
    assert legacy["fallbackQuery"] == "limit=1000&resources=MEMORY_MB:1024,VCPU:8"
    assert legacy["fallbackWhen"] == "no host fits"
    new = document("request", *files.flavor(8, {"resources:PCPU": "8"}))
    assert (new["query"], new["fallbackQuery"]) == (legacy["query"], None)
    beside_nova = document("request", *files.flavor(8, DEDICATED), "--compat", "nova")
    assert beside_nova["fallbackWhen"] == "always"


def test_an_image_counts_where_the_flavor_says_nothing(files: Files) -> None:
    asked = document("request", *files.flavor(4, {}), *files.image(hw_cpu_policy="dedicated"))
    assert asked["query"] == "limit=1000&resources=MEMORY_MB:1024,PCPU:4"


@pytest.mark.parametrize(
    ("extra_specs", "properties", "reason"),
    [
        ({"resources:PCPU": "4", "resources:VCPU": "4"}, {}, "MixedCPUResources"),
        ({"hw:cpu_policy": "exclusive"}, {}, "CPUPolicyUnknown"),
        ({**DEDICATED, "resources:PCPU": "8"}, {}, "CPUPolicyWithResources"),
        ({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"}, "CPUPolicyConflict"),
        ({"hw:cpu_thread_policy": "isolate"}, {}, "ThreadPolicyWithoutPinning"),
        ({"resources:PCPU": "-1"}, {}, "ResourceAmountInvalid"),
        ({"resources:PCPU": "99999999999"}, {}, "ResourceAmountInvalid"),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-99"}, {}, "DedicatedMaskOutside"),
    ],
)
def test_request_that_breaks_a_rule_ends_with_reason(
    files: Files, extra_specs: dict[str, str], properties: dict[str, str], reason: str
) -> None:
    result = run("request", *files.flavor(8, extra_specs), *files.image(**properties), "-o", "json")
    code, message = ends(result)
    assert code == ExitCode.BAD_INPUT
    assert message.startswith(f"{reason}: ")
    assert result.stdout == ""


def test_unknown_class_is_a_warning_and_not_requested(files: Files) -> None:
    result = run("request", *files.flavor(2, {"resources:VCPUS": "2"}), "-o", "query")
    assert result.stdout == "limit=1000&resources=MEMORY_MB:1024,VCPU:2\n"
    assert "warning: ResourceClassUnknown" in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1, column 1: there is no JSON here"),
        ("null", "must be an object {...}, not null"),
        ("[]", "must be an object {...}, not a list"),
        ('{"name": "f", "ram": 1}', "vcpus: is missing"),
        ('{"name": "f", "vcpus": "8", "ram": 1}', "without quotes"),
        ('{"name": "f", "vcpus": 1.5, "ram": 1}', "vcpus"),
        ('{"name": "f", "vcpus": 8, "ram": 1, "extra_specs": []}', "must be an object"),
        ('{"name": "f", "vcpus": 8, "ram": 1, "extra_specs": {"a": {}}}', "must be a string"),
    ],
)
def test_invalid_flavor_is_reported_by_line_and_column(files: Files, text: str, said: str) -> None:
    code, message = ends(run("request", "--flavor", str(files.put("F.json", text))))
    assert code == ExitCode.BAD_INPUT
    assert message.startswith("FileUnusable: ")
    assert said in message


def test_truncated_flavor_reports_only_the_cut(files: Files) -> None:
    _, message = ends(run("request", "--flavor", str(files.put("F.json", '{"name": "f",'))))
    assert "is not closed" in message
    assert "vcpus" not in message


def test_flavor_listed_by_openstack_client_is_read_silently(files: Files) -> None:
    listed = {
        "id": "2",
        "name": "f",
        "vcpus": 8,
        "ram": 1024,
        "disk": 20,
        "swap": "",
        "rxtx_factor": 1.0,
        "OS-FLV-DISABLED:disabled": False,
        "OS-FLV-EXT-DATA:ephemeral": 5,
        "access_project_ids": None,
        "os-flavor-access:is_public": True,
        "description": None,
        "links": [],
    }
    for key in ("extra_specs", "properties"):  # the API's name and that of `openstack flavor show`
        flavor = files.put("F.json", json.dumps({**listed, key: DEDICATED}))
        result = run("request", "--flavor", str(flavor), "-o", "query")
        assert result.stdout == "limit=1000&resources=DISK_GB:25,MEMORY_MB:1024,PCPU:8\n"
        assert not result.stderr
    both = files.put("F.json", json.dumps({**listed, "extra_specs": DEDICATED, "properties": {}}))
    assert "means the same: keep one" in ends(run("request", "--flavor", str(both)))[1]


DOMAIN = f"""
<domain type='kvm'>
  <name>g</name>
  <uuid>{guest(1)}</uuid>
  <memory unit='MiB'>1024</memory>
  <vcpu>4</vcpu>
  <iothreads>2</iothreads>
</domain>
"""


def test_scheduled_guests_xml_has_the_ledgers_cpus(files: Files) -> None:
    realtime = {
        "hw:cpu_realtime": "yes",
        "hw:cpu_realtime_mask": "^0-1",
        "hw:emulator_threads_policy": "share",
    }
    document("schedule", *files.flavor(6), *files.kept)
    scheduled = document(
        "schedule", *files.flavor(4, {**DEDICATED, **realtime}), *files.kept, "--guest", guest(1)
    )
    assert scheduled["pinnedCPUs"] == "8-11"
    domain = files.put("d.xml", DOMAIN)
    result = run("apply", guest(1), *files.kept, "--domain", str(domain))
    tuned = ET.fromstring(result.stdout)  # noqa: S314 - our own output
    tune = tuned.find("cputune")
    assert tune is not None
    assert [pin.get("cpuset") for pin in tune.findall("vcpupin")] == ["8", "9", "10", "11"]
    assert [pin.get("cpuset") for pin in tune.findall("emulatorpin")] == ["18-47"]
    assert [(pin.get("iothread"), pin.get("cpuset")) for pin in tune.findall("iothreadpin")] == [
        ("1", "18-47"),
        ("2", "18-47"),
    ]
    assert [each.attrib for each in tune.findall("vcpusched")] == [
        {"vcpus": "2-3", "scheduler": "fifo", "priority": "1"}
    ]
    (memory,) = tuned.findall("numatune/memory")
    assert memory.get("nodeset") == "0"


def test_pin_prints_only_ledger_cpus_for_known_guests(files: Files) -> None:
    document("schedule", *files.flavor(4), *files.kept, "--guest", guest(1))
    domain = files.put("d.xml", DOMAIN)
    result = run("pin", *files.flavor(4), *files.kept, "-o", "xml", "--domain", str(domain))
    code, message = ends(result)
    assert (code, message.split(":")[0]) == (ExitCode.REFUSED, "GuestExists")
    assert isinstance(result.exception, Failure)
    assert f"corewise compute apply {guest(1)}" in str(result.exception.hint)


def test_a_domain_of_another_guest_is_refused(files: Files) -> None:
    document("schedule", *files.flavor(4), *files.kept, "--guest", guest(2))
    domain = files.put("d.xml", DOMAIN)
    other = ends(run("apply", guest(2), *files.kept, "--domain", str(domain)))[1]
    assert f"is the domain of guest {guest(1)}" in other
    for number, vcpus, said in ((3, 4, "is the domain of guest"), (1, 2, "the domain has 4 CPUs")):
        pin = ["pin", *files.flavor(vcpus), *files.kept, "--guest", guest(number)]
        assert said in ends(run(*pin, "-o", "xml", "--domain", str(domain)))[1]
    code, message = ends(run("apply", guest(1), *files.kept, "--domain", str(domain)))
    assert (code, message) == (ExitCode.NOT_FOUND, f"GuestUnknown: no ledger has a guest {guest(1)}")


def test_image_is_read_as_openstack_client_shows_it(files: Files) -> None:
    shown = {
        "checksum": "f8",
        "container_format": "bare",
        "created_at": "2026-01-01T00:00:00Z",
        "disk_format": "qcow2",
        "file": "/v2/images/1/file",
        "id": "1",
        "min_disk": 0,
        "min_ram": 0,
        "name": "linux",
        "owner": "2",
        "properties": {
            "hw_cpu_policy": "dedicated",
            "os_hidden": False,
            "locations": [{"url": "file:///image", "metadata": {}}],
            "stores": "file",
        },
        "protected": False,
        "schema": "/v2/schemas/image",
        "size": 1,
        "status": "active",
        "tags": [],
        "updated_at": "2026-01-01T00:00:00Z",
        "virtual_size": None,
        "visibility": "public",
    }
    image = files.put("I.json", json.dumps(shown))
    result = run("request", *files.flavor(8), "--image", str(image), "-o", "query")
    assert "PCPU:8" in result.stdout
    assert not result.stderr


def test_silently_ignored_input_is_an_error(files: Files) -> None:
    misspelt = files.put("F.json", '{"name": "f", "vcpus": 8, "ram": 1, "extra_spec": {}}')
    assert 'extra specs belong in "extra_specs"' in ends(run("request", "--flavor", str(misspelt)))[1]
    flat = files.put("I.json", '{"hw_cpu_policy": "dedicated"}')
    _, message = ends(run("request", *files.flavor(), "--image", str(flat)))
    assert 'properties belong in "properties"' in message


def test_flavor_of_impossible_size_is_refused(files: Files) -> None:
    assert ends(run("request", *files.flavor(0)))[1].startswith("FlavorInvalid: ")
    assert ends(run("request", *files.flavor(8, ram=-5)))[1].startswith("FlavorInvalid: ")
    missing = ends(run("request", "--flavor", str(files.folder / "nowhere.json")))
    assert missing[0] == ExitCode.BAD_INPUT
    assert "cannot be read: No such file" in missing[1]


def test_numbers_and_booleans_are_accepted_as_texts(files: Files) -> None:
    asked = document("request", *files.flavor(8, {"resources:PCPU": 8, "hw:x": True, "hw:y": None}))
    assert asked["query"] == "limit=1000&resources=MEMORY_MB:1024,PCPU:8"


def test_pin_shows_cpus_and_records_only_where_told(files: Files) -> None:
    pinned = document("pin", *files.flavor(), *files.host)
    assert pinned["pinnedCPUs"] == "2-9"
    assert pinned["cells"] == [
        {"hostNode": 0, "pins": {str(own): own + 2 for own in range(8)}, "memoryMiB": 1024}
    ]
    assert document("pin", *files.flavor(), *files.kept, "--guest", "a")["pinnedCPUs"] == "2-9"
    assert document("pin", *files.flavor(), *files.kept, "--guest", "b")["pinnedCPUs"] == "10-17"
    code, message = ends(run("pin", *files.flavor(), *files.kept, "--guest", "c"))
    assert code == ExitCode.REFUSED
    assert message.startswith("DedicatedCPUsInsufficient: host n1: ")
    assert ends(run("pin", *files.flavor(), *files.kept, "--guest", "a"))[1].startswith("GuestExists: ")


def test_pin_writes_the_domain_of_libvirt(files: Files) -> None:
    domain = files.put("D.xml", f"<domain><uuid>{guest(1)}</uuid><vcpu>2</vcpu><name>g</name></domain>")
    result = run("pin", *files.flavor(2), *files.host, "-o", "xml", "--domain", str(domain))
    tune = ET.fromstring(result.stdout).find("cputune")  # noqa: S314 - our own output
    assert tune is not None
    assert [(pin.get("vcpu"), pin.get("cpuset")) for pin in tune.findall("vcpupin")] == [
        ("0", "2"),
        ("1", "3"),
    ]


def test_schedule_places_and_delete_gives_back(files: Files) -> None:
    placed = document("schedule", *files.flavor(16), *files.kept, "--guest", "a")
    assert (placed["host"], placed["pinnedCPUs"], placed["byFallback"]) == ("n1", "2-17", False)
    refused = run("schedule", *files.flavor(), *files.kept, "-o", "json")
    code, message = ends(refused)
    assert code == ExitCode.REFUSED
    assert message.startswith("NoValidHost: the only host cannot take the guest: 1 eliminated by PCPU")
    assert json.loads(refused.stdout)["fallen"] == [{"hosts": 1, "demand": "PCPU", "reason": None}]
    assert run("delete", "a", *files.kept).stdout == "guest a released what it held on host n1\n"
    assert ends(run("delete", "a", *files.kept))[0] == ExitCode.NOT_FOUND
    assert document("schedule", *files.flavor(), *files.kept, "--guest", "b")["pinnedCPUs"] == "2-9"


def test_schedule_weighs_by_scores_that_are_given(files: Files) -> None:
    for name in ("a", "b"):
        own = files.folder / "hosts" / name
        own.mkdir(parents=True)
        (own / "topology.json").write_text(json.dumps(machine()))
        (own / "nova.conf").write_text(configured(DOCUMENT))
    scores = files.put("scores.json", '{"b": 70}')
    hosts = ["--hosts", str(files.folder / "hosts")]
    placed = document("schedule", *files.flavor(), *hosts, "--scores", str(scores))
    assert [(each["host"], each["score"]) for each in placed["hosts"]] == [("b", 170.0), ("a", 100.0)]
    files.put("scores.json", '{"b": 101}')
    assert ends(run("schedule", *files.flavor(), *hosts, "--scores", str(scores)))[0] == ExitCode.BAD_INPUT
    (files.folder / "hosts" / "b" / "topology.json").write_text("{")
    left = run("schedule", *files.flavor(), *hosts, "-o", "json")
    assert json.loads(left.stdout)["host"] == "a"
    assert "warning: FileUnusable: host b is left out" in left.stderr


def test_truncated_ledger_ends_every_command_and_stays_unchanged(files: Files) -> None:
    document("schedule", *files.flavor(), *files.kept, "--guest", "a")
    half = files.ledger.read_bytes()[: files.ledger.stat().st_size // 2]
    files.ledger.write_bytes(half)
    for arguments in (
        ["schedule", *files.flavor(), *files.kept],
        ["pin", *files.flavor(), *files.kept, "--guest", "b"],
        ["delete", "a", *files.kept],
        ["status", *files.kept],
    ):
        code, message = ends(run(*arguments))
        assert code == ExitCode.LEDGER
        assert message.startswith(f"LedgerDamaged: the ledger {files.ledger} cannot be used")
        assert files.ledger.read_bytes() == half


def test_status_shows_and_draws_who_holds_each_cpu(files: Files) -> None:
    document("schedule", *files.flavor(), *files.kept, "--guest", "a")
    document("schedule", *files.flavor(2, {}), *files.kept, "--guest", "b")
    result = run("status", *files.kept)
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["n1", "0", "0-1", "2", "host", "-", "-"],
        ["n1", "0", "2-9", "8", "pinned", "a", "0-7"],
        ["n1", "0", "10-17", "8", "dedicated,", "free", "-", "-"],
        ["n1", "0", "18-23", "6", "shared", "-", "-"],
        ["n1", "1", "24-47", "24", "shared", "-", "-"],
    ]
    assert "1 guest more, on shared CPUs" in result.stderr
    (told,) = document("status", *files.kept)["hosts"]
    assert [each["guest"] for each in told["cpus"]] == [None] * 2 + ["a"] * 8 + [None] * 38
    picture = ET.fromstring(run("status", *files.kept, "-o", "svg").stdout)  # noqa: S314 - our own output
    tooltips = [each.text or "" for each in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert sum("(pinned: a)" in each for each in tooltips) == 8
    assert sum("(dedicated, free)" in each for each in tooltips) == 8


def test_use_has_the_same_color_in_every_drawing(files: Files) -> None:
    def colours() -> dict[str, str]:
        picture = ET.fromstring(run("status", *files.kept, "-o", "svg").stdout)  # noqa: S314 - our own output
        space = "{http://www.w3.org/2000/svg}"
        drawn = ((each.find(f"{space}title"), each.get("class", "")) for each in picture.iter(f"{space}rect"))
        texts = {(title.text or "").rpartition(" (")[2]: style for title, style in drawn if title is not None}
        return {use.rstrip(")").partition(":")[0]: style for use, style in texts.items()}

    before = colours()
    document("schedule", *files.flavor(), *files.kept, "--guest", "a")
    after = colours()
    assert {use: style for use, style in after.items() if use in before} == before
    files.put("nova.conf", configured({"cpu_dedicated_set": "2-9"}))
    full = colours()
    assert "dedicated, free" not in full
    assert {use: style for use, style in full.items() if use in after} == {
        use: style for use, style in after.items() if use in full
    }


def test_status_describes_numa_nodes_as_nova_does(files: Files) -> None:
    """A guest of 4 dedicated and 2 shared CPUs, whose memory lies on NUMA node 0."""
    mixed = {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-3"}
    document("schedule", *files.flavor(6, mixed), *files.kept, "--guest", "a")
    first, second = document("status", *files.kept)["hosts"][0]["cells"]
    siblings = [f"{cpu}-{cpu + 1}" for cpu in range(2, 24, 2)]
    assert first == {
        "id": 0,
        "cpuset": "18-23",
        "pcpuset": "2-17",
        "memory": 32768,
        "cpu_usage": 2,
        "memory_usage": 1024,
        "pinned_cpus": "2-5",
        "siblings": siblings,
    }
    assert (second["cpuset"], second["pcpuset"], second["cpu_usage"]) == ("24-47", "", 0)


def test_status_reports_guests_that_no_longer_suit_options(files: Files) -> None:
    assert run("pin", *files.kept, *files.flavor(), "--guest", "a").exit_code == 0
    assert not run("status", *files.kept).stderr
    files.put("nova.conf", configured({"cpu_dedicated_set": "6-17"}))
    assert "GuestPinnedOutside" in run("status", *files.kept).stderr
    files.put("nova.conf", configured({"cpu_shared_set": "2-17"}))
    result = run("status", *files.kept)
    assert result.exit_code == 0
    assert "GuestNeedsDedicatedCPUs" in result.stderr


def test_status_names_guests_sharing_cpu_and_exits_1(files: Files) -> None:
    assert run("pin", *files.kept, *files.flavor(), "--guest", "a").exit_code == 0
    ledger = LedgerFile(files.ledger, "n1")
    with ledger.changing() as change:
        change.write({**change.host.guests, "b": change.host.guests["a"]})
    result = run("status", *files.kept)
    assert result.exit_code == 1
    held = str(change.host.guests["a"].pins.held)
    assert f"CPUsPromisedTwice: b claims CPUs {held}, which a holds" in result.stderr
    told = run("status", *files.kept, "-o", "json")
    assert told.exit_code == 1
    (host,) = json.loads(told.stdout)["hosts"]
    assert host["conflicts"] == [{"guest": "b", "cpus": held, "heldBy": "a"}]


def test_reshape_shows_before_and_after_from_files(files: Files) -> None:
    provider = {
        "inventories": {"VCPU": {"total": 48, "allocation_ratio": 4.0}},
        "resource_provider_generation": 3,
        "allocations": {guest(n): {"resources": {"VCPU": amount}} for n, amount in ((1, 4), (2, 2), (3, 5))},
    }
    guests = {
        guest(1): {"pinnedCPUs": "2-5"},
        guest(2): {"pinnedCPUs": "6,8", "threadPolicy": "isolate"},
        guest(3): {"sharedCPUs": 5},
    }
    arguments = ["reshape", *files.host]
    arguments += ["--provider", str(files.put("P.json", json.dumps(provider)))]
    arguments += ["--guests", str(files.put("G.json", json.dumps(guests)))]
    told = document(*arguments)
    assert told["written"] is False
    assert {each["guest"]: each["after"] for each in told["guests"]} == {
        guest(1): {"PCPU": 4},
        guest(2): {"PCPU": 4},
    }
    assert told["after"]["inventories"]["PCPU"]["total"] == 16
    beside_nova = document(*arguments, "--compat", "nova")
    assert beside_nova["guests"][1]["after"] == {"PCPU": 2}
    lines = [line.split() for line in run(*arguments).stdout.splitlines()]
    assert ["VCPU", "48", "11", "30", "5"] in lines
    assert ["PCPU", "0", "0", "16", "8"] in lines


@pytest.mark.parametrize(
    ("only", "held", "reason"),
    [
        ("cpu_shared_set", {"pinnedCPUs": "2-5"}, "GuestNeedsDedicatedCPUs"),
        ("cpu_dedicated_set", {"sharedCPUs": 4}, "GuestNeedsSharedCPUs"),
        ("cpu_dedicated_set", {"pinnedCPUs": "2-3", "sharedCPUs": 2}, "GuestNeedsBothKinds"),
    ],
)
def test_reshape_refuses_guests_left_without_cpus_by_options(
    files: Files, only: str, held: dict[str, object], reason: str
) -> None:
    files.put("nova.conf", configured({only: "0-47"}))
    provider = {"inventories": {"VCPU": {"total": 48}}, "allocations": {guest(1): {"resources": {"VCPU": 4}}}}
    arguments = ["--provider", str(files.put("P.json", json.dumps(provider)))]
    arguments += ["--guests", str(files.put("G.json", json.dumps({guest(1): held})))]
    code, message = ends(run("reshape", *files.host, *arguments))
    assert (code, message.split(":")[0]) == (ExitCode.BAD_INPUT, reason)
    assert guest(1) in message


def test_reshape_warns_of_guests_pinned_outside_dedicated_set(files: Files) -> None:
    provider = {"inventories": {"VCPU": {"total": 48}}, "allocations": {guest(1): {"resources": {"VCPU": 4}}}}
    arguments = ["--provider", str(files.put("P.json", json.dumps(provider)))]
    arguments += ["--guests", str(files.put("G.json", json.dumps({guest(1): {"pinnedCPUs": "16-19"}})))]
    result = run("reshape", *files.host, *arguments)
    assert result.exit_code == 0
    assert result.stderr.count("GuestPinnedOutside") == 1
    assert "of which 18-19 are not in the set" in result.stderr


@pytest.mark.parametrize(
    ("provider", "guests", "said"),
    [
        ("{", "{}", "is not a provider as Placement describes it"),
        ('{"inventories": {"VCPU": {"total": -1}}}', "{}", "$.inventories[...].total"),
        ('{"inventories": {"VCPU": {"totle": 1}}}', "{}", "totle"),
        *(
            (
                f'{{"inventories": {{"VCPU": {{"total": 1, "allocation_ratio": "{ratio}"}}}}}}',
                "{}",
                f"the allocation_ratio of VCPU is {ratio}, not a number from 0 up",
            )
            for ratio in ("sNaN", "NaN", "Infinity", "-1", "1E+5000")
        ),
        ('{"inventories": {}}', '{"a": {"pinnedCPUs": "2-"}}', "does not describe guests: '2-' is not a CPU"),
        ('{"inventories": {}}', '{"a": {"threadPolicy": "alone"}}', "Invalid enum value 'alone'"),
    ],
)
def test_providers_and_guests_that_are_none_are_told(
    files: Files, provider: str, guests: str, said: str
) -> None:
    of, there = files.put("P.json", provider), files.put("G.json", guests)
    code, message = ends(run("reshape", *files.host, "--provider", str(of), "--guests", str(there)))
    assert code == ExitCode.BAD_INPUT
    assert message.startswith("FileUnusable: ")
    assert said in message


def test_the_agent_rehearses_from_files_alone(files: Files) -> None:
    told = document("run", "--once", "--dry-run", *files.host)
    assert (told["host"], told["written"]) == ("n1", False)
    inventories, traits = told["changes"]
    assert {name: each["total"] for name, each in inventories["inventories"].items()} == {
        "PCPU": 16,
        "VCPU": 30,
    }
    assert traits["traits"] == ["HW_CPU_HYPERTHREADING"]
    files.put("nova.conf", configured({"cpu_dedicated_set": "2-60"}))
    code, message = ends(run("run", "--once", "--dry-run", *files.host))
    assert code == ExitCode.BAD_INPUT
    assert message.startswith(
        "CPUsNotPresent: [compute] cpu_dedicated_set = 2-60: the host has no CPUs 48-60"
    )


def test_status_of_legacy_host_says_cpus_serve_both(files: Files) -> None:
    files.put("nova.conf", configured({"vcpu_pin_set": "2-47"}))
    lines = run("status", *files.host).stdout.splitlines()
    assert [line.split()[:5] for line in lines[1:3]] == [
        ["n1", "0", "0-1", "2", "host"],
        ["n1", "0", "2-23", "22", "shared,"],
    ]


def test_calls_that_make_no_sense_are_wrong_calls(files: Files) -> None:
    wrong = (
        ["inventory", *files.host, "--root", "/"],
        ["request"],
        ["pin", *files.flavor(), *files.host, "--guest", "a"],
        ["reshape", *files.host],
        ["run", "--config", str(files.config)],
        ["schedule", *files.flavor(), *files.host, "--hosts", str(files.folder)],
        ["inventory", *files.host, "--placement-url", "http://x", "--os-cloud", "y"],
    )
    assert [run(*arguments).exit_code for arguments in wrong] == [ExitCode.USAGE] * len(wrong)


def test_beside_nova_provider_is_named_after_the_machine(
    files: Files,
) -> None:
    files.put("nova.conf", configured({**DOCUMENT, "host": "service-name"}))
    conf = nova_conf((files.config,))
    assert host_name(None, conf) == "service-name"
    assert host_name(None, conf, beside_nova=True) == socket.gethostname()
    assert host_name("given", conf, beside_nova=True) == "given"


def test_beside_nova_provider_has_the_name_libvirt_reports() -> None:
    libvirt = pytest.importorskip("libvirt", reason="libvirt-python is not installed: make libvirt")
    reported = libvirt.open("test:///default").getHostname()
    assert host_name(None, None, "test:///default", beside_nova=True) == reported
