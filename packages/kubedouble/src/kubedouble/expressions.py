"""The expressions of admission policies and webhooks, in the Common Expression Language (CEL).

The language is that of the library ``cel-expr-python``. What kube-apiserver 1.36 does not have is refused, so
that an expression which compiles here compiles there: the library's functions of newer versions, messages
other than ``JSONPatch``, and lists and maps whose literals mix types. As there, ``object`` and ``oldObject``
are dynamic, ``request`` and ``namespaceObject`` have their types, a variable has the type of its expression,
and ``JSONPatch`` and ``jsonpatch.escapeKey`` exist in mutations alone.

Some of what kube-apiserver has is missing here, and refused as well: ``authorizer``, ``params``, ``Object``,
``url()``, ``ip()``, ``cidr()``, ``semver()``, ``format``, functions of lists (``sum()`` and the like), sets
of anything but texts, two-variable comprehensions, comparison of numbers of two types, ``==`` of quantities
(``compareTo`` compares them), a variable that is an optional value, and the budget of costs.

An expression is compiled where its types are known and evaluated where every input is dynamic, since inputs
are JSON. Without the library nothing compiles: mutating policies are not served, validating ones fail by
their failurePolicy, and webhooks are called whatever their matchConditions say.

Source: https://kubernetes.io/docs/reference/using-api/cel/, k8s.io/apiserver/pkg/cel/environment/base.go,
pkg/admission/plugin/cel/{compile,composition}.go, plugin/policy/mutating/patch/json_patch.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from google.protobuf import json_format, message

from kubedouble.expression_types import (
    NAMESPACE,
    PATCH,
    QUANTITY,
    REQUEST,
    kubernetes_types,
    read_compiled,
    write_compiled,
)

try:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional, ext_strings

    from kubedouble.expression_functions import MATCHES, QUANTITY_VALUE, functions
except ImportError:  # an installation that evaluates no policies
    cel = None

MISSING_LIBRARY = "expressions need the Python package cel-expr-python: pip install cel-expr-python"
BOOLEAN, TEXT, PATCHES = "bool", "string", f"list({PATCH})"

_RESULTS = {BOOLEAN: "BOOL", TEXT: "STRING", PATCHES: f"LIST<{PATCH}>"}
_INPUTS = frozenset({"object", "oldObject", "request", "namespaceObject"})
_REMEMBERED = 2048
"""Compiled expressions: a policy is compiled when it is written, and again for each server that has it."""
_NEWER = frozenset({"reverse", "first", "last"})
_CHECKED_LITERALS = {"timestamp": "timestamp({})", "duration": "duration({})", "matches": "''.matches({})"}


class CompilationError(Exception):
    """The text is not an expression; the message says why."""


class EvaluationError(Exception):
    """The expression has no value for this input; the message says why."""


class Inputs:
    """The inputs of expressions: the objects and the request of one write, and variables.

    A variable is evaluated before the first expression that names it. One that fails is absent, so that it
    matters only where its value is needed: ``true || variables.failed`` is true.
    """

    def __init__(self, values: Mapping[str, Any], variables: Mapping[str, Expression] | None = None) -> None:
        self._values = dict(values)
        self._variables = variables or {}
        self._failures: dict[str, EvaluationError] = {}

    def activation(self, expression: Expression) -> Any:
        """Return the inputs of an expression as the library takes them.

        The library rereads all inputs for each new activation. So the variables whose own variables are
        known are evaluated together, on what they use.
        """
        unknown = self._unknown(expression.variables)
        while unknown:
            ready = {name for name in unknown if unknown.isdisjoint(self._variables[name].variables)}
            activation = self._activation(self._variables[name] for name in ready)
            for name in ready:
                try:
                    self._values[name] = self._variables[name].value(activation, self)
                except EvaluationError as failure:
                    self._failures[name] = failure
            unknown -= ready
        return self._activation([expression])

    def _unknown(self, variables: frozenset[str]) -> set[str]:
        """Return those of the variables, and of the variables they use, that are not evaluated yet."""
        unknown: set[str] = set()
        looked_at = set(variables)
        while looked_at:
            looked_at -= self._values.keys() | self._failures.keys() | unknown
            unknown |= looked_at
            looked_at = {used for name in looked_at for used in self._variables[name].variables}
        return unknown

    def _activation(self, expressions: Iterable[Expression]) -> Any:
        used = frozenset[str]().union(*(each.variables | each.inputs for each in expressions))
        return _evaluator().Activation({name: self._values[name] for name in used & self._values.keys()})

    def failure(self, text: str, error: str) -> EvaluationError:
        """Return the reason why an expression has no value: for a variable that failed, its own failure."""
        for name, failure in self._failures.items():
            if f'"{name}"' in error:
                return failure
        return EvaluationError(f"expression '{text}' resulted in error: {error}")


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression."""

    text: str
    type: Any
    inputs: frozenset[str]
    variables: frozenset[str]
    _compiled: Any

    def evaluate(self, inputs: Inputs | Mapping[str, Any]) -> Any:
        """Return the value for these inputs, as JSON has it; patches as a list of operations.

        Raises:
            EvaluationError: if there is none, such as for a field that is absent.
        """
        if not isinstance(inputs, Inputs):
            inputs = Inputs(inputs)
        return self.value(inputs.activation(self), inputs)

    def value(self, activation: Any, inputs: Inputs) -> Any:
        """Return the value for an activation of the inputs that has every variable used."""
        result = self._compiled.eval(activation)
        if result.type() == cel.Type.ERROR:
            raise inputs.failure(self.text, result.value())
        value = result.plain_value()
        return [_operation(each) for each in value] if self.type.name() == _RESULTS[PATCHES] else value


def _operation(patch: Any) -> dict[str, Any]:
    """Return one operation of a JSON patch."""
    operation: dict[str, Any] = {"op": patch.op, "path": patch.path}
    if source := getattr(patch, "from"):
        operation["from"] = source
    if patch.HasField("value"):
        operation["value"] = _json(json_format.MessageToDict(patch.value))
    return operation


def _json(value: Any) -> Any:
    """Return a value of a patch with its whole numbers as integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.startswith(QUANTITY_VALUE):
        raise EvaluationError("a quantity is not a JSON value: use a text or a number")
    if isinstance(value, list):
        return [_json(each) for each in value]
    if isinstance(value, dict):
        return {key: _json(each) for key, each in value.items()}
    return value


def is_available() -> bool:
    """Whether expressions can be compiled at all."""
    return cel is not None


@dataclass(frozen=True, slots=True)
class _Declared:
    """The variables that an expression may use. Their texts, in their order, decide their types."""

    texts: tuple[tuple[str, str], ...] = ()
    types: Mapping[str, Any] = field(default_factory=dict, compare=False)


_NOTHING = _Declared()


class Scope:
    """The expressions of one policy or webhook: compiles them, and remembers its variables."""

    def __init__(self) -> None:
        self.variables: dict[str, Expression] = {}
        self._declared = _NOTHING

    def declare(self, name: str, text: str) -> None:
        """Compile a variable, which later expressions may use.

        Raises:
            CompilationError: as for :meth:`compile`, and if the library cannot pass on such a value.
        """
        expression = self.compile(text)
        if expression.type.name().startswith("optional_type"):
            raise CompilationError(
                "a variable cannot be an optional value in the local API server: use orValue()"
            )
        self.variables[f"variables.{name}"] = expression
        types = {**self._declared.types, f"variables.{name}": expression.type}
        self._declared = _Declared((*self._declared.texts, (name, text)), types)

    def compile(self, text: str, result: str | None = None, *, with_variables: bool = True) -> Expression:
        """Compile one expression whose value must be of that type: BOOLEAN, TEXT, PATCHES.

        Raises:
            CompilationError: if it is malformed, names what does not exist, or is of another type.
        """
        if cel is None:
            raise CompilationError(MISSING_LIBRARY)
        return _compiled(text, result, self._declared if with_variables else _NOTHING)


@lru_cache(maxsize=_REMEMBERED)
def _compiled(text: str, result: str | None, declared: _Declared) -> Expression:
    try:
        compiled = _compiler(declared.types, of_patches=result == PATCHES).compile(text)
    except RuntimeError as error:
        raise CompilationError(f"compilation failed: {error}") from error
    if result and compiled.return_type().name() != _RESULTS[result]:
        raise CompilationError(f"must evaluate to {result} but got {compiled.return_type().name().lower()}")
    checked = read_compiled(compiled.serialize())
    nodes = list(_nodes(checked.expr))
    names = _check(nodes, checked.types, of_patches=result == PATCHES)
    used = frozenset(name for name in declared.types if name in names)
    for node in nodes:
        if node.call_expr.function == "matches":
            node.call_expr.function = MATCHES
    program = _evaluator().deserialize(write_compiled(checked))
    return Expression(text.strip(), compiled.return_type(), names & _INPUTS, used, program)


def compile_expression(text: str, result: str | None = None) -> Expression:
    """Compile one expression that uses no variables.

    Raises:
        CompilationError: as for :meth:`Scope.compile`.
    """
    return Scope().compile(text, result)


def _compiler(variables: Mapping[str, Any], *, of_patches: bool) -> Any:
    types = {"object": cel.Type.DYN, "oldObject": cel.Type.DYN}
    typed = {"request": cel.Type(REQUEST), "namespaceObject": cel.Type(NAMESPACE)}
    return cel.NewEnv(
        kubernetes_types(),
        variables={**types, **typed, **variables},
        extensions=_extensions(cel.Type(QUANTITY), of_patches=of_patches),
    )


@cache
def _evaluator() -> Any:
    return cel.NewEnv(
        kubernetes_types(),
        variables=dict.fromkeys(_INPUTS, cel.Type.DYN),
        extensions=_extensions(cel.Type.STRING, of_patches=True),
    )


def _extensions(quantity: Any, *, of_patches: bool) -> list[Any]:
    return [ext_strings.ExtStrings(), ext_optional.ExtOptional(), functions(quantity, of_patches=of_patches)]


def _check(nodes: Iterable[Any], types: Mapping[int, Any], *, of_patches: bool) -> frozenset[str]:
    """Refuse expressions that Kubernetes, but not the library, would refuse; return the names used."""
    names: set[str] = set()
    for node in nodes:
        if node.HasField("ident_expr"):
            names.add(node.ident_expr.name)
        if node.HasField("call_expr"):
            _check_call(node.call_expr, types)
        if node.HasField("list_expr"):
            _check_alike(node.list_expr.elements, types)
        if node.HasField("struct_expr"):
            struct = node.struct_expr
            if struct.message_name and not (of_patches and struct.message_name == PATCH):
                raise CompilationError(f"compilation failed: undeclared reference to '{struct.message_name}'")
            if not struct.message_name:
                _check_alike([entry.map_key for entry in struct.entries], types)
                _check_alike([entry.value for entry in struct.entries], types)
    return frozenset(names)


def _nodes(expr: message.Message) -> Iterator[Any]:
    """Yield every node of a syntax tree."""
    if expr.DESCRIPTOR.name == "Expr":
        yield expr
    for part, value in expr.ListFields():
        if part.message_type:
            for each in value if part.is_repeated else [value]:
                yield from _nodes(each)


def _check_call(call: Any, types: Mapping[int, Any]) -> None:
    if call.function in _NEWER:
        raise CompilationError(f"compilation failed: undeclared reference to '{call.function}'")
    if call.function in {"_==_", "_!=_", "@in"} and any(
        types[each.id].message_type == QUANTITY for each in call.args if each.id in types
    ):
        raise CompilationError("the local API server compares quantities by compareTo() only")
    if form := _CHECKED_LITERALS.get(call.function):
        for each in call.args:
            if each.const_expr.HasField("string_value"):
                _check_literal(form, call.function, each.const_expr.string_value)


def _check_literal(form: str, function: str, text: str) -> None:
    """Refuse a literal that the function does not take."""
    result = _call(form).eval(data={"text": text})
    if result.type() == cel.Type.ERROR:
        raise CompilationError(f"compilation failed: invalid {function} argument: {result.value()}")


@cache
def _call(form: str) -> Any:
    """Compile the call of a function with a text as its argument."""
    return cel.NewEnv(variables={"text": cel.Type.STRING}).compile(form.format("text"))


def _check_alike(elements: Any, types: Mapping[int, Any]) -> None:
    """Refuse elements of two types; one that is dynamic goes with any."""
    known = None
    for element in elements:
        each = types.get(element.id)
        if each is None or each.HasField("dyn") or each.HasField("null"):
            continue
        if known is not None and not _is_like(each, known):
            raise CompilationError("compilation failed: a list or map literal mixes types: use dyn()")
        known = each


def _is_like(one: Any, other: Any) -> bool:
    """Whether two types are the same where neither is dynamic."""
    if one.HasField("dyn") or other.HasField("dyn"):
        return True
    if one.HasField("list_type") and other.HasField("list_type"):
        return _is_like(one.list_type.elem_type, other.list_type.elem_type)
    if one.HasField("map_type") and other.HasField("map_type"):
        keys = _is_like(one.map_type.key_type, other.map_type.key_type)
        return keys and _is_like(one.map_type.value_type, other.map_type.value_type)
    return bool(one == other)
