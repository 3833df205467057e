"""NamespaceLifecycle: nothing is created in a namespace that is not there or is going away.

Source: k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go.
"""

from __future__ import annotations

from kubedouble.admission_review import Attributes
from kubedouble.errors import StatusError
from kubedouble.reading import Reader

_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})


def check_namespace(attributes: Attributes, reader: Reader) -> None:
    """Raise StatusError 404 or 403 where the namespace does not allow the write."""
    if attributes.group == "" and attributes.resource == "namespaces":
        if attributes.operation == "DELETE" and attributes.name in _IMMORTAL:
            raise attributes.forbidden("this namespace may not be deleted")
        return
    if not attributes.namespace or attributes.operation == "DELETE":
        return
    namespace = reader.get("", "namespaces", "", attributes.namespace)
    if namespace is None:
        raise _absent(attributes.namespace)
    if attributes.operation == "CREATE" and _is_going(namespace):
        raise _terminating(attributes)


def _is_going(namespace: object) -> bool:
    return isinstance(namespace, dict) and "deletionTimestamp" in namespace["metadata"]


def _absent(name: str) -> StatusError:
    details = {"name": name, "kind": "namespaces"}
    return StatusError(404, "NotFound", f'namespaces "{name}" not found', details)


def _terminating(attributes: Attributes) -> StatusError:
    name = attributes.namespace
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {name} is being terminated",
        "field": "metadata.namespace",
    }
    why = f"unable to create new content in namespace {name} because it is being terminated"
    return attributes.forbidden(why, causes=[cause])
