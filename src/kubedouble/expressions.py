"""The expressions of admission policies, in the Common Expression Language (CEL).

The language is that of the library ``cel-expr-python``, with its string functions and optional values, as
kube-apiserver has them. Kubernetes' own functions (``authorizer``, ``quantity()``, ``url()`` and the like)
are missing: a policy that uses one is refused as one that does not compile. Types are checked as far as a
literal has one, since every variable is dynamic. Without the library nothing compiles.

Source: https://kubernetes.io/docs/reference/using-api/cel/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

try:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional, ext_strings
except ImportError:  # an installation that evaluates no policies
    cel = None

VARIABLES = ("object", "oldObject", "request", "namespaceObject", "variables")
MISSING_LIBRARY = "expressions need the Python package cel-expr-python: pip install cel-expr-python"


class CompilationError(Exception):
    """The text is no expression; the message says why."""


class EvaluationError(Exception):
    """The expression has no value for this input; the message says why."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression."""

    text: str
    _compiled: Any

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Return the value for this input, as JSON has it.

        Raises:
            EvaluationError: if there is none, such as for a field that is absent.
        """
        result = self._compiled.eval(data={name: values.get(name) for name in VARIABLES})
        if result.type() == cel.Type.ERROR:
            raise EvaluationError(f"expression '{self.text}' resulted in error: {result.value()}")
        return result.plain_value()


def is_available() -> bool:
    """Whether expressions can be compiled at all."""
    return cel is not None


def compile_expression(text: str) -> Expression:
    """Compile one expression.

    Raises:
        CompilationError: if it is malformed, or names what does not exist.
    """
    if cel is None:
        raise CompilationError(MISSING_LIBRARY)
    try:
        return Expression(text.strip(), _environment().compile(text))
    except RuntimeError as error:
        raise CompilationError(f"compilation failed: {error}") from error


@cache
def _environment() -> Any:
    types = dict.fromkeys(VARIABLES, cel.Type.DYN)
    return cel.NewEnv(variables=types, extensions=[ext_strings.ExtStrings(), ext_optional.ExtOptional()])
