"""Which configuration is in force: the ConfigMap's if it is good, else the last good one, key by key.

An absent ConfigMap or key is a configuration too: the empty one, which enables nothing. A bad key that was
never good (the manager has just started) is *unknown*, None: nodes then keep what they have, since taking
"unknown" for "nothing enabled" would undo everything on the restart after somebody's typing error.

The keys of colocation are the agents' to follow. The manager reads them to refuse bad ones at the door, and
to tell about those that got in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from corewise.config.colocation import (
    NO_OVERSUBSCRIPTION,
    NO_SUPPRESSION,
    OversubscriptionConfig,
    SuppressionConfig,
    parse_oversubscription,
    parse_suppression,
)
from corewise.config.configuration import (
    LARGEST_AMPLIFICATION_RATIO,
    NO_AMPLIFICATION,
    NO_NORMALIZATION,
    AmplificationConfig,
    NormalizationConfig,
    Parsed,
    Problem,
    Severity,
    node_config_conflicts,
    parse_amplification,
    parse_normalization,
)
from corewise.kube.objects import ConfigMap
from corewise.manager.view import config_map_text
from corewise.quantities import Ratio
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    NORMALIZATION_KEY,
    OVERSUBSCRIPTION_KEY,
    SUPPRESSION_KEY,
)

T = TypeVar("T")
KEYS = (NORMALIZATION_KEY, AMPLIFICATION_KEY, OVERSUBSCRIPTION_KEY, SUPPRESSION_KEY)


@dataclass(frozen=True, slots=True)
class ClusterConfiguration:
    """What is in force; None is unknown."""

    normalization: NormalizationConfig | None = None
    amplification: AmplificationConfig | None = None
    oversubscription: OversubscriptionConfig | None = None
    suppression: SuppressionConfig | None = None


@dataclass(frozen=True, slots=True)
class ConfigurationReading:
    """What is in force after a ConfigMap was read, and what was wrong with it, by key."""

    configuration: ClusterConfiguration
    present: bool = True
    problems: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)

    def errors(self, key: str) -> tuple[Problem, ...]:
        return tuple(each for each in self.problems.get(key, ()) if each.severity is Severity.ERROR)

    @property
    def bad_keys(self) -> tuple[str, ...]:
        """The keys whose text is not what is in force."""
        return tuple(key for key in KEYS if self.errors(key))


UNKNOWN = ClusterConfiguration()


def read_configuration(
    config_map: ConfigMap | None,
    last_good: ClusterConfiguration = UNKNOWN,
    largest: Ratio = LARGEST_AMPLIFICATION_RATIO,
) -> ConfigurationReading:
    """Read the ConfigMap (None: there is none) and say what is in force."""
    problems: dict[str, tuple[Problem, ...]] = {}

    def read(key: str, parse: Callable[[str], Parsed[T]], absent: T, last: T | None) -> T | None:
        text = config_map_text(config_map, key)
        if text is None:
            return absent
        parsed = parse(text)
        problems[key] = parsed.problems
        return last if parsed.value is None else parsed.value

    def amplification(text: str) -> Parsed[AmplificationConfig]:
        return parse_amplification(text, largest)

    configuration = ClusterConfiguration(
        read(NORMALIZATION_KEY, parse_normalization, NO_NORMALIZATION, last_good.normalization),
        read(AMPLIFICATION_KEY, amplification, NO_AMPLIFICATION, last_good.amplification),
        read(OVERSUBSCRIPTION_KEY, parse_oversubscription, NO_OVERSUBSCRIPTION, last_good.oversubscription),
        read(SUPPRESSION_KEY, parse_suppression, NO_SUPPRESSION, last_good.suppression),
    )
    return ConfigurationReading(configuration, config_map is not None, problems)


def conflicts(
    configuration: ClusterConfiguration, nodes: Iterable[tuple[str, Mapping[str, str]]]
) -> dict[str, tuple[Problem, ...]]:
    """Return, by key, the pairs of nodeConfigs entries that select the same one of these nodes."""
    nodes = tuple(nodes)
    found: dict[str, tuple[Problem, ...]] = {}
    if configuration.normalization:
        found[NORMALIZATION_KEY] = node_config_conflicts(configuration.normalization, nodes)
    if configuration.amplification:
        found[AMPLIFICATION_KEY] = node_config_conflicts(configuration.amplification, nodes)
    if configuration.oversubscription:
        found[OVERSUBSCRIPTION_KEY] = node_config_conflicts(configuration.oversubscription, nodes)
    if configuration.suppression:
        found[SUPPRESSION_KEY] = node_config_conflicts(configuration.suppression, nodes)
    return {key: problems for key, problems in found.items() if problems}


def told(problems: Iterable[Problem], limit: int = 3) -> str:
    """Return the first problems in one line, and how many more there are."""
    problems = tuple(problems)
    more = f"; and {len(problems) - limit} more" if len(problems) > limit else ""
    return "; ".join(map(str, problems[:limit])) + more
