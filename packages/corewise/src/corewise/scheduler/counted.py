"""What decisions count: nodes and bound pods in the engine's columns, and what is wrong with them.

An object counts as the API server has it; who calls decides which state of it that is (state.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from corewise.engine import Cluster, PodFacts
from corewise.engine.objects import ReportedTopology
from corewise.engine.reading import key_of, placement, pod_facts, read_node_facts
from corewise.service.logs import fields
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.owned_cpus import NO_OWNERS, Owners
from corewise.vocabulary.qos import QoSRules
from corewise.vocabulary.reasons import Reason
from corewise.workload.nodes import Node
from corewise.workload.pods import Pod

log = logging.getLogger(__name__)


class CountedCluster:
    """The engine's cluster, and the findings about the objects that it counts.

    ``on_room`` is called when pods may fit where they did not: a node has changed, or a pod has given back
    what it held.
    """

    def __init__(self, rules: QoSRules, on_room: Callable[[], None]) -> None:
        self.rules = rules
        self.on_room = on_room
        self.cluster = Cluster()
        self.changed: set[str] = set()
        """Nodes that changed, or their topologies or pods, since somebody took the set away."""
        self.given_back = asyncio.Event()
        """Set when a pod that owned CPUs by its class is gone."""
        self._told: dict[str, tuple[Finding, ...]] = {}

    @property
    def conflicts(self) -> int:
        """The number of pods' claims to CPUs that are not fulfilled."""
        ledgers = (self.cluster.ledger(name) for name in self.cluster.nodes)
        return sum(len(ledger.conflicts) for ledger in ledgers if ledger)

    @property
    def findings(self) -> Mapping[str, tuple[Finding, ...]]:
        """The problems of nodes, by name, and of bound pods, by NAMESPACE/NAME."""
        return {name: found for name, found in self._told.items() if found}

    def owners(self, node: str) -> Owners:
        """Return the ledger of a node, in the newest state that is known of it."""
        facts = self.cluster.nodes.get(node)
        return facts.owned.owners if facts else NO_OWNERS

    def has(self, key: str, uid: str) -> bool:
        """Whether the pod that counts under a name is the one of this uid."""
        return self._counted(key, uid) is not None

    def _counted(self, key: str, uid: str) -> PodFacts | None:
        """Return the pod that counts under a name, if it is the one of this uid."""
        counted = self.cluster.pods_on(self.cluster.node_of(key) or "").get(key)
        return counted[0] if counted is not None and counted[0].uid == uid else None

    def put_node(self, node: Node, topology: ReportedTopology | None) -> None:
        """Count a node as it is."""
        name = node.metadata.name
        before = self.cluster.nodes.get(name)
        self.changed.add(name)
        reading = read_node_facts(node, topology)
        self.cluster.put_node(reading.facts)
        if before != reading.facts:
            self.on_room()
        self._tell(name, reading.findings)

    def remove_node(self, name: str) -> None:
        """Count a node no more; its pods are still known."""
        self.cluster.remove_node(name)
        self._told.pop(name, None)

    def put_pod(self, pod: Pod) -> None:
        """Count a bound pod as it is."""
        where, finding = placement(pod, self.rules)
        facts = pod_facts(pod, self.rules)
        self.cluster.put_pod(facts, where)
        findings = [finding] if finding else []
        problem = facts.problem
        if problem is not None and problem.reason is Reason.AMOUNT_TOO_LARGE:
            message = f"{facts.key}: {problem.message}; it fills node {where.node}"
            findings.append(Finding(problem.reason, message))
        self._tell(facts.key, findings)

    def remove_pod(self, pod: Pod) -> None:
        """Count a pod no more, which has ended, unless another one of its name counts."""
        key = key_of(pod)
        counted = self._counted(key, pod.metadata.uid)
        if counted is None:
            return
        self._told.pop(key, None)
        if counted.owned_by_class:
            self.given_back.set()
        self.cluster.end_pod(key)
        self.on_room()

    def _tell(self, name: str, findings: Iterable[Finding]) -> None:
        """Log what is wrong with an object, once as long as it stays so."""
        found = tuple(findings)
        if found == self._told.get(name, ()):
            return
        self._told[name] = found
        for each in found:
            log.warning(each.message, extra=fields(reason=each.reason.value))
