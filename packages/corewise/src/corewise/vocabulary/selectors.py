"""Kubernetes label selectors, with exactly the API's meaning.

All requirements must hold. No selector (``NOTHING``, where the key is absent) selects nothing; an empty
one (``{}``) selects everything. ``NotIn`` and ``DoesNotExist`` hold for objects without the label.

Source: k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go, pkg/labels/selector.go, pkg/util/validation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

K = TypeVar("K")

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_LONGEST_PREFIX = 253


class Operator(StrEnum):
    """The way a requirement compares a label with its values."""

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
    """The values one label may have: ``values``, or everything but them; and whether it may be absent.

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

    def is_within(self, other: AllowedValues) -> bool:
        """Whether everything that is allowed here is allowed there too."""
        if self.may_be_absent and not other.may_be_absent:
            return False
        match self.all_but, other.all_but:
            case True, True:
                return other.values <= self.values
            case True, False:
                return False
            case False, True:
                return self.values.isdisjoint(other.values)
            case _:
                return self.values <= other.values

    @property
    def is_nothing(self) -> bool:
        return not (self.may_be_absent or self.all_but or self.values)


ANYTHING = AllowedValues()


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
        if self.selects_nothing:
            return False
        for each in self.requirements:  # noqa: SIM110 - all() takes twice as long; every pod passes here
            if not each.holds(labels):
                return False
        return True

    @property
    def size(self) -> int:
        """The number of characters in all keys and values."""
        return sum(len(each.key) + sum(map(len, each.values)) for each in self.requirements)

    def allowed(self) -> dict[str, AllowedValues]:
        """Return the allowed values of each label that a requirement names."""
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
        return not other.selects_nothing and is_implied(self.allowed(), other.allowed())

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


class SelectorIndex(Generic[K]):
    """Many selectors, arranged so that a question about labels is put to few of them.

    Each is filed under the values of one label that it requires. A selector that requires none is asked each
    time. What the methods return *may* be right, and whoever asks checks it; what they leave out is not.
    """

    def __init__(self) -> None:
        self._by_value: dict[str, dict[str, set[K]]] = {}
        self._by_key: dict[str, set[K]] = {}
        self._unfiled: set[K] = set()

    def add(self, name: K, selector: LabelSelector) -> None:
        """File a selector; one that selects nothing is not worth it."""
        if selector.selects_nothing:
            return
        required = [each for each in selector.requirements if each.operator is Operator.IN]
        if required:
            chosen = min(required, key=self._crowd)
            by_value = self._by_value.setdefault(chosen.key, {})
            for value in chosen.values:
                by_value.setdefault(value, set()).add(name)
            return
        keys = [each.key for each in selector.requirements if each.allowed != ANYTHING]
        if keys:
            self._by_key.setdefault(min(keys, key=lambda key: len(self._by_key.get(key, ()))), set()).add(
                name
            )
        else:
            self._unfiled.add(name)

    def _crowd(self, requirement: Requirement) -> int:
        by_value = self._by_value.get(requirement.key, {})
        return sum(len(by_value.get(value, ())) for value in requirement.values)

    def remove(self, name: K, selector: LabelSelector) -> None:
        """Forget a selector that was added."""
        for each in selector.requirements:
            by_value = self._by_value.get(each.key, {})
            for value in each.values:
                by_value.get(value, set()).discard(name)
            self._by_key.get(each.key, set()).discard(name)
        self._unfiled.discard(name)

    def matching(self, labels: Mapping[str, str]) -> Iterator[K]:
        """Yield the selectors that may match these labels."""
        yield from self._unfiled
        for names in self._by_key.values():
            yield from names
        for key, value in labels.items():
            yield from self._by_value.get(key, {}).get(value, ())

    def implied_by(self, allowed: Mapping[str, AllowedValues]) -> Iterator[K]:
        """Yield the selectors that may cover one, given the labels that it allows."""
        yield from self._unfiled
        for key, each in allowed.items():
            yield from self._by_key.get(key, ())
            if not each.may_be_absent and not each.all_but:
                yield from self._by_value.get(key, {}).get(min(each.values), ())

    def overlapping(self, allowed: Mapping[str, AllowedValues]) -> Iterator[K]:
        """Yield the selectors that may overlap with one, given the labels that it allows."""
        yield from self._unfiled
        for names in self._by_key.values():
            yield from names
        for key, by_value in self._by_value.items():
            each = allowed.get(key, ANYTHING)
            values: Iterable[str] = by_value if each.all_but else by_value.keys() & each.values
            for value in values:
                yield from by_value[value]


def is_implied(ours: Mapping[str, AllowedValues], theirs: Mapping[str, AllowedValues]) -> bool:
    """Say whether all labels that ``ours`` allows are allowed by ``theirs``."""
    return all(ours.get(key, ANYTHING).is_within(each) for key, each in theirs.items())


def are_disjoint(ours: Mapping[str, AllowedValues], theirs: Mapping[str, AllowedValues]) -> bool:
    """Say whether no labels are allowed by both, where each by itself allows some."""
    return any((ours[key] & theirs[key]).is_nothing for key in ours.keys() & theirs.keys())


def label_key_fault(key: str) -> str | None:
    """Return the fault in a label key (``name`` or ``example.com/name``), if there is one."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > _LONGEST_PREFIX or not _PREFIX.fullmatch(prefix)):
        return f"the part before / must be a DNS name in lower case of at most {_LONGEST_PREFIX} characters"
    if not _NAME.fullmatch(name):
        return "a label name has 1 to 63 letters, digits, - _ or . with a letter or digit at both ends"
    return None


def object_name_fault(name: str) -> str | None:
    """Return the fault in the name of an object, a DNS subdomain, if there is one."""
    if len(name) > _LONGEST_PREFIX or not _PREFIX.fullmatch(name):
        return (
            f"the name of an object has at most {_LONGEST_PREFIX} small letters, digits, - or . with a "
            "letter or digit at both ends"
        )
    return None


def label_value_fault(value: str) -> str | None:
    """Return the fault in a label value, if there is one. The empty value is a good one."""
    if value and not _NAME.fullmatch(value):
        return "a label value has at most 63 letters, digits, - _ or . with a letter or digit at both ends"
    return None
