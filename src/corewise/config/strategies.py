"""What the two ConfigMap keys configure, as values: a strategy for the cluster, and overrides for some nodes.

A node's strategy is the cluster's with the **first** ``nodeConfigs`` entry whose selector matches merged over
it. ``None`` means that a key is absent; an absent key inherits. Maps merge entry by entry; an entry given in
the override (a CPU model, a resource) replaces that entry whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Generic, Protocol, Self, TypeAlias, TypeVar

from corewise.quantities import ONE, Ratio
from corewise.vocabulary.selectors import LabelSelector

SMALLEST_RATIO = ONE
LARGEST_NORMALIZATION_RATIO = Ratio(500)
LARGEST_AMPLIFICATION_RATIO = Ratio(1000)
"""The default: the manager's option can set another."""


class Resource(StrEnum):
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
    ratios: Mapping[Resource, Ratio] = field(default_factory=_empty)
    amplify_capacity: bool | None = None

    def over(self, cluster: AmplificationStrategy) -> AmplificationStrategy:
        own = self.amplify_capacity
        return AmplificationStrategy(
            enable=cluster.enable if self.enable is None else self.enable,
            ratios=_merged(cluster.ratios, self.ratios),
            amplify_capacity=cluster.amplify_capacity if own is None else own,
        )

    @property
    def originals(self) -> Mapping[Resource, Ratio]:
        """The ratios in force: none unless enabled."""
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
"""What is in force where the key is absent: nothing but labels enables anything, and no model is known."""

NO_AMPLIFICATION: AmplificationConfig = Configuration(AmplificationStrategy())
