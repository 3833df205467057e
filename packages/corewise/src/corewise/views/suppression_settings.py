"""The settings of one node's offline pods as the ConfigMap has them, and where they come from (pure).

Of the keys for cache limits and eviction only the source is shown: an agent reports what follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from corewise.config.colocation import (
    NO_OVERSUBSCRIPTION,
    NO_RESOURCE_QOS,
    NO_SUPPRESSION,
    Isolation,
    OversubscriptionSettings,
    ResctrlSettings,
    SuppressionMode,
    SuppressionSettings,
    parse_oversubscription,
    parse_resource_qos,
    parse_suppression,
)
from corewise.config.decoding import Parsed
from corewise.config.eviction import NO_RESOURCE_THRESHOLD, EvictionSettings, parse_resource_threshold
from corewise.config.node_configs import Configuration
from corewise.vocabulary.names import (
    OVERSUBSCRIPTION_KEY,
    RESOURCE_QOS_KEY,
    RESOURCE_THRESHOLD_KEY,
    SUPPRESSION_KEY,
)

T = TypeVar("T")
S = TypeVar("S", OversubscriptionSettings, SuppressionSettings, ResctrlSettings, EvictionSettings)


@dataclass(frozen=True, slots=True)
class Configured(Generic[T]):
    """The settings for one node, None if they are not known, and where they come from in words.

    ``invalid``: the key has errors.
    """

    settings: T | None
    source: str
    invalid: bool = False


@dataclass(frozen=True, slots=True)
class OfflineSettings:
    """The configuration of one node, key by key."""

    oversubscription: Configured[OversubscriptionSettings]
    suppression: Configured[SuppressionSettings]
    resctrl: Configured[ResctrlSettings]
    eviction: Configured[EvictionSettings]

    @property
    def invalid(self) -> bool:
        """Whether one of the keys has errors."""
        return any(
            each.invalid for each in (self.oversubscription, self.suppression, self.resctrl, self.eviction)
        )

    @property
    def needs_no_label(self) -> tuple[str, ...]:
        """What holds offline pods back though the node offers nothing, in words."""
        quota = self.suppression.settings
        if quota is None or not quota.enabled:
            return ()
        isolation = [f"isolation {quota.isolation}"] if quota.isolation is Isolation.IDLE else []
        mode = [str(quota.mode)] if quota.mode is SuppressionMode.PER_POD_QUOTA else []
        return (*isolation, *mode)


def settings_for(data: Mapping[str, str] | None, labels: Mapping[str, str]) -> OfflineSettings:
    """Read the ConfigMap's data for a node with these labels; None is a ConfigMap that could not be read.

    Without a ConfigMap, pass an empty mapping: the defaults apply.
    """
    return OfflineSettings(
        _configured(data, labels, OVERSUBSCRIPTION_KEY, parse_oversubscription, NO_OVERSUBSCRIPTION),
        _configured(data, labels, SUPPRESSION_KEY, parse_suppression, NO_SUPPRESSION),
        _configured(data, labels, RESOURCE_QOS_KEY, parse_resource_qos, NO_RESOURCE_QOS),
        _configured(data, labels, RESOURCE_THRESHOLD_KEY, parse_resource_threshold, NO_RESOURCE_THRESHOLD),
    )


def _configured(
    data: Mapping[str, str] | None,
    labels: Mapping[str, str],
    key: str,
    parse: Callable[[str], Parsed[Configuration[S]]],
    absent: Configuration[S],
) -> Configured[Any]:
    if data is None:
        return Configured(None, "unknown: the ConfigMap could not be read")
    text = data.get(key)
    if text is None:
        return Configured(absent.cluster, f"defaults: there is no key {key}")
    config = parse(text).value
    if config is None:
        source = f"key {key} has errors; the agent keeps the last good one"
        return Configured(None, source, invalid=True)
    return Configured(*config.strategy_for(labels))
