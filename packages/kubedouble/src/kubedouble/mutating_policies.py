"""Mutating admission policies: what one makes of a write that concerns it.

Policies read from files come first (KEP-5793), then those stored, both in the order of their names, each
once for every binding that matches the write as it came. A policy's mutations are evaluated one after the
other, each on what the one before has left. A JSON patch whose ``test`` fails changes nothing. A mutation
whose expression or patch fails is left out, and refuses the write by the failurePolicy at the end. What a
patch makes of an object must decode strictly; else the write always fails.

When a webhook or a policy has changed the object, policies with ``reinvocationPolicy: IfNeeded`` are invoked
once more.

Only mutations of patchType JSONPatch are evaluated here. One of patchType ApplyConfiguration fails, by the
policy's failurePolicy.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/{dispatcher,patch/json_patch}.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kubedouble.admission_matching import Attributes, is_exempt
from kubedouble.admission_policies import Binding, Conditions, Policies, Policy, declare_variables, inputs
from kubedouble.errors import StatusError, internal_error
from kubedouble.expressions import PATCHES, EvaluationError, Expression, Scope
from kubedouble.patching import PatchTestError, json_equal, json_patch
from kubedouble.store import Object, Reader
from kubedouble.webhooks import Normalize

POLICIES = "mutatingadmissionpolicies"
BINDINGS = "mutatingadmissionpolicybindings"

_NO_APPLY = "the local API server evaluates no mutations of patchType ApplyConfiguration"


@dataclass(frozen=True, slots=True)
class _Program:
    """The expressions of a policy, compiled. A mutation is None if it is evaluated on real servers only."""

    conditions: Conditions
    variables: Mapping[str, Expression]
    mutations: tuple[Expression | None, ...]
    reinvoked: bool

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> _Program:
        """Compile the expressions.

        Raises:
            CompilationError: if one does not compile, or needs what is missing here.
        """
        scope = Scope()
        declare_variables(scope, spec)
        mutations = tuple(
            scope.compile(each["jsonPatch"]["expression"], PATCHES) if "jsonPatch" in each else None
            for each in spec["mutations"]
        )
        return cls(
            Conditions.of(spec.get("matchConditions")),
            scope.variables,
            mutations,
            spec.get("reinvocationPolicy") == "IfNeeded",
        )


@dataclass(frozen=True, slots=True)
class Invocations:
    """The policies that one write concerns."""

    attributes: Attributes
    old: Object | None
    concerned: tuple[tuple[Policy[_Program], Binding | None], ...]


class MutatingPolicies:
    """Puts writes to every policy."""

    def __init__(self, reader: Reader, normalize: Normalize) -> None:
        self._reader = reader
        self._normalize = normalize
        self._policies = Policies(reader, POLICIES, BINDINGS, _Program.of)

    def load_static(self, documents: Iterable[Object]) -> None:
        """Take the policies and bindings of files, in place of those loaded before."""
        self._policies.load_static(documents)

    def concerned(self, attributes: Attributes, obj: Object | None, old: Object | None) -> Invocations | None:
        """Return the policies to invoke for a write as it came; None if there are none."""
        if is_exempt(attributes) or obj is None:
            return None
        found = tuple(self._policies.concerned(attributes, obj, old))
        return Invocations(attributes, old, found) if found else None

    def mutate(self, invocations: Invocations, obj: Object, *, again: bool = False) -> Object:
        """Return the object after all policies: the same one if they change nothing.

        ``again``: once more, after something else has changed it.

        Raises:
            StatusError: if a policy fails whose failurePolicy is Fail, or the result does not decode.
        """
        failures: list[str] = []
        for policy, binding in invocations.concerned:
            if isinstance(policy.program, str) or binding is None:
                if not again and not policy.ignores_failure:
                    failures.append(
                        f'policy "{policy.name}" denied request: failed to configure policy: {policy.program}'
                    )
            elif policy.program.reinvoked or not again:
                obj, problems = self._invoke(policy.program, obj, invocations)
                if not policy.ignores_failure:
                    where = f"policy '{policy.name}' with binding '{binding.name}'"
                    failures.extend(f"{where} denied request: {problem}" for problem in problems)
        if failures:
            raise _refusal(invocations.attributes, failures)
        return obj

    def _invoke(
        self, program: _Program, obj: Object, invocations: Invocations
    ) -> tuple[Object, list[EvaluationError]]:
        """Return the object after one policy, and the failures."""
        attributes, old, problems = invocations.attributes, invocations.old, []
        try:
            if not program.conditions.hold(inputs(attributes, obj, old, self._reader)):
                return obj, []
        except EvaluationError as failure:
            return obj, [failure]
        for mutation in program.mutations:
            if mutation is None:
                problems.append(EvaluationError(_NO_APPLY))
                continue
            values = inputs(attributes, obj, old, self._reader, program.variables)
            try:
                obj = self._patched(attributes, obj, mutation.evaluate(values))
            except EvaluationError as failure:
                problems.append(failure)
        return obj, problems

    def _patched(self, attributes: Attributes, obj: Object, operations: list[dict[str, Any]]) -> Object:
        try:
            patched = json_patch(dict(obj), operations) if operations else obj
        except PatchTestError:
            return obj
        except StatusError as problem:
            raise EvaluationError(f"JSONPath: {problem.message}") from problem
        if json_equal(patched, obj):
            return obj
        try:
            return self._normalize(attributes, dict(patched), dict(obj), strict=True)
        except StatusError as problem:
            raise internal_error(problem.message) from problem


def _refusal(attributes: Attributes, failures: list[str]) -> StatusError:
    causes = [{"message": failure} for failure in failures]
    refusal = attributes.forbidden("", causes=causes)
    return StatusError(refusal.code, "Invalid", failures[0], refusal.details)
