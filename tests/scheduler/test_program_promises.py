"""No history of bindings, deletions, ratios, outages and restarts makes the gate promise a CPU twice.

The API server is a dictionary, and the watch a queue: the test decides when a binding that was let through is
carried out, if ever, and when the scheduler sees what happened. What is promised is checked against what is
bound, by arithmetic of the test's own.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from corewise.engine import AmplifiedCPU, CPUPlacement, Engine
from corewise.kube.admission import decode_review
from corewise.kube.client import Client
from corewise.kube.config import ClusterConfig
from corewise.kube.errors import api_error
from corewise.kube.transport import Request
from corewise.prometheus.exposition import Exposition
from corewise.scheduler.decisions import Decisions
from corewise.scheduler.gate import Gate
from corewise.scheduler.state import RESERVED_FOR, ClusterState
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_annotations import print_cpu_topology
from corewise.vocabulary.metrics import SCHEDULER, exported_by
from corewise.vocabulary.names import AMPLIFICATION_RATIO, CPU_TOPOLOGY, RESOURCE_STATUS
from engine.scenes import arrangement
from scheduler.program_world import pod_document
from scheduler.test_program_gate import review
from tally import fault

T = TypeVar("T")
CPUS = {"n1": 8, "n2": 4}
RATIOS = [Fraction(1), Fraction(3, 2), Fraction(2)]
LONGEST_REQUEST = 60.0
"""Seconds after which an API server gives up a request."""
_NODES, _PODS = "/api/v1/nodes", "/api/v1/pods"
_TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"


class ManualClock:
    """A clock that a test moves; nobody who sleeps by it wakes up."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


@dataclass
class Store:
    """The API server: objects by path and name, and the watch events that nobody has seen yet."""

    objects: dict[str, dict[str, dict[str, Any]]] = field(
        default_factory=lambda: {_NODES: {}, _PODS: {}, _TOPOLOGIES: {}}
    )
    unseen: list[tuple[str, bytes]] = field(default_factory=list)
    watches: dict[str, asyncio.Queue[bytes]] = field(default_factory=dict)
    version: int = 1

    async def open(self) -> None:
        """Nothing is to be opened."""

    async def close(self) -> None:
        """Nothing is to be closed."""

    async def send(self, request: Request) -> bytes:
        if request.path in self.objects:
            items = list(self.objects[request.path].values())
            return json.dumps({"metadata": {"resourceVersion": str(self.version)}, "items": items}).encode()
        pod = self.objects[_PODS].get(request.path.rsplit("/", 1)[-1])
        if pod is None:
            raise api_error(404, b"", request=request.label, retry_after=None)
        return json.dumps(pod).encode()

    @asynccontextmanager
    async def stream(self, request: Request, *, longest: float) -> AsyncIterator[AsyncIterator[bytes]]:
        queue = self.watches[request.path] = asyncio.Queue()

        async def lines() -> AsyncIterator[bytes]:
            while True:
                yield await queue.get()

        yield lines()

    def put(self, path: str, document: dict[str, Any], kind: str = "MODIFIED") -> None:
        self.version += 1
        name = document["metadata"]["name"]
        document["metadata"]["resourceVersion"] = str(self.version)
        if kind == "DELETED":
            del self.objects[path][name]
        else:
            self.objects[path][name] = document
        line = json.dumps({"type": kind, "object": document}).encode() + b"\n"
        self.unseen.append((path, line))

    def show(self, count: int) -> None:
        """Let the watches see the first of what happened."""
        for path, line in self.unseen[:count]:
            self.watches[path].put_nowait(line)
        del self.unseen[:count]


@dataclass(frozen=True)
class Underway:
    """A binding that was let through and is not carried out yet."""

    name: str
    uid: str
    node: str
    annotations: dict[str, str]
    until: float


class Promises(RuleBasedStateMachine):
    """The cluster, the gate, and what may happen to both."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.store = Store()
        self.ratios = dict.fromkeys(CPUS, Fraction(1))
        self.underway: list[Underway] = []
        self.unchecked: set[str] = set()
        self.created = 0
        for name, cpus in CPUS.items():
            text = print_cpu_topology(arrangement(cpus))
            metadata = {"name": name, "annotations": {CPU_TOPOLOGY: text}}
            self.store.put(_TOPOLOGIES, {"metadata": metadata, "topologyPolicies": [], "zones": []})
            self.put_node(name)
        self.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def start(self) -> None:
        """Start a scheduler that knows nothing but what the API server tells."""
        self.store.unseen.clear()
        self.state = ClusterState(
            Client(ClusterConfig(server="http://memory"), transport=self.store), self.clock
        )
        self.following = self.loop.create_task(self.state.caches.run())
        engine = Engine.of(AmplifiedCPU(), CPUPlacement())
        metrics = Exposition(exported_by(SCHEDULER))
        self.gate = Gate(self.state, lambda: engine, Decisions(5, self.clock), list, metrics, self.clock)
        self.wait(lambda: not self.state.caches.unlisted and len(self.store.watches) == 3)

    def stop(self) -> None:
        self.following.cancel()
        self.run(asyncio.wait([self.following]))
        self.store.watches.clear()

    def teardown(self) -> None:
        self.stop()
        self.loop.close()

    def wait(self, condition: Callable[[], bool] = lambda: False) -> None:
        """Let the scheduler's tasks run; nothing in them waits for the world outside."""
        for _ in range(100):
            if condition():
                return
            self.run(asyncio.sleep(0))

    def put_node(self, name: str) -> None:
        ratio = self.ratios[name]
        amounts = {"cpu": f"{int(CPUS[name] * 1000 * ratio)}m", "memory": "64Gi", "pods": "500"}
        annotations = {AMPLIFICATION_RATIO: json.dumps({"cpu": float(ratio)})}
        status = {"capacity": amounts, "allocatable": amounts}
        self.store.put(_NODES, {"metadata": {"name": name, "annotations": annotations}, "status": status})

    def pods(self, *, bound: bool) -> list[dict[str, Any]]:
        return [
            pod for pod in self.store.objects[_PODS].values() if bool(pod["spec"].get("nodeName")) == bound
        ]

    def on(self, node: str) -> list[dict[str, Any]]:
        return [pod for pod in self.pods(bound=True) if pod["spec"]["nodeName"] == node]

    @initialize(owns=st.lists(st.booleans(), min_size=3, max_size=3))
    def begin(self, owns: list[bool]) -> None:
        for number, each in enumerate(owns, start=1):
            self.create(4, each, number)

    @rule(cpus=st.sampled_from([1, 2, 3, 4]), owns=st.booleans(), name=st.integers(1, 5))
    def create(self, cpus: int, owns: bool, name: int) -> None:
        if f"p{name}" in self.store.objects[_PODS]:
            return
        self.created += 1
        pod = pod_document(f"p{name}", cpu=str(cpus), qos="LSR" if owns else "")
        pod["metadata"] |= {"namespace": "default", "uid": f"u{self.created}"}
        self.store.put(_PODS, pod, "ADDED")

    @precondition(lambda self: self.pods(bound=False))
    @rule(data=st.data(), node=st.sampled_from(sorted(CPUS)), fate=st.sampled_from(["bound", "late", "lost"]))
    def bind(self, data: st.DataObject, node: str, fate: str) -> None:
        self.ask(data.draw(st.sampled_from(self.pods(bound=False))), node, fate)

    def ask(self, pod: dict[str, Any], node: str, fate: str = "bound") -> bool:
        """Ask the gate to let a pod through, and carry it out now, later or never."""
        meta = pod["metadata"]
        request = decode_review(json.dumps(review(pod, node)).encode())
        answer = json.loads(self.run(self.gate.review(request)).body)["response"]
        if not answer["allowed"]:
            assert "does not suit the pod" in answer["status"]["message"]
            return False
        annotations: dict[str, str] = {}
        for each in json.loads(b64decode(answer.get("patch", "")) or b"[]"):
            assert each["path"] == "/metadata/annotations"
            annotations |= each["value"]
        binding = Underway(meta["name"], meta["uid"], node, annotations, self.clock.seconds + LONGEST_REQUEST)
        if fate != "bound":
            fault(f"{fate} binding")
        if fate == "bound":
            self.carry_out(binding)
        elif fate == "late":
            self.underway.append(binding)
        return True

    def carry_out(self, binding: Underway) -> None:
        """Bind as the API server does, unless the pod is another by now, or bound."""
        pod = self.store.objects[_PODS].get(binding.name)
        if pod is None or pod["metadata"]["uid"] != binding.uid or pod["spec"].get("nodeName"):
            return
        annotations = {**pod["metadata"]["annotations"], **binding.annotations}
        metadata = {**pod["metadata"], "annotations": annotations}
        self.store.put(
            _PODS, {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": binding.node}}
        )

    @precondition(lambda self: self.underway)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        binding = data.draw(st.sampled_from(self.underway))
        self.underway.remove(binding)
        self.carry_out(binding)

    @precondition(lambda self: self.pods(bound=True))
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        pod = data.draw(st.sampled_from(self.pods(bound=True)))
        self.store.put(_PODS, dict(pod, metadata=dict(pod["metadata"])), "DELETED")

    @rule(count=st.sampled_from([1, 2, 50]))
    def see(self, count: int) -> None:
        self.store.show(count)
        self.wait()

    @rule(seconds=st.sampled_from([20.0, RESERVED_FOR]))
    def pass_time(self, seconds: float) -> None:
        self.clock.seconds += seconds
        self.underway = [each for each in self.underway if each.until > self.clock.seconds]
        self.run(self.state.settle())

    @rule(node=st.sampled_from(sorted(CPUS)), ratio=st.sampled_from(RATIOS))
    def change_ratio(self, node: str, ratio: Fraction) -> None:
        """Change a ratio as the manager does: only if the node's pods survive it."""
        nothing_promised = not self.underway and not self.store.unseen and not len(self.state.reservations)
        if nothing_promised and self.fits(node, ratio):
            self.ratios[node] = ratio
            self.put_node(node)
            self.see(1)

    @precondition(lambda self: self.pods(bound=False))
    @rule(data=st.data(), node=st.sampled_from(sorted(CPUS)))
    def bind_past_the_gate(self, data: st.DataObject, node: str) -> None:
        """Bind while the gate is away."""
        fault("binding past the gate")
        meta = data.draw(st.sampled_from(self.pods(bound=False)))["metadata"]
        self.unchecked.add(node)
        self.carry_out(Underway(meta["name"], meta["uid"], node, {}, 0.0))

    @rule(carried_out=st.booleans())
    def restart(self, carried_out: bool) -> None:
        """Start anew; what the last one let through is carried out by then, or never."""
        fault("restart")
        self.stop()
        for binding in self.underway if carried_out else ():
            self.carry_out(binding)
        self.underway.clear()
        self.start()

    def fits(self, node: str, ratio: Fraction) -> bool:
        requested = owned = 0
        named: set[int] = set()
        for pod in self.on(node):
            cpus = int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
            requested += cpus
            if pod["metadata"]["labels"]:
                named |= set(named_cpus(pod))
                owned += 0 if named_cpus(pod) else cpus
        owned += len(named)
        return requested - owned + ceil(owned * ratio * 1000) / 1000 <= CPUS[node] * ratio

    @invariant()
    def no_cpu_is_given_twice(self) -> None:
        for node, cpus in CPUS.items():
            given = [cpu for pod in self.on(node) for cpu in named_cpus(pod)]
            assert len(given) == len(set(given))
            assert set(given) <= set(range(cpus))

    @invariant()
    def who_is_let_through_with_cpus_gets_as_many_as_it_wants(self) -> None:
        for pod in self.pods(bound=True):
            wanted = int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
            assert len(named_cpus(pod)) in {0, wanted}

    @invariant()
    def what_the_gate_let_through_fits(self) -> None:
        self.unchecked = {node for node in self.unchecked if self.on(node)}
        for node in CPUS.keys() - self.unchecked:
            assert self.fits(node, self.ratios[node])


def named_cpus(pod: dict[str, Any]) -> CPUSet:
    text = pod["metadata"]["annotations"].get(RESOURCE_STATUS, "{}")
    return CPUSet.parse(json.loads(text).get("cpuset", ""))


@pytest.fixture
def cluster() -> Iterator[Promises]:
    cluster = Promises()
    cluster.begin([True, True, True])
    yield cluster
    cluster.teardown()


def test_a_reservation_that_expires_before_its_pod_is_seen_bound_stays(cluster: Promises) -> None:
    pods = cluster.store.objects[_PODS]
    assert cluster.ask(pods["p1"], "n2")
    cluster.pass_time(RESERVED_FOR)
    assert not cluster.ask(pods["p2"], "n2")


def test_two_bindings_of_a_pod_that_are_under_way_both_keep_what_they_may_get(cluster: Promises) -> None:
    pods = cluster.store.objects[_PODS]
    assert cluster.ask(pods["p1"], "n2", "late")
    assert cluster.ask(pods["p1"], "n1", "late")
    assert not cluster.ask(pods["p2"], "n2")
    cluster.restart(carried_out=True)
    assert named_cpus(pods["p1"])
    assert not cluster.ask(pods["p2"], "n2")


def test_a_pod_of_the_same_name_is_another_pod(cluster: Promises) -> None:
    pods = cluster.store.objects[_PODS]
    assert cluster.ask(pods["p1"], "n2")
    cluster.store.put(_PODS, {**pods["p1"], "metadata": dict(pods["p1"]["metadata"])}, "DELETED")
    cluster.create(4, owns=True, name=1)
    assert not cluster.ask(pods["p1"], "n2"), "the deletion is not seen yet"
    cluster.see(50)
    assert cluster.ask(pods["p1"], "n2")
    cluster.see(50)
    assert cluster.state.cluster.node_of("default/p1") == "n2"


TestPromises = Promises.TestCase
TestPromises.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
