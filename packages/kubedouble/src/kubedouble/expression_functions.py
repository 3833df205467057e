"""Functions that Kubernetes adds to expressions: of quantities, lists, regular expressions, sets and patches.

A quantity keeps its number and power of ten as Kubernetes' parser leaves them, since the functions show them:
``asInteger`` of ``4000m`` and of ``1.5Gi`` fails, and ``asApproximateFloat`` of ``2.53`` is 253 times 0.01.

The library (0.1.3) never frees what it passes to a function written in Python, nor the result. So a quantity
is a text when an expression is evaluated, the same one each time: as a message it took ten times the memory.

The engine of ``find`` is Python's. What RE2 refuses is refused, and so are the few forms that Python reads
differently. ``matches`` is the library's own, RE2; its answers are remembered, since the library compiles the
regular expression at every call, which takes most of the time of a policy.

Of lists only ``sum`` and ``max`` of integers and ``indexOf`` of texts are here.

Source: k8s.io/apiserver/pkg/cel/library/{quantity,lists,regex,jsonpatch}.go,
github.com/google/cel-go/ext/sets.go, k8s.io/apimachinery/pkg/api/resource/{quantity,amount}.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias

from cel_expr_python import cel

from kubedouble.quantities import LARGEST, parse_as_stored

MATCHES: Final = "@matches"
"""The name by which compiled expressions call ``matches``; no text can name it."""

QUANTITY_VALUE: Final = "\x01quantity"
"""How a quantity begins when it is evaluated; no text of an object begins so."""

_UNLIKE_PYTHON = re.compile(r"\[\[?:|\{,|\\[QEpPCZ]|(?<!\\)\(\?P?[<a-zA-Z-]*[U]")


@lru_cache(maxsize=2**16)
def _quantity(number: int, power: int, *, decimal: bool) -> str:
    return f"{QUANTITY_VALUE} {number} {power} {decimal:d}"


@lru_cache(maxsize=2**16)
def _parts(quantity: str) -> tuple[int, int, bool]:
    _, number, power, decimal = quantity.split()
    return int(number), int(power), decimal == "1"


def _exact(quantity: str) -> Fraction:
    number, power, _ = _parts(quantity)
    return Fraction(number) * Fraction(10) ** power


def _parse(text: str) -> str:
    try:
        number, power, decimal = parse_as_stored(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a quantity") from None
    return _quantity(number, power, decimal=decimal)


def _is_quantity(text: str) -> bool:
    try:
        parse_as_stored(text)
    except ValueError:
        return False
    return True


def _whole(quantity: str) -> int | None:
    """Return the amount as Kubernetes' AsInt64 does: None where it keeps a fraction or a long decimal."""
    number, power, decimal = _parts(quantity)
    amount = number * 10 ** max(power, 0)
    return None if decimal or power < 0 or abs(amount) > LARGEST else amount


def _as_integer(quantity: str) -> int:
    amount = _whole(quantity)
    if amount is None:
        raise ValueError("cannot convert value to integer")
    return amount


def _as_float(quantity: str) -> float:
    number, power, _ = _parts(quantity)
    return float(number) * float(f"1e{power}")


def _compare(one: str, other: str) -> int:
    left, right = _exact(one), _exact(other)
    return (left > right) - (left < right)


def _add(one: str, other: str, sign: int = 1) -> str:
    (a, power_a, decimal_a), (b, power_b, decimal_b) = _parts(one), _parts(other)
    power = power_b if a == 0 else power_a if b == 0 else min(power_a, power_b)
    total = a * 10 ** max(power_a - power, 0) + sign * b * 10 ** max(power_b - power, 0)
    return _quantity(total, power, decimal=decimal_a or decimal_b or abs(total) > LARGEST)


def _of_integer(number: int) -> str:
    return _quantity(number, 0, decimal=False)


@cache
def _regex(text: str) -> re.Pattern[str]:
    checked = (
        cel.NewEnv(variables={"text": cel.Type.STRING}).compile("''.matches(text)").eval(data={"text": text})
    )
    if checked.type() == cel.Type.ERROR:
        raise ValueError(f"invalid regular expression {text!r}: {checked.value()}")
    if _UNLIKE_PYTHON.search(text):
        raise ValueError(f"the local API server does not evaluate the regular expression {text!r}")
    return re.compile(_with_end_of_text(text), re.ASCII)


@cache
def _match() -> Any:
    variables = dict.fromkeys(("text", "regex"), cel.Type.STRING)
    return cel.NewEnv(variables=variables).compile("text.matches(regex)")


@lru_cache(maxsize=2**16)
def _matches(text: str, regex: str) -> bool:
    found = _match().eval(data={"text": text, "regex": regex})
    if found.type() == cel.Type.ERROR:
        raise ValueError(found.value())
    return bool(found.value())


def _with_end_of_text(text: str) -> str:
    r"""Return the expression with ``\Z`` for ``$``, which in Python also matches before a last line end."""
    if "(?m" in text:
        return text
    return re.sub(
        r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$", lambda part: r"\Z" if part[0] == "$" else part[0], text
    )


def _find(text: str, regex: str) -> str:
    found = _regex(regex).search(text)
    return found[0] if found else ""


def _find_all(text: str, regex: str, most: int = -1) -> list[str]:
    found = [match[0] for match in _regex(regex).finditer(text)]
    return found if most < 0 else found[:most]


def _largest(numbers: list[int]) -> int:
    if not numbers:
        raise ValueError("max called on empty list")
    return max(numbers)


def _escape_key(text: str) -> str:
    return text.replace("~", "~0").replace("/", "~1")


_Overload: TypeAlias = tuple[list[Any], Callable[..., Any]]


def functions(quantity: Any, *, of_patches: bool) -> Any:
    """Return the functions as an extension of the library, with or without those of mutations.

    ``quantity`` is the type of a quantity: its own where expressions are checked, text where evaluated.
    """
    text, integer, boolean = cel.Type.STRING, cel.Type.INT, cel.Type.BOOL
    texts, integers = cel.Type.List(text), cel.Type.List(integer)

    def added(sign: int) -> list[_Overload]:
        return [
            ([quantity, quantity], lambda one, other: _add(one, other, sign)),
            ([quantity, integer], lambda one, number: _add(one, _of_integer(number), sign)),
        ]

    members: list[tuple[str, Any, list[_Overload]]] = [
        ("isGreaterThan", boolean, [([quantity, quantity], lambda one, other: _compare(one, other) > 0)]),
        ("isLessThan", boolean, [([quantity, quantity], lambda one, other: _compare(one, other) < 0)]),
        ("compareTo", integer, [([quantity, quantity], _compare)]),
        ("asApproximateFloat", cel.Type.DOUBLE, [([quantity], _as_float)]),
        ("asInteger", integer, [([quantity], _as_integer)]),
        ("isInteger", boolean, [([quantity], lambda one: _whole(one) is not None)]),
        ("add", quantity, added(1)),
        ("sub", quantity, added(-1)),
        ("sum", integer, [([integers], sum)]),
        ("max", integer, [([integers], _largest)]),
        ("indexOf", integer, [([texts, text], lambda texts, one: texts.index(one) if one in texts else -1)]),
        (MATCHES, boolean, [([text, text], _matches)]),
        ("find", text, [([text, text], _find)]),
        ("findAll", texts, [([text, text], _find_all), ([text, text, integer], _find_all)]),
    ]
    plain: list[tuple[str, Any, list[_Overload]]] = [
        ("quantity", quantity, [([text], _parse)]),
        ("isQuantity", boolean, [([text], _is_quantity)]),
        ("sign", integer, [([quantity], lambda one: _compare(one, _of_integer(0)))]),
        ("sets.contains", boolean, [([texts, texts], lambda one, other: set(one) >= set(other))]),
        ("sets.equivalent", boolean, [([texts, texts], lambda one, other: set(one) == set(other))]),
        ("sets.intersects", boolean, [([texts, texts], lambda one, other: bool(set(one) & set(other)))]),
    ]
    if of_patches:
        plain.append(("jsonpatch.escapeKey", text, [([text], _escape_key)]))
    return cel.CelExtension(
        "kubernetes",
        [
            cel.FunctionDecl(
                name,
                [
                    cel.Overload(
                        f"kubernetes_{name}_{at}",
                        return_type=result,
                        parameters=parameters,
                        is_member=group is members,
                        impl=run,
                    )
                    for at, (parameters, run) in enumerate(overloads)
                ],
            )
            for group in (members, plain)
            for name, result, overloads in group
        ],
    )
