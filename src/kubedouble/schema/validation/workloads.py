"""Deployments and DaemonSets: the selector finds the template's pods, and stays.

Source: k8s.io/kubernetes/pkg/apis/apps/validation/validation.go.
"""

from __future__ import annotations

from kubedouble.schema.validation.faults import NOT_NEGATIVE, Faults, Object
from kubedouble.schema.validation.pods import pod_spec


def workload(faults: Faults, obj: Object, old: Object | None) -> None:
    """Note what is wrong with a Deployment or DaemonSet."""
    spec = obj.get("spec") or {}
    for name in ("replicas", "minReadySeconds", "revisionHistoryLimit"):
        if spec.get(name, 0) < 0:
            faults.invalid(f"spec.{name}", spec[name], NOT_NEGATIVE)
    selector, template = spec.get("selector"), spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if selector is None:
        faults.required("spec.selector")
    elif not selector:
        faults.invalid("spec.selector", selector, "empty selector is invalid for deployment")
    elif any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        faults.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    below = template.get("spec") or {}
    pod_spec(faults, "spec.template.spec", below)
    if below.get("restartPolicy", "Always") != "Always":
        faults.unsupported("spec.template.spec.restartPolicy", below["restartPolicy"], ("Always",))
    if old is not None:
        faults.immutable("spec.selector", selector, (old.get("spec") or {}).get("selector"))
