"""What kube-scheduler sends an extender, and what it reads of the answer: k8s.io/kube-scheduler/extender/v1.

The Go structs have no JSON tags, so every key begins with a capital: ``{"Pod": ..., "Nodes": null,
"NodeNames": [...]}``; the pod and the nodes within are as the API has them. Go reads keys in any case, and so
it is done here: an older form of this API had small letters. With ``nodeCacheCapable`` it sends ``NodeNames``
and reads ``NodeNames``, else it sends whole ``Nodes`` and reads ``Nodes``. Whole nodes are passed back byte
for byte. A non-empty ``Error``, like any status but 200, fails the call; with ``ignorable`` kube-scheduler
then goes on as if there was no extender.

Source: staging/src/k8s.io/kube-scheduler/extender/v1/types.go and pkg/scheduler/extender.go of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import msgspec

from corewise.engine.objects import PlacedPod
from corewise.kube.objects import PartialObject
from corewise.vocabulary.errors import UNREADABLE

LARGEST_SCORE = 10
"""MaxExtenderPriority."""


class ArgumentsError(ValueError):
    """What was sent is no ExtenderArgs that can be answered; the message says why."""


class _Nodes(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _Arguments(msgspec.Struct):
    pod: PlacedPod | None = msgspec.field(default=None, name="Pod")
    nodes: _Nodes | None = msgspec.field(default=None, name="Nodes")
    node_names: list[str] | None = msgspec.field(default=None, name="NodeNames")


class _HostPriority(msgspec.Struct, gc=False):
    host: str = msgspec.field(name="Host")
    score: int = msgspec.field(name="Score")


_ARGUMENTS = msgspec.json.Decoder(_Arguments)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KEYS = {key.lower(): key for key in ("Pod", "Nodes", "NodeNames")}
_NODE = msgspec.json.Decoder(PartialObject)


@dataclass(frozen=True, slots=True)
class Arguments:
    """ExtenderArgs: the pod, and the names of the nodes in question; ``nodes`` if they were sent whole."""

    pod: PlacedPod
    names: Sequence[str]
    nodes: Sequence[msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True)
class Filtered:
    """Which of the nodes suit the pod, in the order they were sent, and why the others do not.

    ``names`` are those that suit; ``hopeless`` has those of the others on which no eviction would help.
    """

    suits: Sequence[bool]
    names: Sequence[str]
    failed: Mapping[str, str]
    hopeless: Mapping[str, str]


def decode_arguments(body: bytes) -> Arguments:
    """Read ExtenderArgs.

    Raises:
        ArgumentsError: if it is none, or names no pod or no nodes.
    """
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


def _decoded(body: bytes) -> _Arguments:
    """Read keys as kube-scheduler writes them; if that leaves anything out, in any case."""
    sent = _ARGUMENTS.decode(body)
    if sent.pod is not None and (sent.node_names is not None or sent.nodes is not None):
        return sent
    members = {_KEYS.get(key.lower(), key): value for key, value in _MEMBERS.decode(body).items()}
    return _ARGUMENTS.decode(msgspec.json.encode(members))


def _present(names: list[str]) -> list[str]:
    if not names:
        raise ArgumentsError("ExtenderArgs name no nodes: neither NodeNames nor Nodes has any")
    if not all(names):
        raise ArgumentsError("ExtenderArgs have a node without a name")
    return names


def encode_filtered(arguments: Arguments, filtered: Filtered) -> bytes:
    """Write the ExtenderFilterResult, in the form in which the nodes were sent."""
    whole = arguments.nodes is not None
    nodes = {"metadata": {}, "items": list(compress(arguments.nodes or (), filtered.suits))}
    return _result(
        Nodes=nodes if whole else None,
        NodeNames=None if whole else filtered.names,
        FailedNodes=filtered.failed,
        FailedAndUnresolvableNodes=filtered.hopeless,
    )


def encode_error(message: str) -> bytes:
    """Write an ExtenderFilterResult that says only what is wrong."""
    return _result(Error=message)


def _result(**members: object) -> bytes:
    empty = {"Nodes": None, "NodeNames": None, "FailedNodes": None, "FailedAndUnresolvableNodes": None}
    return msgspec.json.encode({**empty, "Error": "", **members})


def encode_scores(names: Sequence[str], scores: Sequence[int]) -> bytes:
    """Write the HostPriorityList; scores are 0 to 10."""
    return msgspec.json.encode(list(map(_HostPriority, names, scores)))
