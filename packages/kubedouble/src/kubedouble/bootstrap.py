"""The initial objects of every cluster: its namespaces, and the RBAC policy of a fresh control plane.

Of the policy there is what this server has a use for. Kubelets are authorized by :mod:`.node_access`; the
ClusterRole ``system:node`` has no binding, as in a real cluster with the node authorizer.

Source: k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from kubedouble.authentication import AUTHENTICATED, UNAUTHENTICATED
from kubedouble.cluster import Cluster
from kubedouble.schema.decoding import timestamp
from kubedouble.strategies import prepare_create

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def bootstrap(cluster: Cluster) -> None:
    """Create the missing initial objects. They leave no history: it has expired, as if compacted."""
    now = cluster.clock()
    kind = {"apiVersion": "v1", "kind": "Namespace"}
    namespaces = [{**kind, "metadata": {"name": name}} for name in NAMESPACES]
    for obj in (*namespaces, *bootstrap_objects()):
        resource = cluster.registry.of_kind(obj["apiVersion"].rpartition("/")[0], obj["kind"])
        key = ("", obj["metadata"]["name"])
        if resource is not None and cluster.stored(resource, *key) is None:
            metadata = {**obj["metadata"], "uid": str(uuid4()), "creationTimestamp": timestamp(now)}
            first = prepare_create(resource, {**obj, "metadata": metadata})
            cluster.store.put(resource.storage_key, key, first)
    cluster.store.forget()


_API_VERSION = "rbac.authorization.k8s.io/v1"
_READ = ["get", "list", "watch"]
_HEALTH = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DISCOVERY = [*_HEALTH, "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"]
_SELF_REVIEWS = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]


def bootstrap_objects() -> Iterator[dict[str, Any]]:
    """ClusterRoles and ClusterRoleBindings to create in an empty store."""
    yield _role("cluster-admin", _allow(["*"], ["*"], ["*"]), _urls(["*"], ["*"]))
    yield _binding("cluster-admin", "system:masters")
    yield _role("system:discovery", _urls(["get"], _DISCOVERY))
    yield _binding("system:discovery", AUTHENTICATED)
    yield _role("system:public-info-viewer", _urls(["get"], _HEALTH))
    yield _binding("system:public-info-viewer", AUTHENTICATED, UNAUTHENTICATED)
    yield _role(
        "system:basic-user",
        _allow(["create"], ["authorization.k8s.io"], _SELF_REVIEWS),
        _allow(["create"], ["authentication.k8s.io"], ["selfsubjectreviews"]),
    )
    yield _binding("system:basic-user", AUTHENTICATED)
    yield _role("system:monitoring", _urls(["get"], ["/metrics", *_HEALTH]))
    yield _binding("system:monitoring", "system:monitoring")
    yield _role("system:node", *_node_rules())


def _node_rules() -> Iterator[dict[str, Any]]:
    yield _allow([*_READ, "create", "update", "patch"], [""], ["nodes"])
    yield _allow(["update", "patch"], [""], ["nodes/status", "pods/status"])
    yield _allow([*_READ, "create", "delete"], [""], ["pods"])
    yield _allow(["create"], [""], ["pods/eviction"])
    yield _allow(_READ, [""], ["configmaps", "secrets", "services"])
    yield _allow(["create", "update", "patch"], ["", "events.k8s.io"], ["events"])
    yield _allow(["get", "create", "update", "patch", "delete"], ["coordination.k8s.io"], ["leases"])


def _allow(verbs: Sequence[str], groups: Sequence[str], resources: Sequence[str]) -> dict[str, Any]:
    return {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}


def _urls(verbs: Sequence[str], urls: Sequence[str]) -> dict[str, Any]:
    return {"nonResourceURLs": list(urls), "verbs": list(verbs)}


def _metadata(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }


def _role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": _API_VERSION,
        "kind": "ClusterRole",
        "metadata": _metadata(name),
        "rules": list(rules),
    }


def _binding(name: str, *groups: str) -> dict[str, Any]:
    api_group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": _API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": _metadata(name),
        "roleRef": {"apiGroup": api_group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": api_group, "kind": "Group", "name": group} for group in groups],
    }
