"""The changes that a ClusterColocationProfile makes to a new pod.

The order within a profile is Koordinator's: labels, annotations, copied keys, suffixes, schedulerName,
qosClass, priorityClassName, koordinatorPriority, and the patch last. Unlike there, a key that a pod does not
have is not copied, a profile selects by the pod as the profiles before it left it (the API server itself
selects, by the selectors of one webhook for each profile), and the priority is that of the class which the
patch left: the API server refuses a pod whose priority is not that of its class.

A label by which the controller of a pod selects it keeps its value, whatever a profile says. Otherwise the
controller would release the pod and create another, without end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from corewise.colocation.offline import offline_mark, online_requests
from corewise.colocation.strategic_merge import StrategicMergeError, merged_pod
from corewise.config.colocation_profile import CONTROLLER_LABELS, ColocationProfile


@dataclass(frozen=True, slots=True)
class PriorityOfClass:
    """The values that a PriorityClass gives to a pod."""

    value: int
    preemption_policy: str = "PreemptLowerPriority"


class ProfileNotApplicableError(ValueError):
    """A profile cannot be applied to a pod; the message says why, and what to do."""


def with_profile(
    pod: Mapping[str, Any], profile: ColocationProfile, priorities: Mapping[str, PriorityOfClass]
) -> Mapping[str, Any]:
    """Return the pod as the profile makes it, whatever the profile selects.

    Raises:
        ProfileNotApplicableError: if the PriorityClass does not exist, or the patch does not fit a pod.
    """
    metadata, spec = dict(pod.get("metadata") or {}), dict(pod.get("spec") or {})
    labels, annotations = (dict(metadata.get(each) or {}) for each in ("labels", "annotations"))
    labels |= profile.labels
    annotations |= profile.annotations
    labels |= _copied(labels, profile.label_key_mapping)
    annotations |= _copied(annotations, profile.annotation_key_mapping)
    labels |= {key: labels[key] + suffix for key, suffix in profile.label_suffixes.items() if key in labels}
    labels |= profile.class_labels
    metadata |= {key: texts for key, texts in (("labels", labels), ("annotations", annotations)) if texts}
    if profile.scheduler:
        spec["schedulerName"] = profile.scheduler
    if profile.priority_class:
        spec["priorityClassName"] = profile.priority_class
    changed: Mapping[str, Any] = {**pod, "metadata": metadata, "spec": spec}
    if profile.patch is not None:
        changed = _patched(changed, profile.patch)
    return with_priority(changed, priorities) if "spec.priorityClassName" in profile.settings() else changed


def labels_changed(pod: Mapping[str, Any], changed: Mapping[str, Any]) -> list[str]:
    """Return the keys of the labels that a pod had, and that have another value now, or none."""
    before, after = _labels(pod), _labels(changed)
    return sorted(key for key, value in before.items() if after.get(key) != value)


def with_labels_kept(
    pod: Mapping[str, Any], changed: Mapping[str, Any], selected: Collection[str] | None
) -> tuple[Mapping[str, Any], list[str]]:
    """Return the changed pod with the labels by which its controller selects it, and which these are.

    ``selected``: the keys of the controller's selector. If they are unknown (None), all labels are kept.
    """
    kept = [
        key
        for key in labels_changed(pod, changed)
        if selected is None or key in selected or key in CONTROLLER_LABELS
    ]
    if not kept:
        return changed, []
    labels = {**_labels(changed), **{key: _labels(pod)[key] for key in kept}}
    return {**changed, "metadata": {**changed["metadata"], "labels": labels}}, kept


def _labels(pod: Mapping[str, Any]) -> Mapping[str, str]:
    return (pod.get("metadata") or {}).get("labels") or {}


def with_priority(pod: Mapping[str, Any], priorities: Mapping[str, PriorityOfClass]) -> Mapping[str, Any]:
    """Return the pod with the priority of its class. Without a class the API server decides it.

    Raises:
        ProfileNotApplicableError: if the PriorityClass does not exist.
    """
    spec = dict(pod.get("spec") or {})
    name = spec.get("priorityClassName")
    for each in ("priority", "preemptionPolicy"):
        spec.pop(each, None)
    if name:
        found = priorities.get(name)
        if found is None:
            raise ProfileNotApplicableError(
                f"there is no PriorityClass {name}: create it, or correct priorityClassName"
            )
        spec |= {"priority": found.value, "preemptionPolicy": found.preemption_policy}
    return {**pod, "spec": spec}


def why_not_online(
    pod: Mapping[str, Any],
    namespace: Mapping[str, str],
    profiles: Iterable[ColocationProfile],
    priorities: Mapping[str, PriorityOfClass],
) -> str:
    """Return the warning for a pod that should be offline but counts as online; "" for any other pod.

    ``namespace`` are the labels of its namespace. Profiles for a part of the pods say nothing of one pod.
    """
    asked = online_requests(pod)
    mark = offline_mark(pod) if asked else ""
    found = f"is marked as offline ({mark})"
    for profile in profiles if asked and not mark else ():
        labels = (pod.get("metadata") or {}).get("labels") or {}
        if profile.probability < 100 or not profile.selects(namespace, labels):
            continue
        with suppress(ProfileNotApplicableError):
            pod = with_profile(pod, profile, priorities)
            if mark := offline_mark(pod):
                found = f"should be offline (profile {profile.name} selects it: {mark})"
                break
    if not mark:
        return ""
    return (
        f"the pod {found}, and counts as online on its node, where nothing suppresses it: it asks for "
        f"{', '.join(asked)}. It was created before the profile, or while corewise manager did not answer or "
        "was not allowed to change it. Delete it, so that its controller creates it again"
    )


def _copied(texts: Mapping[str, str], mapping: Mapping[str, str]) -> dict[str, str]:
    return {new: texts[old] for old, new in mapping.items() if old in texts}


def _patched(pod: Mapping[str, Any], patch: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return merged_pod(pod, patch)
    except StrategicMergeError as error:
        raise ProfileNotApplicableError(f"its patch does not fit the pod: {error}") from error
