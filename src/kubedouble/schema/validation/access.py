"""Roles and bindings.

Source: k8s.io/kubernetes/pkg/apis/rbac/validation/validation.go.
"""

from __future__ import annotations

from kubedouble.schema.validation.faults import Faults, Object

_GROUP = "rbac.authorization.k8s.io"
_ROLES = ("Role", "ClusterRole")
_SUBJECTS = ("ServiceAccount", "User", "Group")


def role(faults: Faults, obj: Object, _: Object | None) -> None:
    """Note what is wrong with a Role."""
    _rules(faults, obj, namespaced=True)


def cluster_role(faults: Faults, obj: Object, _: Object | None) -> None:
    """Note what is wrong with a ClusterRole."""
    _rules(faults, obj, namespaced=False)


def _rules(faults: Faults, obj: Object, *, namespaced: bool) -> None:
    for at, rule in enumerate(obj.get("rules") or ()):
        field = f"rules[{at}]"
        if not rule.get("verbs"):
            faults.required(f"{field}.verbs", "verbs must contain at least one value")
        if urls := rule.get("nonResourceURLs"):
            if namespaced:
                why = "namespaced rules cannot apply to non-resource URLs"
                faults.invalid(f"{field}.nonResourceURLs", urls, why)
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                why = "rules cannot apply to both regular resources and non-resource URLs"
                faults.invalid(f"{field}.nonResourceURLs", urls, why)
            continue
        if not rule.get("apiGroups"):
            faults.required(f"{field}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            faults.required(f"{field}.resources", "resource rules must supply at least one resource")


def binding(faults: Faults, obj: Object, old: Object | None) -> None:
    """Note what is wrong with a RoleBinding or ClusterRoleBinding."""
    ref = obj.get("roleRef") or {}
    roles = ("ClusterRole",) if obj.get("kind") == "ClusterRoleBinding" else _ROLES
    if ref.get("apiGroup") != _GROUP:
        faults.unsupported("roleRef.apiGroup", ref.get("apiGroup", ""), (_GROUP,))
    if ref.get("kind") not in roles:
        faults.unsupported("roleRef.kind", ref.get("kind", ""), roles)
    if not ref.get("name"):
        faults.required("roleRef.name")
    if old is not None and ref != old.get("roleRef"):
        faults.invalid("roleRef", ref, "cannot change roleRef")
    for at, subject in enumerate(obj.get("subjects") or ()):
        _subject(faults, f"subjects[{at}]", subject)


def _subject(faults: Faults, field: str, subject: Object) -> None:
    kind = subject.get("kind", "")
    if not subject.get("name"):
        faults.required(f"{field}.name")
    if kind not in _SUBJECTS:
        faults.unsupported(f"{field}.kind", kind, _SUBJECTS)
        return
    group = "" if kind == "ServiceAccount" else _GROUP
    if subject.get("apiGroup", "") != group:
        faults.unsupported(f"{field}.apiGroup", subject.get("apiGroup", ""), (group,))
    if kind == "ServiceAccount" and not subject.get("namespace"):
        faults.required(f"{field}.namespace")
