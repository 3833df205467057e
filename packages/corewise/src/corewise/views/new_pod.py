"""``corewise explain pod --file``: what the manager's webhooks would make of a new pod."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from corewise.colocation.offline import NOT_OFFERED, is_offered, offline_mark, online_requests, translated
from corewise.colocation.profiles import (
    ProfileNotApplicableError,
    why_not_online,
    with_labels_kept,
    with_priority,
    with_profile,
)
from corewise.config.json_text import path_text
from corewise.kube.admission import Operation, operations_between
from corewise.kube.client import Client
from corewise.kube.errors import Forbidden, NotFound
from corewise.kube.objects import Namespace
from corewise.kube.resources import COLOCATION_PROFILES, NAMESPACES, PRIORITY_CLASSES, Resource
from corewise.manager.options import OfflinePods
from corewise.manager.pod_webhooks import NAMESPACE_LABEL, SPARED_NAMESPACES, refusal
from corewise.manager.profiles import parse_object, priorities_of
from corewise.quantities import QuantityError
from corewise.views.explanation import Explanation, Line, Part
from corewise.vocabulary.cpu_annotations import (
    NO,
    YES,
    misplaced_label,
    normalize_label_problem,
    normalize_problem,
)
from corewise.vocabulary.names import NORMALIZE_CPUSET, QOS_CLASS, SYSTEM_NAMESPACE
from corewise.vocabulary.qos import OWNERS_OF_CPUS
from corewise.workload.nodes import WORKLOAD_NODES

T = TypeVar("T")


@dataclass
class _NewPod:
    """A pod and the findings of each webhook so far."""

    pod: Mapping[str, Any]
    record: dict[str, Any] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)

    def change(self, by: str, pod: Mapping[str, Any], remark: str = "") -> None:
        operations = operations_between(self.pod, pod)
        self.pod = pod
        self.record.setdefault("changes", []).append(
            {"by": by, "patch": msgspec.to_builtins(operations), **({"remark": remark} if remark else {})}
        )
        texts = [*([remark] if remark else []), *map(_text, operations)]
        self.lines += [Line(by, text) for text in texts or ["changes nothing"]]

    def refuse(self, why: str) -> None:
        self.record["refused"] = why
        self.lines.append(Line("refused", why))


def _text(operation: Operation) -> str:
    steps = [each.replace("~1", "/").replace("~0", "~") for each in operation.path.split("/")[1:]]
    path = path_text(tuple(int(each) if each.isdecimal() else each for each in steps))
    if operation.op == "remove":
        return f"{path} removed"
    return f"{path} = {msgspec.json.encode(operation.value).decode()}"


async def explain_new_pod(
    client: Client,
    pod: Mapping[str, Any],
    offline: OfflinePods,
    selected: Collection[str] | None,
    namespaces: Iterable[Namespace] = (),
) -> Explanation:
    """Explain the profiles that would change a pod, the resulting cpu and memory, and how it owns CPUs.

    ``selected``: the keys of the labels by which its controller selects it; None if they are unknown.
    ``namespaces`` count before those of the cluster.
    """
    namespace = pod["metadata"].get("namespace") or "default"
    new = _NewPod(pod, {"namespace": namespace})
    given = {each.metadata.name: each.metadata.labels for each in namespaces}
    async with client:
        known = given[namespace] if namespace in given else await _labels_of(client, namespace)
        labels = {NAMESPACE_LABEL: namespace, **(known or {})}
        objects = await _listed(client, COLOCATION_PROFILES)
        priorities = priorities_of(await _listed(client, PRIORITY_CLASSES))
        offered = is_offered([each.status.allocatable for each in await _listed(client, WORKLOAD_NODES)])
    if known is None:
        unknown = f"there is no Namespace {namespace}, so its labels are not known, and none counts"
        new.lines.append(Line("namespace", f"{unknown}. To state them, add the Namespace to the file"))
    if namespace in {*SPARED_NAMESPACES, SYSTEM_NAMESPACE}:
        new.lines.append(Line("webhooks", "not called: pods of this namespace stay as they are written"))
    else:
        try:
            if (of_class := pod["spec"].get("priorityClassName")) in priorities:
                new.change(f"PriorityClass {of_class}", with_priority(pod, priorities))
            for found in sorted(objects, key=lambda each: each.metadata.name):
                name, parsed = found.metadata.name, parse_object(found)
                profile = parsed.value
                if profile is None:
                    new.lines += [
                        Line(f"profile {name}", f"not applied: {each.path}: {each.message}")
                        for each in parsed.errors
                    ]
                elif profile.selects(labels, new.pod["metadata"].get("labels") or {}):
                    part = f"for {profile.probability} % of pods" if profile.probability < 100 else ""
                    changed, kept = with_labels_kept(
                        new.pod, with_profile(new.pod, profile, priorities), selected
                    )
                    new.change(f"profile {name}", changed, part)
                    by = "may select" if selected is None else "selects"
                    new.lines += [
                        Line(
                            f"profile {name}", f"leaves label {key} as it is: the controller {by} pods by it"
                        )
                        for key in kept
                    ]
            _require_batch_resources(new, offline, offered=offered)
        except ProfileNotApplicableError as error:
            new.refuse(f"profile {name}: {error}")
        except QuantityError as error:
            new.refuse(str(error))
    _explain_owned_cpus(new, namespace, known)
    new.record["pod"] = new.pod
    return Explanation(f"a new pod in namespace {namespace}", [Part(new.record, new.lines)])


def _require_batch_resources(new: _NewPod, offline: OfflinePods, *, offered: bool) -> None:
    mark, asked = offline_mark(new.pod), online_requests(new.pod)
    new.record["offline"] = mark
    new.lines.append(Line("offline", f"yes: {mark}" if mark else "no: nothing marks it as offline"))
    if not mark or not asked:
        return
    if offline is OfflinePods.LEAVE:
        new.lines.append(Line("offline", f"it keeps {', '.join(asked)}, and so counts as online on its node"))
    elif offline is OfflinePods.REFUSE:
        new.refuse(refusal(mark, asked))
    elif not offered:
        new.lines.append(Line("offline", f"it keeps {', '.join(asked)}: {NOT_OFFERED}"))
    elif (result := translated(new.pod)).problem:
        new.refuse(result.problem)
    else:
        new.change("resources", result.pod)


def _explain_owned_cpus(new: _NewPod, namespace: str, labels: Mapping[str, str] | None) -> None:
    """Say whether the CPUs that a pod owns are normalized; nothing of a pod that owns none, or is refused.

    ``labels``: those of its namespace; None if they are not known.
    """
    meta = new.pod["metadata"]
    own, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    if "refused" in new.record or own.get(QOS_CLASS) not in OWNERS_OF_CPUS:
        return
    of_namespace = f"the label {NORMALIZE_CPUSET} of namespace {namespace}"
    stated, by = annotations.get(NORMALIZE_CPUSET), f"the pod's annotation {NORMALIZE_CPUSET}"
    problem, texts = normalize_problem(annotations), [misplaced_label(own, annotations)]
    if stated is None and labels is not None:
        stated, by = labels.get(NORMALIZE_CPUSET), of_namespace
        problem = normalize_label_problem(namespace, labels)
    if problem:
        texts.append(f"{problem.reason}: {problem.message}")
    if stated in {YES, NO}:
        texts.append(f"{'' if stated == YES else 'not '}normalized: {by} is {stated}")
    elif labels is None and stated is None:
        texts.append(f"not known whether they are normalized: {of_namespace} decides")
    elif NORMALIZE_CPUSET not in annotations:
        texts.append("not normalized, unless normalizeCPUSet in the scheduler's file is true")
    new.record["normalizesCPUs"] = stated == YES if stated in {YES, NO} else None
    new.lines += [Line("owned CPUs", text) for text in texts if text]


async def pod_remarks(client: Client, pod: Mapping[str, Any], missing: list[str]) -> tuple[str, ...]:
    """Say of a pod that exists what its namespace, or a profile, was to do with it, and did not.

    What may not be read is added to ``missing``.
    """
    said = []
    for remark in (online_in_spite_of, _ineffective_label):
        try:
            said.append(await remark(client, pod))
        except Forbidden as error:
            missing.append(f"what its namespace and profiles say of the pod: {error.message}")
    return tuple(filter(None, said))


async def _ineffective_label(client: Client, pod: Mapping[str, Any]) -> str:
    """Say that a label by which a pod's CPUs are to be normalized has no effect; "" if none has."""
    meta = pod["metadata"]
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    if labels.get(QOS_CLASS) not in OWNERS_OF_CPUS:
        return ""
    if misplaced := misplaced_label(labels, annotations):
        return misplaced
    if NORMALIZE_CPUSET in annotations:
        return ""
    namespace = meta.get("namespace") or "default"
    problem = normalize_label_problem(namespace, await _labels_of(client, namespace) or {})
    return f"{problem.reason}: {problem.message}" if problem else ""


async def online_in_spite_of(client: Client, pod: Mapping[str, Any]) -> str:
    """Say of a pod that exists why it should be offline and counts as online; "" of others."""
    namespace = pod["metadata"].get("namespace") or "default"
    if not online_requests(pod) or namespace in {*SPARED_NAMESPACES, SYSTEM_NAMESPACE}:
        return ""
    labels = {NAMESPACE_LABEL: namespace, **(await _labels_of(client, namespace) or {})}
    objects = sorted(await _listed(client, COLOCATION_PROFILES), key=lambda each: each.metadata.name)
    profiles = [profile for each in objects if (profile := parse_object(each).value)]
    priorities = priorities_of(await _listed(client, PRIORITY_CLASSES))
    return why_not_online(pod, labels, profiles, priorities)


async def _labels_of(client: Client, namespace: str) -> Mapping[str, str] | None:
    """Return the labels of a namespace; None if there is none."""
    try:
        return (await client.get(NAMESPACES, namespace)).metadata.labels
    except NotFound:
        return None


async def _listed(client: Client, resource: Resource[T]) -> list[T]:
    """Return all objects; none of a kind that the cluster does not have."""
    try:
        return list(await client.list(resource))
    except NotFound:
        return []
