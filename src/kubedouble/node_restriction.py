"""NodeRestriction: a kubelet writes its own node, its own pods and its own lease, and nothing of others.

Of its own node it may not delete the object, change taints, or change labels that steer work
(``node-restriction.kubernetes.io``, and those of kubernetes.io and k8s.io that are not kubelet's own). Pods
it creates are mirror pods; of its pods it writes the status, without labels, and asks for evictions.

Service account tokens, volumes and CSI objects are not offered to kubelets at all (`node_authorization`).

Source: k8s.io/kubernetes/plugin/pkg/admission/noderestriction/admission.go and
k8s.io/kubelet/pkg/apis/well_known_labels.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubedouble.admission_review import Attributes
from kubedouble.errors import StatusError
from kubedouble.node_authorization import NODE_LEASES, node_of
from kubedouble.reading import Object, Reader

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
                raise _pod_not_found(attributes.name)
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


_OBJECT_VOLUMES = frozenset({"secret", "configMap", "persistentVolumeClaim", "projected"})


def _refers_to_objects(pod: Object) -> bool:
    spec = _spec(pod)
    if spec.get("imagePullSecrets"):
        return True
    if any(not _OBJECT_VOLUMES.isdisjoint(volume) for volume in spec.get("volumes") or ()):
        return True
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return any(
        container.get("envFrom")
        or any(_is_reference(variable.get("valueFrom") or {}) for variable in container.get("env") or ())
        for container in containers
    )


def _is_reference(source: Mapping[str, Any]) -> bool:
    return "configMapKeyRef" in source or "secretKeyRef" in source


def _restrict_lease(node: str, attributes: Attributes, lease: Object) -> None:
    if attributes.namespace != NODE_LEASES:
        raise attributes.forbidden(f'can only access leases in the "{NODE_LEASES}" system namespace')
    name = _metadata(lease).get("name") if attributes.operation == "CREATE" else attributes.name
    if name != node:
        raise attributes.forbidden("can only access node lease with the same name as the requesting node")


def _pod_not_found(name: str) -> StatusError:
    return StatusError(404, "NotFound", f'pods "{name}" not found', {"name": name, "kind": "pods"})


def _metadata(obj: Object) -> Mapping[str, Any]:
    return obj.get("metadata") or {}


def _labels(obj: Object) -> Mapping[str, str]:
    return _metadata(obj).get("labels") or {}


def _spec(obj: Object) -> Mapping[str, Any]:
    return obj.get("spec") or {}


def _taints(obj: Object) -> Any:
    return _spec(obj).get("taints") or []
