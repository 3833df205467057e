"""The faults of an object in stored form, each with its field: the causes of a 422.

Fields, reasons and messages are those of kube-apiserver: people read them and clients match them. Parts
that are the same object as in the stored one were valid before and are skipped where checking is expensive.

Source: k8s.io/kubernetes/pkg/apis/*/validation, apimachinery/pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubedouble.errors import Faults
from kubedouble.schema.custom import custom_problems
from kubedouble.schema.rules import Object, unsupported_values
from kubedouble.schema.structure import Schema
from kubedouble.schema.validation import cluster, extensions, pods

__all__ = ["problems"]


def problems(
    obj: Object, old: Object | None, schema: Schema, *, subresource: str = "", api_version: str = ""
) -> list[dict[str, str]]:
    """Return the faults of an object, beyond its metadata.

    Args:
        obj: the object in stored form.
        old: the stored object that it replaces, if any.
        schema: the kind's.
        subresource: through which it is written, if any.
        api_version: at which it is written, where that matters (events).
    """
    if schema.custom:
        return custom_problems(obj, schema)
    faults = Faults()
    unsupported_values(faults, obj, old, schema)
    kind = schema.name.removeprefix("io.k8s.")
    if kind in _CHECKS:
        _CHECKS[kind](faults, obj, old)
    if kind == "api.core.v1.Event":
        cluster.event(faults, obj, old, api_version)
    if kind == "api.core.v1.Pod" and old is not None and subresource == "":
        pods.pod_update(faults, obj, old)
    return faults.causes


_ADMISSION = "api.admissionregistration.v1"
_CHECKS: Mapping[str, Callable[[Faults, Object, Object | None], None]] = {
    "api.core.v1.Pod": pods.pod,
    "api.core.v1.Node": cluster.node,
    "api.core.v1.ConfigMap": cluster.config_map,
    "api.core.v1.Secret": cluster.secret,
    "api.core.v1.Service": cluster.service,
    "api.coordination.v1.Lease": cluster.lease,
    "api.apps.v1.Deployment": pods.workload,
    "api.apps.v1.DaemonSet": pods.workload,
    "api.apps.v1.ReplicaSet": pods.workload,
    "api.batch.v1.Job": pods.job,
    "api.rbac.v1.Role": extensions.role,
    "api.rbac.v1.ClusterRole": extensions.cluster_role,
    "api.rbac.v1.RoleBinding": extensions.role_binding,
    "api.rbac.v1.ClusterRoleBinding": extensions.role_binding,
    f"{_ADMISSION}.MutatingWebhookConfiguration": extensions.webhooks,
    f"{_ADMISSION}.ValidatingWebhookConfiguration": extensions.webhooks,
    f"{_ADMISSION}.MutatingAdmissionPolicy": extensions.mutating_policy,
    f"{_ADMISSION}.MutatingAdmissionPolicyBinding": extensions.mutating_policy_binding,
    f"{_ADMISSION}.ValidatingAdmissionPolicy": extensions.validating_policy,
    f"{_ADMISSION}.ValidatingAdmissionPolicyBinding": extensions.validating_policy_binding,
    "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition": extensions.definition,
}
