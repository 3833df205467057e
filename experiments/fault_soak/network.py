"""The network of a run: a proxy with faults on the way from each program to each that it calls."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from corewise.kube.auth import client_context, credentials_for
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.config import load_config
from corewise_lab import control_plane
from corewise_lab.control_plane import MANAGER, SCHEDULER, Folder, LocalProgram
from experiments.fault_soak.api_proxy import APIProxy
from experiments.fault_soak.links import OF_HTTP, OF_TLS, Fault, Link
from experiments.fault_soak.result import Options
from experiments.fault_soak.tls_proxy import TLSProxy

MANAGERS: Final = ("manager-a", "manager-b")
SCHEDULERS: Final = ("scheduler-a", "scheduler-b")
IN_THIS_PROCESS: Final = ("kubelets", "agents", "kube-scheduler", "users")


@dataclass(frozen=True, slots=True)
class Network:
    """The proxies by the program that calls the API server, or that is called otherwise."""

    folder: Folder
    to_api: Mapping[str, APIProxy]
    to_program: Mapping[str, TLSProxy]

    @property
    def links(self) -> list[Link]:
        to_api = [proxy.link for proxy in self.to_api.values()]
        return to_api + [proxy.link for proxy in self.to_program.values()]

    @property
    def scheduler_urls(self) -> list[str]:
        """The addresses at which kube-scheduler calls the schedulers."""
        return [self.to_program[name].url for name in SCHEDULERS]

    def kubeconfig(self, name: str) -> Path:
        """Write a program's kubeconfig that leads over its proxy: from its own, or the administrator's."""
        path = self.folder.path / f"{name}.kubeconfig"
        document = json.loads((path if path.exists() else self.folder.kubeconfig).read_text())
        for each in document["clusters"]:
            each["cluster"] = {"server": self.to_api[name].url}
        path.touch(mode=0o600)
        path.write_text(json.dumps(document))
        return path

    def programs(self) -> list[LocalProgram]:
        """Return managers and schedulers, which call and are called over proxies."""
        made = []
        manifests = control_plane.shipped_manifests()
        for kind, names in ((MANAGER, MANAGERS), (SCHEDULER, SCHEDULERS)):
            for name in names:
                proxy = self.to_program[name]
                more = ("--webhook-url", proxy.url) if kind == MANAGER else ()
                program = control_plane.program(self.folder, manifests, kind, name, more)
                proxy.target = urlsplit(program.url).port or 0
                self.kubeconfig(name)
                made.append(program)
        return made


@asynccontextmanager
async def running_network(folder: Folder, options: Options) -> AsyncIterator[Network]:
    """Run the proxies beside the block; the API server runs already."""
    config = load_config(str(folder.kubeconfig))
    context = client_context(config, await credentials_for(config, SYSTEM_CLOCK).identity())
    to_api, to_program = {}, {}
    async with AsyncExitStack() as stack:
        for name in (*MANAGERS, *SCHEDULERS, *IN_THIS_PROCESS):
            link = _link(f"{name} to API server", OF_HTTP, options)
            to_api[name] = await stack.enter_async_context(APIProxy(link, config.server, context))
        for caller, names in (("API server", MANAGERS), ("kube-scheduler", SCHEDULERS)):
            for name in names:
                link = _link(f"{caller} to {name}", OF_TLS, options)
                to_program[name] = await stack.enter_async_context(TLSProxy(link))
        yield Network(folder, to_api, to_program)


def _link(name: str, possible: Iterable[Fault], options: Options) -> Link:
    return Link.drawn(name, tuple(each for each in possible if each in options.faults), options.seed)
