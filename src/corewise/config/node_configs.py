"""The form of every ConfigMap key: a strategy for the cluster, and entries for the nodes they select.

    {..., "nodeConfigs": [{"name": "fast", "nodeSelector": {"matchLabels": {...}}, ...}]}

The members beside ``nodeConfigs`` may stand in each entry too. A null is an absent key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from corewise.config.decoding import Decoder, Fields, Place, Severity, did_you_mean
from corewise.config.strategies import Configuration, NodeConfig, S
from corewise.vocabulary.selectors import (
    NOTHING,
    LabelSelector,
    Operator,
    Requirement,
    label_key_fault,
    label_value_fault,
)

Members: TypeAlias = Callable[[Decoder, Place, Iterable[str]], Fields]
_ENTRY_KEYS = ("name", "nodeSelector")


def read_node_configs(
    decoder: Decoder, keys: Iterable[str], strategy: Callable[[Decoder, Fields], S]
) -> Configuration[S]:
    """Read a key whose own members are ``keys``, a strategy from those of the cluster and of each entry."""
    own = tuple(keys)
    root = decoder.fields(decoder.root, (*own, "nodeConfigs"))
    entries: list[NodeConfig[S]] = []
    for index, place in enumerate(decoder.items(root["nodeConfigs"])):
        fields = decoder.fields(place, (*_ENTRY_KEYS, *own))
        line, column = decoder.position(place)
        name = decoder.text(fields["name"]) or ""
        selector = _node_selector(decoder, fields["nodeSelector"])
        _tell_shadowed(decoder, place, selector, entries)
        entries.append(NodeConfig(index, name, selector, strategy(decoder, fields), line, column))
    return Configuration(strategy(decoder, root), tuple(entries))


def _tell_shadowed(
    decoder: Decoder, place: Place, selector: LabelSelector, earlier: Iterable[NodeConfig[S]]
) -> None:
    """Warn of an entry that is never used, since the first entry that selects a node counts."""
    first = next((entry for entry in earlier if entry.selector.covers(selector)), None)
    if first is not None:
        message = f"is never used: {first} comes first and selects every node that this entry does"
        decoder.tell(place, message, Severity.WARNING)


def _node_selector(decoder: Decoder, place: Place) -> LabelSelector:
    if place.value is None:
        message = "no nodeSelector, so the entry selects no node: {} selects all"
        decoder.tell(place, message, Severity.WARNING)
        return NOTHING
    return read_label_selector(decoder, place)


def read_label_selector(decoder: Decoder, place: Place, members: Members = Decoder.fields) -> LabelSelector:
    """Read ``{"matchLabels": {...}, "matchExpressions": [...]}``; an empty one selects everything.

    ``members`` reads an object's known members, and says what becomes of the others.
    """
    fields = members(decoder, place, ("matchLabels", "matchExpressions"))
    requirements = [
        requirement
        for key, value in decoder.entries(fields["matchLabels"])
        for requirement in _label(decoder, key, value)
    ]
    for expression in decoder.items(fields["matchExpressions"]):
        requirements.extend(_expression(decoder, expression, members))
    return LabelSelector(tuple(requirements))


def _label(decoder: Decoder, key: Place, place: Place) -> Iterable[Requirement]:
    name = str(key.path[-1])
    _check_label_key(decoder, key, name)
    value = _label_value(decoder, place)
    return () if value is None else (Requirement(name, Operator.IN, frozenset({value})),)


def _expression(decoder: Decoder, place: Place, members: Members) -> Iterable[Requirement]:
    fields = members(decoder, place, ("key", "operator", "values"))
    key = _required(decoder, fields["key"])
    operator = _operator(decoder, fields["operator"])
    values = [_label_value(decoder, value) for value in decoder.items(fields["values"])]
    if key is not None:
        _check_label_key(decoder, fields["key"], key)
    if operator is not None and operator.takes_values != bool(values) and decoder.is_complete:
        needs = "needs at least one value" if operator.takes_values else "takes no values"
        decoder.tell(fields["values"], f"operator {operator} {needs}")
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
    decoder.tell(place, f'"{name[:40]}" is not an operator{hint}')
    return None


def _required(decoder: Decoder, place: Place) -> str | None:
    """Read a string that must be there. Of a text cut short by a fault nothing more is asked."""
    if place.value is None and decoder.is_complete:
        decoder.tell(place, "is missing")
    return decoder.text(place)


def _check_label_key(decoder: Decoder, place: Place, key: str) -> None:
    fault = label_key_fault(key)
    if fault:
        decoder.tell(place, f"not a label key: {fault}")


def _label_value(decoder: Decoder, place: Place) -> str | None:
    if place.value is None and decoder.is_complete:
        decoder.tell(place, 'must be a string in double quotes, not null: "" is the empty value')
    value = decoder.text(place)
    fault = label_value_fault(value) if value is not None else None
    if fault:
        decoder.tell(place, f"not a label value: {fault}")
    return value
