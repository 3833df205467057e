"""The settings of one node's offline pods as the ConfigMap has them, and where they come from (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from corewise.config.colocation import (
    NO_OVERSUBSCRIPTION,
    NO_SUPPRESSION,
    OversubscriptionSettings,
    SuppressionSettings,
    parse_oversubscription,
    parse_suppression,
)
from corewise.config.decoding import Parsed
from corewise.config.node_configs import Configuration
from corewise.vocabulary.names import OVERSUBSCRIPTION_KEY, SUPPRESSION_KEY

T = TypeVar("T")
S = TypeVar("S", OversubscriptionSettings, SuppressionSettings)


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


def settings_for(data: Mapping[str, str] | None, labels: Mapping[str, str]) -> OfflineSettings:
    """Read the ConfigMap's data for a node with these labels; None is a ConfigMap that could not be read.

    Without a ConfigMap, pass an empty mapping: the defaults apply.
    """
    return OfflineSettings(
        _configured(data, labels, OVERSUBSCRIPTION_KEY, parse_oversubscription, NO_OVERSUBSCRIPTION),
        _configured(data, labels, SUPPRESSION_KEY, parse_suppression, NO_SUPPRESSION),
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
    text = data.get(key, "")
    if not text.strip():
        return Configured(absent.cluster, f"defaults: there is no key {key}")
    config = parse(text).value
    if config is None:
        source = f"key {key} has errors; the agent keeps the last good one"
        return Configured(None, source, invalid=True)
    return Configured(*config.strategy_for(labels))
