"""The settings for offline pods on this node, from the ConfigMap and the Node. Pure.

*The ConfigMap*: the last good of each key, merged for the node's labels. An absent ConfigMap or key is a
configuration too: the one with the defaults, which suppresses nothing. A bad key that was never good (the
agent has just started) is *unknown*, None: nothing is begun and nothing is given back, since taking it for
the empty one would let every offline pod loose on a typing error.

*The label* ``volcano.sh/oversubscription`` is "true" or "false"; absent is off. Any other value is a problem,
and the last good one stays: off, if there was none.

*Allocatable* CPU and memory are the physical ones: where the Node is amplified, its annotations have them
(``node.koordinator.sh/raw-allocatable``); else status has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import TypeVar

from corewise.agent.objects import AgentNode
from corewise.amplification import NodeAmounts
from corewise.amplification.amounts import CPU, MEMORY
from corewise.amplification.annotations import raw_amounts
from corewise.config.colocation import (
    NO_OVERSUBSCRIPTION,
    NO_RESOURCE_QOS,
    NO_SUPPRESSION,
    OversubscriptionConfig,
    OversubscriptionSettings,
    ResctrlSettings,
    ResourceQOSConfig,
    SuppressionConfig,
    SuppressionSettings,
    not_honored,
    parse_oversubscription,
    parse_resource_qos,
    parse_suppression,
)
from corewise.config.decoding import Parsed, Severity
from corewise.config.eviction import (
    NO_RESOURCE_THRESHOLD,
    EvictionConfig,
    EvictionSettings,
    parse_resource_threshold,
)
from corewise.config.node_configs import Configuration
from corewise.kube.objects import ConfigMap
from corewise.quantities import offered_amounts
from corewise.suppression.offer import OfflineAmounts
from corewise.vocabulary.foreign_names import UNREAD_KEYS
from corewise.vocabulary.names import (
    OVERSUBSCRIPTION,
    OVERSUBSCRIPTION_KEY,
    RESOURCE_QOS_KEY,
    RESOURCE_THRESHOLD_KEY,
    SUPPRESSION_KEY,
)

KEYS = (OVERSUBSCRIPTION_KEY, SUPPRESSION_KEY, RESOURCE_QOS_KEY, RESOURCE_THRESHOLD_KEY)
_SHOWN = 3
S = TypeVar("S", OversubscriptionSettings, SuppressionSettings, ResctrlSettings, EvictionSettings)


class ColocationConfiguration:
    """All four keys. Before the first ``read`` nothing is known.

    ``problems`` says what is wrong with each, ``warnings`` how a text was read and what in it is ignored.
    """

    def __init__(self) -> None:
        self._oversubscription: OversubscriptionConfig | None = None
        self._suppression: SuppressionConfig | None = None
        self._resource_qos: ResourceQOSConfig | None = None
        self._eviction: EvictionConfig | None = None
        self.problems: dict[str, str] = {}
        self.warnings: list[str] = []

    def after(self, config_map: ConfigMap | None) -> ColocationConfiguration:
        """Return the settings that the ConfigMap gives, without changing these."""
        following = copy(self)
        following.read(config_map)
        return following

    def read(self, config_map: ConfigMap | None) -> None:
        """Take the ConfigMap; None: there is none."""
        data = config_map.data if config_map else {}
        self.problems, self.warnings = {}, []
        self._oversubscription = self._read_key(
            data, OVERSUBSCRIPTION_KEY, parse_oversubscription, NO_OVERSUBSCRIPTION, self._oversubscription
        )
        self._suppression = self._read_key(
            data, SUPPRESSION_KEY, parse_suppression, NO_SUPPRESSION, self._suppression
        )
        self._resource_qos = self._read_key(
            data, RESOURCE_QOS_KEY, parse_resource_qos, NO_RESOURCE_QOS, self._resource_qos
        )
        self._eviction = self._read_key(
            data, RESOURCE_THRESHOLD_KEY, parse_resource_threshold, NO_RESOURCE_THRESHOLD, self._eviction
        )
        self.warnings += [not_honored(key, data[key]) for key in UNREAD_KEYS if data.get(key, "").strip()]

    def _read_key(
        self,
        data: Mapping[str, str],
        key: str,
        parse: Callable[[str], Parsed[Configuration[S]]],
        absent: Configuration[S],
        last_good: Configuration[S] | None,
    ) -> Configuration[S] | None:
        text = data.get(key)
        if text is None:
            return absent
        parsed = parse(text)
        self.warnings += [f"{key}: {each}" for each in parsed.warnings]
        if parsed.value is not None:
            return parsed.value
        errors = [str(each) for each in parsed.problems if each.severity is Severity.ERROR]
        more = f"; and {len(errors) - _SHOWN} more" if len(errors) > _SHOWN else ""
        stays = "no good one is known" if last_good is None else "the last good one is kept"
        self.problems[key] = "; ".join(errors[:_SHOWN]) + f"{more}; {stays}"
        return last_good

    def oversubscription(self, labels: Mapping[str, str]) -> OversubscriptionSettings | None:
        """Return the oversubscription settings of a node with these labels; None if they are not known."""
        good = self._oversubscription
        return good.strategy_for(labels)[0] if good else None

    def suppression(self, labels: Mapping[str, str]) -> SuppressionSettings | None:
        """Return the suppression settings of a node with these labels; None if they are not known."""
        good = self._suppression
        return good.strategy_for(labels)[0] if good else None

    def resctrl(self, labels: Mapping[str, str]) -> ResctrlSettings | None:
        """Return the resctrl settings of a node with these labels; None if they are not known."""
        good = self._resource_qos
        return good.strategy_for(labels)[0] if good else None

    def eviction(self, labels: Mapping[str, str]) -> EvictionSettings | None:
        """Return the eviction settings of a node with these labels; None if they are not known."""
        good = self._eviction
        return good.strategy_for(labels)[0] if good else None


_TEXTS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Switch:
    """On or off; ``problem`` says why the label does not count."""

    on: bool = False
    problem: str = ""


def read_switch(labels: Mapping[str, str], before: Switch) -> Switch:
    """Return the switch that follows the one before."""
    text = labels.get(OVERSUBSCRIPTION)
    if text is None or text in _TEXTS:
        return Switch(on=_TEXTS.get(text or "", False))
    stays = "on" if before.on else "off"
    return Switch(before.on, f'label {OVERSUBSCRIPTION}: "{text}" is neither true nor false; {stays} stays')


def raw_allocatable(node: AgentNode) -> OfflineAmounts | None:
    """Return the physical allocatable amounts; None if the Node does not state both yet."""
    stated = NodeAmounts(offered_amounts(node.status.capacity), offered_amounts(node.status.allocatable))
    raw = raw_amounts(stated, node.metadata.annotations).allocatable
    if CPU not in raw or MEMORY not in raw:
        return None
    return OfflineAmounts(max(0, raw[CPU].milli), max(0, raw[MEMORY].units))
