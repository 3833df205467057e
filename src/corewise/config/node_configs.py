"""The form of every ConfigMap key: a strategy for the cluster, and entries for the nodes they select.

    {..., "nodeConfigs": [{"name": "fast", "nodeSelector": {"matchLabels": {...}}, ...}]}

The members beside ``nodeConfigs`` may stand in each entry too. A null is an absent key.

A node's strategy is the cluster's with the **first** ``nodeConfigs`` entry whose selector matches merged over
it. ``None`` means that a key is absent; an absent key inherits. Maps merge entry by entry; an entry given in
the override (a CPU model, a resource) replaces that entry whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Generic, Protocol, Self, TypeAlias, TypeVar

from corewise.config.decoding import Decoder, Fields, Place, Severity, did_you_mean
from corewise.quantities import ONE, Ratio
from corewise.vocabulary.selectors import (
    NOTHING,
    LabelSelector,
    Operator,
    Requirement,
    label_key_fault,
    label_value_fault,
)

SMALLEST_RATIO = ONE
LARGEST_NORMALIZATION_RATIO = Ratio(500)
LARGEST_AMPLIFICATION_RATIO = Ratio(1000)
"""The default: the manager's option can set another."""


class AmplifiableResource(StrEnum):
    """The resources that can be amplified. Of all others kubelet reads back what is stored."""

    CPU = "cpu"
    MEMORY = "memory"


class RatioField(StrEnum):
    """The ratios of one CPU model, by what is switched on; the values are the keys users write."""

    BASE = "baseRatio"
    HYPER_THREADING = "hyperThreadEnabledRatio"
    TURBO = "turboEnabledRatio"
    HYPER_THREADING_TURBO = "hyperThreadTurboEnabledRatio"

    @classmethod
    def of(cls, *, hyper_threading: bool, turbo: bool) -> RatioField:
        """Return the field that holds the ratio of a CPU with these settings."""
        if hyper_threading:
            return cls.HYPER_THREADING_TURBO if turbo else cls.HYPER_THREADING
        return cls.TURBO if turbo else cls.BASE


ModelRatios: TypeAlias = Mapping[RatioField, Ratio]


class Strategy(Protocol):
    """What can be merged over another of its kind."""

    def over(self, cluster: Self) -> Self:
        """Return ``cluster`` with everything given here in its place."""


S = TypeVar("S", bound=Strategy)
K = TypeVar("K")
V = TypeVar("V")


def _merged(base: Mapping[K, V], override: Mapping[K, V]) -> Mapping[K, V]:
    return MappingProxyType({**base, **override}) if override else base


def _empty() -> Mapping[K, V]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NormalizationStrategy:
    """Which CPUs are how much faster than the baseline."""

    enable: bool | None = None
    ratio_model: Mapping[str, ModelRatios] = field(default_factory=_empty)
    default_ratio: Ratio | None = None

    def over(self, cluster: NormalizationStrategy) -> NormalizationStrategy:
        return NormalizationStrategy(
            enable=cluster.enable if self.enable is None else self.enable,
            ratio_model=_merged(cluster.ratio_model, self.ratio_model),
            default_ratio=cluster.default_ratio if self.default_ratio is None else self.default_ratio,
        )


@dataclass(frozen=True, slots=True)
class AmplificationStrategy:
    """The original ratios, which normalization then multiplies."""

    enable: bool | None = None
    ratios: Mapping[AmplifiableResource, Ratio] = field(default_factory=_empty)
    amplify_capacity: bool | None = None

    def over(self, cluster: AmplificationStrategy) -> AmplificationStrategy:
        own = self.amplify_capacity
        return AmplificationStrategy(
            enable=cluster.enable if self.enable is None else self.enable,
            ratios=_merged(cluster.ratios, self.ratios),
            amplify_capacity=cluster.amplify_capacity if own is None else own,
        )

    @property
    def originals(self) -> Mapping[AmplifiableResource, Ratio]:
        """The ratios that are applied: none unless enabled."""
        return self.ratios if self.enable else MappingProxyType({})

    @property
    def amplifies_capacity(self) -> bool:
        """Whether capacity is amplified along with allocatable: yes unless told otherwise."""
        return self.amplify_capacity is not False


@dataclass(frozen=True, slots=True)
class NodeConfig(Generic[S]):
    """One ``nodeConfigs`` entry; line and column are those of the entry in the text."""

    index: int
    name: str
    selector: LabelSelector
    strategy: S
    line: int
    column: int

    def __str__(self) -> str:
        return f'nodeConfigs[{self.index}] "{self.name}"' if self.name else f"nodeConfigs[{self.index}]"


@dataclass(frozen=True, slots=True)
class Configuration(Generic[S]):
    """One key of the ConfigMap."""

    cluster: S
    node_configs: tuple[NodeConfig[S], ...] = ()

    def matching(self, labels: Mapping[str, str]) -> tuple[NodeConfig[S], ...]:
        """Return every entry that selects a node. The first is used; more than one is a mistake."""
        return tuple(entry for entry in self.node_configs if entry.selector.matches(labels))

    def strategy_for(self, labels: Mapping[str, str]) -> tuple[S, str]:
        """Return a node's strategy, and where it comes from in words."""
        matching = self.matching(labels)
        if matching:
            return matching[0].strategy.over(self.cluster), f"{matching[0]} over the cluster strategy"
        if self.node_configs:
            return self.cluster, "cluster strategy (no nodeConfigs entry matches)"
        return self.cluster, "cluster strategy"


NormalizationConfig: TypeAlias = Configuration[NormalizationStrategy]
AmplificationConfig: TypeAlias = Configuration[AmplificationStrategy]

NO_NORMALIZATION: NormalizationConfig = Configuration(NormalizationStrategy())
"""What applies where the key is absent: nothing but labels enables anything, and no model is known."""

NO_AMPLIFICATION: AmplificationConfig = Configuration(AmplificationStrategy())


FieldsReader: TypeAlias = Callable[[Decoder, Place, Iterable[str]], Fields]
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


def read_label_selector(
    decoder: Decoder, place: Place, read_fields: FieldsReader = Decoder.fields
) -> LabelSelector:
    """Read ``{"matchLabels": {...}, "matchExpressions": [...]}``; an empty one selects everything.

    ``read_fields`` reads an object's known members, and says what becomes of the others.
    """
    fields = read_fields(decoder, place, ("matchLabels", "matchExpressions"))
    requirements = [
        requirement
        for key, value in decoder.entries(fields["matchLabels"])
        for requirement in _label(decoder, key, value)
    ]
    for expression in decoder.items(fields["matchExpressions"]):
        requirements.extend(_expression(decoder, expression, read_fields))
    return LabelSelector(tuple(requirements))


def _label(decoder: Decoder, key: Place, place: Place) -> Iterable[Requirement]:
    name = str(key.path[-1])
    _check_label_key(decoder, key, name)
    value = _label_value(decoder, place)
    return () if value is None else (Requirement(name, Operator.IN, frozenset({value})),)


def _expression(decoder: Decoder, place: Place, read_fields: FieldsReader) -> Iterable[Requirement]:
    fields = read_fields(decoder, place, ("key", "operator", "values"))
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
