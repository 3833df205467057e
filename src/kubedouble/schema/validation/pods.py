"""Pods: what makes one acceptable, and what of it may change later.

Source: ValidatePodCreate, ValidatePodUpdate of k8s.io/kubernetes/pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubedouble.schema.validation.containers import containers
from kubedouble.schema.validation.faults import NOT_NEGATIVE, Faults, Object
from kubedouble.schema.validation.names import (
    dns_label,
    is_label_value,
    qualified_name,
    subdomain,
)

_FROZEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_MUTABLE = frozenset({"containers", "initContainers", "activeDeadlineSeconds", "tolerations",
                      "terminationGracePeriodSeconds", "schedulingGates", "ephemeralContainers"})  # fmt: skip
_OPERATORS = ("Equal", "Exists")


def pod(faults: Faults, obj: Object, old: Object | None) -> None:
    """Note what is wrong with a pod by itself."""
    spec = obj.get("spec") or {}
    if old is None or spec is not old.get("spec"):
        pod_spec(faults, "spec", spec)


def pod_spec(faults: Faults, path: str, spec: Object) -> None:
    """Note what is wrong with the spec of a pod, or of a template of pods."""
    volumes = _volumes(faults, f"{path}.volumes", spec.get("volumes") or ())
    names: set[str] = set()
    listed = spec.get("containers") or ()
    if not listed:
        faults.required(f"{path}.containers")
    containers(faults, f"{path}.containers", listed, volumes, names)
    containers(faults, f"{path}.initContainers", spec.get("initContainers") or (), volumes, names)
    for name in ("terminationGracePeriodSeconds", "activeDeadlineSeconds"):
        if spec.get(name, 0) < 0:
            faults.invalid(f"{path}.{name}", spec[name], NOT_NEGATIVE)
    for key, value in (spec.get("nodeSelector") or {}).items():
        qualified_name(faults, f"{path}.nodeSelector", key)
        if not is_label_value(value):
            faults.invalid(f"{path}.nodeSelector", value, "a valid label must be an empty string or a name")
    if spec.get("nodeName"):
        subdomain(faults, f"{path}.nodeName", spec["nodeName"])
    if spec.get("hostname"):
        dns_label(faults, f"{path}.hostname", spec["hostname"])
    for at, toleration in enumerate(spec.get("tolerations") or ()):
        _toleration(faults, f"{path}.tolerations[{at}]", toleration)


def _volumes(faults: Faults, path: str, listed: Any) -> set[str]:
    names: set[str] = set()
    for at, volume in enumerate(listed):
        field, name = f"{path}[{at}]", volume.get("name", "")
        if not name:
            faults.required(f"{field}.name")
        else:
            dns_label(faults, f"{field}.name", name)
        if name in names:
            faults.duplicate(f"{field}.name", name)
        names.add(name)
        sources = [key for key in volume if key != "name"]
        if not sources:
            faults.required(field, "must specify a volume type")
        for source in sources[1:]:
            faults.forbidden(f"{field}.{source}", "may not specify more than 1 volume type")
    return names


def _toleration(faults: Faults, field: str, toleration: Mapping[str, Any]) -> None:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    if key:
        qualified_name(faults, f"{field}.key", key)
    elif operator != "Exists":
        faults.invalid(
            f"{field}.operator",
            operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if operator and operator not in _OPERATORS:
        faults.unsupported(f"{field}.operator", operator, _OPERATORS)
    if operator == "Exists" and toleration.get("value"):
        faults.invalid(f"{field}.operator", toleration, "value must be empty when `operator` is 'Exists'")
    if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
        why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        faults.invalid(f"{field}.effect", toleration.get("effect", ""), why)


def pod_update(faults: Faults, obj: Object, old: Object) -> None:
    """Note changes that a running pod does not take."""
    spec, before = obj.get("spec") or {}, old.get("spec") or {}
    if spec is before or spec == before:
        return
    tolerations = spec.get("tolerations") or []
    if any(each not in tolerations for each in before.get("tolerations") or ()):
        faults.forbidden(
            "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
        )
    gates = before.get("schedulingGates") or []
    if any(gate not in gates for gate in spec.get("schedulingGates") or ()):
        faults.forbidden("spec.schedulingGates", "only deletion is allowed, but found new scheduling gate")
    _deadline(faults, spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    if _frozen(spec) != _frozen(before) or not _may_terminate(spec, before):
        faults.forbidden("spec", _FROZEN)


def _deadline(faults: Faults, new: int | None, old: int | None) -> None:
    field = "spec.activeDeadlineSeconds"
    if old is not None and new is None:
        faults.invalid(field, new, "must not update from a positive integer to nil value")
    elif old is not None and new is not None and new > old:
        faults.invalid(field, new, f"must be less than or equal to previous value '{old}'")


def _may_terminate(spec: Object, before: Object) -> bool:
    new, old = spec.get("terminationGracePeriodSeconds"), before.get("terminationGracePeriodSeconds")
    return bool(new == old or (old is not None and old < 0 and new == 1))


def _frozen(spec: Object) -> dict[str, Any]:
    kept = {key: value for key, value in spec.items() if key not in _MUTABLE}
    for kind in ("containers", "initContainers"):
        kept[kind] = [
            {key: value for key, value in each.items() if key != "image"} for each in spec.get(kind) or ()
        ]
    return kept
