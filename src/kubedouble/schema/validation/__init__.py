"""What is wrong with an object in stored form, each fault naming its field: the causes of a 422.

Fields, reasons and messages are the real server's, since people read them and clients match them. Parts
that are the very same as in the stored object were found good before and are skipped where that is dear.

Source: k8s.io/kubernetes/pkg/apis/*/validation, apimachinery/pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubedouble.schema.structure import Schema
from kubedouble.schema.validation import (
    access,
    configuration,
    definitions,
    events,
    nodes,
    pods,
    policies,
    services,
    webhooks,
    workloads,
)
from kubedouble.schema.validation.custom import custom_problems
from kubedouble.schema.validation.enumerations import unsupported_values
from kubedouble.schema.validation.faults import Cause, Faults, Object

__all__ = ["problems"]

_Check = Callable[[Faults, Object, Object | None], None]


def problems(
    obj: Object, old: Object | None, schema: Schema, *, subresource: str = "", api_version: str = ""
) -> list[Cause]:
    """Return what is wrong with an object, beyond its metadata.

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
    for check in _CHECKS.get(kind, ()):
        check(faults, obj, old)
    if kind == "api.core.v1.Event":
        events.event(faults, obj, old, api_version)
    if kind == "api.core.v1.Pod" and old is not None and subresource == "":
        pods.pod_update(faults, obj, old)
    return faults.causes


_CHECKS: Mapping[str, tuple[_Check, ...]] = {
    "api.core.v1.Pod": (pods.pod,),
    "api.core.v1.Node": (nodes.node,),
    "api.core.v1.ConfigMap": (configuration.config_map,),
    "api.core.v1.Secret": (configuration.secret,),
    "api.core.v1.Service": (services.service,),
    "api.coordination.v1.Lease": (events.lease,),
    "api.apps.v1.Deployment": (workloads.workload,),
    "api.apps.v1.DaemonSet": (workloads.workload,),
    "api.rbac.v1.Role": (access.role,),
    "api.rbac.v1.ClusterRole": (access.cluster_role,),
    "api.rbac.v1.RoleBinding": (access.binding,),
    "api.rbac.v1.ClusterRoleBinding": (access.binding,),
    "api.admissionregistration.v1.MutatingWebhookConfiguration": (webhooks.configuration,),
    "api.admissionregistration.v1.ValidatingWebhookConfiguration": (webhooks.configuration,),
    "api.admissionregistration.v1.ValidatingAdmissionPolicy": (policies.policy,),
    "api.admissionregistration.v1.ValidatingAdmissionPolicyBinding": (policies.binding,),
    "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition": (definitions.definition,),
}
