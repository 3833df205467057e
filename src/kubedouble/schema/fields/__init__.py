"""The fields of every built-in kind, as data.

Source: the published API description of Kubernetes (k8s.io/api), without fields behind alpha feature gates.
"""

from kubedouble.schema.fields import (
    access,
    admission,
    cluster,
    containers,
    metadata,
    pods,
    volumes,
    workloads,
)

TYPES = "".join(
    module.TYPES for module in (metadata, cluster, pods, containers, volumes, workloads, access, admission)
)
"""All types, in the notation of :mod:`kubedouble.schema.notation`."""
