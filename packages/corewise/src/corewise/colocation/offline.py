"""The rules for offline pods: their marks, and the translation of their cpu and memory requests.

Offline pods live on what online pods leave idle. To kubelet they are BestEffort: they request
``kubernetes.io/batch-cpu`` and ``kubernetes.io/batch-memory``, and no cpu and no memory.

| marked as offline by | source |
|---|---|
| label ``koordinator.sh/qosClass: BE`` | Koordinator |
| annotation ``volcano.sh/qos-level`` below 0, or ``BE`` | Volcano |
| label ``koordinator.sh/priority-class: koord-batch``; without it, priority 5000 to 5999 | Koordinator |
| a container that requests ``kubernetes.io/batch-cpu`` | what the agent goes by |

One mark is enough. :func:`offline_mark` decides; :data:`IS_OFFLINE` says the same in CEL, so that the API
server calls no webhook for other pods.

**Translation**, container by container, init containers and sidecars too: cpu becomes batch-cpu in
thousandths, memory becomes batch-memory in bytes, in requests and in limits, both rounded up. A batch amount
that a container states stays, and the cpu or memory beside it goes: a LimitRange puts such defaults there. A
batch limit without a request is the request too. The pod's overhead stays: the API server holds it against
the pod's RuntimeClass.

Source: Koordinator's apis/extension/priority.go and its pod webhook; Volcano's agent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from corewise.quantities import Quantity
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY, PRIORITY_CLASS, QOS_CLASS, QOS_LEVEL

BATCH_CLASS = "koord-batch"
BATCH_PRIORITIES = range(5000, 6000)
NOT_OFFERED = f"no node offers {BATCH_CPU} yet, so as an offline pod it would wait forever"
_BELOW_ZERO = "^(BE|-0*[1-9][0-9]*)$"
_BATCH = {"cpu": BATCH_CPU, "memory": BATCH_MEMORY}
_LISTS = ("requests", "limits")
_CONTAINERS = ("initContainers", "containers")

_LABEL = 'object.metadata.?labels[?"{}"]'.format
_ALL = "(object.spec.containers + object.spec.?initContainers.orValue([]))"
_PRIORITY = "object.spec.?priority.orValue(0)"
_BATCH_PRIORITY = f"{_PRIORITY} >= {BATCH_PRIORITIES.start} && {_PRIORITY} < {BATCH_PRIORITIES.stop}"
_REQUESTS_BATCH_CPU = " || ".join(f'c.?resources.?{each}[?"{BATCH_CPU}"].hasValue()' for each in _LISTS)
IS_OFFLINE = f"""{_LABEL(QOS_CLASS)}.orValue("") == "BE" ||
object.metadata.?annotations[?"{QOS_LEVEL}"].orValue("").matches("{_BELOW_ZERO}") ||
({_LABEL(PRIORITY_CLASS)}.hasValue() ? {_LABEL(PRIORITY_CLASS)}.orValue("") == "{BATCH_CLASS}" :
{_BATCH_PRIORITY}) ||
{_ALL}.exists(c, {_REQUESTS_BATCH_CPU})"""
"""A CEL expression: whether a new pod is offline."""
ASKS_FOR_ONLINE_RESOURCES = " ||\n".join(
    [
        f'{_ALL}.exists(c,\nc.?resources.?{each}[?"{native}"].hasValue())'
        for each in _LISTS
        for native in _BATCH
    ]
    + [f'object.spec.?resources.?{each}[?"{native}"].hasValue()' for each in _LISTS for native in _BATCH]
)
"""A CEL expression: whether a new pod asks for cpu or memory."""


def offline_mark(pod: Mapping[str, Any]) -> str:
    """Return the mark that makes a pod offline, in words; "" without one."""
    metadata = _part(pod, "metadata")
    return mark_of(
        _part(metadata, "labels"),
        _part(metadata, "annotations"),
        _part(pod, "spec").get("priority") or 0,
        (
            str(each.get("name"))
            for each in _containers(pod)
            if any(BATCH_CPU in _amounts(each, amounts) for amounts in _LISTS)
        ),
    )


def mark_of(
    labels: Mapping[str, str], annotations: Mapping[str, str], priority: int, requesting: Iterable[str]
) -> str:
    """Return the mark that makes a pod offline; ``requesting``: its containers that request batch-cpu."""
    if labels.get(QOS_CLASS) == "BE":
        return f"label {QOS_CLASS} is BE"
    level = annotations.get(QOS_LEVEL, "")
    if re.fullmatch(_BELOW_ZERO, level):
        return f"annotation {QOS_LEVEL} is {level}"
    if PRIORITY_CLASS in labels:
        if labels[PRIORITY_CLASS] == BATCH_CLASS:
            return f"label {PRIORITY_CLASS} is {BATCH_CLASS}"
    elif priority in BATCH_PRIORITIES:
        return f"priority {priority} is one of {BATCH_CLASS}"
    return next((f"container {name} requests {BATCH_CPU}" for name in requesting), "")


def online_requests(pod: Mapping[str, Any]) -> list[str]:
    """Return the places where a pod requests cpu or memory: "container c: requests.cpu"."""
    places = [(f"container {each.get('name')}", each) for each in _containers(pod)]
    places.append(("the pod's own resources", _part(pod, "spec")))
    return [
        f"{where}: {each}.{native}"
        for where, holder in places
        for each in _LISTS
        for native in _BATCH
        if native in _amounts(holder, each)
    ]


@dataclass(frozen=True, slots=True)
class TranslatedPod:
    """A pod with batch resources. ``problem`` says why it cannot have them: then the pod is as it was."""

    pod: Mapping[str, Any]
    problem: str = ""
    dropped: tuple[str, ...] = ()
    """The places where cpu or memory was dropped, since the container states the batch resource itself."""


def is_offered(allocatable: Collection[Mapping[str, str]]) -> bool:
    """Say whether a node offers batch CPU, where a translated pod can go. Without any node: yes."""
    return not allocatable or any(BATCH_CPU in each for each in allocatable)


def translated(pod: Mapping[str, Any]) -> TranslatedPod:
    """Return a pod that asks for batch resources where it asked for cpu and memory.

    Raises:
        QuantityError: if an amount is not a quantity, which the API server refuses before.
    """
    spec = _part(pod, "spec")
    if any(native in _amounts(spec, each) for native in _BATCH for each in _LISTS):
        return TranslatedPod(
            pod,
            "it asks for cpu or memory in spec.resources, for all its containers together, where "
            f"Kubernetes knows no batch resources: state {BATCH_CPU} and {BATCH_MEMORY} in each container",
        )
    for container in _containers(pod):
        if any(name.startswith("hugepages-") for each in _LISTS for name in _amounts(container, each)):
            return TranslatedPod(
                pod,
                f"container {container.get('name')} requests huge pages, which Kubernetes gives only to pods "
                "that request cpu or memory: such a pod cannot be offline",
            )
    dropped: list[str] = []
    lists = {
        field: [_translated(each, dropped) for each in spec[field]]
        for field in _CONTAINERS
        if spec.get(field)
    }
    return TranslatedPod({**pod, "spec": {**spec, **lists}}, dropped=tuple(dropped))


def _translated(container: Mapping[str, Any], dropped: list[str]) -> Mapping[str, Any]:
    stated = _part(container, "resources")
    lists = {each: dict(stated[each]) for each in _LISTS if stated.get(each)}
    for native, batch in _BATCH.items():
        own = any(batch in amounts for amounts in lists.values())
        for each, amounts in lists.items():
            text = amounts.pop(native, None)
            if text is None:
                continue
            if own:
                dropped.append(f"container {container.get('name')}: {each}.{native} {text}")
            else:
                amounts[batch] = _batch_amount(native, str(text))
        if batch in lists.get("limits", {}) and batch not in lists.get("requests", {}):
            lists.setdefault("requests", {})[batch] = lists["limits"][batch]
    return {**container, "resources": {**stated, **lists}} if lists else container


def _batch_amount(native: str, text: str) -> str:
    amount = Quantity.parse(text)
    return str(amount.milli) if native == "cpu" else str(Quantity.of_units(amount.units, like=amount))


def _containers(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for field in _CONTAINERS:
        yield from _part(pod, "spec").get(field) or ()


def _amounts(holder: Mapping[str, Any], each: str) -> Mapping[str, Any]:
    return _part(_part(holder, "resources"), each)


def _part(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part: Mapping[str, Any] = document.get(key) or {}
    return part
