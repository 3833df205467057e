"""No history of binds, lost answers, deletions and ends of replicas makes the ledger give a CPU twice.

The API server is a dictionary with versions and preconditions; it folds owned CPUs into allocatable as the
policy does. Two replicas talk to it over a network of the test's own: every request waits there until the
test delivers it, delivers it twice, loses it, or loses its answer. A replica that ends leaves its requests in
the network, and they may arrive long after. Each replica's watch lags as far behind as the test wants. Any
replica may be asked again to filter, bind or preempt for any pod that ever was.

Some pods have their CPUs normalized, and nodes' normalization ratios change meanwhile.

Invariants at every moment: a CPU is one pod's, by ledgers and by annotations together; a bound pod with
CPUs is in the ledger of its node with the same CPUs, as many as it requests, or as do that work by a ratio
that the node has had; the ledger is intact, owns no more CPUs than the node has, and the fold is in
allocatable. When everything has settled, no entry stays whose pod is not bound there,
and every bound pod that owns CPUs has them, if the node has as many and allocatable then still covers what
its pods request. Each replica then counts exactly the bound pods, each on its node.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import ceil
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from corewise.engine import AmplifiedCPU, CPUPlacement, Engine
from corewise.kube.client import Client
from corewise.kube.config import ClusterConfig
from corewise.kube.errors import TransportError, api_error
from corewise.kube.events import EventRecorder
from corewise.kube.transport import Request
from corewise.prometheus.exposition import Exposition
from corewise.scheduler.binding import Binder, Wanted
from corewise.scheduler.collector import EXPIRY, LedgerCollector
from corewise.scheduler.decisions import Decisions
from corewise.scheduler.executor import LedgerExecutor
from corewise.scheduler.extender import Arguments, Extender, Filtered
from corewise.scheduler.node_names import SentNames
from corewise.scheduler.preemption import Preempted, PreemptionArguments, Preemptor
from corewise.scheduler.state import BOUND, ClusterState
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_annotations import print_cpu_topology, stated_cpus
from corewise.vocabulary.metrics import SCHEDULER, exported_by
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    CPU_TOPOLOGY,
    NORMALIZATION_RATIO,
    NORMALIZE_CPUSET,
    OWNED_MILLI_CPU,
    OWNED_REQUESTS,
    QOS_CLASS,
    RESOURCE_STATUS,
    recorded_applied,
    recorded_raw,
)
from corewise.vocabulary.owned_cpus import Owners, read_owned_cpus
from corewise.vocabulary.reasons import Reason
from corewise.workload.pods import Pod
from engine.scenes import arrangement
from scheduler.program_world import pod_document
from tally import fault
from virtual_time import VirtualClock, VirtualLoop

T = TypeVar("T")
CPUS = {"n1": 8, "n2": 4}
RATIOS = {"n1": Fraction(2), "n2": Fraction(3, 2)}
_NODES, _PODS = "/api/v1/nodes", "/api/v1/pods"
_BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
_TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"
_FATES = ("delivered", "delivered", "delivered", "delivered twice", "lost", "answer lost")
_TURNS = 60
"""How often the loop turns at most until every task waits for something that the test decides."""
_IDLE = 3
"""Turns without a task that goes on: then all of them wait."""
_ROUNDS = 30
_SETTLED = 3
"""Rounds without a write after which nothing is left: an entry is seen, announced as expired, and removed."""
WORK: ContextVar[str] = ContextVar("WORK", default="")
"""What a replica does while it sends a request."""


def status_error(code: int, message: str) -> Exception:
    body = {"kind": "Status", "status": "Failure", "code": code, "message": message}
    return api_error(code, json.dumps(body).encode())


def merged(document: Any, patch: Any) -> Any:
    """Apply a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


@cache
def _metrics() -> Exposition:
    """Return the metrics of all replicas: to make them takes longer than all else of a replica."""
    return Exposition(exported_by(SCHEDULER))


@dataclass
class Server:
    """The API server: objects by path and name, and for each replica the watch events it is still to see."""

    objects: dict[str, dict[str, dict[str, Any]]] = field(
        default_factory=lambda: {_NODES: {}, _PODS: {}, _TOPOLOGIES: {}, _BUDGETS: {}}
    )
    ports: list[Port] = field(default_factory=list)
    version: int = 1

    def answer(self, request: Request) -> bytes:
        """Carry a request out.

        Raises:
            KubeError: as a client raises it for the answer.
        """
        if request.path in self.objects:
            unbound_too = request.params.get("fieldSelector") != BOUND
            chosen = (each for each in self.objects[request.path].values() if unbound_too or is_bound(each))
            return self._encoded({"metadata": {"resourceVersion": str(self.version)}, "items": [*chosen]})
        path, name = self._named_by(request)
        found = self.objects[path].get(name)
        if found is None:
            raise status_error(404, f"{name} not found")
        if request.method == "GET":
            return self._encoded(found)
        body = json.loads(request.body or b"{}")
        if request.path.endswith("/binding"):
            return self._bound(found, body)
        self._check(found, body)
        return self._encoded(self.put(path, merged(found, body)))

    @staticmethod
    def _named_by(request: Request) -> tuple[str, str]:
        """Return the path and the name of the object that a request is about."""
        parts = request.path.removeprefix("/api/v1/").split("/")
        return (_NODES, parts[1]) if parts[0] == "nodes" else (_PODS, parts[3])

    def refuses_for_good(self, request: Request) -> bool:
        """Say whether a write names a uid or a version that its object has lost: neither ever comes back."""
        path, name = self._named_by(request)
        found = self.objects[path].get(name, {"metadata": {}})
        return bool(outdated(found, json.loads(request.body or b"{}")))

    @staticmethod
    def _check(found: dict[str, Any], body: dict[str, Any]) -> None:
        if key := outdated(found, body):
            raise status_error(409, f"the {key} is another")

    def _bound(self, pod: dict[str, Any], binding: dict[str, Any]) -> bytes:
        self._check(pod, binding)
        if is_bound(pod):
            raise status_error(409, "already bound")
        annotations = {"annotations": binding["metadata"].get("annotations") or {}}
        change = {"metadata": annotations, "spec": {"nodeName": binding["target"]["name"]}}
        self.put(_PODS, merged(pod, change))
        return b'{"kind":"Status","status":"Success"}'

    @staticmethod
    def _encoded(document: dict[str, Any]) -> bytes:
        return json.dumps(document).encode()

    def put(self, path: str, document: dict[str, Any], kind: str = "MODIFIED") -> dict[str, Any]:
        self.version += 1
        name = document["metadata"]["name"]
        document = merged(document, {"metadata": {"resourceVersion": str(self.version)}})
        document = folded(document) if path == _NODES else document
        if kind == "DELETED":
            del self.objects[path][name]
        else:
            self.objects[path][name] = document
        if path == _PODS and not is_bound(document):
            return document
        line = self._encoded({"type": kind, "object": document}) + b"\n"
        for port in self.ports:
            port.unseen.append((path, line))
        return document


def outdated(found: dict[str, Any], body: dict[str, Any]) -> str:
    """Return which of uid and version a write names, and its object does not have; "" if neither."""
    named, has = body.get("metadata", {}), found["metadata"]
    return next(
        (key for key in ("uid", "resourceVersion") if named.get(key) and named[key] != has.get(key)), ""
    )


def is_bound(pod: dict[str, Any]) -> bool:
    """Whether the watch of a scheduler shows a pod."""
    return bool(pod["spec"].get("nodeName"))


def folded(node: dict[str, Any]) -> dict[str, Any]:
    """Make a node's allocatable as the policy does."""
    name, stated = node["metadata"]["name"], node["metadata"].get("annotations", {})
    owned = int(stated.get(OWNED_MILLI_CPU, "0"))
    requests = int(stated.get(OWNED_REQUESTS, owned))
    raw = CPUS[name] * 1000
    applied = f"{int(raw * RATIOS[name]) - max(0, ceil(owned * RATIOS[name]) - requests)}m"
    annotations = {
        AMPLIFICATION_RATIO: json.dumps({"cpu": float(RATIOS[name])}),
        recorded_raw("allocatable", "cpu"): f"{raw}m",
        recorded_applied("allocatable", "cpu"): applied,
    }
    status = {"allocatable": {"cpu": applied, "memory": "64Gi", "pods": "500"}}
    changed: dict[str, Any] = merged(node, {"metadata": {"annotations": annotations}, "status": status})
    return changed


@dataclass(eq=False)
class Held:
    """A request in the network, who waits for its answer, and the work that it is part of."""

    port: Port
    request: Request
    answer: asyncio.Future[bytes]
    work: str


@dataclass(eq=False)
class Port:
    """The transport of one replica; lists are answered at once."""

    server: Server
    held: list[Held]
    unseen: list[tuple[str, bytes]] = field(default_factory=list)
    watches: dict[str, asyncio.Queue[bytes]] = field(default_factory=dict)

    async def open(self) -> None:
        """Nothing is to be opened."""

    async def close(self) -> None:
        """Nothing is to be closed."""

    async def send(self, request: Request) -> bytes:
        if request.path in self.server.objects:
            return self.server.answer(request)
        held = Held(self, request, asyncio.get_running_loop().create_future(), WORK.get())
        self.held.append(held)
        return await held.answer

    @asynccontextmanager
    async def stream(self, request: Request, *, longest: float) -> AsyncIterator[AsyncIterator[bytes]]:
        queue = self.watches[request.path] = asyncio.Queue()

        async def lines() -> AsyncIterator[bytes]:
            while True:
                yield await queue.get()

        yield lines()

    def show(self, count: int) -> None:
        """Let the watches see the first of what happened."""
        for path, line in self.unseen[:count]:
            self.watches[path].put_nowait(line)
        del self.unseen[:count]


class Replica:
    """A scheduler: what of it binds and keeps ledgers in order."""

    def __init__(self, server: Server, held: list[Held]) -> None:
        clock = VirtualClock()
        self.port = Port(server, held)
        server.ports.append(self.port)
        client = Client(ClusterConfig(server="http://memory"), transport=self.port)
        self.state = ClusterState(client, clock)
        engine = Engine.of(AmplifiedCPU(), CPUPlacement())
        metrics = _metrics()
        events = EventRecorder(client, component="test", instance="test", clock=clock)
        decisions = Decisions(0, clock)
        executor = LedgerExecutor(client, self.state)
        self.binder = Binder(client, self.state, executor, lambda: engine, decisions, metrics)
        self.extender = Extender(self.state, lambda: engine, decisions, lambda *_: None)
        self.preemptor = Preemptor(client, self.state, lambda: engine, clock, Decisions(0, clock))
        self.collector = LedgerCollector(client, self.state, executor, lambda: engine, events, metrics, clock)
        loop = asyncio.get_event_loop()
        self.tasks: list[asyncio.Task[Any]] = [loop.create_task(self.state.caches.run())]
        self.looking: asyncio.Task[None] | None = None

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_event_loop().create_task(work)
        self.tasks.append(task)
        return task


class Histories(RuleBasedStateMachine):
    """The cluster, two replicas, and what may happen to them."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        asyncio.set_event_loop(self.loop)
        self.server = Server()
        self.held: list[Held] = []
        self.created: list[dict[str, Any]] = []
        """Every pod that ever was, as it was created."""
        for name, cpus in CPUS.items():
            text = print_cpu_topology(arrangement(cpus))
            metadata = {"name": name, "annotations": {CPU_TOPOLOGY: text}}
            self.server.put(_TOPOLOGIES, {"metadata": metadata, "topologyPolicies": [], "zones": []})
            self.server.put(_NODES, {"metadata": {"name": name, "uid": f"uid-{name}"}})
        self.replicas = [Replica(self.server, self.held), Replica(self.server, self.held)]
        self.turn()
        for number in (1, 2, 3):
            self.create(4, number)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def turn(self) -> None:
        """Let the replicas go on until they wait."""

        async def turns() -> None:
            idle = 0
            for _ in range(_TURNS):
                await asyncio.sleep(0)
                idle = 0 if self.loop._ready else idle + 1  # type: ignore[attr-defined]
                if idle == _IDLE:
                    break

        self.run(turns())

    def teardown(self) -> None:
        try:
            self.settle()
        finally:
            self.close()

    def close(self) -> None:
        for replica in self.replicas:
            self.end(replica)
        for held in self.held:
            held.answer.cancel()
        self.turn()
        self.loop.close()
        asyncio.set_event_loop(None)

    def end(self, replica: Replica) -> None:
        tasks = [*replica.tasks, *replica.binder.late]
        for task in tasks:
            task.cancel()
        self.run(asyncio.wait(tasks))
        self.server.ports.remove(replica.port)

    def pods(self, *, bound: bool) -> list[dict[str, Any]]:
        pods = self.server.objects[_PODS].values()
        return [pod for pod in pods if is_bound(pod) == bound]

    def owners(self, node: str) -> Owners:
        ledger = read_owned_cpus(self.server.objects[_NODES][node]["metadata"].get("annotations", {}))
        assert not ledger.problem
        return ledger.owners

    @rule(
        cpus=st.sampled_from([1, 2, 4, 4, 5]),
        name=st.integers(1, 5),
        qos=st.sampled_from(["LSR", "LS"]),
        normalized=st.booleans(),
    )
    def create(self, cpus: int, name: int, qos: str = "LSR", *, normalized: bool = False) -> None:
        """Create a pod; one of a name that was there before is another pod."""
        if f"p{name}" not in self.server.objects[_PODS]:
            notes = {NORMALIZE_CPUSET: "true"} if normalized else {}
            pod = pod_document(f"p{name}", cpu=str(cpus), qos=qos, annotations=notes)
            pod["metadata"] |= {"namespace": "default", "uid": f"u{len(self.created) + 1}"}
            self.created.append(self.server.put(_PODS, pod, "ADDED"))

    @precondition(lambda self: self.pods(bound=False))
    @rule(data=st.data(), node=st.sampled_from(sorted(CPUS)), replica=st.integers(0, 1))
    def bind(self, data: st.DataObject, node: str, replica: int) -> None:
        self.ask(data.draw(st.sampled_from(self.pods(bound=False))), node, replica)

    def ask(self, pod: dict[str, Any], node: str, replica: int) -> asyncio.Task[Any]:
        meta, chosen = pod["metadata"], self.replicas[replica]
        wanted = Wanted("default", meta["name"], node, meta["uid"])
        task = chosen.start(chosen.binder.bind(wanted))
        self.turn()
        return task

    @rule(data=st.data(), node=st.sampled_from(sorted(CPUS)), replica=st.integers(0, 1))
    def bind_again(self, data: st.DataObject, node: str, replica: int) -> None:
        """Ask for any pod that ever was: one that is bound by now, or gone, or whose name another pod has."""
        self.ask(data.draw(st.sampled_from(self.created)), node, replica)

    @rule(data=st.data(), replica=st.integers(0, 1))
    def filter_again(self, data: st.DataObject, replica: int) -> None:
        """Ask for the nodes of any pod that ever was: the answer is the same at once after."""
        pod = placed(data.draw(st.sampled_from(self.created)))
        extender = self.replicas[replica].extender

        async def filtered() -> Filtered:
            return extender.filter(Arguments(pod, SentNames.of(sorted(CPUS))))

        first, second = self.run(filtered()), self.run(filtered())
        assert (first.suits.tolist(), first.failed) == (second.suits.tolist(), second.failed)

    @rule(data=st.data(), node=st.sampled_from(sorted(CPUS)), replica=st.integers(0, 1))
    def preempt_again(self, data: st.DataObject, node: str, replica: int) -> None:
        """Ask /preempt about any pod that ever was: each victim is named once, and always the same."""
        pod = placed(data.draw(st.sampled_from(self.created)), priority=100)
        preemptor = self.replicas[replica].preemptor
        asked = PreemptionArguments(pod, {node: Preempted((), 0)})
        first, second = self.run(preemptor.preempt(asked)), self.run(preemptor.preempt(asked))
        assert first == second
        uids = [uid for victims in first.values() for uid in victims.uids]
        assert len(uids) == len(set(uids))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), fate=st.sampled_from(_FATES))
    def deliver(self, data: st.DataObject, fate: str) -> None:
        self.carry(self.held.index(data.draw(st.sampled_from(self.held))), fate)

    def carry(self, place: int = 0, fate: str = "delivered") -> None:
        """Let a request that is in the network arrive, or not."""
        held = self.held.pop(place)
        if fate != "delivered":
            fault(f"a request: {fate}")
        answer: bytes | Exception = TransportError(fate)
        for _ in range({"lost": 0, "delivered twice": 2}.get(fate, 1)):
            try:
                answer = self.server.answer(held.request)
            except Exception as error:  # noqa: BLE001 - what the client raises
                answer = error
        if fate == "answer lost":
            answer = TransportError(fate)
        if not held.answer.done():
            if isinstance(answer, bytes):
                held.answer.set_result(answer)
            else:
                held.answer.set_exception(answer)
        self.turn()

    @rule(replica=st.integers(0, 1), count=st.sampled_from([1, 2, 50]))
    def see(self, replica: int, count: int) -> None:
        self.replicas[replica].port.show(count)
        self.turn()

    @rule(replica=st.integers(0, 1))
    def look(self, replica: int) -> None:
        """Have a replica look at the ledgers as the leader does; two may lead for a while."""
        chosen = self.replicas[replica]
        if chosen.looking is None or chosen.looking.done():
            chosen.looking = chosen.start(chosen.collector.look())
            self.turn()

    @rule(seconds=st.sampled_from([1.0, 30.0, EXPIRY]))
    def pass_time(self, seconds: float) -> None:
        self.loop._jumping.now += seconds
        self.turn()

    @precondition(lambda self: self.server.objects[_PODS])
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        pod = data.draw(st.sampled_from(sorted(self.server.objects[_PODS])))
        self.server.put(_PODS, self.server.objects[_PODS][pod], "DELETED")

    @precondition(lambda self: self.pods(bound=False))
    @rule(data=st.data(), node=st.sampled_from(sorted(CPUS)))
    def bind_past_the_ledger(self, data: st.DataObject, node: str) -> None:
        """Bind as a scheduler does that knows no ledger."""
        fault("a pod bound by somebody else")
        pod = data.draw(st.sampled_from(self.pods(bound=False)))
        self.server.put(_PODS, merged(pod, {"spec": {"nodeName": node}}))

    @precondition(lambda self: self.pods(bound=False))
    @rule(data=st.data())
    def change(self, data: st.DataObject) -> None:
        """Write a pod that is not bound, as anybody may."""
        pod = data.draw(st.sampled_from(self.pods(bound=False)))
        self.server.put(_PODS, merged(pod, {"metadata": {"labels": {"version": str(self.server.version)}}}))

    @rule(node=st.sampled_from(sorted(CPUS)), on=st.booleans())
    def normalize(self, node: str, *, on: bool) -> None:
        """Change a node's normalization ratio."""
        ratio = f"{float(RATIOS[node] if on else 1):.2f}"
        change = {"metadata": {"annotations": {NORMALIZATION_RATIO: ratio}}}
        self.server.put(_NODES, merged(self.server.objects[_NODES][node], change))

    @precondition(lambda self: self.pods(bound=True))
    @rule(data=st.data(), value=st.sampled_from(["true", "false"]))
    def change_mind(self, data: st.DataObject, value: str) -> None:
        """Write another choice to a pod that is bound: what it has stays."""
        pod = data.draw(st.sampled_from(self.pods(bound=True)))
        if stated(pod):
            self.server.put(_PODS, merged(pod, {"metadata": {"annotations": {NORMALIZE_CPUSET: value}}}))

    @rule(replica=st.integers(0, 1))
    def restart(self, replica: int) -> None:
        """End a replica in the middle of whatever it does, and start another."""
        fault("a replica ended")
        self.end(self.replicas[replica])
        self.replicas[replica] = Replica(self.server, self.held)
        self.turn()

    @rule()
    def settle(self) -> None:
        """Let everything arrive and be seen, and time pass, until nothing is left to do."""
        quiet, rounds = 0, 0
        while quiet < _SETTLED:
            rounds += 1
            assert rounds < _ROUNDS, "the replicas write without end"
            before = self.server.version
            for number in (0, 1):
                self.look(number)
            while self.held:
                self.carry()
            for replica in self.replicas:
                replica.port.show(len(replica.port.unseen))
            self.turn()
            self.pass_time(EXPIRY)
            reading = any(not queue.empty() for each in self.replicas for queue in each.port.watches.values())
            quiet = quiet + 1 if self.server.version == before and not reading else 0
        for node, cpus in CPUS.items():
            bound = {
                pod["metadata"]["uid"]: pod
                for pod in self.pods(bound=True)
                if pod["spec"]["nodeName"] == node
            }
            owners = self.owners(node)
            assert owners.keys() <= bound.keys(), "an entry stays whose pod is not bound there"
            owned = sum(len(owner.cpus) for owner in owners.values())
            for_owned = sum(owner.requested for owner in owners.values())
            requested = sum(map(wanted, bound.values()))
            notes = self.server.objects[_NODES][node]["metadata"]["annotations"]
            for uid in {uid for uid, pod in bound.items() if owns(pod)} - owners.keys():
                ratio = Fraction(notes.get(NORMALIZATION_RATIO, "1")) if normalizes(bound[uid]) else 1
                after, request = owned + ceil(wanted(bound[uid]) / ratio), for_owned + wanted(bound[uid])
                fold = max(Fraction(0), after * RATIOS[node] - request)
                left = cpus * RATIOS[node] - fold - requested
                assert after > cpus or left < 0, "a bound pod has no CPUs, though the node has as many"
            assert {uid: stated(bound[uid]) for uid in owners} == {
                uid: owner.cpus for uid, owner in owners.items()
            }
        bound_to = {
            f"default/{pod['metadata']['name']}": pod["spec"]["nodeName"] for pod in self.pods(bound=True)
        }
        for replica in self.replicas:
            self.run(expire(replica.state))
            counted = {key: node for node in CPUS for key in replica.state.counted.cluster.pods_on(node)}
            assert counted == bound_to

    @invariant()
    def a_cpu_is_one_pods(self) -> None:
        for node, cpus in CPUS.items():
            owners = self.owners(node)
            given = {uid: owner.cpus for uid, owner in owners.items()}
            for pod in self.pods(bound=True):
                if pod["spec"]["nodeName"] == node and stated(pod):
                    assert given.get(pod["metadata"]["uid"]) == stated(pod)
                    assert owners[pod["metadata"]["uid"]].requested == wanted(pod)
                    fewest = ceil(wanted(pod) / RATIOS[node])
                    assert len(stated(pod)) in {fewest, wanted(pod)}
            every = [cpu for each in given.values() for cpu in each]
            assert len(every) == len(set(every))
            assert set(every) <= set(range(cpus))

    @invariant()
    def the_fold_is_in_allocatable(self) -> None:
        for node, cpus in CPUS.items():
            owners = self.owners(node).values()
            allocatable = self.server.objects[_NODES][node]["status"]["allocatable"]["cpu"]
            fold = sum(len(owner.cpus) * RATIOS[node] - owner.requested for owner in owners)
            assert allocatable == f"{int(cpus * 1000 * RATIOS[node]) - ceil(max(0, fold) * 1000)}m"


async def expire(state: ClusterState) -> None:
    state.assumed.expire()


def placed(pod: dict[str, Any], **spec: int) -> Pod:
    """Return a pod as kube-scheduler sends it."""
    return msgspec.convert(merged(pod, {"spec": spec}), Pod)


def owns(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"]["labels"][QOS_CLASS] == "LSR")


def normalizes(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"]["annotations"].get(NORMALIZE_CPUSET) == "true")


def wanted(pod: dict[str, Any]) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def stated(pod: dict[str, Any]) -> CPUSet:
    return stated_cpus(pod["metadata"]["annotations"].get(RESOURCE_STATUS))


@pytest.fixture
def cluster() -> Iterator[Histories]:
    cluster = Histories()
    for number in (0, 1):
        cluster.see(number, 50)
    yield cluster
    cluster.teardown()


def deliver_until(cluster: Histories, text: str) -> Held:
    """Deliver what is in the network until a request to something arrives there; return it."""
    while True:
        for held in cluster.held:
            if text in held.request.path:
                return held
        cluster.carry()


def test_stalled_replicas_binding_is_refused_after_claim_expiry(
    cluster: Histories,
) -> None:
    """The fence: without it p1 would be bound with CPUs that p2 has by then."""
    pods = cluster.server.objects[_PODS]
    cluster.ask(pods["p1"], "n2", 0)
    late = deliver_until(cluster, "/binding")
    cluster.held.remove(late)
    for _ in range(2):
        cluster.see(1, 50)
        cluster.look(1)
        while cluster.held:
            cluster.carry()
        cluster.pass_time(EXPIRY)
    assert not cluster.owners("n2")
    cluster.ask(pods["p2"], "n2", 1)
    while cluster.held:
        cluster.carry()
    assert stated(pods["p2"])
    cluster.held.append(late)
    cluster.carry()
    assert "nodeName" not in pods["p1"]["spec"]


def test_claim_expiring_during_another_attempt_is_not_removed(
    cluster: Histories,
) -> None:
    """The entry has a new name by then: the removal was made for another one."""
    pods = cluster.server.objects[_PODS]
    cluster.ask(pods["p1"], "n2", 0)
    lost = deliver_until(cluster, "/binding")
    cluster.carry(cluster.held.index(lost), "lost")
    cluster.see(1, 50)
    for _ in range(2):
        cluster.look(1)
        removal = None
        while cluster.held and removal is None:
            if "/n2/status" in cluster.held[0].request.path:
                removal = cluster.held.pop(0)
            else:
                cluster.carry()
        cluster.pass_time(EXPIRY)
    assert removal is not None
    cluster.ask(pods["p1"], "n2", 0)
    deliver_until(cluster, "/binding")
    cluster.held.insert(0, removal)
    cluster.carry()
    assert cluster.owners("n2"), "the entry that the second attempt wrote is there"
    while cluster.held:
        cluster.carry()
    assert stated(pods["p1"]) == cluster.owners("n2")["u1"].cpus


def test_entry_holder_keeps_it_while_another_gives_up(cluster: Histories) -> None:
    """p2 chose by an older view, and is refused; p1, whose answer was lost, is asked for again meanwhile."""
    pods = cluster.server.objects[_PODS]
    cluster.ask(pods["p1"], "n2", 0)
    claim = deliver_until(cluster, "/n2/status")
    cluster.carry(cluster.held.index(claim), "answer lost")
    refused = cluster.ask(pods["p2"], "n2", 0)
    swap = deliver_until(cluster, "/n2/status")
    cluster.carry(cluster.held.index(swap))
    cluster.carry()
    (reads,) = cluster.held
    assert reads.request.path.endswith("/n2"), "p2 looks whether it has to take something back"
    asked = cluster.ask(pods["p1"], "n2", 0)
    while len(cluster.held) > 1:
        cluster.carry(1)
    while cluster.held:
        cluster.carry()
    assert (asked.result(), refused.result().reason) == (None, Reason.NOT_ENOUGH_CPUS)
    assert stated(pods["p1"]) == cluster.owners("n2")["u1"].cpus


def test_a_bind_replayed_elsewhere_moves_no_pod(cluster: Histories) -> None:
    """The pod counts where its Binding was answered, before the watch shows it there."""
    cluster.create(1, 5, "LS")
    pod, state = cluster.server.objects[_PODS]["p5"], cluster.replicas[0].state
    state.assumed.remember(placed(pod))
    cluster.ask(pod, "n1", 0)
    cluster.carry()
    state.assumed.remember(placed(pod))
    replayed = cluster.ask(pod, "n2", 0)
    while cluster.held:
        cluster.carry()
    assert replayed.result().message == "pod default/p5 is bound to node n1 already"
    assert state.counted.cluster.node_of("default/p5") == "n1"


def test_concurrent_binds_count_a_pod_on_its_node(cluster: Histories) -> None:
    cluster.create(1, 5, "LS")
    pod, state = cluster.server.objects[_PODS]["p5"], cluster.replicas[0].state
    for node in ("n1", "n2"):
        state.assumed.remember(placed(pod))
        cluster.ask(pod, node, 0)
    while cluster.held:
        cluster.carry()
    bound = cluster.server.objects[_PODS]["p5"]["spec"]["nodeName"]
    assert state.counted.cluster.node_of("default/p5") == bound


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
