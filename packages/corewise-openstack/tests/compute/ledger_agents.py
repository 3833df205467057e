"""Agents that serve their hosts' ledgers on real sockets, and the certificates that they and callers show."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from compute.compute_world import DOCUMENT, IMPATIENT, configured, machine
from corewise.kube.certificates import Authority, KeyPair
from corewise.service.options import Address
from corewise_openstack.compute.hosts import Hosts
from corewise_openstack.compute.options import ComputeOptions
from corewise_openstack.compute.program import HostAgent
from corewise_openstack.compute.remote import RemoteAgent, TLSFiles, remote_hosts
from placement_world import client_of_placement

NOW = datetime.now(UTC)
OURS, ANOTHER = Authority.create("ours", now=NOW), Authority.create("another", now=NOW)
LOOPBACK = "127.0.0.1"
PATIENCE = 30.0


class Certificates:
    """Files in a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.callers: list[RemoteAgent] = []
        (folder / "ours.pem").write_text(OURS.certificate_pem)
        (folder / "another.pem").write_text(ANOTHER.certificate_pem)
        self.put("agent", self.server(LOOPBACK))
        self.put("caller", OURS.issue_client("scheduler", now=NOW))

    @staticmethod
    def server(host: str, *, age: timedelta = timedelta()) -> KeyPair:
        return OURS.issue_server([host], now=NOW - age, lifetime=timedelta(hours=1))

    def hosts(self, *agents: Running, caller: TLSFiles | None = None) -> Hosts:
        """Return hosts as a scheduler sees them that has just begun; it ends before the agents do."""
        return self.of([("", each.url) for each in agents], caller)

    def of(self, named: list[tuple[str, str]], caller: TLSFiles | None = None) -> Hosts:
        """Return the hosts of agents by name and URL."""
        found = remote_hosts(named, caller or self.caller())
        self.callers += [host.agent for host in found.known.values() if isinstance(host.agent, RemoteAgent)]
        return found

    def put(self, name: str, pair: KeyPair) -> tuple[str, str]:
        """Write a certificate and its key; return the paths."""
        paths = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        paths[0].write_text(pair.certificate_pem)
        paths[1].write_text(pair.key_pem)
        return str(paths[0]), str(paths[1])

    def caller(self, name: str = "caller", cacert: str = "ours") -> TLSFiles:
        own = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        return TLSFiles(self.folder / f"{cacert}.pem", *(own if name else (None, None)))


def agent_options(
    certificates: Certificates, name: str, options: Mapping[str, str] = DOCUMENT, **shape: int
) -> ComputeOptions:
    """The options of an agent of a host of this shape, which keeps its ledger below ``hosts``."""
    folder = certificates.folder
    conf, topology = folder / f"{name}.conf", folder / f"{name}.json"
    conf.write_text(configured(options))
    topology.write_text(json.dumps(machine(**shape)))
    return ComputeOptions(
        name,
        (conf,),
        topology=topology,
        state_dir=folder / "hosts" / name,
        standalone=True,
        listen=Address(LOOPBACK, 0),
        tls_cert=str(folder / "agent.crt"),
        tls_key=str(folder / "agent.key"),
        client_ca=str(folder / "ours.pem"),
    )


class Running:
    """An agent in a thread of its own."""

    def __init__(self, options: ComputeOptions) -> None:
        self.agent = HostAgent(
            options, client_of_placement(), claims=client_of_placement(), patience=IMPATIENT
        )
        assert self.agent.server is not None
        self.server = self.agent.server

    @property
    def url(self) -> str:
        return f"https://{self.server.address}"

    def counted(self, metric: Any, *labels: str) -> float:
        return self.agent.metrics.value(metric, *labels)


@contextmanager
def running(certificates: Certificates, options: ComputeOptions) -> Iterator[Running]:
    """Run an agent, until the block ends."""
    ready = threading.Event()
    found: list[Running] = []
    ends: list[Any] = []

    async def main() -> None:
        made = Running(options)
        found.append(made)
        task = asyncio.create_task(made.agent.run())
        ends.extend((asyncio.get_running_loop(), task))
        await asyncio.wait(
            [task, asyncio.create_task(made.server.listener.listening.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        if task.done():
            await task
        ready.set()
        await task

    failed: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(main())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - the test that started it gets it
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        if failed:
            raise failed[0]
        yield found[0]
    finally:
        for caller in certificates.callers:
            caller.close()
        if ends:
            loop, task = ends
            if loop.is_running():
                loop.call_soon_threadsafe(task.cancel)
        thread.join(PATIENCE)
