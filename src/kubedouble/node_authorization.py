"""What a kubelet may do: the node authorizer.

A kubelet is a user ``system:node:<name>`` in the group ``system:nodes``. Its reads are bounded here: its own
Node, pods by the field selector of its own name, and of ConfigMaps and Secrets those its pods refer to.
Writes of nodes and pods are let through for every node and bounded to its own by NodeRestriction
(`node_restriction`), which sees the objects. Leases are its own only.

Reads that follow volumes (claims, CSI) and service account tokens are not offered: nothing asks for them.

Source: k8s.io/kubernetes/plugin/pkg/auth/authorizer/node/node_authorizer.go, with AuthorizeNodeWithSelectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubedouble.authentication import User
from kubedouble.rbac import Access, Rule
from kubedouble.reading import Object, Reader

NODES_GROUP = "system:nodes"
NODE_USER_PREFIX = "system:node:"
NODE_LEASES = "kube-node-lease"

_READ = frozenset({"get", "list", "watch"})
_WRITE = frozenset({"update", "patch"})
_POD_WRITES = frozenset(
    {("", "create"), ("", "delete"), ("status", "update"), ("status", "patch"), ("eviction", "create")}
)


def _rule(verbs: str, group: str, resources: str) -> Rule:
    return Rule(frozenset(verbs.split()), frozenset({group}), frozenset(resources.split()), frozenset(), ())


_NODE_RULES = (
    _rule("create", "authentication.k8s.io", "tokenreviews"),
    _rule("create", "authorization.k8s.io", "subjectaccessreviews localsubjectaccessreviews"),
    _rule("get list watch", "", "services"),
    _rule("create update patch", "", "events"),
    _rule("create update patch", "events.k8s.io", "events"),
    _rule("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
    _rule("get list watch", "node.k8s.io", "runtimeclasses"),
    _rule("get list watch", "storage.k8s.io", "csidrivers"),
)


def node_of(user: User) -> str | None:
    """The node whose kubelet this is: None for everybody else, "" for a kubelet that names no node."""
    if not user.name.startswith(NODE_USER_PREFIX) or NODES_GROUP not in user.groups:
        return None
    return user.name.removeprefix(NODE_USER_PREFIX)


def authorize_node(user: User, access: Access, reader: Reader) -> tuple[bool, str]:
    """Whether the node authorizer allows the access, and why not (empty where it has no opinion)."""
    node = node_of(user)
    if node is None:
        return False, ""
    if not node:
        return False, f'unknown node for user "{user.name}"'
    judge = _JUDGES.get((access.group, access.resource))
    if judge is not None:
        return judge(node, access, reader)
    return any(rule.allows(access) for rule in _NODE_RULES), ""


def _nodes(node: str, access: Access, _: Reader) -> tuple[bool, str]:
    if access.subresource:
        return access.subresource == "status" and access.verb in _WRITE, ""
    if access.verb in _WRITE or access.verb == "create":
        return True, ""
    if access.verb not in _READ:
        return False, ""
    name = access.name or _selected(access, "metadata.name")
    if name == node:
        return True, ""
    what = f"read '{name}'" if name else "read all nodes"
    return False, f"node '{node}' cannot {what}, only its own Node object"


def _pods(node: str, access: Access, reader: Reader) -> tuple[bool, str]:
    if access.subresource or access.verb in {"create", "delete"}:
        return (access.subresource, access.verb) in _POD_WRITES, ""
    if access.verb == "get":
        return _runs_here(node, access, reader)
    if access.verb not in _READ:
        return False, ""
    if _selected(access, "spec.nodeName") == node:
        return True, ""
    return False, "can only list/watch pods with spec.nodeName field selector"


def _runs_here(node: str, access: Access, reader: Reader) -> tuple[bool, str]:
    pod = reader.get("", "pods", access.namespace, access.name)
    if pod and pod.get("spec", {}).get("nodeName") == node:
        return True, ""
    return False, f"no relationship found between node '{node}' and this object"


def _leases(node: str, access: Access, _: Reader) -> tuple[bool, str]:
    if access.verb not in {"get", "create", "update", "patch", "delete"}:
        return False, "can only get, create, update, patch, or delete a node lease"
    if access.namespace != NODE_LEASES:
        return False, f'can only access leases in the "{NODE_LEASES}" system namespace'
    if access.verb != "create" and access.name != node:
        return False, "can only access node lease with the same name as the requesting node"
    return True, ""


def _referenced(node: str, access: Access, reader: Reader) -> tuple[bool, str]:
    if access.verb not in _READ or access.subresource:
        return False, "can only read resources of this type"
    name = access.name or _selected(access, "metadata.name")
    if not access.namespace or not name:
        return False, "can only read namespaced object of this type"
    kind = "ConfigMap" if access.resource == "configmaps" else "Secret"
    for pod in reader.list("", "pods"):
        if pod.get("spec", {}).get("nodeName") != node or pod["metadata"]["namespace"] != access.namespace:
            continue
        if (kind, name) in _references(pod):
            return True, ""
    return False, f"no relationship found between node '{node}' and this object"


def _references(pod: Object) -> Iterator[tuple[str, str]]:
    spec = pod["spec"]
    yield from (("Secret", each["name"]) for each in spec.get("imagePullSecrets") or ())
    for volume in spec.get("volumes") or ():
        yield from _of_volume(volume)
    for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
        for source in container.get("envFrom") or ():
            yield from _named(source, "configMapRef", "secretRef", "name")
        for variable in container.get("env") or ():
            yield from _named(variable.get("valueFrom") or {}, "configMapKeyRef", "secretKeyRef", "name")


def _of_volume(volume: Object) -> Iterator[tuple[str, str]]:
    yield from _named(volume, "configMap", "", "name")
    yield from _named(volume, "", "secret", "secretName")
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield from _named(source, "configMap", "secret", "name")


def _named(source: Any, config_map: str, secret: str, key: str) -> Iterator[tuple[str, str]]:
    if reference := source.get(config_map):
        yield "ConfigMap", reference.get(key, "")
    if reference := source.get(secret):
        yield "Secret", reference.get(key, "")


def _selected(access: Access, field: str) -> str:
    for term in access.field_selector.split(","):
        name, equals, value = term.replace("==", "=").partition("=")
        if equals and name == field:
            return value
    return ""


_JUDGES = {
    ("", "nodes"): _nodes,
    ("", "pods"): _pods,
    ("", "configmaps"): _referenced,
    ("", "secrets"): _referenced,
    ("coordination.k8s.io", "leases"): _leases,
}
