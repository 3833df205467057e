"""What keeps ``corewise up`` from going on ends it, with the reason and the log that has it.

fault                                              what the error names
the manager may not install its policy             the manager's log line, with the API server's answer
the scheduler may not install its policy           the scheduler's log line, likewise
every status that a kubelet writes is refused      the API server's answer to the kubelet
agents may not report their machines               the API server's answer to the agent
a program's port is taken                          the program, its exit code and its last words
the manager dies while nodes are amplified         likewise
the API server dies                                likewise
the disk is full                                   the state directory, and what to do
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.errors import KubeError
from corewise.kube.resources import MUTATING_WEBHOOKS, NODES
from corewise_lab import control_plane
from corewise_lab.cluster import LocalCluster
from corewise_lab.control_plane import ClusterError, Folder, api_server
from corewise_lab.run import RunOptions, run
from corewise_lab.scenario import BUILTIN, load_scenario

WITHIN = 120.0


@dataclass
class Listener:
    """Keeps what a run tells."""

    said: list[str] = field(default_factory=list)

    def waiting(self, text: str) -> None:
        self.said.append(text)

    def __getattr__(self, _name: str) -> Any:
        return lambda *_arguments, **_settings: None


async def failure(folder: Path) -> str:
    """Return the message that ends a run of two nodes."""
    plan = load_scenario(BUILTIN).plan(2)
    with pytest.raises(ClusterError) as ended:
        async with asyncio.timeout(WITHIN):
            await run(RunOptions(plan, Folder(folder), duration=1.0), Listener(), asyncio.Event())
    return str(ended.value)


def without(monkeypatch: pytest.MonkeyPatch, role: str, resource: str) -> None:
    """Have the manifests allow a role nothing about a resource."""
    shipped = control_plane.shipped_manifests()
    for manifest in shipped:
        if manifest["kind"] == "ClusterRole" and manifest["metadata"]["name"] == role:
            manifest["rules"] = [
                each for each in manifest["rules"] if resource not in each.get("resources", ())
            ]
    monkeypatch.setattr(control_plane, "shipped_manifests", lambda: shipped)


@pytest.mark.parametrize("program", ["manager", "scheduler"])
async def test_a_refused_policy_ends_the_run(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, f"corewise-{program}", "mutatingadmissionpolicies")
    said = await failure(tmp_path)
    assert "mutatingadmissionpolicies" in said
    assert "forbidden" in said
    assert str(tmp_path / f"{program}.log") in said


async def test_a_refused_status_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turn_on = LocalCluster.turn_on

    async def and_refuse(cluster: LocalCluster) -> None:
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["UPDATE"],
            "resources": ["nodes/status"],
        }
        hook = {
            "name": "unreachable.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{control_plane.reserve_port()}/"},
            "rules": [rule],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        await cluster.client.create(MUTATING_WEBHOOKS, {"metadata": {"name": "fault"}, "webhooks": [hook]})
        await turn_on(cluster)

    monkeypatch.setattr(LocalCluster, "turn_on", and_refuse)
    said = await failure(tmp_path)
    assert "the manager to amplify the nodes" in said
    assert "unreachable.example.com" in said


async def test_agents_that_may_not_report_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "corewise-agent", "noderesourcetopologies")
    said = await failure(tmp_path)
    assert "agents to report their machines" in said
    assert "noderesourcetopologies" in said


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


async def test_a_taken_port_ends_the_run(taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_plane, "reserve_port", lambda: taken)
    said = await failure(tmp_path)
    assert "ended with exit code 2\n" in said, "manager and scheduler race for the port"
    assert f"127.0.0.1:{taken}" in said


def test_a_reserved_port_outlives_its_listener() -> None:
    port = control_plane.reserve_port()
    for _ in range(2):
        with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
            pass
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))


@pytest.mark.parametrize("victim", ["manager", "the API server"])
async def test_a_dead_program_ends_the_run(
    victim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = LocalCluster.settle
    key = {"the API server": "apiServer"}.get(victim, victim)

    async def and_kill(cluster: LocalCluster, *, timeout: float) -> list[str]:  # noqa: ASYNC109 - as settle
        os.kill(cluster.children[key].process.pid, signal.SIGKILL)
        return await settle(cluster, timeout=timeout)

    monkeypatch.setattr(LocalCluster, "settle", and_kill)
    assert f"{victim} was killed by SIGKILL" in await failure(tmp_path)


async def test_full_disk_ends_api_server_keeping_acknowledged_writes(tmp_path: Path) -> None:
    """A limit on the size of its files is to the server what a full disk is."""
    folder = Folder(tmp_path, state=tmp_path / "objects")
    acknowledged: list[str] = []
    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - the server ends at some point of the block
        async with api_server(folder) as child, Client(load_config(str(folder.kubeconfig))) as client:
            size = (tmp_path / "objects/journal").stat().st_size + 5000
            resource.prlimit(child.process.pid, resource.RLIMIT_FSIZE, (size, size))
            with suppress(KubeError):
                for number in range(100):
                    await client.create(NODES.typed(dict), {"metadata": {"name": f"n{number}"}})
                    acknowledged.append(f"n{number}")
            await child.process.wait()
            assert child.process.returncode == os.EX_IOERR
            await asyncio.Event().wait()
    died = caught.value.subgroup(ClusterError)
    assert died is not None
    told = str(died.exceptions[0])
    assert f"it could not write to {folder.state}; make sure there is space" in told
    assert f"{folder.state}/journal: cannot be written: File too large" in told
    assert "Traceback" not in told
    assert 0 < len(acknowledged) < 100
    async with api_server(folder), Client(load_config(str(folder.kubeconfig))) as client:
        nodes = await client.list(NODES.typed(dict))
    assert sorted(node["metadata"]["name"] for node in nodes.items) == sorted(acknowledged)
