"""Preemption: POST /preempt of k8s.io/kube-scheduler/extender/v1.

kube-scheduler asks about the nodes on which its own filters admit the pod once pods of lower priority are
gone, and names the victims it would take and how many of them violate a PodDisruptionBudget:

    {"Pod": ..., "NodeNameToVictims": null, "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "..."}], ...}}}

The answer has the victims by which the engine admits the pod too (engine/preemption.py), in the same form,
without the nodes where no eviction helps. What kube-scheduler does with it decides its form (source:
pkg/scheduler/framework/preemption/preemption.go, pkg/scheduler/extender.go):

- victims are by priority, the highest first, since it compares nodes by the first one;
- a node without victims, or with a pod that it does not know there, fails the whole call: neither is named;
- it takes over the number of violations. Of its own victims it hands over that number, and not which they
  are; so the budgets are read from the API server, and violations of all victims are counted by its rule.

A pod that is bound already is one whose resize in place waits for room (Deferred; kube-scheduler 1.37 and
later, KEP-5836). A pod that owns CPUs gets no more of them by a resize, so it gets no victims. For any other
pod kube-scheduler's own count is right, and so are its victims.

A pod that has been given victims has a nominated node, ``status.nominatedNodeName``. kube-scheduler asks
again, about this node and others, whenever the pod is refused, and it is refused while the node's ledger has
the victims' entries, and while the averages of memory bandwidth still include the victims. Then no victims
are named, on any node: once both follow, the pod fits on its nominated node. That needs a node that
kube-scheduler's own checks still admit. A restart forgets which pods have ended: it costs at most one more
set of victims for each such pod.

Up to Kubernetes 1.37 it does not ask at all where its own filters see room without any eviction, though only
the extender refuses the node: there it reports "expected at least one victim pod".
docs/concepts/scheduling-decisions.md: what helps then. Later versions name such a node with
an empty list of victims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from corewise.engine import Cluster, Engine
from corewise.engine.objects import DISRUPTION_BUDGETS, DisruptionBudget
from corewise.engine.preemption import Victim, cheapest_victims, waits_for_ended, with_budgets
from corewise.engine.reading import amount_of, pod_facts, scheduled_at
from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.quantities import offered_amounts
from corewise.scheduler.decisions import Decisions
from corewise.scheduler.installation import HTTP_TIMEOUT, PROFILED_TIMEOUT_MS
from corewise.scheduler.state import ClusterState
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.qos import OWNERS_OF_CPUS
from corewise.workload.nodes import Node
from corewise.workload.pods import Pod

BUDGET = 0.6 * HTTP_TIMEOUT
"""Seconds that nodes are looked at, those with the fewest victims first; nodes not reached are left out."""
PROFILED_BUDGET = 0.6 * PROFILED_TIMEOUT_MS / 1000


class PreemptionArgumentsError(ValueError):
    """The request is not an ExtenderPreemptionArgs that can be answered; the message says why."""


class _Meta(msgspec.Struct):
    uid: str = ""


class _VictimPod(msgspec.Struct):
    uid: str = msgspec.field(default="", name="UID")
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Victims(msgspec.Struct):
    pods: list[_VictimPod] | None = msgspec.field(default=None, name="Pods")
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class _Arguments(msgspec.Struct):
    pod: Pod | None = msgspec.field(default=None, name="Pod")
    victims: dict[str, _Victims] | None = msgspec.field(default=None, name="NodeNameToVictims")
    meta_victims: dict[str, _Victims] | None = msgspec.field(default=None, name="NodeNameToMetaVictims")


class _Status(msgspec.Struct):
    nominated: str = msgspec.field(default="", name="nominatedNodeName")


class _Nominated(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class _NominatedPod(msgspec.Struct):
    pod: _Nominated = msgspec.field(default_factory=_Nominated, name="Pod")


_ARGUMENTS = msgspec.json.Decoder(_Arguments)
_NOMINATED = msgspec.json.Decoder(_NominatedPod)
"""The field of a pod that nothing else reads."""


@dataclass(frozen=True, slots=True)
class Preempted:
    """The victims on one node, by uid, the most important first; how many of them violate a budget."""

    uids: tuple[str, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class PreemptionArguments:
    """The pod, by node the victims that kube-scheduler proposes, and the pod's nominated node, if any."""

    pod: Pod
    victims: Mapping[str, Preempted]
    nominated: str = ""


def decode_preemption(body: bytes) -> PreemptionArguments:
    """Read ExtenderPreemptionArgs, with whole victims or with their uids alone.

    Raises:
        PreemptionArgumentsError: if it is none, or names no pod or no nodes.
    """
    try:
        sent, nominated = _ARGUMENTS.decode(body), _NOMINATED.decode(body)
    except UNREADABLE as error:
        raise PreemptionArgumentsError(f"no ExtenderPreemptionArgs: {error}") from error
    nodes = sent.meta_victims or sent.victims
    if sent.pod is None or not sent.pod.metadata.name:
        raise PreemptionArgumentsError("ExtenderPreemptionArgs without a Pod")
    if not nodes:
        raise PreemptionArgumentsError("ExtenderPreemptionArgs name no nodes")
    proposed = {
        name: Preempted(
            tuple(each.uid or each.metadata.uid for each in victims.pods or ()), victims.violations
        )
        for name, victims in nodes.items()
    }
    return PreemptionArguments(sent.pod, proposed, nominated.pod.status.nominated)


def encode_preempted(nodes: Mapping[str, Preempted]) -> bytes:
    """Write the ExtenderPreemptionResult."""
    victims = {
        name: {"Pods": [{"UID": uid} for uid in each.uids], "NumPDBViolations": each.violations}
        for name, each in nodes.items()
    }
    return msgspec.json.encode({"NodeNameToMetaVictims": victims})


@dataclass(frozen=True, slots=True)
class Preemptor:
    """Answers the call."""

    client: Client
    state: ClusterState
    engine: Callable[[], Engine]
    clock: Clock
    decisions: Decisions
    budget: float = BUDGET

    async def preempt(self, asked: PreemptionArguments) -> dict[str, Preempted]:
        """Return the victims on the nodes where evicting them makes room for the pod.

        There are none while the pod waits for the victims that it was given to leave ledger and averages.

        Raises:
            KubeError: if the PodDisruptionBudgets cannot be read.
        """
        if asked.pod.spec.node_name:
            return self._for_resize(asked)
        if self._waits(asked):
            return {}
        budgets = list(await self.client.list(DISRUPTION_BUDGETS))
        until = self.clock.monotonic() + self.budget
        found: dict[str, Preempted] = {}
        for name in sorted(asked.victims, key=lambda name: (len(asked.victims[name].uids), name)):
            if self.clock.monotonic() > until:
                break
            victims = self._on(name, asked, budgets)
            if victims:
                found[name] = victims
            await asyncio.sleep(0)
        return found

    def _for_resize(self, asked: PreemptionArguments) -> dict[str, Preempted]:
        """Return the victims for a pod that runs already, and waits for a resize in place."""
        meta = asked.pod.metadata
        if self.state.counted.rules.class_of(meta.labels, meta.namespace) in OWNERS_OF_CPUS:
            return {}
        return {name: each for name, each in asked.victims.items() if each.uids}

    def _waits(self, asked: PreemptionArguments) -> bool:
        """Whether the pod fits on its nominated node once ledger and averages no longer show ended pods.

        It fits there now, and was refused there just before: then it waits for kube-scheduler's next try.
        """
        alone = self._alone(asked.nominated, asked.pod)
        if alone is None:
            return False
        engine, facts = self.engine(), pod_facts(asked.pod, self.state.counted.rules)
        priority, now = asked.pod.spec.priority or 0, self.clock.now().timestamp()
        # kube-scheduler asks only once those that terminate there have ended: its watch is ahead of this one
        # (PodEligibleToPreemptOthers). Or the node came free after it was refused.
        for each in list(lower_pods(asked.nominated, alone, priority, self.state.pod, now)):
            pod = self.state.pod(each.pod.key)
            if pod is not None and pod.metadata.deletion_timestamp:
                alone.end_pod(each.pod.key)
        if engine.decide(facts, alone.snapshot()).node is not None:
            return self.decisions.just_refused(facts.key, asked.nominated)
        return waits_for_ended(engine, alone, facts)

    def _alone(self, name: str, pod: Pod) -> Cluster | None:
        """Return the cluster of one node, without what is assumed of the pod; None if it is not known."""
        if name not in self.state.counted.cluster.nodes:
            return None
        with self.state.assumed.without(pod):
            return self.state.counted.cluster.alone(name)

    def _on(
        self, name: str, asked: PreemptionArguments, budgets: Sequence[DisruptionBudget]
    ) -> Preempted | None:
        """Choose the victims on one node; None where no eviction helps, or none is needed."""
        node, proposed = self.state.node(name), frozenset(asked.victims[name].uids)
        alone = self._alone(name, asked.pod)
        if node is None or alone is None:
            return None
        priority, now = asked.pod.spec.priority or 0, self.clock.now().timestamp()
        lower = lower_pods(name, alone, priority, self.state.pod, now)
        victims = [replace(each, proposed=each.uid in proposed) for each in lower]
        if proposed - {each.uid for each in victims}:
            return None
        facts = pod_facts(asked.pod, self.state.counted.rules)
        guarded = with_budgets(victims, budgets)
        chosen = cheapest_victims(self.engine(), alone, facts, guarded, published_amounts(node))
        if not chosen:
            return None
        return Preempted(tuple(each.uid for each in chosen), sum(each.guarded for each in chosen))


def lower_pods(
    node: str, alone: Cluster, priority: int, pod_of: Callable[[str], Pod | None], now: float
) -> Iterator[Victim]:
    """Yield the pods of a node that have a lower priority; ``pod_of`` finds one by ``namespace/name``."""
    for key, (facts, placement) in alone.pods_on(node).items():
        pod = pod_of(key)
        if pod is None or pod.spec.node_name != node or (pod.spec.priority or 0) >= priority:
            continue
        started = scheduled_at(pod) or now
        yield Victim(facts, placement, uid=pod.metadata.uid, priority=pod.spec.priority or 0, started=started)


def published_amounts(node: Node) -> dict[str, int]:
    """Return a node's allocatable amounts, by which kube-scheduler counts."""
    offered = offered_amounts(node.status.allocatable)
    return {resource: amount_of(resource, amount) for resource, amount in offered.items()}
