"""Objects and requests for admission, apart from a server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubedouble.admission_matching import Attributes
from kubedouble.authentication import User

ADMIN = User("admin", ("system:masters",))


class Objects:
    """Objects by resource; every one has a version."""

    def __init__(self, **objects: list[dict[str, Any]]) -> None:
        self.objects = objects

    def get(self, group: str, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        for item in self.list(group, resource):
            metadata = item["metadata"]
            if (metadata.get("namespace", ""), metadata["name"]) == (namespace, name):
                return item
        return None

    def list(self, group: str, resource: str) -> Iterable[dict[str, Any]]:
        return self.objects.get(resource, [])


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}, **fields}


def write(user: User, operation: str, resource: str, name: str = "", **more: Any) -> Attributes:
    resource, _, subresource = resource.partition("/")
    return Attributes(
        user=user,
        operation=operation,
        group=more.pop("group", ""),
        version="v1",
        resource=resource,
        kind="Any",
        subresource=subresource,
        name=name,
        **more,
    )
