"""The embedded Placement: one a process, one a file, kept over a restart, served on the loopback; quiet."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from corewise_openstack.openstack.embedded import served, start
from corewise_openstack.openstack.errors import EmbeddedError
from corewise_openstack.openstack.placement_access import endpoint_client
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.openstack.placement_writes import claim
from corewise_openstack.vocabulary.placement import PCPU
from placement_world import client_of_placement, host, pinned_guest

PROGRAM = """
import json, sys
from pathlib import Path
from corewise_openstack.openstack.embedded import start
from corewise_openstack.openstack.embedded import in_process_client
from corewise_openstack.openstack.errors import EmbeddedError
from corewise_openstack.openstack.placement_writes import claim, ensure_provider
from corewise_openstack.vocabulary.placement import Consumer, Inventory
try:
    client = in_process_client(start(Path(sys.argv[1]), patience=float(sys.argv[3])))
except EmbeddedError as error:
    print(json.dumps({"error": str(error)}))
else:
    there = ensure_provider(client, sys.argv[2])
    client.put_inventories(there.uuid, there.generation, {"PCPU": Inventory(total=1, max_unit=1)})
    assert claim(client, Consumer(there.uuid, None, "p", "u", {there.uuid: {"PCPU": 2}})) is not None
    print(json.dumps({"providers": [each.name for each in client.providers()]}), flush=True)
    sys.stdin.read()
"""


def another(path: Path, name: str, patience: float = 60.0) -> subprocess.Popen[str]:
    """A process with a Placement on a file: it makes a provider, lists all, and ends when its stdin does."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(path), name, str(patience)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> dict[str, object]:
    answer, talk = process.communicate(timeout=120)
    assert (process.returncode, talk) == (0, "")
    told: dict[str, object] = json.loads(answer)
    return told


def test_the_same_again_is_the_one_that_runs() -> None:
    assert start() is start()


def test_a_second_database_in_one_process_is_refused(tmp_path: Path) -> None:
    start()
    with pytest.raises(EmbeddedError, match="memory already"):
        start(tmp_path / "placement.db")
    assert not list(tmp_path.iterdir())


def test_file_has_one_process_and_survives_restart_silently(tmp_path: Path) -> None:
    file = tmp_path / "state" / "placement.db"
    first = another(file, "n1")
    assert first.stdout is not None
    assert json.loads(first.stdout.readline()) == {"providers": ["n1"]}
    refused = ended(another(file, "n2", patience=0.1))
    assert "another process" in str(refused["error"])
    _, talk = first.communicate(timeout=120)
    assert talk == ""
    assert ended(another(file, "n2")) == {"providers": ["n1", "n2"]}


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = ended(another(tmp_path / "file" / "placement.db", "n1"))
    assert "file" in str(refused["error"])


def test_file_that_is_no_database_is_named_untouched(tmp_path: Path) -> None:
    file = tmp_path / "placement.db"
    text = b"SQLite format 3\x00" + b"cut off" * 100
    file.write_bytes(text)
    refused = ended(another(file, "n1"))
    assert f"{file} is not a database that can be used" in str(refused["error"])
    assert file.read_bytes() == text


def test_placement_serves_several_on_loopback_concurrently(placement: PlacementClient) -> None:
    provider = host(placement, PCPU=8)
    outcomes: list[object] = []
    with served(start()) as endpoint:
        assert endpoint.startswith("http://127.0.0.1:")

        def work() -> None:
            client = endpoint_client(endpoint)
            outcomes.extend(claim(client, pinned_guest(provider, 1)) for _ in range(3))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert outcomes.count(None) == 8
    assert len(outcomes) == 12
    assert placement.usages(provider.uuid) == {PCPU: 8}


def test_a_port_that_is_taken_is_an_error() -> None:
    with served(start()) as endpoint:
        again = served(start(), port=int(endpoint.rpartition(":")[2]))
        with pytest.raises(EmbeddedError, match="in use"), again:
            pass


def test_clients_in_threads_take_turns(placement: PlacementClient) -> None:
    names = [f"n{number:02}" for number in range(16)]
    threads = [
        threading.Thread(target=lambda name=name: client_of_placement().create_provider(name))
        for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [each.name for each in placement.providers()] == names
