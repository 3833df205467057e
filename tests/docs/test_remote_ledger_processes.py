"""Agents and schedulers as processes, with the certificates of docs/guides/guest-ledgers.md.

Placement traps the claim: it kills the agent or the scheduler with SIGKILL just before or just after it
carries the claim out. Whatever dies, ledger and Placement agree afterwards, and the same command either
places the guest or says that it has a host.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from compute.compute_world import DOCUMENT, World, configured, guest, hosts_in, machine
from corewise_openstack.openstack.embedded import EmbeddedPlacement, served, start
from corewise_openstack.vocabulary.placement import PCPU
from placement_world import client_of_placement, emptied

DOCS = Path(__file__).parents[2] / "docs" / "guides" / "guest-ledgers.md"
HOST = "localhost"

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")


def documented(first: str) -> list[str]:
    """The commands of the page that begin so, each on one line."""
    text = DOCS.read_text().replace("\\\n", "")
    return [line.strip() for line in text.splitlines() if line.startswith(f"    {first}")]


class Trap:
    """The real Placement, and what is done before and after it carries out a claim."""

    def __init__(self) -> None:
        self._real = start()
        self.before: Callable[[], object] | None = None
        self.after: Callable[[], object] | None = None

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        is_claim = environ["REQUEST_METHOD"] == "PUT" and environ["PATH_INFO"].startswith("/allocations/")
        if is_claim and self.before:
            self.before()
            start_response("503 Service Unavailable", [("Content-Type", "text/plain")])
            return [b"too late"]
        answer = self._real(environ, start_response)
        if is_claim and self.after:
            self.after()
        return answer


class Scene:
    """A directory with certificates, a host's files, and a flavor of four dedicated CPUs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts = folder / "hosts"
        self.trap = Trap()
        commands = documented("openssl")
        assert len(commands) == 3
        for command in commands:
            named = command.replace("n1.example.net", HOST)
            subprocess.run(["sh", "-c", named], cwd=folder, check=True, capture_output=True)
        (folder / "n1.json").write_text(json.dumps(machine()))
        (folder / "nova.conf").write_text(configured(DOCUMENT))
        specs = {"hw:cpu_policy": "dedicated"}
        flavor = {"name": "f", "vcpus": 4, "ram": 1024, "disk": 0, "extra_specs": specs}
        (folder / "F.json").write_text(json.dumps(flavor))

    @contextmanager
    def agent(self, endpoint: str) -> Iterator[Agent]:
        (command,) = documented("corewise compute run")
        for old, new in (
            ("/etc/nova/nova.conf", "nova.conf"),
            ("/var/lib/corewise/n1", "hosts/n1"),
            (":9443", "127.0.0.1:0"),
        ):
            assert old in command
            command = command.replace(old, new)
        more = ["--topology", "n1.json", "--standalone", "--placement-url", endpoint]
        process = self.started([*command.split()[1:], *more])
        try:
            yield Agent(process)
        finally:
            process.kill()
            process.communicate()

    def started(self, arguments: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "corewise", *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def caller(self, port: int) -> list[str]:
        """The options of a scheduler, as the page has them."""
        (command,) = documented("corewise compute schedule")
        options = command.partition("--agent")[2].replace("n1.example.net:9443", f"{HOST}:{port}")
        return ["--agent", *options.split()]

    def schedule(self, port: int) -> subprocess.Popen[str]:
        own = ["compute", "schedule", "--flavor", "F.json", "--guest", guest(1)]
        return self.started([*own, *self.caller(port)])

    def agreement(self, world: World) -> tuple[list[str], int]:
        """The guests of the ledger, and the CPUs that they hold in Placement."""
        provider = world.client.find_provider("n1")
        assert provider is not None
        guests = hosts_in(self.hosts).known["n1"].guests()
        return [uuid for uuid, each in guests.items() if each.state == "held"], world.client.usages(
            provider.uuid
        ).get(PCPU, 0)


class Agent:
    """An agent that listens."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"ledger: listens on 127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                return
        raise AssertionError(process.wait())

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, emptied(client_of_placement()))


@pytest.fixture
def scene(world: World, tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def endpoint(scene: Scene) -> Iterator[str]:
    with served(cast("EmbeddedPlacement", scene.trap)) as url:
        yield url


def test_documented_commands_place_show_and_release_a_guest(
    world: World, scene: Scene, endpoint: str
) -> None:
    with scene.agent(endpoint) as agent:
        out, err = scene.schedule(agent.port).communicate()
        assert f"guest {guest(1)} is on host n1" in out, err
        assert scene.agreement(world) == ([guest(1)], 4)
        again = scene.schedule(agent.port)
        assert "GuestExists" in again.communicate()[1]
        assert again.returncode == 6
        status = scene.started(["compute", "status", "-o", "json", *scene.caller(agent.port)]).communicate()
        (shown,) = json.loads(status[0])["hosts"]
        assert [each["pinnedCPUs"] for each in shown["guests"]] == ["2-5"]
        flavor = json.loads((scene.folder / "F.json").read_text())
        (scene.folder / "F.json").write_text(json.dumps({**flavor, "vcpus": 6}))
        resize = ["compute", "resize", guest(1), "--flavor", "F.json", *scene.caller(agent.port)]
        assert "name the Placement of the agents" in scene.started(resize).communicate()[1]
        scene.started([*resize, "--placement-url", endpoint]).communicate()
        assert scene.agreement(world)[1] == 4 + 6
        confirm = ["compute", "confirm", guest(1), *scene.caller(agent.port), "--placement-url", endpoint]
        scene.started(confirm).communicate()
        assert scene.agreement(world) == ([guest(1)], 6)
        scene.started(["compute", "delete", guest(1), *scene.caller(agent.port)]).communicate()
        assert scene.agreement(world) == ([], 0)
    down = scene.started(["compute", "status", *scene.caller(agent.port)])
    err = down.communicate()[1]
    assert "AgentUnreachable: the agent at" in err
    assert "see whether corewise compute run --listen runs there" in err.casefold()
    assert down.returncode == 3


@pytest.mark.parametrize("was_made", [False, True])
def test_agent_killed_at_claim_leaves_all_or_nothing(
    world: World, scene: Scene, endpoint: str, *, was_made: bool
) -> None:
    with scene.agent(endpoint) as agent:
        setattr(scene.trap, "after" if was_made else "before", agent.kill)
        out, err = scene.schedule(agent.port).communicate()
        assert out == ""
        assert f"it is unknown whether guest {guest(1)} has CPUs there" in err
    scene.trap.before = scene.trap.after = None
    with scene.agent(endpoint) as agent:
        out, err = scene.schedule(agent.port).communicate()
        assert "GuestExists" in err if was_made else f"guest {guest(1)} is on host n1" in out
    assert scene.agreement(world) == ([guest(1)], 4)


def test_scheduler_killed_at_claim_leaves_guest_placed_once(
    world: World, scene: Scene, endpoint: str
) -> None:
    with scene.agent(endpoint) as agent:
        killed: list[subprocess.Popen[str]] = []
        scene.trap.after = lambda: os.kill(killed[0].pid, signal.SIGKILL)
        killed.append(scene.schedule(agent.port))
        assert killed[0].communicate()[0] == ""
        assert killed[0].returncode == -signal.SIGKILL
        scene.trap.after = None
        assert "GuestExists" in scene.schedule(agent.port).communicate()[1]
        assert scene.agreement(world) == ([guest(1)], 4)
        scene.started(["compute", "delete", guest(1), *scene.caller(agent.port)]).communicate()
    assert scene.agreement(world) == ([], 0)
