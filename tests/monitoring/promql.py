"""The part of PromQL that tells the metrics of a query, their labels, and what they are inside.

A query is cut into tokens by the lexical rules of Prometheus. A name is then a metric unless it is called (a
function), stands in a list after ``by``, ``on`` and their like (a label), or is a word of the language.
Source: https://prometheus.io/docs/prometheus/latest/querying/basics/ and promql/parser/lex.go
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

TOKEN = re.compile(
    r"""
    (?P<blank> [\s]+ | \#[^\n]* )
  | (?P<text> "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | `[^`]*` )
  | (?P<range> \[ [^\]]* \] )
  | (?P<duration> (?:[0-9]+(?:ms|[smhdwy]))+ )
  | (?P<number> 0[xX][0-9a-fA-F]+ | (?:[0-9]*\.[0-9]+|[0-9]+\.?)(?:[eE][+-]?[0-9]+)? )
  | (?P<name> [a-zA-Z_:][a-zA-Z0-9_:]* )
  | (?P<operator> =~ | !~ | == | != | <= | >= | [-+*/%^<>=@(){},] )
    """,
    re.VERBOSE,
)
LISTS = {"by", "without", "on", "ignoring", "group_left", "group_right"}
AGGREGATIONS = {"sum", "min", "max", "avg", "count", "topk", "bottomk", "quantile", "group", "stddev"}
WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan", "atan2"}


class PromQLError(ValueError):
    """The text is no PromQL that is understood here."""


@dataclass(frozen=True, slots=True)
class Selector:
    """One series selector. ``inside`` is the function or aggregation next around it, "" if there is none."""

    metric: str
    matchers: tuple[tuple[str, str, str], ...]
    inside: str
    ranged: bool


@dataclass(frozen=True, slots=True)
class Query:
    """The metrics in a query; ``grouped`` are the labels in ``by (...)`` and the like."""

    selectors: tuple[Selector, ...]
    grouped: frozenset[str]


def tokens(text: str) -> list[tuple[str, str]]:
    """Cut a query into (kind, text)."""
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise PromQLError(f"at {text[at : at + 20]!r}")
        if match.lastgroup != "blank":
            found.append((match.lastgroup, match[0]))
        at = match.end()
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = [*tokens(text), ("end", "")]
        self._at = 0
        self.selectors: list[Selector] = []
        self.grouped: set[str] = set()

    def read(self) -> None:
        calls: list[str] = []
        pending = ""
        while self._kind != "end":
            kind, text = self._next()
            if text == "(":
                calls.append(pending or (calls[-1] if calls else ""))
            elif text == ")":
                if not calls:
                    raise PromQLError("a ) too many")
                calls.pop()
            elif text in {"{", "}", "[", "]", "="}:
                raise PromQLError(f"{text} without a metric")
            pending = self._name(text, calls) if kind == "name" else ""
        if calls:
            raise PromQLError("a ( is not closed")

    def _name(self, name: str, calls: list[str]) -> str:
        """Take a name; return it if it is one that is called."""
        lowered = name.lower()
        if lowered in LISTS:
            self.grouped |= set(self._list())
            return ""
        if lowered in WORDS:
            return ""
        if lowered in AGGREGATIONS:
            if self._text in {"by", "without"}:
                self._next()
                self.grouped |= set(self._list())
            return lowered
        if self._text == "(":
            return name
        matchers = tuple(self._matchers())
        ranged = self._kind == "range"
        if ranged:
            self._next()
        self.selectors.append(Selector(name, matchers, calls[-1] if calls else "", ranged))
        return ""

    def _matchers(self) -> Iterator[tuple[str, str, str]]:
        if self._text != "{":
            return
        self._next()
        while self._text != "}":
            kind, label = self._next()
            _, operator = self._next()
            value_kind, value = self._next()
            if kind != "name" or operator not in {"=", "!=", "=~", "!~"} or value_kind != "text":
                raise PromQLError(f"in the braces: {label} {operator} {value}")
            yield label, operator, value[1:-1]
            if self._text == ",":
                self._next()
        self._next()

    def _list(self) -> Iterator[str]:
        if self._text != "(":
            return
        self._next()
        while self._text != ")":
            kind, label = self._next()
            if kind != "name" and label != ",":
                raise PromQLError(f"in a list of labels: {label}")
            if kind == "name":
                yield label
        self._next()

    def _next(self) -> tuple[str, str]:
        token = self._tokens[self._at]
        if token[0] == "end":
            raise PromQLError("it ends too early")
        self._at += 1
        return token

    @property
    def _kind(self) -> str:
        return self._tokens[self._at][0]

    @property
    def _text(self) -> str:
        return self._tokens[self._at][1]


def parse(text: str) -> Query:
    """Read a query.

    Raises:
        PromQLError: if it is none.
    """
    reader = _Reader(text)
    reader.read()
    return Query(tuple(reader.selectors), frozenset(reader.grouped))
