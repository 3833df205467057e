"""The scheduler's copy of the cluster: nodes, topologies and pods as the API server has them, watched.

Everything is rebuilt from the API server at start, nothing is kept on disk. The resource
NodeResourceTopology may not be installed: then no node states its CPUs. What the API server says last
counts, with one exception: a bound pod never becomes unbound, so an older state of it, from a watch that
lags behind a list, takes nothing back.

A write of this program may be answered before the watch shows it: what the API server answered counts until
the watch has caught up. So does a pod from the decision where it goes until it is seen bound (assumed.py).

Only bound pods are watched: most pods are none of this program's business, and so each of them is one event
when it is bound, not two or more. A pod that is being scheduled comes with the calls of kube-scheduler.
Their events stay in the kernel for a moment, and are read at once when kube-scheduler asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from corewise.engine.objects import TOPOLOGIES, ReportedTopology
from corewise.engine.reading import holds_resources
from corewise.kube.cache import Cache, Caches
from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.kube.watch import Gathering
from corewise.scheduler.assumed import AssumedPods
from corewise.scheduler.counted import CountedCluster
from corewise.vocabulary.qos import DEFAULT_RULES, QoSRules
from corewise.workload.nodes import WORKLOAD_NODES, Node
from corewise.workload.pods import WORKLOAD_PODS, Pod

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
BOUND = f"spec.nodeName!=,{UNFINISHED}"


class ClusterState:
    """The caches, and what follows them: ``counted`` by decisions, and ``assumed`` until a watch shows it.

    ``on_pod`` is called after every change of a pod has been counted; ``on_room`` when pods may fit where
    they did not. ``pods``: which ones are watched. ``gathering``: seconds for which their events pile up.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        on_pod: Callable[[Pod | None, Pod | None], None] = lambda _old, _new: None,
        on_room: Callable[[], None] = lambda: None,
        rules: QoSRules = DEFAULT_RULES,
        pods: str = BOUND,
        gathering: float = 0.5,
    ) -> None:
        self._clock = clock
        self._on_pod = on_pod
        self._answered: dict[str, Node] = {}
        self._gathering = Gathering(gathering)
        self.nodes = Cache(client, WORKLOAD_NODES, on_change=self._node_changed, clock=clock)
        self.topologies = Cache(client, TOPOLOGIES, on_change=self._topology_changed, clock=clock)
        self.pods = Cache(
            client,
            WORKLOAD_PODS,
            field_selector=pods,
            on_change=self._pod_changed,
            gathering=self._gathering,
            clock=clock,
        )
        self.caches = Caches(self.nodes, self.topologies, self.pods)
        self.counted = CountedCluster(rules, on_room)
        self.assumed = AssumedPods(self.counted, self.pod, clock)

    @property
    def ages(self) -> Mapping[str, float]:
        """For each cache, the seconds since the API server was last heard of about it."""
        now = self._clock.monotonic()
        heard = ((name, cache.last_contact) for name, cache in self.caches.items())
        return {name: round(now - moment, 1) for name, moment in heard if moment is not None}

    async def catch_up(self) -> None:
        """Count the changes of pods that have arrived."""
        await self._gathering.drain()

    def node(self, name: str) -> Node | None:
        """Return a node in the newest state that is known of it."""
        return self._answered.get(name) or self.nodes.get(name)

    def pod(self, key: str) -> Pod | None:
        """Return a pod by NAMESPACE/NAME as the watch shows it."""
        namespace, _, name = key.partition("/")
        return self.pods.get(name, namespace)

    def take_node(self, node: Node) -> None:
        """Count a node as the API server has answered it, until the watch shows this state or a later one.

        The watch must know it: nothing else says when it is gone.
        """
        known = self.node(node.metadata.name)
        if known is not None and not _is_older(node, known):
            self._answered[node.metadata.name] = node
            self._put_node(node)

    def count(self, pod: Pod) -> None:
        """Count a pod as it is if it is bound, and no longer as it was assumed."""
        if holds_resources(pod):
            self.assumed.seen(pod.metadata.uid)
            self.counted.put_pod(pod)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._follow(old, new)
        self._on_pod(old, new)

    def _follow(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self._gone(old)
        for pod in (old, new):
            if pod is not None:
                self.counted.changed.add(pod.spec.node_name)
        if new is not None and holds_resources(new):
            if old is None or not _counts_alike(old, new):
                self.count(new)
            return
        pod = new or old
        if pod is not None and (new is None or new.spec.node_name):
            self._gone(pod)

    def _gone(self, pod: Pod) -> None:
        self.assumed.seen(pod.metadata.uid)
        self.counted.remove_pod(pod)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        answered = self._answered.get(new.metadata.name) if new else None
        if new is not None and (answered is None or not _is_older(new, answered)):
            self._answered.pop(new.metadata.name, None)
            if answered is not None or old is None or not _is_heartbeat(old, new):
                self._put_node(new)
        elif new is None and old is not None:
            self._answered.pop(old.metadata.name, None)
            self.counted.remove_node(old.metadata.name)

    def _topology_changed(self, old: ReportedTopology | None, new: ReportedTopology | None) -> None:
        changed = new or old
        node = self.node(changed.metadata.name) if changed else None
        if node is not None:
            self._put_node(node)

    def _put_node(self, node: Node) -> None:
        self.counted.put_node(node, self.topologies.get(node.metadata.name))


def _is_older(node: Node, than: Node) -> bool:
    """Whether a state of a node is older than another one, also of a node that had its name before.

    Versions are numbers that grow, over all nodes together.
    """
    versions = node.metadata.resource_version, than.metadata.resource_version
    return all(map(str.isdecimal, versions)) and int(versions[0]) < int(versions[1])


def _counts_alike(old: Pod, new: Pod) -> bool:
    """Whether two states of a pod that holds resources count alike: how far its kubelet is does not count."""
    conditions = (old.scheduled_at, old.is_infeasible), (new.scheduled_at, new.is_infeasible)
    if not _states_alike(old, new) or conditions[0] != conditions[1]:
        return False
    before, after = old.status, new.status
    return before is after or (
        (before.container_statuses, before.init_container_statuses, before.qos_class)
        == (after.container_statuses, after.init_container_statuses, after.qos_class)
    )


def _is_heartbeat(old: Node, new: Node) -> bool:
    """Whether two states of a node count alike, as most do."""
    return _states_alike(old, new) and old.status == new.status


def _states_alike(old: Pod | Node, new: Pod | Node) -> bool:
    before, after = old.metadata, new.metadata
    if (before.annotations, before.labels, before.uid) != (after.annotations, after.labels, after.uid):
        return False
    return old.spec == new.spec
