"""Kubernetes label selectors, with exactly the API's meaning.

All requirements must hold. No selector (``NOTHING``, where the key is absent) selects nothing; an empty
one (``{}``) selects everything. ``NotIn`` and ``DoesNotExist`` hold for objects without the label.

Source: k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go, pkg/labels/selector.go, pkg/util/validation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_LONGEST_PREFIX = 253


class Operator(StrEnum):
    """How a requirement compares a label with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"

    @property
    def takes_values(self) -> bool:
        """Whether a requirement with this operator must name values; the others must not."""
        return self in {Operator.IN, Operator.NOT_IN}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None

    @property
    def allowed(self) -> AllowedValues:
        may_be_absent = self.operator in {Operator.NOT_IN, Operator.DOES_NOT_EXIST}
        all_but = self.operator in {Operator.NOT_IN, Operator.EXISTS}
        values = self.values if self.operator.takes_values else frozenset[str]()
        return AllowedValues(may_be_absent, values, all_but)


@dataclass(frozen=True, slots=True)
class AllowedValues:
    """What one label may be: ``values``, or everything but them; and whether it may be absent.

    There are more values than anybody names, so that two of these allow the same if they are equal.
    """

    may_be_absent: bool = True
    values: frozenset[str] = frozenset()
    all_but: bool = True

    def __and__(self, other: AllowedValues) -> AllowedValues:
        match self.all_but, other.all_but:
            case True, True:
                values = self.values | other.values
            case True, False:
                values = other.values - self.values
            case False, True:
                values = self.values - other.values
            case _:
                values = self.values & other.values
        may_be_absent = self.may_be_absent and other.may_be_absent
        return AllowedValues(may_be_absent, values, self.all_but and other.all_but)

    @property
    def is_nothing(self) -> bool:
        return not (self.may_be_absent or self.all_but or self.values)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Requirements that must all hold. Without any it selects everything."""

    requirements: tuple[Requirement, ...] = ()
    selects_nothing: bool = False

    @classmethod
    def of_labels(cls, labels: Mapping[str, str]) -> LabelSelector:
        """Return the selector that ``matchLabels`` means."""
        return cls(tuple(Requirement(key, Operator.IN, frozenset({value})) for key, value in labels.items()))

    def matches(self, labels: Mapping[str, str]) -> bool:
        return not self.selects_nothing and all(each.holds(labels) for each in self.requirements)

    def allowed(self) -> dict[str, AllowedValues]:
        """Return what each label that a requirement names may be."""
        found: dict[str, AllowedValues] = {}
        for each in self.requirements:
            found[each.key] = found.get(each.key, AllowedValues()) & each.allowed
        return found

    def excludes(self, other: LabelSelector) -> bool:
        """Say whether no labels are selected both here and by ``other``."""
        both = LabelSelector(self.requirements + other.requirements).allowed()
        return self.selects_nothing or other.selects_nothing or any(each.is_nothing for each in both.values())

    def implies(self, other: LabelSelector) -> bool:
        """Say whether ``other`` selects all labels that are selected here."""
        if self.excludes(self):
            return True
        ours = self.allowed()
        return not other.selects_nothing and all(
            (found := ours.get(key, AllowedValues())) & theirs == found
            for key, theirs in other.allowed().items()
        )

    @property
    def document(self) -> dict[str, Any]:
        """The selector as the API writes it."""
        expressions = [
            {"key": each.key, "operator": each.operator.value}
            | ({"values": sorted(each.values)} if each.operator.takes_values else {})
            for each in self.requirements
        ]
        return {"matchExpressions": expressions} if expressions else {}


NOTHING = LabelSelector(selects_nothing=True)
"""The selector that is meant where none is written."""


def label_key_fault(key: str) -> str | None:
    """Say what is wrong with a label key (``name`` or ``example.com/name``), if anything is."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > _LONGEST_PREFIX or not _PREFIX.fullmatch(prefix)):
        return f"the part before / must be a DNS name in lower case of at most {_LONGEST_PREFIX} characters"
    if not _NAME.fullmatch(name):
        return "a label name has 1 to 63 letters, digits, - _ or . with a letter or digit at both ends"
    return None


def object_name_fault(name: str) -> str | None:
    """Say what is wrong with the name of an object, a DNS subdomain, if anything is."""
    if len(name) > _LONGEST_PREFIX or not _PREFIX.fullmatch(name):
        return (
            f"the name of an object has at most {_LONGEST_PREFIX} small letters, digits, - or . with a "
            "letter or digit at both ends"
        )
    return None


def label_value_fault(value: str) -> str | None:
    """Say what is wrong with a label value, if anything is. The empty value is a good one."""
    if value and not _NAME.fullmatch(value):
        return "a label value has at most 63 letters, digits, - _ or . with a letter or digit at both ends"
    return None
