"""``corewise up --scenario outage``: every corewise program is killed under load; what goes on without them.

The cluster is the local one: its API server evaluates the policies, stand-ins of kubelets write raw amounts
every few seconds, and a stand-in of kube-scheduler places pods. The manager and two replicas of the scheduler
are the real programs, in processes of their own. They are killed with SIGKILL, all at once, and started again
some time later. The agents run in this process: they are stopped and started with the others.

Pods come at a steady rate the whole time: plain ones, and ones that own CPUs (QoS class LSR). What should be
seen:

- every node's allocatable stays amplified, although its kubelet goes on stating raw amounts;
- plain pods are placed as they come: nothing of ours is on their path;
- pods that own CPUs wait while no scheduler answers, and get their CPUs afterwards, no CPU twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Self

from corewise.amplification.amounts import CPU
from corewise.amplification.annotations import read_node
from corewise.kube.cache import Cache
from corewise.kube.errors import KubeError, NotFound
from corewise.kube.resources import MUTATING_POLICIES, MUTATING_WEBHOOKS, PODS
from corewise.manager.options import MUTATING_NAME
from corewise.quantities import ONE, Quantity, RawMilli, amplify
from corewise.scheduler.installation import Pods
from corewise.scheduler.policy import NAME as OWNED_CPUS
from corewise.vocabulary.cpu_annotations import stated_cpus
from corewise.vocabulary.errors import first_error
from corewise.vocabulary.names import RESOURCE_STATUS
from corewise.workload.pods import WORKLOAD_PODS, Pod
from corewise_lab import control_plane
from corewise_lab.cluster import LocalCluster, local_cluster
from corewise_lab.control_plane import Child, ClusterError, Folder, LocalProgram, running
from corewise_lab.extender_calls import ExtenderCalls
from corewise_lab.kubelets import SIMULATED_NODES, KubeletCounters, Periods, SimulatedNode
from corewise_lab.pods import manifest
from corewise_lab.scenario import BUILTIN, load_scenario

NODES = 4
REPLICAS = ("scheduler-a", "scheduler-b")
PLAIN, OWNER = "plain", "owner"
_NAMESPACE = "default"
_APP = "app"
_STATUS_PERIOD = 3.0
_SETTLE = 120.0
_POLL = 0.2
_WEBHOOKS = frozenset({MUTATING_NAME, OWNED_CPUS})
"""Those that policies replace. The webhook that marks offline pods stays: its failurePolicy is Ignore."""
_POLICIES = 2
"""Of the manager, for amounts of nodes; of the scheduler, for pods that own CPUs."""
_GIBI = 1 << 30


@dataclass(frozen=True, slots=True)
class PodStream:
    """One kind of pods: seconds between two of them, their run time, and their requests."""

    kind: str
    period: float
    life: float
    cpu_milli: int
    qos_class: str = ""


STREAMS = (PodStream(PLAIN, 0.2, 10.0, 500), PodStream(OWNER, 2.0, 30.0, 2000, "LSR"))


@dataclass(frozen=True, slots=True)
class Phases:
    """The seconds during which everything runs, is away, and runs again.

    The last one includes the start of the programs, and goes on until every pod that waits at its end is
    bound, for two more minutes at most.
    """

    before: float = 30.0
    away: float = 60.0
    after: float = 60.0


@dataclass
class Phase:
    """The events of one phase, which took ``seconds``.

    ``kubelet_writes`` and ``refused``: statuses with raw amounts that kubelets sent, and requests of theirs
    that failed. ``raw_seen``: states of nodes that had other CPU than the node's ratio and its owned CPUs
    make of the raw amount. ``twice``: CPUs that two pods had at once. ``waits``: seconds from a pod's
    creation to its binding, by kind, of the pods that were bound in this phase.
    """

    name: str
    seconds: float = 0.0
    kubelet_writes: int = 0
    refused: int = 0
    raw_seen: int = 0
    twice: int = 0
    created: Counter[str] = field(default_factory=Counter)
    bound: Counter[str] = field(default_factory=Counter)
    waits: dict[str, list[float]] = field(default_factory=lambda: {PLAIN: [], OWNER: []})

    def wait(self, kind: str) -> float | None:
        """Return the median wait of the pods of a kind; None if there were none."""
        return median(self.waits[kind]) if self.waits[kind] else None


@dataclass(frozen=True, slots=True)
class OutageReport:
    """The killed programs, the three phases, and the number of CPU-owning pods still waiting at the end."""

    nodes: int
    killed: tuple[str, ...]
    phases: tuple[Phase, ...]
    waiting: int

    @property
    def is_sound(self) -> bool:
        """Whether nothing happened that must not: a node that was not amplified, or a CPU with two owners."""
        return not any(each.raw_seen or each.twice for each in self.phases)


@dataclass
class _Created:
    kind: str
    at: float
    bound: asyncio.Event = field(default_factory=asyncio.Event)


class Witness:
    """Watches nodes and pods, and counts into the phase that is going on."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._now = asyncio.get_running_loop().time
        self._machines = cluster.machines
        self._created: dict[str, _Created] = {}
        self._owner_of: dict[tuple[str, int], str] = {}
        self.phase: Phase | None = None
        """None before the first one: nothing is counted."""
        self.nodes = Cache(cluster.client, SIMULATED_NODES, on_change=self._node_changed)
        self.pods = Cache(cluster.client, WORKLOAD_PODS, on_change=self._pod_changed)

    async def live(self, uid: str, stream: PodStream) -> None:
        """Note a pod that was created just now, and wait until it has been bound and has lived its time."""
        if self.phase:
            self.phase.created[stream.kind] += 1
        created = self._created[uid] = _Created(stream.kind, self._now())
        if pod := next((each for each in self.pods.items.values() if each.metadata.uid == uid), None):
            self._pod_changed(None, pod)
        await created.bound.wait()
        await asyncio.sleep(stream.life)

    async def until_bound(self, most: float) -> None:
        """Wait until the pods that wait are bound, for ``most`` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most):
                for each in [*self._created.values()]:
                    await each.bound.wait()

    @property
    def waiting(self) -> int:
        """The number of CPU-owning pods without a node."""
        pods = self.pods.items.values()
        return sum(each.metadata.labels.get(_APP) == OWNER and not each.spec.node_name for each in pods)

    def _node_changed(self, _old: SimulatedNode | None, new: SimulatedNode | None) -> None:
        if new is not None and self.phase:
            stated = Quantity.parse(new.status["allocatable"]["cpu"]).milli
            raw = self._machines[new.metadata.name].allocatable_milli
            self.phase.raw_seen += stated != offered_milli(raw, new.metadata.annotations)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None and old is not None:
            self._owner_of = {cpu: uid for cpu, uid in self._owner_of.items() if uid != old.metadata.uid}
        if new is None or not new.spec.node_name or (old is not None and old.spec.node_name):
            return
        meta = new.metadata
        for cpu in stated_cpus(meta.annotations.get(RESOURCE_STATUS)).cpus:
            owner = self._owner_of.setdefault((new.spec.node_name, cpu), meta.uid)
            if self.phase:
                self.phase.twice += owner != meta.uid
        created = self._created.pop(meta.uid, None)
        if created:
            created.bound.set()
            if self.phase:
                self.phase.bound[created.kind] += 1
                self.phase.waits[created.kind].append(self._now() - created.at)


def offered_milli(raw: RawMilli, annotations: Mapping[str, str]) -> int:
    """Return raw x ratio, less what owned CPUs cost beyond the requests of their pods, in milli-CPU."""
    stated = read_node(annotations)
    ratio = stated.ratio(CPU) or ONE
    return amplify(raw, ratio) - stated.folded(("allocatable", CPU), ratio)


class Killable:
    """The programs of corewise, which can be killed and started again."""

    def __init__(self, programs: list[LocalProgram], cluster: LocalCluster) -> None:
        self._programs = programs
        self._cluster = cluster
        self.children: list[Child] = []

    @property
    def names(self) -> tuple[str, ...]:
        return (*(each.name for each in self._programs), "agents")

    async def start(self) -> None:
        self.children = [await each.start() for each in self._programs]
        self._cluster.children.update({each.name: each for each in self.children})
        self._cluster.start_agents()

    async def kill(self) -> None:
        """Kill all of them at once, without a chance to say goodbye."""
        self._cluster.stop_agents()
        for child in self.children:
            with suppress(ProcessLookupError):
                child.process.kill()
        for child in self.children:
            await child.process.wait()

    def check(self) -> None:
        """Raise ClusterError if one of them has ended by itself."""
        for child in self.children:
            if not child.alive:
                raise ClusterError(f"{child.name} ended by itself\n{child.last_words()}")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for child in self.children:
            await child.stop()


async def run_outage(
    folder: Folder, phases: Phases, progress: Callable[[str], None], *, nodes: int = NODES
) -> OutageReport:
    """Run the scenario.

    Raises:
        ClusterError: if a part of the cluster does not come up.
        KubeError: if the API refuses a part of it.
    """
    try:
        return await _run(folder, phases, progress, nodes)
    except BaseExceptionGroup as group:
        raise first_error(group, ClusterError, KubeError) or group from None


async def _run(folder: Folder, phases: Phases, progress: Callable[[str], None], nodes: int) -> OutageReport:
    plan = replace(load_scenario(BUILTIN).plan(nodes), groups=(), source="scenario outage")
    progress("starting the API server, the nodes, the manager and two schedulers")
    async with local_cluster(plan, folder, periods=Periods(status=_STATUS_PERIOD)) as cluster:
        cluster.waits.tell = progress
        await cluster.load()
        await cluster.turn_on()
        manifests = control_plane.shipped_manifests()
        programs = [
            control_plane.program(folder, manifests, control_plane.MANAGER),
            *(control_plane.program(folder, manifests, control_plane.SCHEDULER, name) for name in REPLICAS),
        ]
        async with Killable(programs, cluster) as corewise:
            urls = [each.url for each in programs[1:]]
            async with running(*(child.fail_on_death for child in corewise.children)):
                cluster.scheduler.extender = await cluster.waits.ending(
                    "the schedulers' client certificate",
                    ExtenderCalls.connect(cluster.client, urls, Pods.OWNED),
                )
                if unsettled := await cluster.settle(timeout=_SETTLE):
                    raise ClusterError(f"not amplified after {_SETTLE:g} s: {', '.join(unsettled)}")
                progress("waiting until the policies alone do what webhooks did at first")
                await policies_alone(cluster)
            witness = Witness(cluster)
            async with running(witness.nodes.run, witness.pods.run):
                await witness.nodes.synced.wait()
                async with running(*(_Source(cluster, witness, stream).run for stream in STREAMS)):
                    return await _three_phases(phases, witness, corewise, cluster.kubelets.counters, progress)


async def policies_alone(cluster: LocalCluster) -> None:
    """Wait until the programs have installed their policies, and removed the webhooks in their place."""
    client = cluster.client

    async def alone() -> None:
        while True:
            policies, webhooks = await client.list(MUTATING_POLICIES), await client.list(MUTATING_WEBHOOKS)
            left = any(each.metadata.name in _WEBHOOKS for each in webhooks)
            if len(policies.items) >= _POLICIES and not left:
                return
            await asyncio.sleep(_POLL)

    await cluster.waits.ending("policies to take over from webhooks", alone())


async def _three_phases(
    phases: Phases,
    witness: Witness,
    corewise: Killable,
    counters: KubeletCounters,
    progress: Callable[[str], None],
) -> OutageReport:
    done: list[Phase] = []
    now = asyncio.get_running_loop().time

    @contextmanager
    def counted(name: str, seconds: float) -> Iterator[None]:
        """Count into a phase; the next one follows at once, so that no time is left out."""
        progress(f"{name}, for {seconds:g} s")
        witness.phase = phase = Phase(name)
        done.append(phase)
        writes, failures, began = counters.status_patches, counters.failures, now()
        yield
        phase.seconds = now() - began
        phase.kubelet_writes, phase.refused = counters.status_patches - writes, counters.failures - failures

    with counted("all run", phases.before):
        await asyncio.sleep(phases.before)
        corewise.check()
        await corewise.kill()
    with counted("all killed", phases.away):
        await asyncio.sleep(phases.away)
    with counted("all run again", phases.after):
        await corewise.start()
        await asyncio.sleep(phases.after)
        progress("waiting for pods that have no node")
        await witness.until_bound(_SETTLE)
    corewise.check()
    return OutageReport(len(witness.nodes.items), corewise.names, tuple(done), witness.waiting)


@dataclass
class _Source:
    """Creates pods of one kind at a steady rate, and deletes each when it has run for its time."""

    cluster: LocalCluster
    witness: Witness
    stream: PodStream
    made: int = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._one(f"{self.stream.kind}-{self.made}"))
                self.made += 1
                await asyncio.sleep(self.stream.period)

    async def _one(self, name: str) -> None:
        """Let one pod live; one that the API refuses just now is not a pod."""
        stream, client = self.stream, self.cluster.client
        pod = manifest(
            name,
            cpu_milli=stream.cpu_milli,
            memory=_GIBI,
            qos_class=stream.qos_class,
            labels={_APP: stream.kind},
        )
        try:
            made = await client.create(WORKLOAD_PODS, pod, _NAMESPACE)
        except KubeError:
            return
        await self.witness.live(made.metadata.uid, stream)
        with suppress(NotFound):
            await client.delete(PODS, name, _NAMESPACE)
