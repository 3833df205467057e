"""What every cluster starts with: its namespaces, and the RBAC policy of a fresh control plane."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from kubedouble.bootstrap_policy import bootstrap_objects
from kubedouble.cluster import Cluster, timestamp
from kubedouble.strategies import prepare_create

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def bootstrap(cluster: Cluster) -> None:
    """Create what is missing of it. What was before then is no history: it has expired, as if compacted."""
    now = cluster.clock()
    for obj in _objects():
        resource = cluster.registry.of_kind(obj["apiVersion"].rpartition("/")[0], obj["kind"])
        key = ("", obj["metadata"]["name"])
        if resource is not None and cluster.stored(resource, *key) is None:
            metadata = {**obj["metadata"], "uid": str(uuid4()), "creationTimestamp": timestamp(now)}
            first = prepare_create(resource, {**obj, "metadata": metadata})
            cluster.store.put(resource.storage_key, key, first)
    cluster.store.forget()


def _objects() -> Iterator[dict[str, Any]]:
    for name in NAMESPACES:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    yield from bootstrap_objects()
