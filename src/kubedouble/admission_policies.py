"""Validating admission policies: which writes one concerns, and what it says of them.

A policy does nothing without a binding. A write concerns a binding if it matches the policy's
matchConstraints, the binding's matchResources and every matchCondition. Then each validation must be true;
one that is not refuses the write (Deny) or warns (Warn). What cannot be evaluated refuses by the policy's
failurePolicy. Variables are evaluated in their order, and one that fails matters only where it is used.

Not here: parameters (paramKind), audit annotations, and the budget of costs. A policy with parameters fails
by its failurePolicy, as every policy does where the library of :mod:`.expressions` is not installed.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/{dispatcher,validator}.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubedouble.admission_matching import ADMISSION_GROUP, Attributes, Matching, described, is_exempt
from kubedouble.errors import StatusError
from kubedouble.expressions import (
    BOOLEAN,
    TEXT,
    CompilationError,
    EvaluationError,
    Expression,
    Inputs,
    Scope,
)
from kubedouble.store import Object, Reader, resource_versions

POLICIES = "validatingadmissionpolicies"
BINDINGS = "validatingadmissionpolicybindings"

_LONGEST_MESSAGE = 5 * 1024
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}
_INVALID = 422


@dataclass(frozen=True, slots=True)
class _Validation:
    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str

    def explain(self, inputs: Inputs) -> str:
        """Return what to tell the client when the expression is false."""
        if self.message_expression:
            try:
                text = self.message_expression.evaluate(inputs)
            except EvaluationError:
                text = None
            said = text.strip() if isinstance(text, str) else ""
            if said and "\n" not in said and len(said.encode()) <= _LONGEST_MESSAGE:
                return said
        return self.message.strip() or f"failed expression: {self.expression.text}"


@dataclass(frozen=True, slots=True)
class _Binding:
    name: str
    matching: Matching
    actions: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Denial:
    """One thing that a policy has against a write; ``binding`` is empty if the policy itself is at fault."""

    binding: str
    message: str
    reason: str
    actions: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Program:
    """The expressions of a policy, compiled."""

    conditions: tuple[Expression, ...]
    variables: Mapping[str, Expression]
    validations: tuple[_Validation, ...]

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> _Program:
        """Compile the expressions.

        Raises:
            CompilationError: if one does not compile, or needs what is missing here.
        """
        if spec.get("paramKind"):
            raise CompilationError("the local API server evaluates no policies with parameters")
        scope = Scope()
        conditions = tuple(
            scope.compile(each["expression"], BOOLEAN) for each in spec.get("matchConditions") or ()
        )
        for each in spec.get("variables") or ():
            scope.declare(each["name"], each["expression"])
        validations = tuple(
            _Validation(
                scope.compile(each["expression"], BOOLEAN),
                each.get("message") or "",
                scope.compile(text, TEXT) if (text := each.get("messageExpression")) else None,
                each.get("reason") or "Invalid",
            )
            for each in spec.get("validations") or ()
        )
        return cls(conditions, scope.variables, validations)

    def concerns(self, inputs: Inputs) -> bool:
        """Whether every matchCondition is true; one that is false decides, whatever the others are.

        Raises:
            EvaluationError: if one has no value, and none is false.
        """
        failures = []
        for condition in self.conditions:
            try:
                if condition.evaluate(inputs) is not True:
                    return False
            except EvaluationError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]
        return True


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy and its bindings; ``program`` is the reason instead, if it cannot be evaluated."""

    name: str
    matching: Matching
    program: _Program | str
    ignores_failure: bool
    bindings: tuple[_Binding, ...]

    @classmethod
    def of(cls, policy: Object, bindings: Sequence[_Binding]) -> Policy:
        """From a policy as it is stored, and its bindings."""
        spec = policy["spec"]
        try:
            program: _Program | str = _Program.of(spec)
        except CompilationError as error:
            program = str(error)
        return cls(
            policy["metadata"]["name"],
            Matching.of_match_resources(spec.get("matchConstraints") or {}),
            program,
            spec.get("failurePolicy") == "Ignore",
            tuple(bindings),
        )

    def denials(
        self, attributes: Attributes, obj: Object | None, old: Object | None, reader: Reader
    ) -> Iterator[_Denial]:
        """Say what the policy has against a write, binding by binding."""
        if not self.matching.concerns(attributes, obj, old, reader):
            return
        if isinstance(self.program, str):
            if not self.ignores_failure:
                why = f"failed to configure policy: {self.program}"
                yield _Denial("", why, "Invalid", frozenset({"Deny"}))
            return
        for binding in self.bindings:
            if binding.matching.concerns(attributes, obj, old, reader):
                for message, reason in self._against(self.program, _input(attributes, obj, old, reader)):
                    yield _Denial(binding.name, message, reason, binding.actions)

    def _against(self, program: _Program, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        inputs = Inputs(values, program.variables)
        try:
            if not program.concerns(inputs):
                return
        except EvaluationError as failure:
            if not self.ignores_failure:
                yield str(failure), "Invalid"
            return
        for validation in program.validations:
            try:
                if validation.expression.evaluate(inputs) is not True:
                    yield validation.explain(inputs), validation.reason
            except EvaluationError as failure:
                if not self.ignores_failure:
                    yield str(failure), "Invalid"


def _input(
    attributes: Attributes, obj: Object | None, old: Object | None, reader: Reader
) -> Mapping[str, Any]:
    namespace = None
    if attributes.namespace and attributes.kind != "Namespace":
        namespace = reader.get("", "namespaces", "", attributes.namespace)
    request = described(attributes)
    return {"object": obj, "oldObject": old, "request": request, "namespaceObject": namespace}


class Policies:
    """All policies, compiled anew when one of them or of their bindings changes."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._policies: tuple[Policy, ...] = ()
        self._compiled_from: tuple[tuple[str, ...], ...] = ((), ())

    def validate(self, attributes: Attributes, obj: Object | None, old: Object | None) -> list[str]:
        """Hold a write against every policy; return warnings for the client.

        Raises:
            StatusError: if a policy refuses it, with the first refusal.
        """
        if is_exempt(attributes):
            return []
        warnings = []
        for policy in self._all():
            for denial in policy.denials(attributes, obj, old, self._reader):
                if "Deny" in denial.actions:
                    raise _refusal(attributes, policy.name, denial)
                if "Warn" in denial.actions:
                    where = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{denial.binding}'"
                    warnings.append(f"Validation failed for {where}: {denial.message}")
        return warnings

    def _all(self) -> tuple[Policy, ...]:
        stored = [tuple(self._reader.list(ADMISSION_GROUP, plural)) for plural in (POLICIES, BINDINGS)]
        state = tuple(resource_versions(each) for each in stored)
        if state != self._compiled_from:
            policies, bindings = (sorted(each, key=_name) for each in stored)
            found = [Policy.of(policy, _bindings(policy, bindings)) for policy in policies]
            self._policies = tuple(policy for policy in found if policy.bindings)
            self._compiled_from = state
        return self._policies


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _bindings(policy: Object, bindings: Sequence[Object]) -> list[_Binding]:
    return [
        _Binding(
            _name(binding),
            Matching.of_match_resources(binding["spec"].get("matchResources") or {}),
            frozenset(binding["spec"].get("validationActions") or ()),
        )
        for binding in bindings
        if binding["spec"].get("policyName") == _name(policy)
    ]


def _refusal(attributes: Attributes, policy: str, denial: _Denial) -> StatusError:
    bound = f" with binding '{denial.binding}'" if denial.binding else ""
    message = f"ValidatingAdmissionPolicy '{policy}'{bound} denied request: {denial.message}"
    refusal = attributes.forbidden(message, causes=[{"message": message}])
    return StatusError(_CODES.get(denial.reason, _INVALID), denial.reason, refusal.message, refusal.details)
