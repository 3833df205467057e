"""The webhooks on new pods: one for each ClusterColocationProfile, and one that requires batch resources.

**Other pods never pay.** The webhook of a profile has the profile's own selectors, so that the API server
calls it for the pods that the profile selects and for no others; the last one has matchConditions: the pod is
marked as offline and asks for cpu or memory. Pods of kube-system and of the manager's own namespace, and
mirrors of static pods, are left out: corewise never stands between them and the node.

**Order.** The API server calls the webhooks of one configuration in their order: profiles by name, the
translation last. That one is called again (``reinvocationPolicy: IfNeeded``) when a later webhook has changed
the pod, such as one that adds a sidecar; a profile is applied once.

**failurePolicy** is Ignore unless an option says Fail: a pod that is created while no replica answers then
stays as it was written, and is online.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from corewise.colocation.offline import (
    ASKS_FOR_ONLINE_RESOURCES,
    IS_OFFLINE,
    NOT_OFFERED,
    TranslatedPod,
    offline_mark,
    online_requests,
    translated,
)
from corewise.colocation.profiles import (
    ProfileNotApplicableError,
    labels_changed,
    with_labels_kept,
    with_profile,
)
from corewise.config.colocation_profile import ColocationProfile
from corewise.config.decoding import listed
from corewise.kube.admission import AdmissionRequest, Operation, OperationType, operations_between
from corewise.kube.decoding import decode_document, decode_object
from corewise.kube.errors import DecodeError
from corewise.kube.objects import OwnerReference
from corewise.kube.resources import COLOCATION_PROFILES, PODS
from corewise.manager.options import PODS_NAME, OfflinePods
from corewise.manager.profiles import Profiles
from corewise.quantities import QuantityError
from corewise.service.installation import ClientConfig
from corewise.service.reader import off_loop
from corewise.service.webhooks import Answer, allowed, refused, rule, webhook
from corewise.vocabulary.foreign_names import NamePlace, unserved_on
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY, STATIC_POD
from corewise.workload.pods import WORKLOAD_PODS

PROFILE_PATH = "/apply-profile/"
OFFLINE_PATH = "/require-batch-resources"
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
SPARED_NAMESPACES = ("kube-system",)
_MOST_AT_ONCE = 32 * 1024
"""Bytes of a pod that are worked on in the event loop, at 0.8 ms a KiB; few pods are longer."""


def pods_configuration(
    config: ClientConfig,
    profiles: Iterable[ColocationProfile],
    *,
    offline: OfflinePods,
    namespace: str,
    failure_policy: str,
) -> dict[str, Any]:
    """Return the MutatingWebhookConfiguration; ``namespace`` is the manager's own."""
    spared = {"key": NAMESPACE_LABEL, "operator": "NotIn", "values": sorted({*SPARED_NAMESPACES, namespace})}
    no_mirror = {
        "name": "no-mirror-of-a-static-pod",
        "expression": f'!object.metadata.?annotations[?"{STATIC_POD}"].hasValue()',
    }

    def entry(name: str, path: str, namespaces: dict[str, Any], **more: Any) -> dict[str, Any]:
        expressions = [*namespaces.get("matchExpressions", ()), spared]
        pods = rule("pods", "CREATE", scope="Namespaced")
        return {
            **webhook(name, config(path), pods, failure_policy=failure_policy),
            "namespaceSelector": {"matchExpressions": expressions},
            "matchConditions": [no_mirror],
            "reinvocationPolicy": "Never",
            **more,
        }

    webhooks = [
        entry(
            f"{each.name}.profile.corewise.io",
            PROFILE_PATH + each.name,
            each.namespaces.document,
            objectSelector=each.pods.document,
        )
        for each in profiles
    ]
    if offline is not OfflinePods.LEAVE:
        conditions = [
            no_mirror,
            {"name": "offline", "expression": IS_OFFLINE},
            {"name": "asks-for-cpu-or-memory", "expression": ASKS_FOR_ONLINE_RESOURCES},
        ]
        last = entry("offline-pods.corewise.io", OFFLINE_PATH, {}, matchConditions=conditions)
        webhooks.append({**last, "reinvocationPolicy": "IfNeeded"})
    return {"metadata": {"name": PODS_NAME}, "webhooks": webhooks}


async def _unknown(_owner: OwnerReference, _namespace: str) -> Collection[str] | None:
    return None


@dataclass(frozen=True, slots=True)
class PodWebhooks:
    """Answers reviews of new pods and of profiles.

    ``listed`` waits until profiles and nodes are known; a review that comes before ends by its timeout.
    ``is_offered`` says whether a node offers batch CPU. ``are_installed``: the manager installs a webhook
    for each profile. ``draw`` returns 0 to 99. ``selected_by`` returns the keys of the labels by which a
    controller selects the pods of a namespace, or None if they are unknown.
    """

    profiles: Profiles
    listed: Callable[[], Awaitable[None]]
    offline: OfflinePods
    is_offered: Callable[[], bool] = lambda: True
    are_installed: bool = True
    selected_by: Callable[[OwnerReference, str], Awaitable[Collection[str] | None]] = _unknown
    draw: Callable[[], int] = lambda: random.randrange(100)  # noqa: S311 - which part of the pods, no secret

    async def apply_profile(self, request: AdmissionRequest) -> Answer:
        """Answer the review of a pod that a profile selects; the path names the profile.

        Raises:
            DecodeError: if the object is not a pod.
        """
        await self.listed()
        name = request.called_at.removeprefix(PROFILE_PATH)
        profile = self.profiles.good.get(name)
        if profile is None or self.draw() >= profile.probability:
            return allowed(request)
        priorities, size = self.profiles.priorities(), len(request.object)

        def applied() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
            pod = _pod(request)
            return pod, with_profile(pod, profile, priorities)

        try:
            pod, changed = await off_loop(size, applied, most=_MOST_AT_ONCE)
        except ProfileNotApplicableError as error:
            return refused(request, f"profile {name} selects this pod: {error}", code=422, reason="Invalid")
        changed, warnings = await self._spare_selected(request, pod, changed, name)
        patch = await off_loop(size, lambda: operations_between(pod, changed), most=_MOST_AT_ONCE)
        return allowed(request, patch=patch, warnings=warnings)

    async def _spare_selected(
        self, request: AdmissionRequest, pod: Mapping[str, Any], changed: Mapping[str, Any], profile: str
    ) -> tuple[Mapping[str, Any], list[str]]:
        """Return the changed pod with the labels by which its controller selects it, and warnings."""
        owners = decode_object(PODS, request.object, "object").metadata.owner_references
        owner = next((each for each in owners if each.controller), None)
        if owner is None or not labels_changed(pod, changed):
            return changed, []
        selected = await self.selected_by(owner, request.namespace)
        changed, kept = with_labels_kept(pod, changed, selected)
        why = f"{owner.kind} {owner.name} {'may select' if selected is None else 'selects'} pods by it"
        return changed, [f"profile {profile} leaves the label {key} as it is: {why}" for key in kept]

    async def require_batch_resources(self, request: AdmissionRequest) -> Answer:
        """Answer the review of an offline pod.

        Raises:
            DecodeError: if the object is not a pod.
        """
        size = len(request.object)

        def read() -> tuple[dict[str, Any], str, Collection[str]]:
            pod = _pod(request)
            return pod, offline_mark(pod), online_requests(pod)

        pod, mark, asked = await off_loop(size, read, most=_MOST_AT_ONCE)
        if not mark or not asked or self.offline is OfflinePods.LEAVE:
            return allowed(request)
        if self.offline is OfflinePods.REFUSE:
            return refused(request, refusal(mark, asked), code=422, reason="Invalid")
        await self.listed()
        if not self.is_offered():
            kept = f"the pod is offline ({mark}) and keeps {', '.join(asked)}: {NOT_OFFERED}"
            return allowed(request, warnings=[kept, *_unserved(pod)])

        def moved() -> tuple[TranslatedPod, list[Operation]]:
            result = translated(pod)
            return result, [] if result.problem else operations_between(pod, result.pod)

        try:
            result, patch = await off_loop(size, moved, most=_MOST_AT_ONCE)
        except QuantityError as error:
            raise DecodeError(f"object: {error}") from error
        if result.problem:
            problem = f"the pod is offline ({mark}): {result.problem}"
            return refused(request, problem, code=422, reason="Invalid")
        warnings = [f"left out, since the batch resource is stated too: {each}" for each in result.dropped]
        return allowed(request, patch=patch, warnings=[*warnings, *_unserved(pod)])

    async def validate_profile(self, request: AdmissionRequest) -> Answer:
        """Answer the review of a profile: errors refuse it, unless it had them before and keeps its spec.

        Raises:
            DecodeError: if the objects are not profiles.
        """
        if request.operation not in {OperationType.CREATE, OperationType.UPDATE}:
            return allowed(request)
        new = decode_object(COLOCATION_PROFILES, request.object, "object")
        parsed, conflicts = await self.profiles.read(new)
        faults = [f"{each.path}: {each.message}" for each in parsed.errors]
        if parsed.value is not None:
            faults += listed(each.said_of(parsed.value.name) for each in conflicts if each.is_certain)
        if faults and (
            request.operation is OperationType.CREATE
            or bytes(new.spec)
            != bytes(decode_object(COLOCATION_PROFILES, request.old_object, "oldObject").spec)
        ):
            return refused(request, "\n".join(faults), code=422, reason="Invalid")
        if parsed.value is None:
            return allowed(request, warnings=faults)
        warnings = [f"{each.path}: {each.message}" for each in parsed.warnings]
        if not self.are_installed:
            warnings.append("no profile is applied: corewise manager runs without --webhook-service")
        remarks = listed(self.profiles.remarks(parsed.value, conflicts))
        return allowed(request, warnings=[*faults, *warnings, *remarks])


def refusal(mark: str, asked: Iterable[str]) -> str:
    """Return the message that refuses an offline pod, with the requests to write instead."""
    return (
        f"the pod is offline ({mark}) and asks for {', '.join(asked)}. Offline pods request {BATCH_CPU} "
        f"(thousandths of a CPU) and {BATCH_MEMORY} instead: cpu 2 is {BATCH_CPU} 2000"
    )


def _unserved(pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for each name on a pod that means something to Volcano or Koordinator alone."""
    metadata = pod.get("metadata") or {}
    return unserved_on(NamePlace.POD, metadata.get("labels") or {}, metadata.get("annotations") or {})


def _pod(request: AdmissionRequest) -> dict[str, Any]:
    """Return the whole pod, which has the shape of one where it is read."""
    decode_object(WORKLOAD_PODS, request.object, "object")
    return decode_document(request.object, "object")
