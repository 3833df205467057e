"""Validating admission policies: what one says of a write that concerns it.

Each validation must be true; one that is not refuses the write (Deny) or warns (Warn). Variables are
evaluated when they are used, and one that fails matters only there.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/{dispatcher,validator}.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubedouble.admission_matching import Attributes, is_exempt
from kubedouble.admission_policies import Binding, Conditions, Policies, Policy, declare_variables, inputs
from kubedouble.errors import StatusError
from kubedouble.expressions import BOOLEAN, TEXT, EvaluationError, Expression, Inputs, Scope
from kubedouble.store import Object, Reader

POLICIES = "validatingadmissionpolicies"
BINDINGS = "validatingadmissionpolicybindings"

_LONGEST_MESSAGE = 5 * 1024
_CODES = {"Forbidden": 403, "RequestEntityTooLarge": 413}
_INVALID = 422


@dataclass(frozen=True, slots=True)
class _Validation:
    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str

    def explain(self, values: Inputs) -> str:
        """Return the message for the client when the expression is false."""
        if self.message_expression:
            try:
                text = self.message_expression.evaluate(values)
            except EvaluationError:
                text = None
            said = text.strip() if isinstance(text, str) else ""
            if said and "\n" not in said and len(said.encode()) <= _LONGEST_MESSAGE:
                return said
        return self.message.strip() or f"failed expression: {self.expression.text}"


@dataclass(frozen=True, slots=True)
class _Denial:
    """One thing that a policy has against a write; ``binding`` is empty if the policy itself is at fault."""

    policy: str
    binding: str
    message: str
    reason: str
    actions: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Program:
    """The expressions of a policy, compiled."""

    conditions: Conditions
    variables: Mapping[str, Expression]
    validations: tuple[_Validation, ...]

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> _Program:
        """Compile the expressions.

        Raises:
            CompilationError: if one does not compile, or needs what is missing here.
        """
        scope = Scope()
        declare_variables(scope, spec)
        validations = tuple(
            _Validation(
                scope.compile(each["expression"], BOOLEAN),
                each.get("message") or "",
                scope.compile(text, TEXT) if (text := each.get("messageExpression")) else None,
                each.get("reason") or "Invalid",
            )
            for each in spec.get("validations") or ()
        )
        return cls(Conditions.of(spec.get("matchConditions")), scope.variables, validations)

    def failed(self, values: Inputs, *, ignores_failure: bool) -> Iterator[tuple[str, str]]:
        """Yield message and reason of every validation that is not true."""
        try:
            if not self.conditions.hold(values):
                return
        except EvaluationError as failure:
            if not ignores_failure:
                yield str(failure), "Invalid"
            return
        for validation in self.validations:
            try:
                if validation.expression.evaluate(values) is not True:
                    yield validation.explain(values), validation.reason
            except EvaluationError as failure:
                if not ignores_failure:
                    yield str(failure), "Invalid"


class ValidatingPolicies:
    """Holds writes against every policy."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._policies = Policies(reader, POLICIES, BINDINGS, _Program.of)

    def validate(self, attributes: Attributes, obj: Object | None, old: Object | None) -> list[str]:
        """Hold a write against every policy; return warnings for the client.

        Raises:
            StatusError: if a policy refuses it, with the first refusal.
        """
        if is_exempt(attributes):
            return []
        warnings = []
        for policy, binding in self._policies.concerned(attributes, obj, old):
            for denial in self._denials(policy, binding, attributes, obj, old):
                if "Deny" in denial.actions:
                    raise _refusal(attributes, denial)
                if "Warn" in denial.actions:
                    where = f"ValidatingAdmissionPolicy '{denial.policy}' with binding '{denial.binding}'"
                    warnings.append(f"Validation failed for {where}: {denial.message}")
        return warnings

    def _denials(
        self,
        policy: Policy[_Program],
        binding: Binding | None,
        attributes: Attributes,
        obj: Object | None,
        old: Object | None,
    ) -> Iterator[_Denial]:
        if isinstance(policy.program, str) or binding is None:
            if not policy.ignores_failure:
                why = f"failed to configure policy: {policy.program}"
                yield _Denial(policy.name, "", why, "Invalid", frozenset({"Deny"}))
            return
        values = inputs(attributes, obj, old, self._reader, policy.program.variables)
        for message, reason in policy.program.failed(values, ignores_failure=policy.ignores_failure):
            yield _Denial(policy.name, binding.name, message, reason, binding.actions)


def _refusal(attributes: Attributes, denial: _Denial) -> StatusError:
    bound = f" with binding '{denial.binding}'" if denial.binding else ""
    message = f"ValidatingAdmissionPolicy '{denial.policy}'{bound} denied request: {denial.message}"
    refusal = attributes.forbidden(message, causes=[{"message": message}])
    return StatusError(_CODES.get(denial.reason, _INVALID), denial.reason, refusal.message, refusal.details)
