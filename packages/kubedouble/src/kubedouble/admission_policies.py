"""Admission policies of both kinds: which writes one concerns, and what its expressions see.

A policy does nothing without a binding. A write concerns a binding if it matches the policy's
matchConstraints, the binding's matchResources and every matchCondition. What cannot be evaluated refuses the
write by the policy's failurePolicy. :mod:`.validating_policies` and :mod:`.mutating_policies` say what a
policy does then.

Not here: parameters (paramKind), audit annotations, and the budget of costs. A policy with parameters fails
by its failurePolicy, as every policy does where the library of :mod:`.expressions` is not installed.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go,
plugin/webhook/matchconditions/matcher.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kubedouble.admission_matching import ADMISSION_GROUP, Attributes, Matching, described
from kubedouble.expressions import (
    BOOLEAN,
    CompilationError,
    EvaluationError,
    Expression,
    Inputs,
    Scope,
    compile_expression,
)
from kubedouble.store import Object, Reader, resource_versions

Program = TypeVar("Program")


@dataclass(frozen=True, slots=True)
class Conditions:
    """The matchConditions of a policy or a webhook; ``problem`` says why they do not compile."""

    expressions: tuple[Expression, ...]
    problem: str = ""

    @classmethod
    def of(cls, conditions: Sequence[Mapping[str, Any]] | None) -> Conditions:
        """Compile them. They see no variables."""
        try:
            return cls(tuple(compile_expression(each["expression"], BOOLEAN) for each in conditions or ()))
        except CompilationError as error:
            return cls((), str(error))

    def hold(self, inputs: Inputs) -> bool:
        """Whether every condition is true; one that is false decides, whatever the others are.

        Raises:
            EvaluationError: if one has no value, and none is false.
        """
        if self.problem:
            raise EvaluationError(self.problem)
        failures = []
        for expression in self.expressions:
            try:
                if expression.evaluate(inputs) is not True:
                    return False
            except EvaluationError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]
        return True


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding of a policy."""

    name: str
    matching: Matching
    actions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Policy(Generic[Program]):
    """One policy and its bindings; ``program`` is the reason instead, if it cannot be evaluated."""

    name: str
    matching: Matching
    program: Program | str
    ignores_failure: bool
    bindings: tuple[Binding, ...]


class Policies(Generic[Program]):
    """All policies of one kind that have a binding, read again when one of them or of their bindings changes.

    Those read from files (``static``) come first, and are not stored.
    """

    def __init__(
        self, reader: Reader, policies: str, bindings: str, compiling: Callable[[Mapping[str, Any]], Program]
    ) -> None:
        """``policies`` and ``bindings`` are the kinds; ``compiling`` makes a program of a policy's spec."""
        self._reader = reader
        self._kinds = (policies, bindings)
        self._compile = compiling
        self._static: tuple[Policy[Program], ...] = ()
        self._policies: tuple[Policy[Program], ...] = ()
        self._compiled_from: tuple[tuple[str, ...], ...] = ((), ())

    def load_static(self, documents: Iterable[Object]) -> None:
        """Take the policies and bindings of files in place of those loaded before."""
        kinds: dict[bool, list[Object]] = {False: [], True: []}
        for document in documents:
            kinds[document["kind"].endswith("Binding")].append(document)
        self._static = self._bound(kinds[False], kinds[True])

    def concerned(
        self, attributes: Attributes, obj: Object | None, old: Object | None
    ) -> Iterator[tuple[Policy[Program], Binding | None]]:
        """Yield the policies whose constraints match a write, each with every binding that matches.

        One that cannot be evaluated is yielded once, without a binding.
        """
        for policy in (*self._static, *self._stored()):
            if not policy.matching.concerns(attributes, obj, old, self._reader):
                continue
            if isinstance(policy.program, str):
                yield policy, None
                continue
            for binding in policy.bindings:
                if binding.matching.concerns(attributes, obj, old, self._reader):
                    yield policy, binding

    def _stored(self) -> tuple[Policy[Program], ...]:
        policies, bindings = (tuple(self._reader.list(ADMISSION_GROUP, plural)) for plural in self._kinds)
        state = resource_versions(policies), resource_versions(bindings)
        if state != self._compiled_from:
            self._policies = self._bound(policies, bindings)
            self._compiled_from = state
        return self._policies

    def _bound(self, policies: Iterable[Object], bindings: Iterable[Object]) -> tuple[Policy[Program], ...]:
        """Compile the policies that have a binding, in the order of their names."""
        in_order = sorted(bindings, key=_name)
        return tuple(
            self._policy(policy, bound)
            for policy in sorted(policies, key=_name)
            if (bound := _bindings(policy, in_order))
        )

    def _policy(self, policy: Object, bindings: tuple[Binding, ...]) -> Policy[Program]:
        spec = policy["spec"]
        matching = Matching.of_match_resources(spec.get("matchConstraints") or {})
        ignores_failure = spec.get("failurePolicy") == "Ignore"
        return Policy(_name(policy), matching, self._program(spec), ignores_failure, bindings)

    def _program(self, spec: Mapping[str, Any]) -> Program | str:
        if spec.get("paramKind"):
            return "the local API server evaluates no policies with parameters"
        try:
            return self._compile(spec)
        except CompilationError as error:
            return str(error)


def declare_variables(scope: Scope, spec: Mapping[str, Any]) -> None:
    """Compile the variables of a policy, in their order.

    Raises:
        CompilationError: if one does not compile.
    """
    for each in spec.get("variables") or ():
        scope.declare(each["name"], each["expression"])


def inputs(
    attributes: Attributes,
    obj: Object | None,
    old: Object | None,
    reader: Reader,
    variables: Mapping[str, Expression] | None = None,
) -> Inputs:
    """Return the inputs of a write for the expressions of a policy or a webhook."""
    namespace = None
    if attributes.namespace and attributes.kind != "Namespace":
        namespace = reader.get("", "namespaces", "", attributes.namespace)
    values = {"object": obj, "oldObject": old, "request": described(attributes), "namespaceObject": namespace}
    return Inputs(values, variables)


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _bindings(policy: Object, bindings: Sequence[Object]) -> tuple[Binding, ...]:
    return tuple(
        Binding(
            _name(binding),
            Matching.of_match_resources(binding["spec"].get("matchResources") or {}),
            frozenset(binding["spec"].get("validationActions") or ()),
        )
        for binding in bindings
        if binding["spec"].get("policyName") == _name(policy)
    )
