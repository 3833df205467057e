"""The run: a local cluster whose programs reach each other over links with faults.

Two managers and two schedulers are processes; agents, kubelet stand-ins, the stand-in of kube-scheduler and
the users run here. Each has a proxy of its own to the API server. kube-scheduler reaches each scheduler, and
the API server each manager's webhook, over a proxy too. What is judged is read without one.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.errors import KubeError
from corewise.quantities import Ratio
from corewise.scheduler.installation import Pods
from corewise.vocabulary.errors import first_error
from corewise.vocabulary.names import NORMALIZATION_KEY
from corewise_lab import control_plane
from corewise_lab.cluster import Clients, LocalCluster
from corewise_lab.control_plane import ClusterError, Folder, running
from corewise_lab.extender_calls import ExtenderCalls
from corewise_lab.kubelets import Periods
from corewise_lab.outage import policies_alone
from corewise_lab.resource_metrics import DEFINITIONS
from corewise_lab.scenario import BUILTIN, load_scenario
from experiments.fault_soak.api_proxy import LONGEST_LATE
from experiments.fault_soak.evictions import Evictions, wrong_evictions
from experiments.fault_soak.network import IN_THIS_PROCESS, Network, running_network
from experiments.fault_soak.result import Options, Result
from experiments.fault_soak.users import Users
from experiments.fault_soak.witness import Witness

SETTLED_WITHIN: Final = 240.0
"""Seconds after the last fault in which everything must be right: an entry of a ledger may take 90 s."""
_AMPLIFIED_WITHIN: Final = 120.0
_STATUS_PERIOD: Final = 3.0
_SAID_EVERY: Final = 60.0
Say = Callable[[str], None]


async def run(options: Options, path: Path, say: Say) -> Result:
    """Run it.

    Raises:
        ClusterError: if a part of the cluster does not come up, or ends by itself.
        KubeError: if the API refuses a part of it.
    """
    try:
        return await _run(options, Folder(path), say)
    except BaseExceptionGroup as group:
        raise first_error(group, ClusterError, KubeError) or group from None


async def _run(options: Options, folder: Folder, say: Say) -> Result:
    say("starting the API server, the nodes, two managers and two schedulers")
    async with (
        control_plane.api_server(folder),
        running_network(folder, options) as network,
        _clients(network) as clients,
        _cluster(options, folder, clients) as cluster,
        _programs(network, cluster),
    ):
        return await _Run(options, network, clients, cluster, say).judge()


@asynccontextmanager
async def _clients(network: Network) -> AsyncIterator[dict[str, Client]]:
    """Make a client for each program of this process, over its proxy."""
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(Client(load_config(str(network.kubeconfig(name)))))
            for name in IN_THIS_PROCESS
        }


@asynccontextmanager
async def _cluster(
    options: Options, folder: Folder, clients: dict[str, Client]
) -> AsyncIterator[LocalCluster]:
    """Run nodes without pods, and turn corewise on."""
    plan = replace(load_scenario(BUILTIN).plan(options.nodes), groups=(), source="the soak with faults")
    async with Client(load_config(str(folder.kubeconfig))) as admin:
        await control_plane.install(admin, [*control_plane.shipped_manifests(), *DEFINITIONS])
        cluster = LocalCluster(
            plan,
            admin,
            folder.path / "machines",
            Periods(status=_STATUS_PERIOD),
            Clients(clients["kubelets"], clients["agents"], clients["kube-scheduler"]),
        )
        async with running(*cluster.loops()):
            await cluster.load()
            await cluster.turn_on()
            yield cluster


@asynccontextmanager
async def _programs(network: Network, cluster: LocalCluster) -> AsyncIterator[None]:
    """Run managers and schedulers; inside the block the nodes are amplified, and by policies."""
    async with AsyncExitStack() as stack:
        for program in network.programs():
            child = await program.start()
            stack.push_async_callback(child.stop)
            cluster.children[program.name] = child
        await stack.enter_async_context(
            running(*(child.fail_on_death for child in cluster.children.values()))
        )
        connecting = BalancedCalls.connect(cluster.client, network.scheduler_urls, Pods.OWNED)
        cluster.scheduler.extender = await cluster.waits.ending("the client certificate", connecting)
        if unsettled := await cluster.settle(timeout=_AMPLIFIED_WITHIN):
            raise ClusterError(f"not amplified after {_AMPLIFIED_WITHIN:g} s: {', '.join(unsettled)}")
        await policies_alone(cluster)
        yield


class BalancedCalls(ExtenderCalls):
    """Calls of the extender that begin with one replica after the other, as behind a Service."""

    async def call(self, path: str, body: object, seconds: float) -> Any:
        """Return an answer; raise as :class:`ExtenderCalls` does."""
        self._urls = [*self._urls[1:], self._urls[0]]
        return await super().call(path, body, seconds)


@dataclass(frozen=True, slots=True)
class _Run:
    """A cluster that is ready for faults."""

    options: Options
    network: Network
    clients: Mapping[str, Client]
    cluster: LocalCluster
    say: Say

    async def judge(self) -> Result:
        """Let users work while faults strike, and look at what is left when they are over."""
        table = json.loads(self.cluster.plan.config[NORMALIZATION_KEY])
        witness = Witness(self.cluster)
        draw = Random(self.options.seed)  # noqa: S311 - what users do
        users = Users(self.clients["users"], self.cluster.machines, witness.node_of, table, draw)
        evictions = Evictions(self.clients["agents"], self.cluster.machines)
        now = asyncio.get_running_loop().time
        async with running(witness.nodes.run, witness.pods.run):
            await witness.nodes.synced.wait()
            ratios = {name: witness.ratio_of(name) for name in self.cluster.machines}
            witness.is_judging = True
            async with running(users.run, evictions.run):
                await self._let_faults_strike(witness)
            self.say("no more faults; waiting until everything is right")
            ended = now()
            await asyncio.sleep(LONGEST_LATE)
            await users.state_ratios(self.cluster.client)
            expected = {name: Ratio(ratio.hundredths + users.raised) for name, ratio in ratios.items()}
            wrong = await witness.until_settled(expected, ended + SETTLED_WITHIN)
        accepted = self.network.to_api["agents"].evictions
        return Result(
            self.options,
            self.network.links,
            users.done + Counter({"evictions accepted": len(accepted)}),
            dict(witness.waits),
            witness.node_versions,
            witness.pod_versions,
            now() - ended,
            [*witness.violations, *wrong_evictions(accepted, evictions.node_of), *wrong],
        )

    async def _let_faults_strike(self, witness: Witness) -> None:
        links, seconds = self.network.links, self.options.seconds
        self.say(f"faults on {len(links)} links, for {seconds:g} s")
        now = asyncio.get_running_loop().time
        began, told = now(), 0
        for link in links:
            link.begin(self.options.seed, seconds)
        while (left := began + seconds - now()) > 0:
            await asyncio.sleep(min(left, _SAID_EVERY))
            struck = sum(link.struck.total() for link in links)
            self.say(f"{now() - began:.0f} s: {struck} faults, {len(witness.violations)} violations")
            for violation in witness.violations[told:]:
                self.say(violation)
            told = len(witness.violations)
