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

    def excludes(self, other: Requirement) -> bool:
        """Say whether no label can meet both, as far as two conditions alone can say it."""
        if self.key != other.key:
            return False
        match self.operator, other.operator:
            case Operator.IN, Operator.IN:
                return not self.values & other.values
            case Operator.IN, Operator.NOT_IN:
                return self.values <= other.values
            case ((Operator.IN | Operator.EXISTS), Operator.DOES_NOT_EXIST):
                return True
            case (Operator.NOT_IN, Operator.IN) | (Operator.DOES_NOT_EXIST, (Operator.IN | Operator.EXISTS)):
                return other.excludes(self)
        return False


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

    def covers(self, other: LabelSelector) -> bool:
        """Say whether all that ``other`` selects is certainly selected here: nothing more is required."""
        if self.selects_nothing or other.selects_nothing:
            return False
        return set(self.requirements) <= set(other.requirements)

    def excludes(self, other: LabelSelector) -> bool:
        """Say whether certainly nothing is selected both here and by ``other``."""
        return any(ours.excludes(theirs) for ours in self.requirements for theirs in other.requirements)

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


def label_value_fault(value: str) -> str | None:
    """Say what is wrong with a label value, if anything is. The empty value is a good one."""
    if value and not _NAME.fullmatch(value):
        return "a label value has at most 63 letters, digits, - _ or . with a letter or digit at both ends"
    return None
