"""The strategy of each kind on a write: status, generation, the parts a write may change.

A write of the main resource leaves status as it is; a write of ``status`` leaves everything else, except
what the kind's own strategy lets through: a Node's or Pod's status write may change its metadata too, a
custom resource's may not.

Source: PrepareForCreate and PrepareForUpdate of k8s.io/kubernetes/pkg/registry/*/*/strategy.go and
apiextensions-apiserver/pkg/registry/customresource/{,status_}strategy.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubedouble.definitions import CUSTOM_RESOURCE_DEFINITIONS
from kubedouble.resources import ResourceInfo
from kubedouble.store import Object

_STATUS_METADATA_KEPT: Mapping[str, tuple[str, ...]] = {
    "pods": ("ownerReferences",),
    "deployments.apps": ("labels",),
    "replicasets.apps": ("labels",),
}
"""Storage key -> metadata that a write of status leaves as it is."""
_QUALITY_RESOURCES = ("cpu", "memory")


def prepare_create(resource: ResourceInfo, obj: Object) -> Object:
    """Set the initial fields of a new object of this kind."""
    special = _ON_CREATE.get(resource.storage_key)
    if special:
        return special(obj)
    if resource.has_status and (resource.custom or resource.group in {"apps", "autoscaling", "batch"}):
        return without(obj, "status") if resource.custom else {**obj, "status": {}}
    return obj


def prepare_update(resource: ResourceInfo, subresource: str, old: Object, new: Object) -> Object:
    """Take back what this write may not change, and count the generation."""
    if subresource == "status":
        kept = _status_write(resource, old, new)
    elif resource.storage_key == "namespaces":
        kept = _namespace_write(old, new, finalizing=subresource == "finalize")
    elif resource.has_status:
        kept = _with_field(new, old, "status")
    else:
        kept = new
    return _count_generation(resource, old, kept)


def without(obj: Object, name: str) -> Object:
    """Return an object that lacks a top-level field."""
    return {key: value for key, value in obj.items() if key != name} if name in obj else obj


def _status_write(resource: ResourceInfo, old: Object, new: Object) -> Object:
    if resource.custom or resource.storage_key == CUSTOM_RESOURCE_DEFINITIONS:
        metadata = {**old["metadata"]}
        if "managedFields" in new["metadata"]:
            metadata["managedFields"] = new["metadata"]["managedFields"]
        return {**_with_field(old, new, "status"), "metadata": metadata}
    result = _with_field(new, old, "spec")
    for name in _STATUS_METADATA_KEPT.get(resource.storage_key, ()):
        result = {**result, "metadata": _with_field(result["metadata"], old["metadata"], name)}
    return result


def _namespace_write(old: Object, new: Object, *, finalizing: bool) -> Object:
    """A Namespace's own finalizers change through ``finalize`` only, and nothing else does there."""
    source, base = (new, old) if finalizing else (old, new)
    finalizers = (source.get("spec") or {}).get("finalizers") or []
    kept = _with_field({**base, "metadata": new["metadata"]}, old, "status")
    return {**kept, "spec": {**(base.get("spec") or {}), "finalizers": finalizers}}


def _with_field(obj: Object, source: Object, name: str) -> Object:
    """Return an object whose one field is that of another object, or absent as it is there."""
    if name in source:
        return {**obj, name: source[name]}
    return without(obj, name)


def _count_generation(resource: ResourceInfo, old: Object, new: Object) -> Object:
    if resource.generation is None:
        return new
    if resource.generation:
        changed = any(old.get(name) != new.get(name) for name in resource.generation)
    else:
        aside = {"metadata", "status"} if resource.has_status else {"metadata"}
        changed = any(old.get(name) != new.get(name) for name in {*old, *new} - aside)
    if not changed:
        return new
    generation = old["metadata"].get("generation", 0) + 1
    return {**new, "metadata": {**new["metadata"], "generation": generation}}


def _create_namespace(obj: Object) -> Object:
    spec = {**(obj.get("spec") or {})}
    finalizers = [name for name in spec.get("finalizers") or () if name != "kubernetes"]
    spec["finalizers"] = [*finalizers, "kubernetes"]
    metadata = obj["metadata"]
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata.get("name", "")}
    return {**obj, "metadata": {**metadata, "labels": labels}, "spec": spec, "status": {"phase": "Active"}}


def _create_pod(obj: Object) -> Object:
    return {**obj, "status": {"phase": "Pending", "qosClass": quality_of(obj.get("spec") or {})}}


def _create_job(obj: Object) -> Object:
    """Tell a Job's pods by its uid, unless the Job brings a selector of its own."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    name, uid = metadata.get("name", ""), metadata["uid"]
    own = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}
    template = spec.get("template") or {}
    below = template.get("metadata") or {}
    labels = {**(below.get("labels") or {}), **own, "controller-uid": uid, "job-name": name}
    if not spec.get("manualSelector"):
        selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        template = {**template, "metadata": {**below, "labels": labels}}
        spec = {**spec, "selector": selector, "template": template}
    return {**obj, "spec": spec, "status": {}}


_ON_CREATE: Mapping[str, Callable[[Object], Object]] = {
    "namespaces": _create_namespace,
    "pods": _create_pod,
    "services": lambda obj: {**obj, "status": {"loadBalancer": {}}},
    "jobs.batch": _create_job,
}


def quality_of(spec: Object) -> str:
    """Return a pod's quality-of-service class by its requests and limits of CPU and memory."""
    guaranteed, mentioned = True, False
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        mentioned = mentioned or any(name in requests or name in limits for name in _QUALITY_RESOURCES)
        guaranteed = guaranteed and all(
            name in limits and requests.get(name, limits[name]) == limits[name] for name in _QUALITY_RESOURCES
        )
    if not mentioned:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
