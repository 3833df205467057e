"""A cluster at scale: the local API server, two managers, two schedulers, kubelets and churn, each a process.

Memory, CPU and descriptors of a program are read from /proc, objects from its metrics. The local API server
takes a fraction of the writes that a real one does. So of the nodes, some have a kubelet stand-in that writes
as a kubelet does. For the others the API server stores new heartbeats by itself, as often as the writes of an
amplified node's kubelet are stored: programs get the same events. What needs requests (churn, a change of
ratio on every node) goes through them.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from corewise.amplification.annotations import read_node
from corewise.config.yaml_text import load_documents
from corewise.kube.cache import Cache
from corewise.kube.client import Client, PatchType
from corewise.kube.clock import SYSTEM_CLOCK, rfc3339
from corewise.kube.config import load_config
from corewise.kube.errors import KubeError
from corewise.kube.resources import CONFIG_MAPS, PODS
from corewise.scheduler.installation import Pods
from corewise.vocabulary.names import (
    AMPLIFICATION_ORIGINAL,
    AMPLIFICATION_RATIO,
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    NORMALIZATION_KEY,
    NORMALIZATION_RATIO,
)
from corewise.workload.nodes import WORKLOAD_NODES, Node
from corewise.workload.pods import Pod
from corewise_lab import control_plane
from corewise_lab.control_plane import MANAGER, SCHEDULER, Child, ClusterError, Folder, LocalProgram
from corewise_lab.extender_calls import Entry, ExtenderCalls, ExtenderError
from experiments.scale import filling
from experiments.scale.filling import NAMESPACE, RigPod
from tools.bench import processes

WRITERS = 300
"""How many nodes have a kubelet stand-in that writes."""
STORED_EVERY = 270.0
"""Seconds until an amplified node's heartbeats are stored (docs/concepts/amplification-writes.md)."""
CHURN = 0.01 / 60
"""Of all pods are replaced in a second."""
EXPECTED = (ClusterError, KubeError, ExtenderError, OSError)
"""What can happen to a run without a bug in it: a program ended, or did not answer in time."""
_SCENARIO = Path("packages/corewise-lab/src/corewise_lab/scenarios/builtin.yaml")
_MIB = 1 << 20
_SERVER_STARTS_WITHIN = 600.0
_READY_WITHIN = 1200.0
_RATIOS_WITHIN = 1800.0
_ANSWERS_WITHIN = 60.0
_FOLLOWED_FOR = 5
"""Looks at which all watches must be there: one that has expired is open for a moment."""
_POLL = 0.2
_TRIES, _AGAIN_AFTER = 60, 1.0
_RAW = PODS.typed(dict[str, Any])


@dataclass(frozen=True, slots=True)
class Reading:
    """A process as the kernel shows it, and its metrics. Memory in MiB, CPU in seconds."""

    at: float
    rss: float
    pss: float
    cpu: float
    descriptors: int
    threads: int
    objects: int = 0
    tasks: int = 0
    stale: int = 0
    """Caches that may be behind the cluster."""
    leads: bool = False


@dataclass
class RunningProgram:
    """A replica that runs, and the time it took to become ready."""

    kind: str
    made: LocalProgram
    child: Child
    ready_after: float = 0.0
    restarting: bool = False
    peak: float = 0.0
    """MiB of memory (RSS), of the processes before the present one."""

    @property
    def metrics_port(self) -> int:
        return int(self.made.arguments[self.made.arguments.index("--metrics-listen") + 1].rpartition(":")[2])

    async def until_ready(self, started: float) -> None:
        """Wait until it says that it is ready."""
        log = self.made.log
        await processes.until_ready(self.child.process, self.metrics_port, log, _READY_WITHIN)
        self.ready_after = time.monotonic() - started

    async def read(self) -> Reading:
        """Read memory, CPU, descriptors, and the gauges of objects and tasks."""
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        text = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=60).read().decode())
        return replace(
            read_process(self.child.process),
            objects=_gauge(text, "corewise_cache_objects"),
            tasks=_gauge(text, "corewise_tasks"),
            stale=_gauge(text, "corewise_cache_stale"),
            leads=_gauge(text, "corewise_leader") == 1,
        )

    def check(self) -> None:
        """Check that it runs.

        Raises:
            ClusterError: if it has ended.
        """
        if not (self.restarting or self.child.alive):
            raise ClusterError(f"{self.made.name} ended by itself\n{self.child.last_words()}")

    def peak_rss(self) -> float:
        """Return the largest memory (RSS) that a process of this replica has had, in MiB."""
        self.peak = max(self.peak, processes.peak_rss_mib(self.child.process))
        return self.peak


def _gauge(text: str, name: str) -> int:
    """Return the sum of a metric over its labels.

    Raises:
        ClusterError: if the program does not export it.
    """
    found = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
    if not found:
        raise ClusterError(f"a program exports no metric {name}")
    return int(sum(map(float, found)))


def read_process(process: asyncio.subprocess.Process) -> Reading:
    """Read a process from /proc."""
    place = Path(f"/proc/{process.pid}")
    amounts = dict(re.findall(r"^(Rss|Pss): +(\d+) kB", (place / "smaps_rollup").read_text(), re.MULTILINE))
    return Reading(
        at=time.monotonic(),
        rss=int(amounts["Rss"]) / 1024,
        pss=int(amounts["Pss"]) / 1024,
        cpu=processes.cpu_seconds(process),
        descriptors=len(list((place / "fd").iterdir())),
        threads=len(list((place / "task").iterdir())),
    )


@dataclass
class Rig:
    """The cluster, once it is up; :func:`rig` makes it."""

    nodes: int
    folder: Folder
    client: Client
    api: asyncio.subprocess.Process
    shapes: list[RigPod]
    say: Callable[[str], None]
    writers: int
    cache: Cache[Node]
    names: list[str]
    programs: list[RunningProgram] = field(default_factory=list)
    extender: ExtenderCalls | None = None
    draw: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 - a load with a seed
    decisions: list[float] = field(default_factory=list)
    binds: list[float] = field(default_factory=list)
    replaced: int = 0
    last_pod: int = 0
    retries: int = 0
    churn_rate: float = CHURN
    failures: Counter[str] = field(default_factory=Counter)
    """Replacements of pods that failed, by what was said, without the numbers in it."""
    last_refusal: str = ""
    replayed: float = 0.0
    """The number of nodes that the API server writes again each second."""

    def check_programs(self) -> None:
        """Check that all replicas run, except one that is being restarted.

        Raises:
            ClusterError: if one has ended.
        """
        for program in self.programs:
            program.check()

    @contextmanager
    def replaying(self, rate: float) -> Iterator[None]:
        """Have the API server rewrite so many nodes a second, and afterwards as many as before."""
        before, self.replayed = self.replayed, rate
        self.tell_server(f"replay {rate}")
        try:
            yield
        finally:
            self.replayed = before
            self.tell_server(f"replay {before}")

    def tell_server(self, line: str) -> None:
        """Have the API server do something (experiments/scale/apiserver.py)."""
        if self.api.stdin is None:
            raise RuntimeError("the API server was started without standard input")
        self.api.stdin.write(f"{line}\n".encode())

    async def server_counts(self) -> tuple[int, int]:
        """Return the number of heartbeats that the API server has stored by itself, and of its watches."""
        begin = len(self.server_said("stored"))
        self.tell_server("count")
        async with asyncio.timeout(_ANSWERS_WITHIN):
            while len(said := self.server_said("stored")) == begin:
                await asyncio.sleep(_POLL)
        _, stored, _, watches = said[-1].split()
        return int(stored), int(watches)

    def server_said(self, word: str) -> list[str]:
        """Return the lines of the API server's log that begin with a word."""
        lines = self.folder.log("apiserver").read_text().splitlines()
        return [line for line in lines if line.startswith(f"{word} ")]

    async def restart(self, program: RunningProgram) -> None:
        """End a replica in order, and start it again."""
        program.peak_rss()
        program.restarting = True
        await program.child.stop()
        started = time.monotonic()
        program.child = await program.made.start()
        await program.until_ready(started)
        program.restarting = False
        self.say(f"{program.made.name} restarted, ready after {program.ready_after:.1f} s")

    async def lose_watch(self) -> None:
        """Break the connection of one watch."""
        self.tell_server("cut")

    async def expire_watches(self) -> None:
        """Break all watches when the API server has forgotten all changes: every cache is listed again."""
        _, before = await self.server_counts()
        self.tell_server("expire")
        async with asyncio.timeout(_READY_WITHIN):
            at_once = 0
            while at_once < _FOLLOWED_FOR:
                await asyncio.sleep(_POLL)
                self.check_programs()
                _, watches = await self.server_counts()
                at_once = at_once + 1 if watches >= before else 0

    async def annotate(self) -> None:
        """Change the ratio of one node by hand."""
        body = {
            "metadata": {
                "annotations": {AMPLIFICATION_ORIGINAL: f'{{"cpu":1.{self.draw.randint(1, 20):02}}}'}
            }
        }
        await self.client.patch(WORKLOAD_NODES, self.draw.choice(self.names), body)

    def of(self, kind: str) -> list[RunningProgram]:
        """Return the replicas of a program."""
        return [each for each in self.programs if each.kind == kind]

    def next_pod(self) -> int:
        """Return a number that no pod has had."""
        self.last_pod += 1
        return self.last_pod

    async def create(self, pod: dict[str, Any]) -> dict[str, Any]:
        """Create a pod."""
        return await self.client.create(_RAW, pod, NAMESPACE)

    async def delete(self, name: str) -> None:
        """Delete a pod at once."""
        await self.client.delete(PODS, name, NAMESPACE, grace_period=0)

    async def start(self, kind: str, name: str) -> None:
        """Start a replica, and wait until it is ready."""
        made = control_plane.program(self.folder, control_plane.shipped_manifests(), kind, name)
        started = time.monotonic()
        program = RunningProgram(kind, made, await made.start())
        self.programs.append(program)
        await program.until_ready(started)
        self.say(f"{name} ready after {program.ready_after:.1f} s")

    async def change_ratios(self, more: float) -> float:
        """Raise every ratio of the ConfigMap's table by so much; seconds until the last node shows it."""
        ratios = _ratios(more)
        before = {
            name: each.metadata.annotations.get(NORMALIZATION_RATIO)
            for name, each in self.cache.items.items()
        }
        begin = time.monotonic()
        await self.client.patch(
            CONFIG_MAPS,
            CONFIG_NAME,
            {"data": {NORMALIZATION_KEY: json.dumps(ratios)}},
            namespace=CONFIG_NAMESPACE,
        )
        left = set(before)
        said = begin
        while left:
            await asyncio.sleep(_POLL)
            self.check_programs()
            left = {name for name in left if not self._is_done(str(name), before[name])}
            if time.monotonic() - said > 20:
                said = time.monotonic()
                self.say(f"ratios: {len(left)} nodes left")
            if time.monotonic() - begin > _RATIOS_WITHIN:
                raise TimeoutError(f"{len(left)} nodes did not get their ratio, such as {min(left, key=str)}")
        return time.monotonic() - begin

    def _is_done(self, name: str, before: str | None) -> bool:
        """Whether a node's ratio has changed, and its allocatable CPU is the raw one amplified by it."""
        node = self.cache.get(name)
        if node is None:
            return True
        ratio = node.metadata.annotations.get(NORMALIZATION_RATIO)
        return ratio not in {None, before} and is_amplified(node)

    @asynccontextmanager
    async def churning(self) -> AsyncIterator[None]:
        """Replace pods beside the block."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.churn(stop))
            try:
                yield
            finally:
                stop.set()

    async def churn(self, stop: asyncio.Event) -> None:
        """Replace 1 % of the pods a minute until told to stop."""
        period = 1 / (self.churn_rate * len(self.shapes))
        async with asyncio.TaskGroup() as tasks:
            next_at = time.monotonic()
            while not stop.is_set():
                tasks.create_task(self._attempt_to_replace())
                next_at = max(next_at + period, time.monotonic() - 10 * period)
                await is_set_within(stop, max(0.0, next_at - time.monotonic()))

    async def _attempt_to_replace(self) -> None:
        try:
            await self._replace_one()
            self.replaced += 1
        except EXPECTED as error:  # the load goes on while programs restart; failures are counted
            self.failures[re.sub(r"\d+", "N", f"{type(error).__name__}: {error}")] += 1

    async def _replace_one(self) -> None:
        """Delete a pod, create one like it, and bind it: to the same node unless it owns CPUs."""
        at = self.draw.randrange(len(self.shapes))
        old, last = self.shapes[at], self.shapes[-1]
        self.shapes[at] = last
        self.shapes.pop()
        await self.delete(old.name)
        self.shapes.append(await self.run_pod(replace(old, index=self.next_pod())))

    async def run_pod(self, pod: RigPod) -> RigPod:
        """Create a pod, have it bound, and let it run."""
        created = await self.create(filling.new_pod(pod))
        node = pod.node
        if pod.owned:
            node = await self.schedule(created)
            pod = RigPod(pod.index, node, pod.milli, owned=True)
        else:
            target = {"kind": "Node", "name": node}
            path = PODS.path(pod.name, namespace=NAMESPACE, subresource="binding")
            await self.client.request("POST", path, body={"metadata": {"name": pod.name}, "target": target})
        status = filling.running(node, rfc3339(SYSTEM_CLOCK.now()))
        await self.client.patch(
            PODS,
            pod.name,
            {"status": status},
            type=PatchType.STRATEGIC,
            namespace=NAMESPACE,
            subresource="status",
        )
        return pod

    async def connect(self) -> None:
        """Read kube-scheduler's certificate for the schedulers."""
        urls = [each.made.url for each in self.of(SCHEDULER)]
        self.extender = await ExtenderCalls.connect(self.client, urls, Pods.OWNED)

    async def decide(self, created: dict[str, Any]) -> str:
        """Ask filter and prioritize about a pod, as kube-scheduler does; return the best node."""
        extender = self._connected()
        names = self.draw.sample(self.names, sampled(self.nodes))
        begin = time.perf_counter()
        passed, refused = await extender.filter(created, names)
        if not passed:
            raise ExtenderError(f"no node suits {created['metadata']['name']}: {refused}")
        scores = await extender.prioritize(created, passed)
        if not scores:
            raise ExtenderError("prioritize was not answered")
        self.decisions.append(time.perf_counter() - begin)
        return max(passed, key=lambda name: scores.get(name, 0))

    def _connected(self) -> Entry:
        if self.extender is None:
            raise RuntimeError("connect() first")
        return Entry(self.extender)

    async def schedule(self, created: dict[str, Any]) -> str:
        """Find a node for a pod that owns CPUs, and have it bound there.

        Its binding takes from the first call of bind until it is bound, however often that is tried.
        """
        begin = None
        for _ in range(_TRIES):
            try:
                node = await self.decide(created)
                begin = begin or time.perf_counter()
                await self._connected().bind(msgspec.convert(created, Pod, strict=False), node)
            except ExtenderError as error:  # kube-scheduler queues the pod, too, while no scheduler answers
                self.retries += 1
                self.last_refusal = str(error)
                await asyncio.sleep(_AGAIN_AFTER)
                created = await self.client.get(_RAW, created["metadata"]["name"], NAMESPACE)
                node = created["spec"].get("nodeName", "")  # the answer came late, or not at all
                if not node:
                    continue
            if begin is not None:
                self.binds.append(time.perf_counter() - begin)
            return str(node)
        raise ExtenderError(f"a pod was tried {_TRIES} times: {self.last_refusal}")


@asynccontextmanager
async def rig(
    nodes: int, pods: int, path: Path, say: Callable[[str], None], *, writers: int = WRITERS
) -> AsyncIterator[Rig]:
    """Fill and start the API server, and run kubelet stand-ins; programs are started by the block."""
    folder, writers = Folder(path), min(writers, nodes)
    fleet_machines = filling.machines(nodes)
    shapes = [pod for _, placed in filling.shapes(fleet_machines, pods) for pod in placed]
    begin = time.monotonic()
    folder.kubeconfig.unlink(missing_ok=True)  # of an earlier run
    async with AsyncExitStack() as stack:
        arguments = ["--nodes", str(nodes), "--pods", str(pods), "--written", str(writers)]
        arguments += ["--kubeconfig-out", str(folder.kubeconfig)]
        log = folder.log("apiserver")
        child = control_plane.child_process(
            "the local API server", "experiments.scale.apiserver", arguments, log
        )
        api = (await stack.enter_async_context(child)).process
        async with asyncio.timeout(_SERVER_STARTS_WITHIN):
            while not folder.kubeconfig.exists():
                await asyncio.sleep(_POLL)
        say(f"{nodes} nodes, {len(shapes)} pods: the API server is up after {time.monotonic() - begin:.0f} s")
        client = await stack.enter_async_context(Client(load_config(str(folder.kubeconfig), None)))
        await control_plane.install(client, control_plane.shipped_manifests())
        await control_plane.ensure_namespace(client, CONFIG_NAMESPACE)
        await client.create(CONFIG_MAPS, {"metadata": {"name": CONFIG_NAME}, "data": {}}, CONFIG_NAMESPACE)
        cache = Cache(client, WORKLOAD_NODES)
        await stack.enter_async_context(control_plane.running(cache.run))
        await cache.synced.wait()
        made = Rig(
            nodes=nodes,
            folder=folder,
            client=client,
            api=api,
            shapes=shapes,
            say=say,
            writers=writers,
            cache=cache,
            names=[each.name for each in fleet_machines],
            last_pod=pods,
        )
        try:
            yield made
        finally:
            for program in made.programs:
                await program.child.stop()
            if made.extender is not None:
                await made.extender.close()


async def start_all(made: Rig, replicas: int = 2) -> None:
    """Start the replicas of each program, one after the other."""
    for kind in (MANAGER, SCHEDULER):
        for letter in "ab"[:replicas]:
            await made.start(kind, f"{kind}-{letter}")


@asynccontextmanager
async def kubelets(made: Rig) -> AsyncIterator[None]:
    """Run the kubelet stand-ins, and the heartbeats of the other nodes, beside the block."""
    arguments = ["--kubeconfig", str(made.folder.kubeconfig), "--nodes", str(made.nodes)]
    arguments += ["--count", str(made.writers)]
    log = made.folder.log("kubelets")
    async with control_plane.child_process("the kubelets", "experiments.scale.kubelets", arguments, log):
        async with asyncio.timeout(_SERVER_STARTS_WITHIN):
            while not kubelet_counters(made.folder):
                await asyncio.sleep(_POLL)
        with made.replaying((made.nodes - made.writers) / STORED_EVERY):
            yield


async def is_set_within(stop: asyncio.Event, seconds: float) -> bool:
    """Wait for the event at most so long; whether it is set."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
    return stop.is_set()


def kubelet_counters(folder: Folder) -> dict[str, Any]:
    """Return the last counters of the kubelet stand-ins."""
    lines = [line for line in folder.log("kubelets").read_text().splitlines() if line.startswith("{")]
    counters: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return counters


def sampled(nodes: int) -> int:
    """Return the number of feasible nodes kube-scheduler looks for (percentageOfNodesToScore 0: adaptive)."""
    share = max(5, 50 - nodes // 125)
    return min(nodes, max(100, nodes * share // 100))


def is_amplified(node: Node) -> bool:
    """Whether the status of a node shows the ratio of its annotation."""
    stated = read_node(node.metadata.annotations)
    return AMPLIFICATION_RATIO in node.metadata.annotations and stated.recorded_ratio(
        "cpu"
    ) == stated.ratios.ratios.get("cpu")


def _ratios(more: float) -> dict[str, Any]:
    (document,) = load_documents(_SCENARIO.read_text())
    table: dict[str, Any] = json.loads(document["config"][NORMALIZATION_KEY])
    table["ratioModel"] = {
        model: {key: round(ratio + more, 2) for key, ratio in ratios.items()}
        for model, ratios in table["ratioModel"].items()
    }
    return table
