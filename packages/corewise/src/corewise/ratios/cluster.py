"""The facts that apply to all nodes: the configuration, and whether Koordinator's webhook is in the way.

Each key of the ConfigMap is read by itself. Of amplification and normalization, the entries without errors
are applied, and nodes keep what they have where an entry with errors may be meant for them. Of a text that is
no JSON at all, and of a bad key of colocation, the last good one stays. An absent ConfigMap or key is a
configuration too: the empty one, which enables nothing. A key that was never readable (the manager has just
started) is *unknown*, None: nodes then keep what they have, since taking "unknown" for "nothing enabled"
would undo everything on the restart after a typing error.

The agents follow the keys of colocation. The manager reads them to refuse bad ones at admission, and to
report those that were admitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from corewise.amplification import MAXIMUM
from corewise.config.colocation import (
    NO_OVERSUBSCRIPTION,
    NO_RESOURCE_QOS,
    NO_SUPPRESSION,
    OversubscriptionConfig,
    ResourceQOSConfig,
    SuppressionConfig,
    parse_oversubscription,
    parse_resource_qos,
    parse_suppression,
)
from corewise.config.configuration import (
    LARGEST_AMPLIFICATION_RATIO,
    NO_AMPLIFICATION,
    NO_NORMALIZATION,
    AmplificationConfig,
    NormalizationConfig,
    node_config_conflicts,
    parse_amplification,
    parse_normalization,
)
from corewise.config.decoding import Parsed, Problem, Severity
from corewise.config.eviction import NO_RESOURCE_THRESHOLD, EvictionConfig, parse_resource_threshold
from corewise.config.node_configs import Configuration
from corewise.kube.objects import ConfigMap, KubeObject
from corewise.kube.resources import WebhookConfiguration
from corewise.quantities import Ratio, RatioError
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    LARGEST_RATIO,
    NORMALIZATION_KEY,
    OVERSUBSCRIPTION_KEY,
    RESOURCE_QOS_KEY,
    RESOURCE_THRESHOLD_KEY,
    SUPPRESSION_KEY,
)

T = TypeVar("T")
KEYS = (
    NORMALIZATION_KEY,
    AMPLIFICATION_KEY,
    OVERSUBSCRIPTION_KEY,
    SUPPRESSION_KEY,
    RESOURCE_QOS_KEY,
    RESOURCE_THRESHOLD_KEY,
)
_CORE_GROUP = frozenset({"", "*"})
_NODE_STATUS = frozenset({"nodes/status", "nodes/*", "*/status", "*/*"})


@dataclass(frozen=True, slots=True)
class ClusterConfiguration:
    """The configuration that applies; None is unknown."""

    normalization: NormalizationConfig | None = None
    amplification: AmplificationConfig | None = None
    oversubscription: OversubscriptionConfig | None = None
    suppression: SuppressionConfig | None = None
    resource_qos: ResourceQOSConfig | None = None
    eviction: EvictionConfig | None = None


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """The facts that the assessment of every node depends on.

    ``koordinator`` is the name of Koordinator's webhook on node status; empty if there is none.
    """

    configuration: ClusterConfiguration
    koordinator: str = ""
    largest: Ratio = MAXIMUM


@dataclass(frozen=True, slots=True)
class ConfigurationReading:
    """The configuration after a ConfigMap was read, and what was wrong with the ConfigMap, by key.

    ``in_parts``: the keys of which the entries without errors are applied, in spite of others with errors.
    """

    configuration: ClusterConfiguration
    present: bool = True
    problems: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)
    in_parts: frozenset[str] = frozenset()

    def errors(self, key: str) -> tuple[Problem, ...]:
        return tuple(each for each in self.problems.get(key, ()) if each.severity is Severity.ERROR)

    @property
    def bad_keys(self) -> tuple[str, ...]:
        """The keys whose text has errors."""
        return tuple(key for key in KEYS if self.errors(key))

    def applied_instead(self, key: str) -> str:
        """Return in words what applies in place of a key that has errors."""
        if key in self.in_parts:
            return "entries without errors are applied, nodes that others may be meant for stay as they are"
        return "the last good one stays in force"


UNKNOWN = ClusterConfiguration()
NOTHING_CONFIGURED = ClusterConfiguration(NO_NORMALIZATION, NO_AMPLIFICATION)
"""Nodes get the ratios that users state on them, and no others."""


def read_configuration(
    config_map: ConfigMap | None,
    last_good: ClusterConfiguration = UNKNOWN,
    largest: Ratio = LARGEST_AMPLIFICATION_RATIO,
) -> ConfigurationReading:
    """Read the ConfigMap (None: there is none) and return the configuration that applies."""
    problems: dict[str, tuple[Problem, ...]] = {}
    parted: set[str] = set()

    def read(
        key: str, parse: Callable[[str], Parsed[T]], absent: T, last: T | None, *, in_parts: bool = False
    ) -> T | None:
        text = config_map_text(config_map, key)
        if text is None:
            return absent
        parsed = parse(text)
        problems[key] = parsed.problems
        if in_parts and parsed.rest is not None:
            parted.add(key)
            return parsed.rest
        return last if parsed.value is None else parsed.value

    def amplification(text: str) -> Parsed[AmplificationConfig]:
        return parse_amplification(text, largest)

    configuration = ClusterConfiguration(
        read(
            NORMALIZATION_KEY,
            parse_normalization,
            NO_NORMALIZATION,
            last_good.normalization,
            in_parts=True,
        ),
        read(AMPLIFICATION_KEY, amplification, NO_AMPLIFICATION, last_good.amplification, in_parts=True),
        read(OVERSUBSCRIPTION_KEY, parse_oversubscription, NO_OVERSUBSCRIPTION, last_good.oversubscription),
        read(SUPPRESSION_KEY, parse_suppression, NO_SUPPRESSION, last_good.suppression),
        read(RESOURCE_QOS_KEY, parse_resource_qos, NO_RESOURCE_QOS, last_good.resource_qos),
        read(RESOURCE_THRESHOLD_KEY, parse_resource_threshold, NO_RESOURCE_THRESHOLD, last_good.eviction),
    )
    return ConfigurationReading(configuration, config_map is not None, problems, frozenset(parted))


def config_map_text(config_map: ConfigMap | None, key: str) -> str | None:
    """Return the text under a key; None if the ConfigMap or the key is absent.

    A blank text is a text with an error: what it was meant to say is not known.
    """
    return config_map.data.get(key) if config_map else None


def conflicts(
    configuration: ClusterConfiguration, nodes: Iterable[tuple[str, Mapping[str, str]]]
) -> dict[str, tuple[Problem, ...]]:
    """Return, by key, the pairs of nodeConfigs entries that select the same one of these nodes."""
    nodes = tuple(nodes)
    by_key: dict[str, Configuration[Any] | None] = {
        NORMALIZATION_KEY: configuration.normalization,
        AMPLIFICATION_KEY: configuration.amplification,
        OVERSUBSCRIPTION_KEY: configuration.oversubscription,
        SUPPRESSION_KEY: configuration.suppression,
        RESOURCE_QOS_KEY: configuration.resource_qos,
        RESOURCE_THRESHOLD_KEY: configuration.eviction,
    }
    found = {key: node_config_conflicts(config, nodes) for key, config in by_key.items() if config}
    return {key: problems for key, problems in found.items() if problems}


def published_largest(installed: Iterable[KubeObject]) -> Ratio:
    """Return the largest amplification ratio that the manager states on its webhook configurations."""
    return stated_largest(each.metadata.annotations for each in installed)


def stated_largest(annotations: Iterable[Mapping[str, str]]) -> Ratio:
    """Return the first largest ratio in the annotations of objects; the default, if none can be read."""
    for each in annotations:
        with suppress(KeyError, RatioError):
            return Ratio.parse(each[LARGEST_RATIO])
    return LARGEST_AMPLIFICATION_RATIO


def interfering_webhook(configurations: Iterable[WebhookConfiguration]) -> str:
    """Return "configuration/webhook" of Koordinator's webhook on node status; empty if there is none.

    Two webhooks that amplify would amplify twice. Koordinator names its webhooks below ``koordinator.sh``;
    this one is ``mnode-status.koordinator.sh``. Source: koordinator pkg/webhook/node/mutating/webhooks.go.
    """
    for configuration in configurations:
        for webhook in configuration.webhooks:
            covers_node_status = any(
                not _CORE_GROUP.isdisjoint(rule.api_groups) and not _NODE_STATUS.isdisjoint(rule.resources)
                for rule in webhook.rules
            )
            if webhook.name.endswith(".koordinator.sh") and covers_node_status:
                return f"{configuration.metadata.name}/{webhook.name}"
    return ""
