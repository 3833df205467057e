"""Faults of fields, in the words of ``field.Error``.

Source: k8s.io/apimachinery/pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

Object = Mapping[str, Any]
Cause = dict[str, str]

IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"


class Faults:
    """The faults found so far, in the order they were found."""

    def __init__(self) -> None:
        self.causes: list[Cause] = []

    def required(self, field: str, why: str = "") -> None:
        self._add("FieldValueRequired", f"Required value: {why}" if why else "Required value", field)

    def invalid(self, field: str, value: Any, why: str) -> None:
        self._add("FieldValueInvalid", f"Invalid value: {shown(value)}: {why}", field)

    def wrong_type(self, field: str, value: Any, why: str) -> None:
        self._add("FieldValueTypeInvalid", f"Invalid value: {shown(value)}: {why}", field)

    def unsupported(self, field: str, value: Any, supported: Iterable[Any]) -> None:
        listed = ", ".join(shown(each) for each in supported)
        self._add(
            "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {listed}", field
        )

    def forbidden(self, field: str, why: str) -> None:
        self._add("FieldValueForbidden", f"Forbidden: {why}", field)

    def duplicate(self, field: str, value: Any) -> None:
        self._add("FieldValueDuplicate", f"Duplicate value: {shown(value)}", field)

    def missing(self, field: str, value: Any) -> None:
        self._add("FieldValueNotFound", f"Not found: {shown(value)}", field)

    def too_long(self, field: str, most: int) -> None:
        self._add("FieldValueTooLong", f"Too long: may not be more than {most} bytes", field)

    def too_many(self, field: str, count: int, most: int) -> None:
        self._add("FieldValueTooMany", f"Too many: {count}: must have at most {most} items", field)

    def immutable(self, field: str, new: Any, old: Any) -> None:
        """Note a change of a field that cannot change."""
        if new != old:
            self.invalid(field, new, IMMUTABLE)

    def _add(self, reason: str, message: str, field: str) -> None:
        self.causes.append({"reason": reason, "message": message, "field": field})


def shown(value: Any) -> str:
    """Return a value as messages show it: strings quoted, everything else as JSON."""
    return "null" if value is None else msgspec.json.encode(value).decode()
