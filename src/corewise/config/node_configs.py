"""The form of every ConfigMap key: a strategy for the cluster, and entries for the nodes they select.

    {..., "nodeConfigs": [{"name": "fast", "nodeSelector": {"matchLabels": {...}}, ...}]}

The members beside ``nodeConfigs`` may stand in each entry too. A null is an absent key.

A node's strategy is that of the **first** ``nodeConfigs`` entry whose selector matches, else the cluster's.
What an entry leaves out it inherits from the cluster, and the cluster from the defaults. Maps merge entry by
entry; an entry given in the override (a CPU model, a resource) replaces that entry whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from corewise.config.decoding import Decoder, Fields, Place, did_you_mean
from corewise.vocabulary.selectors import (
    NOTHING,
    LabelSelector,
    Operator,
    Requirement,
    label_key_fault,
    label_value_fault,
)

S = TypeVar("S")
T = TypeVar("T")


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

    def is_undecided(self, labels: Mapping[str, str]) -> bool:
        """Whether an entry that cannot be read may be meant for a node: no other one selects it."""
        return self.has_lost_entries and not self.matching(labels)

    def matching(self, labels: Mapping[str, str]) -> tuple[NodeConfig[S], ...]:
        """Return every entry that selects a node. The first is used; more than one is a mistake."""
        return tuple(entry for entry in self.node_configs if entry.selector.matches(labels))

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
        matching = self.matching(labels)
        if matching:
            return matching[0].strategy, f"{matching[0]} over the cluster strategy"
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
    root = decoder.fields(decoder.root, (*((around,) if around else own), member))
    cluster = read(decoder, decoder.fields(root[around], own) if around else root, default)
    entries: list[NodeConfig[S]] = []
    before = decoder.error_count
    places = decoder.items(root[member])
    has_lost_entries = decoder.error_count > before
    for index, place in enumerate(places):
        before = decoder.error_count
        fields = decoder.fields(place, (*_ENTRY_KEYS, *own))
        line, column = decoder.position(place)
        name = decoder.text(fields["name"]) or ""
        selector = _node_selector(decoder, fields["nodeSelector"])
        is_lost = decoder.error_count > before
        first = next((entry for entry in entries if selector.implies(entry.selector)), None)
        if first is not None and not selector.selects_nothing:
            decoder.warn(
                place, f"is never used: {first} comes first and selects every node that this entry does"
            )
        strategy = read(decoder, fields, cluster)
        has_lost_entries |= is_lost
        if not is_lost:
            entries.append(NodeConfig(index, name, selector, strategy, line, column, member))
    return Configuration(cluster, tuple(entries), has_lost_entries)


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
    hint = did_you_mean(name, tuple(Operator)) or f": write {', '.join(Operator)}"
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
