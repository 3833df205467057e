"""Validating admission policies and their bindings.

Source: k8s.io/kubernetes/pkg/apis/admissionregistration/validation.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubedouble.expressions import CompilationError, compile_expression, is_available
from kubedouble.schema.validation.faults import Faults, Object
from kubedouble.schema.validation.webhooks import rule

_ACTIONS = ("Audit", "Deny", "Warn")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the "
    "API response and headers serves no purpose)"
)


def policy(faults: Faults, obj: Object, _: Object | None) -> None:
    """Note what is wrong with a ValidatingAdmissionPolicy."""
    spec = obj.get("spec") or {}
    constraints = spec.get("matchConstraints")
    if constraints is None:
        faults.required("spec.matchConstraints")
    else:
        _match(faults, "spec.matchConstraints", constraints)
        if not constraints.get("resourceRules"):
            faults.required("spec.matchConstraints.resourceRules")
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        for name in ("validations", "auditAnnotations"):
            faults.required(f"spec.{name}", "validations or auditAnnotations must contain at least one item")
    for at, validation in enumerate(spec.get("validations") or ()):
        if validation.get("reason", "Invalid") not in _REASONS:
            faults.unsupported(f"spec.validations[{at}].reason", validation["reason"], _REASONS)
        if "\n" in validation.get("message", "").strip():
            why = "message must not contain line breaks"
            faults.invalid(f"spec.validations[{at}].message", validation["message"], why)
    for field, text in _expressions(spec):
        _compiles(faults, field, text)


def _expressions(spec: Object) -> Iterator[tuple[str, str]]:
    """Yield every expression with its field."""
    for name in ("matchConditions", "variables", "validations"):
        for at, each in enumerate(spec.get(name) or ()):
            yield f"spec.{name}[{at}].expression", each.get("expression", "")
            if text := each.get("messageExpression"):
                yield f"spec.{name}[{at}].messageExpression", text


def _compiles(faults: Faults, field: str, text: str) -> None:
    if not text.strip():
        faults.required(field, "expression is not specified")
    elif is_available():
        try:
            compile_expression(text)
        except CompilationError as error:
            faults.invalid(field, text, str(error))


def binding(faults: Faults, obj: Object, _: Object | None) -> None:
    """Note what is wrong with a ValidatingAdmissionPolicyBinding."""
    spec = obj.get("spec") or {}
    if not spec.get("policyName"):
        faults.required("spec.policyName")
    _match(faults, "spec.matchResources", spec.get("matchResources") or {})
    actions = spec.get("validationActions") or []
    for at, action in enumerate(actions):
        if action not in _ACTIONS:
            faults.unsupported(f"spec.validationActions[{at}]", action, _ACTIONS)
    if {"Deny", "Warn"} <= set(actions):
        faults.invalid("spec.validationActions", actions, _BOTH)
    if not actions:
        faults.required("spec.validationActions", "at least one validation action is required")


def _match(faults: Faults, field: str, resources: Object) -> None:
    for name in ("resourceRules", "excludeResourceRules"):
        for at, each in enumerate(resources.get(name) or ()):
            rule(faults, f"{field}.{name}[{at}]", each)
