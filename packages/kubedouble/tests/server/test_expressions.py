"""Expressions: what they see, the functions that Kubernetes adds, and what it would refuse."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from kubedouble.expressions import (
    BOOLEAN,
    PATCHES,
    TEXT,
    CompilationError,
    EvaluationError,
    Inputs,
    Scope,
    compile_expression,
)

VALUES = {
    "object": {"cpu": "2.53", "list": ["b", "a"], "labels": {"k": "v"}},
    "oldObject": None,
    "request": {"operation": "UPDATE", "userInfo": {"username": "system:node:n", "groups": ["g"]}},
    "namespaceObject": {"metadata": {"name": "ns"}},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("quantity('2.53').asApproximateFloat() == 253.0 * 0.01", True),
        ("int(quantity('2.53').asApproximateFloat() * 1000.0 + 0.5) == 2530", True),
        ("quantity('16Gi').asInteger() == 17179869184", True),
        ("quantity('2k').asInteger() == 2000", True),
        ("quantity('4000m').isInteger()", False),
        ("quantity('4.0').isInteger()", False),
        ("quantity('1.5Gi').isInteger()", False),
        ("quantity('12345678901234567890').isInteger()", False),
        ("isQuantity('200k') && !isQuantity('200K') && !isQuantity('') && isQuantity('-1')", True),
        ("quantity('200M').compareTo(quantity('0.2G')) == 0", True),
        ("quantity('50M').compareTo(quantity('50Mi')) == -1", True),
        ("quantity('50Mi').isGreaterThan(quantity('50M'))", True),
        ("quantity('50M').isLessThan(quantity('50M'))", False),
        ("quantity('50k').add(20).sub(quantity('100k')).sub(-50000).compareTo(quantity('20')) == 0", True),
        ("quantity('1').add(quantity('500m')).asApproximateFloat() == 1.5", True),
        ("quantity('0').add(quantity('4')).asInteger() == 4", True),
        ("quantity('9223372036854775807').add(1).isInteger()", False),
        ("sign(quantity('-4')) == -1 && sign(quantity('0')) == 0", True),
        ("'cpu=12,13'.find('[0-9]+') == '12' && 'abc'.find('[0-9]+') == ''", True),
        ("'cpu=12,13'.findAll('[0-9]+') == ['12', '13']", True),
        ("'cpu=12,13'.findAll('[0-9]+', 1) == ['12']", True),
        ("'12\\n'.find('[0-9]$') == '' && '\u0663'.find('\\\\d') == ''", True),
        ("sets.contains(['a', 'b'], object.list) && !sets.intersects(['c'], object.list)", True),
        ("sets.equivalent(['a', 'b', 'b'], object.list)", True),
        ("timestamp('2026-01-01T00:05:00Z') - timestamp('2026-01-01T00:00:00Z') >= duration('5m')", True),
        ("request.userInfo.username.startsWith('system:node:') && !has(request.subResource)", True),
        ("namespaceObject.metadata.name == 'ns' && oldObject == null", True),
        ("object.?labels[?'k'].orValue('') == 'v' && !object.?labels.x.hasValue()", True),
        ("[dyn(1), 'a'].size() == 2", True),
        ("[1, 2, 3].sum() == 6 && [1].filter(n, n > 1).sum() == 0 && [2, 7, 1].max() == 7", True),
        ("object.list.indexOf('a') == 1 && object.list.indexOf('x') == -1", True),
    ],
)
def test_expression_yields_the_value_kubernetes_gives_it(text: str, value: Any) -> None:
    assert compile_expression(text, BOOLEAN).evaluate(VALUES) is value


@pytest.mark.parametrize(
    "text",
    [
        "object.absent == 1",
        "[1].filter(n, n > 1).max() == 0",
        "quantity('three').isInteger()",
        "quantity('4000m').asInteger() == 4",
        "object.cpu.find('(') == ''",
        "object.cpu.find('(?=2)') == ''",
        "object.cpu.find('[[:digit:]]') == ''",
        "object.labels.find('a') == ''",
    ],
)
def test_an_expression_without_a_value_fails(text: str) -> None:
    with pytest.raises(EvaluationError, match="resulted in error"):
        compile_expression(text, BOOLEAN).evaluate(VALUES)


@pytest.mark.parametrize(
    "text",
    [
        "1 +",
        "nothing == 1",
        "object.size",
        "request.foo == ''",
        "request.userInfo.name == ''",
        "namespaceObject.labels == {}",
        "[1, 'a'].size() == 2",
        "{'a': 1, 'b': 'c'} == object",
        "{'a': [1], 'b': ['c']} == object",
        "'abc'.reverse() == 'cba'",
        "[1].first().hasValue()",
        "math.greatest(1, 2) == 2",
        "cel.bind(x, 1, x == 1)",
        "base64.encode(b'a') == ''",
        "1 < 1.5",
        "quantity('1') == quantity('1000m')",
        "kubernetes.Quantity{} == object",
        "google.protobuf.Struct{} == object",
        "JSONPatch{op: 'test'} == object",
        "jsonpatch.escapeKey('a') == 'a'",
        "variables.none == 1",
        "'a'.matches('(')",
        "timestamp('today') > timestamp('2026-01-01T00:00:00Z')",
        "duration('5') > duration('1s')",
        "sets.contains([1], ['a'])",
        "'text'",
    ],
)
def test_expression_refused_by_kubernetes_or_unsupported_never_compiles(text: str) -> None:
    with pytest.raises(CompilationError):
        compile_expression(text, BOOLEAN)


def test_patches_are_operations_of_json() -> None:
    text = """
      [JSONPatch{op: 'test', path: '/a'},
       JSONPatch{op: 'move', path: '/b', from: '/c'},
       JSONPatch{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey('x.io/~k'),
         value: {'n': dyn(1), 'f': dyn(1.5), 'l': dyn([dyn(null), dyn(true)]), 'o': object.labels}},
       JSONPatch{op: 'add', path: '/d', value: null}]
    """
    assert compile_expression(text, PATCHES).evaluate(VALUES) == [
        {"op": "test", "path": "/a"},
        {"op": "move", "path": "/b", "from": "/c"},
        {
            "op": "add",
            "path": "/metadata/annotations/x.io~1~0k",
            "value": {"n": 1, "f": 1.5, "l": [None, True], "o": {"k": "v"}},
        },
        {"op": "add", "path": "/d", "value": None},
    ]


@pytest.mark.parametrize("text", ["[]", "object.patches", "[{'op': 'test'}]", "JSONPatch{op: 'test'}"])
def test_a_mutation_is_a_list_of_patches(text: str) -> None:
    with pytest.raises(CompilationError, match=r"must evaluate to list\(JSONPatch\)"):
        compile_expression(text, PATCHES)


def test_a_quantity_is_no_value_of_a_patch() -> None:
    text = "[JSONPatch{op: 'add', path: '/a', value: {'q': quantity('1')}}]"
    with pytest.raises(EvaluationError, match="not a JSON value"):
        compile_expression(text, PATCHES).evaluate(VALUES)


def test_quantities_are_not_kept_after_their_evaluation() -> None:
    expression = compile_expression("quantity(object.cpu).add(quantity('1')).isGreaterThan(quantity('2'))")
    assert expression.evaluate(VALUES)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(200):
        expression.evaluate(VALUES)
    gc.collect()
    assert len(gc.get_objects()) < before + 100


def test_variable_takes_expression_type_and_fails_when_used() -> None:
    scope = Scope()
    scope.declare("amount", "quantity(object.cpu)")
    scope.declare("milli", "int(variables.amount.asApproximateFloat() * 1000.0)")
    scope.declare("absent", "object.absent")
    scope.declare("patches", "has(object.cpu)")
    inputs = Inputs(VALUES, scope.variables)
    assert scope.compile("string(variables.milli) + 'm'", TEXT).evaluate(inputs) == "2530m"
    assert scope.compile("variables.patches || variables.absent == 1", BOOLEAN).evaluate(inputs) is True
    with pytest.raises(EvaluationError, match=r"object\.absent"):
        scope.compile("variables.absent == 1", BOOLEAN).evaluate(inputs)
    for text in ("variables.milli.startsWith('2')", "variables.milli"):
        with pytest.raises(CompilationError):
            scope.compile(text, BOOLEAN)


def test_conditions_cannot_see_variables_declared_later() -> None:
    scope = Scope()
    with pytest.raises(CompilationError, match="undeclared reference"):
        scope.compile("variables.late", BOOLEAN)
    scope.declare("late", "true")
    assert scope.compile("variables.late", BOOLEAN).evaluate(Inputs(VALUES, scope.variables)) is True


def test_an_optional_value_is_refused_as_a_variable() -> None:
    with pytest.raises(CompilationError, match="orValue"):
        Scope().declare("maybe", "object.?labels")
