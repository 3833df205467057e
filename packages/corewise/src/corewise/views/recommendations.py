"""What to change in a cluster to get more out of its CPUs, each with its reason and the command (pure).

Amounts are normalized milli-CPU, the unit of requests, so that they can be compared and added up.

UnusedRequest       A workload's pods request at least twice what the busiest of them has used:
                    spare = request - used x 1.25, for each of its pods.
OfferUnrequested    Nodes offer CPU to offline pods that none requests, and more copies of a workload fit:
                    by CPU, memory, number of pods, and what the scheduler filters by. None of its pods waits.
OfflinePodFits      An offline pod waits, and a node has room for it.
AmplifiedTooFar     A node offers more CPUs than its speed gives, and would be busier than it can be if all
                    that it offers was requested and used as what is requested now:
                    expected = used / requested share, above 100 % of the node.

What is measured for less than five minutes leads to nothing: a pod that has just started has used nothing.
"""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from corewise.quantities import ONE, Ratio
from corewise.views.text import count, cpus, some
from corewise.vocabulary.names import AMPLIFICATION_ORIGINAL

WATCHED_SECONDS = 300
"""For how long a pod's use must have been measured."""
_SPARE_PERCENT = 125
_STEP = 100
"""Requests are recommended in tenths of a CPU."""
_LEAST_SPARE = 500
"""Normalized milli-CPU below which a workload is not worth a change."""
_HUNDRED = 100
DEFAULT_SCHEDULER = "default-scheduler"
_UNLIMITED = 1_000_000
_LEAST_REQUESTED_PERCENT = 20
"""Below this share of requests, nothing is foretold of a node."""
_TARGET_PERCENT = 90
SCALABLE = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})
_SETTABLE = SCALABLE | {"DaemonSet"}
_FIXED = frozenset({"Job", "Node"})
"""Creators of pods with fixed requests: a Job's template is immutable, and a static pod is a file."""


class Advice(StrEnum):
    """What kind of change is recommended."""

    UNUSED_REQUEST = "UnusedRequest"
    OFFER_UNREQUESTED = "OfferUnrequested"
    OFFLINE_POD_FITS = "OfflinePodFits"
    AMPLIFIED_TOO_FAR = "AmplifiedTooFar"


@dataclass(frozen=True, slots=True, order=True)
class Workload:
    """What creates pods: "" as ``kind`` is a pod that nothing creates again."""

    kind: str
    namespace: str
    name: str

    @property
    def title(self) -> str:
        return f"{self.kind or 'Pod'} {self.namespace}/{self.name}"

    @property
    def target(self) -> str:
        return f"{self.kind.lower()}/{self.name}" if self.kind else f"pod/{self.name}"


@dataclass(frozen=True, slots=True)
class PodUse:
    """A pod that has not ended. ``used``: the most that it has used in ``seconds``, None if not measured.

    ``runs``: its containers do; ``node`` is "" while it has none. ``owns``: it owns CPUs, so no other pod can
    use what it does not. ``memory`` is the batch memory in bytes. ``requested``: by its regular containers.
    """

    name: str
    node: str
    workload: Workload
    containers: Sequence[str]
    requested: int = 0
    used: int | None = None
    seconds: int = 0
    runs: bool = True
    owns: bool = False
    batch: int = 0
    memory: int = 0


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """An offline pod without a node: its request, and the nodes that suit it now, the best first.

    ``scheduler`` is the one that it waits for.
    """

    name: str
    batch: int
    suits: Sequence[str]
    scheduler: str = DEFAULT_SCHEDULER


@dataclass(frozen=True, slots=True)
class NodeUse:
    """A node. ``used`` is raw milli-CPU, None if not measured; ``offered`` and ``offered_memory`` are batch
    amounts.

    ``originals``: the amplification ratios that its user stated, by resource. ``pods_left``: the number of
    pods that it still takes.
    """

    name: str
    raw: int
    schedulable: int
    requested: int
    normalization: Ratio = ONE
    amplification: Ratio = ONE
    used: int | None = None
    offered: int = 0
    offered_memory: int = 0
    originals: Mapping[str, str] = field(default_factory=dict)
    pods_left: int = _UNLIMITED


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One change. ``amount``: the normalized milli-CPU that it is about."""

    advice: Advice
    kind: str
    about: str
    what: str
    why: str
    amount: int
    command: str

    @property
    def record(self) -> dict[str, Any]:
        """The machine form."""
        return {
            "name": f"{self.advice} {self.about}",
            "advice": self.advice.value,
            "kind": self.kind,
            "object": self.about,
            "what": self.what,
            "why": self.why,
            "amountCPUMilli": self.amount,
            "command": self.command,
        }


def recommend(
    nodes: Iterable[NodeUse],
    pods: Iterable[PodUse],
    waiting: Iterable[WaitingPod],
    suits: Mapping[Workload, Collection[str]],
) -> list[Recommendation]:
    """Return the recommendations, those about the most CPU first.

    ``suits``: the nodes that one more pod of an offline workload fits on, of those that can be scaled.
    """
    nodes, pods = tuple(nodes), tuple(pods)
    found = [*_unused(pods), *_fitting(waiting), *_unrequested(nodes, pods, suits), *_too_far(nodes)]
    return sorted(found, key=lambda each: (-each.amount, each.advice, each.about))


def _unused(pods: Sequence[PodUse]) -> Iterator[Recommendation]:
    workloads: dict[Workload, list[PodUse]] = defaultdict(list)
    for pod in pods:
        is_changeable = pod.runs and pod.workload.kind not in _FIXED
        if pod.requested and is_changeable and not pod.owns and not pod.batch:
            workloads[pod.workload].append(pod)
    for workload, members in sorted(workloads.items()):
        measured = [each for each in members if each.used is not None and each.seconds >= WATCHED_SECONDS]
        if len(measured) < len(members):
            continue
        most = max(each.used or 0 for each in members)
        request, seconds = min(each.requested for each in members), min(each.seconds for each in members)
        wanted = max(_STEP, _ceil(most * _SPARE_PERCENT, _HUNDRED * _STEP) * _STEP)
        spare = sum(each.requested - wanted for each in members)
        if request < 2 * wanted or spare < _LEAST_SPARE:
            continue
        each_of = "" if len(members) == 1 else f"each of its {len(members)} pods requests "
        asks = f"{each_of or 'it requests '}{cpus(request)} normalized CPUs"
        yield Recommendation(
            Advice.UNUSED_REQUEST,
            workload.kind or "Pod",
            f"{workload.namespace}/{workload.name}",
            f"Lower the CPU request of {workload.title} from {cpus(request)} to {cpus(wanted)}.",
            f"{asks}; {'the busiest' if each_of else 'it'} used at most {cpus(most)} in {_minutes(seconds)}",
            spare,
            _request_command(workload, members[0].containers, wanted),
        )


def _request_command(workload: Workload, containers: Sequence[str], wanted: int) -> str:
    """Return the command that lowers a request; of a workload with one container it is complete."""
    namespace = shlex.quote(workload.namespace)
    if workload.kind in _SETTABLE and len(containers) == 1:
        target = shlex.quote(workload.target)
        return f"kubectl -n {namespace} set resources {target} --requests=cpu={wanted}m"
    if not workload.kind and len(containers) == 1:
        request = {"name": containers[0], "resources": {"requests": {"cpu": f"{wanted}m"}}}
        patch = shlex.quote(json.dumps({"spec": {"containers": [request]}}))
        name = shlex.quote(workload.name)
        return f"kubectl -n {namespace} patch pod {name} --subresource resize -p {patch}"
    return f"kubectl -n {namespace} edit {shlex.quote(workload.target)}"


def _fitting(waiting: Iterable[WaitingPod]) -> Iterator[Recommendation]:
    for pod in waiting:
        if pod.suits:
            waits = "" if pod.scheduler == DEFAULT_SCHEDULER else f" for the scheduler {pod.scheduler}"
            where = f"{count(len(pod.suits), 'node')} {'has' if len(pod.suits) == 1 else 'have'} room"
            yield Recommendation(
                Advice.OFFLINE_POD_FITS,
                "Pod",
                pod.name,
                f"Offline pod {pod.name} could run now on {pod.suits[0]}.",
                f"it requests {cpus(pod.batch)} normalized CPUs and waits{waits}; {where}: {some(pod.suits)}",
                pod.batch,
                f"corewise explain pod {pod.name}",
            )


def _unrequested(
    nodes: Sequence[NodeUse], pods: Sequence[PodUse], suits: Mapping[Workload, Collection[str]]
) -> Iterator[Recommendation]:
    cpu_of, memory_of = defaultdict[str, int](int), defaultdict[str, int](int)
    workloads: dict[Workload, list[PodUse]] = defaultdict(list)
    for pod in pods:
        if pod.batch:
            cpu_of[pod.node] += pod.batch
            memory_of[pod.node] += pod.memory
            workloads[pod.workload].append(pod)
    for workload, members in sorted(workloads.items()):
        one = max(members, key=lambda each: each.batch)
        free, more = dict[str, int](), 0
        for node in nodes if workload.kind in SCALABLE else ():
            left = node.offered - cpu_of[node.name]
            memory = node.offered_memory - memory_of[node.name]
            copies = min(left // one.batch, _copies(memory, one.memory), node.pods_left)
            if copies > 0 and node.name in suits.get(workload, ()):
                free[node.name], more = left, more + copies
        more -= sum(not each.node for each in members)  # they take that room first
        if more < 1:
            continue
        amount = more * one.batch
        yield Recommendation(
            Advice.OFFER_UNREQUESTED,
            workload.kind,
            f"{workload.namespace}/{workload.name}",
            f"{count(more, 'more pod')} of {workload.title} could run now.",
            f"{some([*free])} offer{'s' if len(free) == 1 else ''} {cpus(sum(free.values()))} normalized "
            f"CPUs that no pod requests; each of its pods requests {cpus(one.batch)}",
            amount,
            f"kubectl -n {shlex.quote(workload.namespace)} scale {shlex.quote(workload.target)} "
            f"--replicas={len(members) + more}",
        )


def _copies(memory: int, needed: int) -> int:
    return max(0, memory // needed) if needed else _UNLIMITED


def _too_far(nodes: Sequence[NodeUse]) -> Iterator[Recommendation]:
    for node in nodes:
        if node.used is None or node.raw <= 0 or node.amplification <= node.normalization:
            continue
        if node.requested * _HUNDRED < node.schedulable * _LEAST_REQUESTED_PERCENT:
            continue
        share = min(node.requested, node.schedulable)
        if share <= 0:
            continue
        expected = node.used * _HUNDRED * node.schedulable // (node.raw * share)
        if expected <= _HUNDRED:
            continue
        wanted = Ratio(node.amplification.hundredths * _TARGET_PERCENT // expected)
        wanted = max(wanted, node.normalization)
        now_percent = node.used * _HUNDRED // node.raw
        asked_percent = node.requested * _HUNDRED // node.schedulable
        yield Recommendation(
            Advice.AMPLIFIED_TOO_FAR,
            "Node",
            node.name,
            f"Lower the amplification ratio of node {node.name} from {node.amplification} to {wanted}.",
            f"{now_percent}% of its CPUs are busy with {asked_percent}% of what it "
            f"offers requested: fully requested it would need {expected}%. Its speed alone gives a ratio of "
            f"{node.normalization}",
            max(0, node.schedulable - node.raw * wanted.hundredths // _HUNDRED),
            _ratio_command(node, wanted),
        )


def _ratio_command(node: NodeUse, wanted: Ratio) -> str:
    """Return the command that states the original ratio: ``wanted`` without the node's speed."""
    original = max(ONE, Ratio(wanted.hundredths * _HUNDRED // node.normalization.hundredths))
    ratios = {**node.originals, "cpu": str(original)}
    text = "{" + ",".join(f'"{name}":{ratio}' for name, ratio in sorted(ratios.items())) + "}"
    stated = shlex.quote(f"{AMPLIFICATION_ORIGINAL}={text}")
    return f"kubectl annotate node {shlex.quote(node.name)} {stated} --overwrite"


def _ceil(amount: int, divisor: int) -> int:
    return -(-amount // divisor)


def _minutes(seconds: int) -> str:
    return count(seconds // 60, "minute")
