"""The access of kubelets: read everything about their node and its pods, and write nothing of others.

The node authorizer decides what a kubelet may read and which verbs it has. NodeRestriction, an admission
controller, then looks at what it writes. Of its own node a kubelet may not delete the object, change taints,
or change labels that steer work (``node-restriction.kubernetes.io``, and those of kubernetes.io and k8s.io
that are not kubelet's own). Pods it creates are mirror pods; of its pods it writes the status, without
labels, and creates evictions. Service account tokens, volumes and CSI objects are not offered to kubelets.

Source: k8s.io/kubernetes/plugin/pkg/auth/authorizer/node/node_authorizer.go, with AuthorizeNodeWithSelectors;
plugin/pkg/admission/noderestriction/admission.go, k8s.io/kubelet/pkg/apis/well_known_labels.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubedouble.admission_matching import Attributes
from kubedouble.authentication import User
from kubedouble.errors import StatusError
from kubedouble.rbac import Access, Rule
from kubedouble.store import Object, Reader

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


_MIRROR = "kubernetes.io/config.mirror"
_RESTRICTED = "node-restriction.kubernetes.io"
_KUBELET_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
    }
)
_OBJECT_VOLUMES = frozenset({"secret", "configMap", "persistentVolumeClaim", "projected"})
_OBJECT_VALUES = frozenset({"configMapKeyRef", "secretKeyRef"})
_KUBELET_NAMESPACES = ("kubelet.kubernetes.io", "node.kubernetes.io")


def restrict_node(attributes: Attributes, obj: Object | None, old: Object | None, reader: Reader) -> None:
    """Raise StatusError 403 where a kubelet writes what it must not; others pass."""
    node = node_of(attributes.user)
    if node is None:
        return
    if not node:
        raise attributes.forbidden(f'could not determine node from user "{attributes.user.name}"')
    match attributes.group, attributes.resource:
        case "", "nodes":
            _restrict_node(node, attributes, obj or {}, old or {})
        case "", "pods":
            _restrict_pod(node, attributes, obj or {}, old or {}, reader)
        case "coordination.k8s.io", "leases":
            _restrict_lease(node, attributes, obj or {})


def _restrict_node(node: str, attributes: Attributes, obj: Object, old: Object) -> None:
    name = attributes.name or _metadata(obj).get("name", "")
    if name != node:
        raise attributes.forbidden(f'node "{node}" is not allowed to modify node "{name}"')
    if attributes.operation == "UPDATE":
        if _taints(obj) != _taints(old):
            raise attributes.forbidden(f'node "{node}" is not allowed to modify taints')
        if labels := _forbidden_labels(_labels(obj), _labels(old)):
            raise attributes.forbidden(f"is not allowed to modify labels: {labels}")
    if attributes.operation == "CREATE" and (labels := _forbidden_labels(_labels(obj), {})):
        raise attributes.forbidden(f'node "{node}" is not allowed to set the following labels: {labels}')


def _forbidden_labels(new: Mapping[str, str], old: Mapping[str, str]) -> str:
    changed = {key for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
    return ", ".join(sorted(key for key in changed if _is_forbidden(key)))


def _is_forbidden(label: str) -> bool:
    namespace, slash, _ = label.partition("/")
    if not slash:
        return False
    if _is_or_under(namespace, _RESTRICTED):
        return True
    if not (_is_or_under(namespace, "kubernetes.io") or _is_or_under(namespace, "k8s.io")):
        return False
    return label not in _KUBELET_LABELS and not any(_is_or_under(namespace, n) for n in _KUBELET_NAMESPACES)


def _is_or_under(namespace: str, domain: str) -> bool:
    return namespace == domain or namespace.endswith(f".{domain}")


def _restrict_pod(node: str, attributes: Attributes, obj: Object, old: Object, reader: Reader) -> None:
    match attributes.subresource, attributes.operation:
        case "", "CREATE":
            _restrict_mirror_pod(node, attributes, obj, reader)
        case "", "DELETE":
            _demand_own(node, attributes, old, f'node "{node}" can only delete pods')
        case "status", "UPDATE":
            _demand_own(node, attributes, old, f'node "{node}" can only update pod status for pods')
            if _labels(obj) != _labels(old):
                raise attributes.forbidden(f'node "{node}" cannot update labels through pod status')
        case "eviction", "CREATE":
            pod = reader.get("", "pods", attributes.namespace, attributes.name)
            if pod is None:
                name = attributes.name
                raise StatusError(404, "NotFound", f'pods "{name}" not found', {"name": name, "kind": "pods"})
            _demand_own(node, attributes, pod, f"node {node} can only evict pods")
        case "", _:
            raise attributes.forbidden(
                f'unexpected operation "{attributes.operation}", '
                f'node "{node}" can only create and delete mirror pods'
            )
        case _:
            raise attributes.forbidden(
                f'unexpected pod subresource "{attributes.subresource}", '
                "only 'status' and 'eviction' are allowed"
            )


def _demand_own(node: str, attributes: Attributes, pod: Object, what: str) -> None:
    if _spec(pod).get("nodeName") != node:
        raise attributes.forbidden(f"{what} with spec.nodeName set to itself")


def _restrict_mirror_pod(node: str, attributes: Attributes, pod: Object, reader: Reader) -> None:
    if _MIRROR not in (_metadata(pod).get("annotations") or {}):
        raise attributes.forbidden(
            f'pod does not have "{_MIRROR}" annotation, node "{node}" can only create mirror pods'
        )
    _demand_own(node, attributes, pod, f'node "{node}" can only create pods')
    if not _is_owned(node, pod, reader):
        raise attributes.forbidden(
            f'node "{node}" can only create pods with a controller owner reference set to itself'
        )
    if _spec(pod).get("serviceAccountName"):
        raise attributes.forbidden(f'node "{node}" can not create pods that reference a service account')
    if _refers_to_objects(pod):
        raise attributes.forbidden(f'node "{node}" can not create pods that reference other objects')


def _is_owned(node: str, pod: Object, reader: Reader) -> bool:
    owners = _metadata(pod).get("ownerReferences") or []
    stored = reader.get("", "nodes", "", node)
    if len(owners) != 1 or stored is None:
        return False
    owner = owners[0]
    return (
        (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) == ("v1", "Node", node)
        and owner.get("controller") is True
        and not owner.get("blockOwnerDeletion")
        and owner.get("uid") == stored["metadata"]["uid"]
    )


def _refers_to_objects(pod: Object) -> bool:
    spec = _spec(pod)
    if spec.get("imagePullSecrets"):
        return True
    if any(not _OBJECT_VOLUMES.isdisjoint(volume) for volume in spec.get("volumes") or ()):
        return True
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return any(
        container.get("envFrom")
        or any(
            not _OBJECT_VALUES.isdisjoint(each.get("valueFrom") or {}) for each in container.get("env") or ()
        )
        for container in containers
    )


def _restrict_lease(node: str, attributes: Attributes, lease: Object) -> None:
    if attributes.namespace != NODE_LEASES:
        raise attributes.forbidden(f'can only access leases in the "{NODE_LEASES}" system namespace')
    name = _metadata(lease).get("name") if attributes.operation == "CREATE" else attributes.name
    if name != node:
        raise attributes.forbidden("can only access node lease with the same name as the requesting node")


def _metadata(obj: Object) -> Mapping[str, Any]:
    return obj.get("metadata") or {}


def _labels(obj: Object) -> Mapping[str, str]:
    return _metadata(obj).get("labels") or {}


def _spec(obj: Object) -> Mapping[str, Any]:
    return obj.get("spec") or {}


def _taints(obj: Object) -> Any:
    return _spec(obj).get("taints") or []
