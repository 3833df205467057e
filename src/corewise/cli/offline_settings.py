"""Which settings of oversubscription and suppression a node is to have, and where they come from (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from corewise.config.colocation import (
    NO_OVERSUBSCRIPTION,
    NO_SUPPRESSION,
    OversubscriptionSettings,
    OversubscriptionStrategy,
    SuppressionSettings,
    SuppressionStrategy,
    parse_oversubscription,
    parse_suppression,
)
from corewise.config.configuration import Configuration, Parsed
from corewise.vocabulary.names import OVERSUBSCRIPTION_KEY, SUPPRESSION_KEY

T = TypeVar("T")
S = TypeVar("S", OversubscriptionStrategy, SuppressionStrategy)


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
    """What is configured for one node, key by key."""

    oversubscription: Configured[OversubscriptionSettings]
    suppression: Configured[SuppressionSettings]


def settings_for(data: Mapping[str, str] | None, labels: Mapping[str, str]) -> OfflineSettings:
    """Read the ConfigMap's data for a node with these labels; None is a ConfigMap that could not be read.

    Without a ConfigMap, pass an empty mapping: the defaults are in force.
    """
    if data is None:
        unread = "unknown: the ConfigMap could not be read"
        return OfflineSettings(Configured(None, unread), Configured(None, unread))
    offer, offer_source = _strategy(
        data, OVERSUBSCRIPTION_KEY, parse_oversubscription, NO_OVERSUBSCRIPTION, labels
    )
    quota, quota_source = _strategy(data, SUPPRESSION_KEY, parse_suppression, NO_SUPPRESSION, labels)
    return OfflineSettings(
        Configured(offer.in_force if offer else None, offer_source, invalid=offer is None),
        Configured(quota.in_force if quota else None, quota_source, invalid=quota is None),
    )


def _strategy(
    data: Mapping[str, str],
    key: str,
    parse: Callable[[str], Parsed[Configuration[S]]],
    absent: Configuration[S],
    labels: Mapping[str, str],
) -> tuple[S | None, str]:
    text = data.get(key, "")
    if not text.strip():
        return absent.cluster, f"defaults: there is no key {key}"
    config = parse(text).value
    if config is None:
        return None, f"key {key} has errors; the agent keeps the last good one (corewise config check)"
    return config.strategy_for(labels)
