"""The scheduler extender: /filter, /prioritize and /bind of k8s.io/kube-scheduler/extender/v1; GET /explain.

What is served here says which nodes have what a pod needs, and how good they are. kube-scheduler checks
everything else itself. A node that is not known (yet) suits no pod. A node is refused with the cause alone,
without numbers: kube-scheduler counts equal texts ("3 Insufficient amplified cpu"); the numbers are in
``/explain``. What a ledger keeps for a pod does not count against the pod itself: when it is scheduled
again, its last call ended early or failed. If a node that keeps CPUs for it suits, no other does: elsewhere
it would start again. ``/bind`` is in binding.py.

The Go structs have no JSON tags, so every key begins with a capital: ``{"Pod": ..., "Nodes": null,
"NodeNames": [...]}``; the pod and the nodes within are as the API has them. Go reads keys in any case, and
so does this module: an older form of this API had small letters. With ``nodeCacheCapable`` kube-scheduler
sends and reads ``NodeNames``, else whole ``Nodes``, which are passed back byte for byte. Source:
Kubernetes, staging/src/k8s.io/kube-scheduler/extender/v1/types.go and pkg/scheduler/extender.go.

Errors are written so that kube-scheduler shows them: a filter that cannot be answered is an
ExtenderFilterResult with ``Error``; arguments that cannot be read are 400, a prioritize that cannot be
answered is 503. Each fails the call, and with ``ignorable`` kube-scheduler goes on without the extender.

``/explain`` says where pods of every namespace run, so it takes a token, which the API server reviews.

- ``/explain``: the last decisions in short, ``?pod=NAMESPACE/NAME`` those about one pod.
- ``/explain?pod=NAMESPACE/NAME&nodes=all``: with every plugin's verdict on every node; ``&nodes=NAME``: on
  one.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TypeVar

import msgspec
import numpy as np
from aiohttp import web

from corewise.amplification.numa import BoolColumn, IntColumn
from corewise.engine import NOWHERE, Decision, Engine
from corewise.engine.reading import key_of, pod_facts
from corewise.kube.errors import KubeError
from corewise.kube.objects import PartialObject
from corewise.prometheus.exposition import Exposition
from corewise.scheduler.binding import Binder, Wanted
from corewise.scheduler.decisions import Asked, Decisions, encode
from corewise.scheduler.installation import BIND, EXPLAIN, FILTER, INTERFERENCE, PREEMPT, PRIORITIZE
from corewise.scheduler.node_names import KnownNames, SentNames
from corewise.scheduler.preemption import (
    PreemptionArguments,
    PreemptionArgumentsError,
    Preemptor,
    decode_preemption,
    encode_preempted,
)
from corewise.scheduler.state import ClusterState
from corewise.service.http_servers import Guard, Route, read_body
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.metrics import EXTENDER_REQUESTS, EXTENDER_SECONDS
from corewise.workload.pods import Pod

_JSON = "application/json"
T = TypeVar("T")
LARGEST_SCORE = 10
"""MaxExtenderPriority."""


class ArgumentsError(ValueError):
    """The request is not an ExtenderArgs that can be answered; the message says why."""


class _Nodes(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _Arguments(msgspec.Struct):
    pod: Pod | None = msgspec.field(default=None, name="Pod")
    nodes: _Nodes | None = msgspec.field(default=None, name="Nodes")
    node_names: list[str] | None = msgspec.field(default=None, name="NodeNames")


class _AsWritten(msgspec.Struct):
    """The arguments with their names unread."""

    pod: Pod | None = msgspec.field(default=None, name="Pod")
    nodes: _Nodes | None = msgspec.field(default=None, name="Nodes")
    node_names: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="NodeNames")


class _BindingArguments(msgspec.Struct):
    name: str = msgspec.field(default="", name="PodName")
    namespace: str = msgspec.field(default="", name="PodNamespace")
    uid: str = msgspec.field(default="", name="PodUID")
    node: str = msgspec.field(default="", name="Node")


_ARGUMENTS = msgspec.json.Decoder(_Arguments)
_AS_WRITTEN = msgspec.json.Decoder(_AsWritten)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KEYS = {key.lower(): key for key in ("Pod", "Nodes", "NodeNames")}
_BINDING_KEYS = {key.lower(): key for key in ("PodName", "PodNamespace", "PodUID", "Node")}
_NODE = msgspec.json.Decoder(PartialObject)


@dataclass(frozen=True, slots=True)
class Arguments:
    """ExtenderArgs: the pod, and the names of the nodes in question; ``nodes`` if they were sent whole."""

    pod: Pod
    names: SentNames
    nodes: Sequence[msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True)
class Filtered:
    """Which of the nodes suit the pod, in the order they were sent, and why the others do not.

    ``names`` are those that suit; ``unresolvable`` has those of the others on which no eviction would help.
    """

    suits: BoolColumn
    names: SentNames
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


def decode_arguments(body: bytes) -> Arguments:
    """Read ExtenderArgs.

    Raises:
        ArgumentsError: if it is none, or names no pod or no nodes.
    """
    usual = _usual_arguments(body)
    if usual is not None:
        return usual
    try:
        sent = _decoded(body)
        if sent.pod is None or not sent.pod.metadata.name:
            raise ArgumentsError("ExtenderArgs without a Pod")
        if sent.node_names is not None:
            return Arguments(sent.pod, _present(sent.node_names))
        nodes = (sent.nodes.items if sent.nodes else None) or ()
        return Arguments(sent.pod, _present([_NODE.decode(each).metadata.name for each in nodes]), nodes)
    except UNREADABLE as error:
        raise ArgumentsError(f"no ExtenderArgs: {error}") from error


def _usual_arguments(body: bytes) -> Arguments | None:
    """Read arguments as kube-scheduler writes them, with names alone; None if they are others, or wrong."""
    try:
        sent = _AS_WRITTEN.decode(body)
    except UNREADABLE:
        return None
    names = SentNames.read(bytes(sent.node_names))
    return Arguments(sent.pod, names) if names and sent.pod and sent.pod.metadata.name else None


def _decoded(body: bytes) -> _Arguments:
    """Read keys as kube-scheduler writes them; if that leaves anything out, in any case."""
    sent = _ARGUMENTS.decode(body)
    if sent.pod is not None and (sent.node_names is not None or sent.nodes is not None):
        return sent
    members = {_KEYS.get(key.lower(), key): value for key, value in _MEMBERS.decode(body).items()}
    return _ARGUMENTS.decode(msgspec.json.encode(members))


def _present(names: list[str]) -> SentNames:
    if not names:
        raise ArgumentsError("ExtenderArgs name no nodes: neither NodeNames nor Nodes has any")
    if not all(names):
        raise ArgumentsError("ExtenderArgs have a node without a name")
    return SentNames.of(names)


def encode_filtered(arguments: Arguments, filtered: Filtered) -> bytes:
    """Write the ExtenderFilterResult, in the form in which the nodes were sent."""
    whole = arguments.nodes is not None
    nodes = {"metadata": {}, "items": list(compress(arguments.nodes or (), filtered.suits))}
    return _result(
        Nodes=nodes if whole else None,
        NodeNames=None if whole else msgspec.Raw(filtered.names.array),
        FailedNodes=filtered.failed,
        FailedAndUnresolvableNodes=filtered.unresolvable,
    )


def decode_binding(body: bytes) -> Wanted:
    """Read ExtenderBindingArgs.

    Raises:
        ArgumentsError: if it is none, or leaves anything out.
    """
    try:
        members = {_BINDING_KEYS.get(key.lower(), key): value for key, value in _MEMBERS.decode(body).items()}
        sent = msgspec.json.decode(msgspec.json.encode(members), type=_BindingArguments)
    except UNREADABLE as error:
        raise ArgumentsError(f"no ExtenderBindingArgs: {error}") from error
    if not (sent.name and sent.namespace and sent.uid and sent.node):
        raise ArgumentsError("ExtenderBindingArgs need PodName, PodNamespace, PodUID and Node")
    return Wanted(sent.namespace, sent.name, sent.node, sent.uid)


def encode_error(message: str) -> bytes:
    """Write an ExtenderFilterResult that says only what is wrong."""
    return _result(Error=message)


def encode_bound(message: str) -> bytes:
    """Write an ExtenderBindingResult: the reason the pod is not bound, "" if it is."""
    return msgspec.json.encode({"Error": message})


def _result(**members: object) -> bytes:
    empty = {"Nodes": None, "NodeNames": None, "FailedNodes": None, "FailedAndUnresolvableNodes": None}
    return msgspec.json.encode({**empty, "Error": "", **members})


UNKNOWN = "corewise does not know this node yet"


@dataclass(frozen=True, slots=True)
class Extender:
    """Answers the two calls. ``on_unschedulable`` is called with a pod that fits no node, and why."""

    state: ClusterState
    engine: Callable[[], Engine]
    decisions: Decisions
    on_unschedulable: Callable[[Pod, str], None]
    known: KnownNames = field(default_factory=KnownNames)

    def filter(self, arguments: Arguments) -> Filtered:
        """Say which nodes suit the pod."""
        self.state.assumed.remember(arguments.pod)
        decision, rows = self.decide(arguments)
        suits: BoolColumn = np.append(decision.feasible, np.False_)[rows]
        suits &= self._keeping(arguments.pod, decision, rows, suits)
        left = arguments.names.only(suits)
        self.known.keep(left, rows[suits])
        failed, unresolvable = _refusals(decision, rows, arguments.names, suits)
        outcome = f"{int(suits.sum())} of {len(rows)} nodes suit it"
        if not suits.any():
            unknown = int((rows == NOWHERE).sum())
            causes = [f"{each.nodes} {each.cause.summary}" for each in decision.causes()]
            causes += [f"{unknown} unknown to corewise"] if unknown else []
            outcome = f"0/{len(rows)} nodes are available: {', '.join(causes)}"
            self.on_unschedulable(arguments.pod, outcome)
        self.decisions.remember(Asked.FILTER, decision, self.state.ages, outcome)
        return Filtered(suits, left, failed, unresolvable)

    def _keeping(
        self, pod: Pod, decision: Decision, rows: IntColumn, suits: BoolColumn
    ) -> BoolColumn | np.bool_:
        """Say which nodes keep CPUs for the pod, from a call that ended early; all, if none of them suits."""
        names = self.state.counted.cluster.nodes_keeping(pod.metadata.uid)
        if not names:
            return np.True_
        keeping: BoolColumn = np.isin(rows, [row for row, name in enumerate(decision.names) if name in names])
        return keeping if (keeping & suits).any() else np.True_

    def prioritize(self, arguments: Arguments) -> IntColumn:
        """Return a score of 0 to 10 for each node, spread over the nodes asked about.

        It is the decision that ``filter`` has made and remembered, made again for fewer nodes.
        """
        decision, rows = self.decide(arguments)
        suits: BoolColumn = np.append(decision.feasible, np.False_)[rows]
        totals: IntColumn = np.append(decision.total, 0)[rows]
        return spread(totals, suits, self.known.checksums(key_of(arguments.pod), rows))

    def decide(self, arguments: Arguments) -> tuple[Decision, IntColumn]:
        """Decide among the nodes in question; the rows are those of the nodes as they were sent."""
        facts = pod_facts(arguments.pod, self.state.counted.rules)
        with self.state.assumed.without(arguments.pod):
            snapshot = self.state.counted.cluster.snapshot()
            rows = self.known.rows_of(arguments.names, snapshot)
            asked: BoolColumn = np.zeros(snapshot.size + 1, dtype=np.bool_)
            asked[rows] = True
            return self.engine().decide(facts, snapshot, asked[:NOWHERE]), rows


def spread(totals: IntColumn, suits: BoolColumn, checksums: IntColumn) -> IntColumn:
    """Spread the engine's scores of nodes over 0 to 10; ``checksums`` are of the names of pod and node.

    One node, the best, has 10. Others as good as it have 9: which of them is the best depends on the names of
    pod and node alone, so it is the same at every call and in every replica, and another for another pod.
    The worst has 0; where a node does not suit the pod, that one has 0 and the worst of the others 1.
    """
    if not suits.any():
        return np.zeros_like(totals)
    least, most = int(totals[suits].min()), int(totals[suits].max())
    lowest = 0 if suits.all() else 1
    steps = LARGEST_SCORE - lowest
    scores = (
        lowest + (totals - least) * steps // (most - least)
        if most > least
        else np.full_like(totals, LARGEST_SCORE)
    )
    best = np.flatnonzero(suits & (totals == most))
    scores[best] = LARGEST_SCORE - 1
    scores[best[checksums[best].argmax()]] = LARGEST_SCORE
    return np.where(suits, scores, 0)


def _refusals(
    decision: Decision, rows: IntColumn, names: SentNames, suits: BoolColumn
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the texts of nodes that eviction could free, and of those where it could not."""
    if suits.all():
        return {}, {}
    failed: dict[str, str] = {}
    unresolvable = {names[place]: UNKNOWN for place in np.flatnonzero(rows == NOWHERE).tolist()}
    left = ~suits & (rows != NOWHERE)
    for verdicts in decision.verdicts.values():
        codes = np.where(left, np.append(verdicts.codes, np.uint8(0))[rows], 0)
        for number, cause in enumerate(verdicts.causes, start=1):
            refused = rows[codes == number].tolist()
            target = unresolvable if cause.unresolvable else failed
            target.update((decision.names[row], cause.summary) for row in refused)
        left &= codes == 0
    return failed, unresolvable


@dataclass(frozen=True, slots=True)
class ExtenderRoutes:
    """Passes calls on to the extender. ``problems`` says why it cannot answer, if it cannot.

    ``profiled`` is for pods with a stake in interference (profiled.py). ``caller`` checks who calls the
    extender, ``reader`` who reads the decisions.
    """

    extender: Extender
    binder: Binder
    preemptor: Preemptor
    profiled: Extender
    profiled_preemptor: Preemptor
    decisions: Decisions
    problems: Callable[[], Iterable[str]]
    metrics: Exposition
    caller: Guard
    reader: Guard

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            *self._decisions("", self.extender, self.preemptor),
            *self._decisions(f"{INTERFERENCE}/", self.profiled, self.profiled_preemptor),
            self._route(BIND, decode_binding, self._bind, encode_bound, unavailable=200),
            Route("GET", f"/{EXPLAIN}", self._explain, self.reader),
        ]

    def _decisions(self, below: str, extender: Extender, preemptor: Preemptor) -> Iterator[Route]:
        """Yield the routes of an extender and its preemptor below a path."""

        async def filtered(sent: Arguments) -> tuple[str, bytes]:
            return "answered", encode_filtered(sent, extender.filter(sent))

        async def scored(sent: Arguments) -> tuple[str, bytes]:
            return "answered", sent.names.scored(extender.prioritize(sent))

        async def preempted(asked: PreemptionArguments) -> tuple[str, bytes]:
            return "answered", encode_preempted(await preemptor.preempt(asked))

        verbs = f"{below}{FILTER}", f"{below}{PRIORITIZE}", f"{below}{PREEMPT}"
        yield self._route(verbs[0], decode_arguments, filtered, encode_error, unavailable=200)
        yield self._route(verbs[1], decode_arguments, scored, encode_error, unavailable=503)
        yield self._route(verbs[2], decode_preemption, preempted, encode_error, unavailable=503)

    def _route(
        self,
        verb: str,
        decode: Callable[[bytes], T],
        answer: Callable[[T], Awaitable[tuple[str, bytes]]],
        encode_problem: Callable[[str], bytes],
        *,
        unavailable: int,
    ) -> Route:
        """Return the route of a call; ``answer`` returns the outcome for metrics, and the body."""

        async def answered(body: bytes) -> tuple[int, str, bytes]:
            try:
                sent = decode(body)
            except (ArgumentsError, PreemptionArgumentsError) as error:
                return 400, "malformed", encode_problem(f"corewise scheduler: {error}")
            problems = "; ".join(self.problems())
            try:
                if not problems:
                    return 200, *await answer(sent)
            except KubeError as error:
                problems = str(error)
            return unavailable, "error", encode_problem(f"corewise scheduler: {problems}")

        async def handle(http: web.BaseRequest) -> web.Response:
            body = await read_body(http)
            started = time.perf_counter()
            await self.extender.state.catch_up()
            status, outcome, said = await answered(body)
            self.metrics.count(EXTENDER_REQUESTS, verb, outcome)
            self.metrics.observe(EXTENDER_SECONDS, time.perf_counter() - started, verb)
            return web.Response(status=status, body=said, content_type=_JSON)

        return Route("POST", f"/{verb}", handle, self.caller)

    async def _bind(self, wanted: Wanted) -> tuple[str, bytes]:
        refused = await self.binder.bind(wanted)
        return ("refused", encode_bound(refused.message)) if refused else ("answered", encode_bound(""))

    async def _explain(self, http: web.BaseRequest) -> web.Response:
        pod, nodes = http.query.get("pod", ""), http.query.get("nodes", "")
        if nodes and not pod:
            return web.Response(status=400, text="nodes needs pod=NAMESPACE/NAME\n")
        if nodes:
            found = self.decisions.details(pod, "" if nodes == "all" else nodes)
        else:
            found = self.decisions.summaries(pod)
        return web.Response(body=encode({"decisions": found}), content_type=_JSON)
