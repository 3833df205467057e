"""Discovery: which groups, versions and resources there are.

In both forms: the old one (``/api``, ``/apis``, ``/apis/G``, ``/apis/G/V``), and the aggregated one that
kubectl asks for first (one document each for ``/api`` and ``/apis``, by content negotiation).

Source: k8s.io/api/apidiscovery/v2 and k8s.io/apiserver/pkg/endpoints/discovery.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from kubedouble.cluster import Reply
from kubedouble.resources import Registry, ResourceInfo

_AGGREGATED = re.compile(r"v=(v2(?:beta1)?)\b")
_STABILITY = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
encode = msgspec.json.Encoder().encode


def version(registry: Registry, name: str) -> dict[str, str]:
    """Return the version of the Kubernetes that serves the same resources; ``name`` is the build's."""
    new = registry.of_kind("admissionregistration.k8s.io", "MutatingAdmissionPolicy")
    minor = "36" if new else "35"
    return {
        "major": "1",
        "minor": minor,
        "gitVersion": f"v1.{minor}.0+{name}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    }


def answer(registry: Registry, path: str, accept: str, address: str) -> Reply | None:
    """Answer a discovery path, or return ``None`` if it is none."""
    parts = [part for part in path.split("/") if part]
    if parts in (["api"], ["apis"]) and (version := _aggregated_version(accept)):
        return _aggregated(registry, core=parts == ["api"], version=version)
    document = _document(registry, parts, address)
    return Reply(encode(document)) if document else None


def _document(registry: Registry, parts: list[str], address: str) -> dict[str, Any] | None:
    groups = _groups(registry)
    match parts:
        case ["api"]:
            addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}
        case ["apis"]:
            listed = [_group(name, versions) for name, versions in groups.items() if name]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        case ["apis", group] if group in groups:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, groups[group])}
        case ["api", version]:
            return _resource_list(registry, "", version)
        case ["apis", group, version]:
            return _resource_list(registry, group, version)
        case _:
            return None


def _groups(registry: Registry) -> dict[str, list[str]]:
    """Return the versions of each group, the preferred one first."""
    return {name: sorted(versions, key=preference) for name, versions in registry.groups().items()}


def preference(version: str) -> tuple[int, int, int, str]:
    """Order versions as the API does: stable before beta before alpha, newer before older."""
    match = _STABILITY.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (stage, -int(match[1]), -int(match[3] or 0), version)


def _group(name: str, versions: list[str]) -> dict[str, Any]:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _of(registry: Registry, group: str, version: str) -> list[ResourceInfo]:
    return [each for each in registry if (each.group, each.version) == (group, version)]


def _resource_list(registry: Registry, group: str, version: str) -> dict[str, Any] | None:
    if version not in registry.groups().get(group, ()):
        return None
    entries = [entry for resource in _of(registry, group, version) for entry in _resource_entries(resource)]
    group_version = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": entries,
    }


def _resource_entries(resource: ResourceInfo) -> Iterable[dict[str, Any]]:
    entry: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    entry |= _also_known_as(resource)
    if "get" in resource.verbs:
        text = f"{resource.group}/{resource.version}/{resource.kind}"
        entry["storageVersionHash"] = hashlib.sha256(text.encode()).hexdigest()[:12]
    yield entry
    for name in resource.subresources:
        taken = resource.kind_of(name)
        below = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
        if taken.group != resource.group:
            below.update(group=taken.group, version=taken.version)
        yield {**below, "kind": taken.kind, "verbs": list(taken.verbs)}


def _aggregated_version(accept: str) -> str:
    """Return the version of aggregated discovery that comes first in the Accept header, if any."""
    for offer in accept.split(","):
        if "g=apidiscovery.k8s.io" in offer and (match := _AGGREGATED.search(offer)):
            return match[1]
    return ""


def _aggregated(registry: Registry, *, core: bool, version: str) -> Reply:
    groups = {name: versions for name, versions in _groups(registry).items() if (not name) == core}
    items = []
    for name, versions in groups.items():
        documents = [
            {
                "version": each,
                "freshness": "Current",
                "resources": [_described(r) for r in _of(registry, name, each)],
            }
            for each in versions
        ]
        metadata = {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None}
        items.append({"metadata": metadata, "versions": documents})
    body = encode(
        {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{version}",
            "metadata": {},
            "items": items,
        }
    )
    content_type = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    return Reply(body, content_type=content_type)


def _described(resource: ResourceInfo) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    entry |= _also_known_as(resource)
    for name in resource.subresources:
        taken = resource.kind_of(name)
        below = {
            "subresource": name,
            "responseKind": {"group": taken.group, "version": taken.version, "kind": taken.kind},
            "verbs": list(taken.verbs),
        }
        entry.setdefault("subresources", []).append(below)
    return entry


def _also_known_as(resource: ResourceInfo) -> dict[str, list[str]]:
    names = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {key: listed for key, listed in names.items() if listed}
