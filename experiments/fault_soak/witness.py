"""What must hold at every moment of a run, and at its end, seen over a link without faults.

At every moment, in each version of each object that the API server has had:

- a node's allocatable CPU is its raw CPU x its ratio, less what owned CPUs cost: never raw, never twice;
- a node's ledger gives a CPU to one pod;
- two bound pods of a node that are there at once, and have not ended, state no CPU in common.

At the end, when the faults are over and everything had time to settle:

- every pod has a node and runs, and every node has the ratio that follows from the table;
- each ledger has exactly the bound pods that own CPUs, with the CPUs that their annotations state;
- each quota of a pod without CPUs of its own is kubelet's, divided by the node's ratio.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from corewise.engine.reading import holds_resources
from corewise.kube.cache import Cache
from corewise.normalization.quota import container_quota
from corewise.quantities import ONE, AmplifiedMilli, Quantity, Ratio
from corewise.vocabulary.cpu_annotations import stated_cpus
from corewise.vocabulary.names import NORMALIZATION_RATIO, QOS_CLASS, RESOURCE_STATUS
from corewise.vocabulary.owned_cpus import read_owned_cpus
from corewise.workload.pods import WORKLOAD_PODS, Pod
from corewise_lab.cluster import LocalCluster
from corewise_lab.kubelets import SIMULATED_NODES, SimulatedNode
from corewise_lab.node_cgroups import PERIOD, container_cgroup, pod_cgroup, read_quota
from corewise_lab.outage import offered_milli
from experiments.fault_soak.users import NAMESPACE, PLAIN

_MOST_SHOWN: Final = 20
_POLL: Final = 1.0


class Claims:
    """Which pod has which CPU of a node, as the pods state that are bound and have not ended."""

    def __init__(self) -> None:
        self._owner_of: dict[tuple[str, int], str] = {}

    def take(self, pod: Pod) -> list[int]:
        """Count a pod as it is; return its CPUs that another pod has. One that kubelet rejects has none."""
        if not holds_resources(pod):
            self.free(pod.metadata.uid)
            return []
        uid, node = pod.metadata.uid, pod.spec.node_name
        cpus = stated_cpus(pod.metadata.annotations.get(RESOURCE_STATUS)).cpus
        return [cpu for cpu in cpus if self._owner_of.setdefault((node, cpu), uid) != uid]

    def free(self, gone: str) -> None:
        """Count a pod no more."""
        self._owner_of = {cpu: uid for cpu, uid in self._owner_of.items() if uid != gone}


class Witness:
    """Watches nodes and pods of a cluster, and keeps what must not be."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._claims = Claims()
        self.violations: list[str] = []
        self.node_versions = self.pod_versions = 0
        self.waits: defaultdict[str, list[float]] = defaultdict(list)
        """By kind of pods, the seconds from the first sight of each to its binding."""
        self._waiting: dict[str, float] = {}
        self.is_judging = False
        self.nodes = Cache(cluster.client, SIMULATED_NODES, on_change=self._node_changed)
        self.pods = Cache(cluster.client, WORKLOAD_PODS, on_change=self._pod_changed)

    def node_of(self, pod: str) -> str:
        """Return the node that a pod of the users is bound to; "" if there is none."""
        found = self.pods.get(pod, NAMESPACE)
        return found.spec.node_name if found else ""

    def ratio_of(self, node: str) -> Ratio:
        """Return a node's normalization ratio."""
        found = self.nodes.get(node)
        return Ratio.parse(found.metadata.annotations.get(NORMALIZATION_RATIO, "1")) if found else ONE

    def _violated(self, what: str) -> None:
        if self.is_judging and len(self.violations) < _MOST_SHOWN:
            self.violations.append(what)

    def _node_changed(self, _old: SimulatedNode | None, new: SimulatedNode | None) -> None:
        if new is None:
            return
        self.node_versions += self.is_judging
        meta = new.metadata
        stated = Quantity.parse(new.status["allocatable"]["cpu"]).milli
        due = offered_milli(self._cluster.machines[meta.name].allocatable_milli, meta.annotations)
        if stated != due:
            self._violated(f"node {meta.name} at {meta.resource_version} states {stated}m, not {due}m")
        ledger = read_owned_cpus(meta.annotations)
        if ledger.problem:
            self._violated(f"node {meta.name} at {meta.resource_version}: {ledger.problem}")
        every = [cpu for owner in ledger.owners.values() for cpu in owner.cpus.cpus]
        if len(every) != len(set(every)):
            self._violated(f"node {meta.name} at {meta.resource_version}: its ledger gives a CPU twice")

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._waiting.pop(old.metadata.uid, None)
            self._claims.free(old.metadata.uid)
        if new is None:
            return
        self.pod_versions += self.is_judging
        now = asyncio.get_running_loop().time()
        if not new.spec.node_name:
            self._waiting.setdefault(new.metadata.uid, now)
            return
        if (since := self._waiting.pop(new.metadata.uid, None)) is not None:
            self.waits[new.metadata.name.rpartition("-")[0]].append(now - since)
        for cpu in self._claims.take(new):
            what = f"CPU {cpu} of node {new.spec.node_name} is {new.metadata.name}'s and another pod's"
            self._violated(what)

    async def until_settled(self, expected: Mapping[str, Ratio], until: float) -> list[str]:
        """Wait until nothing is wrong, or until a time of the loop; return what is still wrong."""
        while left := list(self.wrong(expected)):
            if asyncio.get_running_loop().time() >= until:
                break
            await asyncio.sleep(_POLL)
        return left

    def wrong(self, expected: Mapping[str, Ratio]) -> Iterator[str]:
        """Yield the problems that are left; ``expected``: the ratio of each node."""
        pods = list(self.pods.items.values())
        for pod in pods:
            if not pod.spec.node_name or pod.status.phase != "Running":
                yield f"pod {pod.metadata.name} is {pod.status.phase} on {pod.spec.node_name or 'no node'}"
        for name, ratio in expected.items():
            if self.ratio_of(name) != ratio:
                yield f"node {name} has ratio {self.ratio_of(name)}, not {ratio}"
            yield from self._wrong_on(name, [pod for pod in pods if pod.spec.node_name == name])

    def _wrong_on(self, node: str, pods: list[Pod]) -> Iterator[str]:
        found = self.nodes.get(node)
        ledger = read_owned_cpus(found.metadata.annotations if found else {}).owners
        stated = {
            pod.metadata.uid: stated_cpus(pod.metadata.annotations.get(RESOURCE_STATUS)).cpus
            for pod in pods
            if holds_resources(pod) and pod.metadata.labels.get(QOS_CLASS)
        }
        entered = {uid: owner.cpus.cpus for uid, owner in ledger.items()}
        for uid in stated.keys() | entered.keys():
            if stated.get(uid) != entered.get(uid) or not stated.get(uid):
                yield f"node {node}: pod {uid} states {stated.get(uid)}, the ledger {entered.get(uid)}"
        for pod in pods:
            if pod.metadata.name.startswith(PLAIN):
                yield from self._wrong_quotas(node, pod)

    def _wrong_quotas(self, node: str, pod: Pod) -> Iterator[str]:
        (container,) = pod.spec.containers
        limit = AmplifiedMilli(Quantity.parse(container.resources.limits["cpu"]).milli)
        quota = container_quota(limit, period=PERIOD, ratio=self.ratio_of(node), pod_level=None)
        root = self._cluster.files.root(node)
        for cgroup in (pod_cgroup(pod), container_cgroup(pod, container.name)):
            cpus = read_quota(root, cgroup)
            if quota is None or cpus is None or round(cpus * PERIOD) != quota:
                yield f"node {node}: {pod.metadata.name} may use {cpus} CPUs, its quota is to be {quota}"
