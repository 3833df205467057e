"""What authentication, authorization and admission may see of the store.

They read and never write, so they depend on these two questions and not on the store itself.
Answers are the stored objects themselves: never change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

Object = Mapping[str, Any]
"""A Kubernetes object as JSON gives it."""


class Reader(Protocol):
    """Reads stored objects."""

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        """One object by its plural and name (``namespace`` is "" for cluster-scoped kinds), or None."""
        ...

    def list(self, group: str, resource: str) -> Iterable[Object]:
        """All objects of a kind, of all namespaces."""
        ...


def resource_versions(objects: Iterable[Object]) -> tuple[str, ...]:
    """What changes whenever one of the objects is created, changed or deleted: a key for compiled forms."""
    return tuple([item["metadata"]["resourceVersion"] for item in objects])
