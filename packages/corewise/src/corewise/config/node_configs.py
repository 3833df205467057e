"""The form of every ConfigMap key: a strategy for the cluster, and entries for the nodes they select.

    {..., "nodeConfigs": [{"name": "fast", "nodeSelector": {"matchLabels": {...}}, ...}]}

The members beside ``nodeConfigs`` may stand in each entry too. A null is an absent key.

A node's strategy is that of the **first** ``nodeConfigs`` entry whose selector matches, else the cluster's.
What an entry leaves out it inherits from the cluster, and the cluster from the defaults. Maps merge entry by
entry; an entry given in the override (a CPU model, a resource) replaces that entry whole.

An entry whose nodes an earlier one selects too is never used, and gets a warning. Selectors are compared only
where they require the same value of a label, or none; ``MOST_COMPARED`` bounds what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from corewise.config.decoding import Decoder, Fields, Place
from corewise.vocabulary.selectors import (
    NOTHING,
    AllowedValues,
    LabelSelector,
    Operator,
    Requirement,
    SelectorIndex,
    is_implied,
    label_key_fault,
    label_value_fault,
)

S = TypeVar("S")
T = TypeVar("T")

MOST_ENTRIES = 1000
"""How many ``nodeConfigs`` entries a key may have."""
MOST_COMPARED = 50_000
"""How many values of labels are looked at to find entries that are never used."""


@dataclass(frozen=True, slots=True)
class NodeConfig(Generic[S]):
    """One ``nodeConfigs`` entry, with what it inherits; line and column are its place in the text.

    ``member`` is the list that it stands in.
    """

    index: int
    name: str
    selector: LabelSelector
    strategy: S
    line: int
    column: int
    member: str = "nodeConfigs"

    def __str__(self) -> str:
        place = f"{self.member}[{self.index}]"
        return f'{place} "{self.name}"' if self.name else place


@dataclass(frozen=True, slots=True)
class Configuration(Generic[S]):
    """One key of the ConfigMap.

    ``has_lost_entries``: there are entries of which it cannot be read which nodes they select.
    """

    cluster: S
    node_configs: tuple[NodeConfig[S], ...] = ()
    has_lost_entries: bool = False
    _index: SelectorIndex[int] = field(default_factory=SelectorIndex, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for position, entry in enumerate(self.node_configs):
            self._index.add(position, entry.selector)

    def is_undecided(self, labels: Mapping[str, str]) -> bool:
        """Whether an entry that cannot be read may be meant for a node: no other one selects it."""
        return self.has_lost_entries and next(self.each_matching(labels), None) is None

    def matching(self, labels: Mapping[str, str]) -> tuple[NodeConfig[S], ...]:
        """Return every entry that selects a node. The first is used; more than one is a mistake."""
        return tuple(self.each_matching(labels))

    def each_matching(self, labels: Mapping[str, str]) -> Iterator[NodeConfig[S]]:
        """Yield every entry that selects a node, in their order."""
        for position in sorted(self._index.matching(labels)):
            entry = self.node_configs[position]
            if entry.selector.matches(labels):
                yield entry

    def mapped(self, change: Callable[[S], T]) -> Configuration[T]:
        """Return the same entries with other strategies."""
        entries = tuple(
            NodeConfig(
                *(each.index, each.name, each.selector, change(each.strategy)),
                *(each.line, each.column, each.member),
            )
            for each in self.node_configs
        )
        return Configuration(change(self.cluster), entries, self.has_lost_entries)

    def strategy_for(self, labels: Mapping[str, str]) -> tuple[S, str]:
        """Return a node's strategy, and where it comes from in words."""
        first = next(self.each_matching(labels), None)
        if first is not None:
            return first.strategy, f"{first} over the cluster strategy"
        if self.node_configs:
            member = self.node_configs[0].member
            return self.cluster, f"cluster strategy (no {member} entry matches)"
        return self.cluster, "cluster strategy"


_ENTRY_KEYS = ("name", "nodeSelector")


def read_node_configs(
    decoder: Decoder,
    keys: Iterable[str],
    default: S,
    read: Callable[[Decoder, Fields, S], S],
    *,
    around: str = "",
    member: str = "nodeConfigs",
) -> Configuration[S]:
    """Read a key whose own members are ``keys``; ``read`` gets what an absent member inherits.

    ``around``: the member that holds those of the cluster, where they do not stand beside ``member``.
    """
    own = tuple(keys)
    before = decoder.error_count
    root = decoder.fields(decoder.root, (*((around,) if around else own), member))
    has_lost_entries = decoder.error_count > before
    cluster = read(decoder, decoder.fields(root[around], own) if around else root, default)
    entries: list[NodeConfig[S]] = []
    earlier = _EarlierEntries()
    before = decoder.error_count
    places = decoder.items(root[member])
    if len(places) > MOST_ENTRIES:
        decoder.error(root[member], f"has {len(places):,} entries: the first {MOST_ENTRIES:,} are read")
    has_lost_entries |= decoder.error_count > before
    for index, place in enumerate(places[:MOST_ENTRIES]):
        before = decoder.error_count
        fields = decoder.fields(place, (*_ENTRY_KEYS, *own))
        line, column = decoder.position(place)
        name = decoder.text(fields["name"]) or ""
        selector = _node_selector(decoder, fields["nodeSelector"])
        is_lost = decoder.error_count > before
        was_exhausted = earlier.is_exhausted
        first = earlier.first_implied_by(selector)
        if first is not None:
            decoder.warn(
                place,
                f"is never used: {entries[first]} comes first and selects every node that this entry does",
            )
        elif earlier.is_exhausted and not was_exhausted:
            decoder.warn(
                place,
                "not checked whether this entry and the following are ever used: there are too many "
                "selectors without a value that they require",
            )
        strategy = read(decoder, fields, cluster)
        has_lost_entries |= is_lost
        if not is_lost:
            entries.append(NodeConfig(index, name, selector, strategy, line, column, member))
            earlier.add(selector)
    return Configuration(cluster, tuple(entries), has_lost_entries)


class _EarlierEntries:
    """The selectors of the entries so far, by position; ``compared`` counts the values looked at."""

    def __init__(self) -> None:
        self._allowed: list[Mapping[str, AllowedValues]] = []
        self._index: SelectorIndex[int] = SelectorIndex()
        self.compared = 0

    @property
    def is_exhausted(self) -> bool:
        return self.compared > MOST_COMPARED

    def add(self, selector: LabelSelector) -> None:
        self._index.add(len(self._allowed), selector)
        self._allowed.append(selector.allowed())

    def first_implied_by(self, selector: LabelSelector) -> int | None:
        """Return the first that selects all that a selector does; None if none does."""
        if selector.selects_nothing or not self._allowed:
            return None
        ours = selector.allowed()
        if any(each.is_nothing for each in ours.values()):
            return 0
        for position in sorted(self._index.implied_by(ours)):
            theirs = self._allowed[position]
            self.compared += 1 + sum(len(each.values) for each in theirs.values())
            if self.is_exhausted:
                return None
            if is_implied(ours, theirs):
                return position
        return None


def _node_selector(decoder: Decoder, place: Place) -> LabelSelector:
    if place.value is None:
        decoder.warn(place, "no nodeSelector, so the entry selects no node: {} selects all")
        return NOTHING
    return read_label_selector(decoder, place)


def read_label_selector(decoder: Decoder, place: Place) -> LabelSelector:
    """Read ``{"matchLabels": {...}, "matchExpressions": [...]}``; an empty one selects everything."""
    fields = decoder.fields(place, ("matchLabels", "matchExpressions"))
    requirements = [
        requirement
        for key, value in decoder.entries(fields["matchLabels"])
        for requirement in _label(decoder, key, value)
    ]
    for expression in decoder.items(fields["matchExpressions"]):
        requirements.extend(_expression(decoder, expression))
    return LabelSelector(tuple(requirements))


def _label(decoder: Decoder, key: Place, place: Place) -> Iterable[Requirement]:
    name = str(key.path[-1])
    _check_label_key(decoder, key, name)
    value = _label_value(decoder, place)
    return () if value is None else (Requirement(name, Operator.IN, frozenset({value})),)


def _expression(decoder: Decoder, place: Place) -> Iterable[Requirement]:
    fields = decoder.fields(place, ("key", "operator", "values"))
    key = _required(decoder, fields["key"])
    operator = _operator(decoder, fields["operator"])
    values = [_label_value(decoder, value) for value in decoder.items(fields["values"])]
    if key is not None:
        _check_label_key(decoder, fields["key"], key)
    if operator is not None and operator.takes_values != bool(values) and decoder.is_complete:
        needs = "needs at least one value" if operator.takes_values else "takes no values"
        decoder.error(fields["values"], f"operator {operator} {needs}")
    if key is None or operator is None:
        return ()
    return (Requirement(key, operator, frozenset(value for value in values if value is not None)),)


def _operator(decoder: Decoder, place: Place) -> Operator | None:
    name = _required(decoder, place)
    if name is None:
        return None
    if name in tuple(Operator):
        return Operator(name)
    hint = decoder.near(name, tuple(Operator)) or f": write {', '.join(Operator)}"
    decoder.error(place, f'"{name[:40]}" is not an operator{hint}')
    return None


def _required(decoder: Decoder, place: Place) -> str | None:
    """Read a string that must be there. Of a text cut short by a fault nothing more is asked."""
    if place.value is None and decoder.is_complete:
        decoder.error(place, "is missing")
    return decoder.text(place)


def _check_label_key(decoder: Decoder, place: Place, key: str) -> None:
    fault = label_key_fault(key)
    if fault:
        decoder.error(place, f"not a label key: {fault}")


def _label_value(decoder: Decoder, place: Place) -> str | None:
    if place.value is None and decoder.is_complete:
        decoder.error(place, 'must be a string in double quotes, not null: "" is the empty value')
    value = decoder.text(place)
    fault = label_value_fault(value) if value is not None else None
    if fault:
        decoder.error(place, f"not a label value: {fault}")
    return value
