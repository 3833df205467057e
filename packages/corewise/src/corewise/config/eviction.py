"""When offline pods are evicted: the key ``resource-threshold-config``, and the settings that apply.

The key is Koordinator's; of it what evicts is honored, and two members are added::

    {"clusterStrategy": {"enable": true,
       "memoryEvictThresholdPercent": 80, "memoryEvictLowerPercent": 75,
       "cpuEvictBESatisfactionLowerPercent": 60, "cpuEvictBESatisfactionUpperPercent": 80,
       "cpuEvictBEUsageThresholdPercent": 90, "cpuEvictTimeWindowSeconds": 60,
       "evictCooldownSeconds": 300, "evictDryRun": false},
     "nodeStrategies": [{"name": "test", "nodeSelector": {...}, ...}]}

No pod is evicted unless ``enable`` is true and a threshold is written: no threshold has a default, where
Koordinator's is 70 % of memory. ``memoryEvictLowerPercent`` is 2 below its threshold if absent, as there; of
``cpuEvictBESatisfaction...`` both are needed, as there. An entry of ``nodeStrategies`` inherits from the
cluster. Each other member gets a warning.

Source: Koordinator's apis/slo/v1alpha1/nodeslo_types.go, ``ResourceThresholdStrategy``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from corewise.config.decoding import Decoder, Fields, Parsed, Place, either
from corewise.config.json_text import read_json
from corewise.config.node_configs import Configuration, read_node_configs
from corewise.vocabulary.names import HONORED_EVICTION


@dataclass(frozen=True, slots=True)
class EvictionSettings:
    """When offline pods are evicted. A threshold of None evicts no pod; all defaults are None.

    Memory is in percent of the node's physical memory: eviction begins above ``memory_threshold_percent``
    and ends below ``memory_lower_percent``. CPU satisfaction is the quota of offline pods in percent of the
    CPU that they request: eviction begins when it has been below ``cpu_satisfaction_lower_percent`` for
    ``cpu_window_seconds`` while they used at least ``cpu_usage_threshold_percent`` of the quota, and ends
    above ``cpu_satisfaction_upper_percent``. ``cooldown_seconds`` pass between two evictions. ``dry_run``
    names the pods that would be evicted, and evicts none.
    """

    memory_threshold_percent: int | None = None
    memory_lower_percent: int | None = None
    cpu_satisfaction_lower_percent: int | None = None
    cpu_satisfaction_upper_percent: int | None = None
    cpu_usage_threshold_percent: int | None = None
    cpu_window_seconds: int = 60
    cooldown_seconds: int = 300
    dry_run: bool = False

    @property
    def evicts_for_memory(self) -> bool:
        return self.memory_threshold_percent is not None

    @property
    def evicts_for_cpu(self) -> bool:
        return self.cpu_satisfaction_lower_percent is not None


NO_EVICTION = EvictionSettings()
"""The settings where nothing is configured: no pod is evicted."""

EvictionConfig: TypeAlias = Configuration[EvictionSettings]

NO_RESOURCE_THRESHOLD: EvictionConfig = Configuration(NO_EVICTION)
"""What applies where the key is absent."""

RESOURCE_THRESHOLD_MEMBERS = ("clusterStrategy", "nodeStrategies")
_MEMORY, _MEMORY_LOWER = "memoryEvictThresholdPercent", "memoryEvictLowerPercent"
_LOWER, _UPPER = "cpuEvictBESatisfactionLowerPercent", "cpuEvictBESatisfactionUpperPercent"
_USAGE, _WINDOW = "cpuEvictBEUsageThresholdPercent", "cpuEvictTimeWindowSeconds"
_COOLDOWN, _DRY_RUN = "evictCooldownSeconds", "evictDryRun"
_MEMBERS = (*HONORED_EVICTION, _COOLDOWN, _DRY_RUN)
_SUPPRESSES = "cpu-suppression-config says how offline pods are held back"
_BY_QUOTA = "eviction for CPU goes by what offline pods' quota is of their requests"
_BY_USE = f"eviction for memory goes by memory in use ({_MEMORY}), not by what pods request"
_LOWEST_FIRST = "offline pods of every priority may be evicted, the lowest first"
_OTHERS = {
    "cpuSuppressThresholdPercent": _SUPPRESSES,
    "cpuSuppressMinPercent": _SUPPRESSES,
    "cpuSuppressPolicy": _SUPPRESSES,
    "cpuEvictPolicy": _BY_QUOTA,
    "cpuEvictThresholdPercent": _BY_QUOTA,
    "cpuEvictLowerPercent": _BY_QUOTA,
    "cpuAllocatableEvictThresholdPercent": _BY_QUOTA,
    "cpuAllocatableEvictLowerPercent": _BY_QUOTA,
    "memoryAllocatableEvictThresholdPercent": _BY_USE,
    "memoryAllocatableEvictLowerPercent": _BY_USE,
    "evictEnabledPriorityThreshold": _LOWEST_FIRST,
    "allocatableEvictPriorityThreshold": _LOWEST_FIRST,
}
"""Members of Koordinator that are not honored, and what is instead."""

_BELOW_THRESHOLD = 2
_USED = 90
LONGEST_WINDOW, LONGEST_COOLDOWN = 3600, 86400


@dataclass(frozen=True, slots=True)
class _Strategy:
    """The content of a strategy; ``enabled`` is None where nothing sets it."""

    enabled: bool | None = None
    settings: EvictionSettings = NO_EVICTION

    @property
    def effective(self) -> EvictionSettings:
        return self.settings if self.enabled else NO_EVICTION


def parse_resource_threshold(text: str) -> Parsed[EvictionConfig]:
    """Read the value of the key ``resource-threshold-config``."""
    decoder = Decoder(read_json(text))
    around, member = RESOURCE_THRESHOLD_MEMBERS
    members = (*_MEMBERS, *_OTHERS)
    read = read_node_configs(decoder, members, _Strategy(), _strategy, around=around, member=member)
    return decoder.finish(read.mapped(lambda each: each.effective))


def _strategy(decoder: Decoder, places: Fields, inherited: _Strategy) -> _Strategy:
    for name, instead in _OTHERS.items():
        if not places[name].is_empty:
            decoder.warn(places[name], f"not honored: {instead}")
    before, errors = inherited.settings, decoder.error_count

    def whole(name: str, smallest: int, largest: int, inherited: int | None) -> int | None:
        return either(decoder.whole(places[name], smallest, largest), inherited)

    memory = whole(_MEMORY, 1, 99, before.memory_threshold_percent)
    memory_lower = whole(_MEMORY_LOWER, 0, 98, None)
    if memory_lower is None and not places[_MEMORY].is_empty and memory is not None:
        memory_lower = max(0, memory - _BELOW_THRESHOLD)
    settings = EvictionSettings(
        memory_threshold_percent=memory,
        memory_lower_percent=before.memory_lower_percent if memory_lower is None else memory_lower,
        cpu_satisfaction_lower_percent=whole(_LOWER, 1, 100, before.cpu_satisfaction_lower_percent),
        cpu_satisfaction_upper_percent=whole(_UPPER, 1, 100, before.cpu_satisfaction_upper_percent),
        cpu_usage_threshold_percent=whole(_USAGE, 1, 100, before.cpu_usage_threshold_percent or _USED),
        cpu_window_seconds=either(
            decoder.whole(places[_WINDOW], 1, LONGEST_WINDOW), before.cpu_window_seconds
        ),
        cooldown_seconds=either(
            decoder.whole(places[_COOLDOWN], 1, LONGEST_COOLDOWN), before.cooldown_seconds
        ),
        dry_run=either(decoder.flag(places[_DRY_RUN]), before.dry_run),
    )
    strategy = _Strategy(either(decoder.flag(places["enable"]), inherited.enabled), settings)
    if decoder.error_count == errors:
        _check(decoder, places, strategy)
    return strategy


def _check(decoder: Decoder, places: Fields, strategy: _Strategy) -> None:
    """Report contradictory settings, at one that is written here; warn of those that never evict."""
    settings = strategy.settings
    memory, ends = settings.memory_threshold_percent, settings.memory_lower_percent
    at = _written(places, _MEMORY_LOWER, _MEMORY)
    if at and memory is None:
        decoder.warn(at, f"evicts no pod without {_MEMORY}")
    elif at and ends is not None and memory is not None and ends >= memory:
        begins_at = f"eviction begins above {memory} % and would end only below {ends} %"
        decoder.error(at, f"{begins_at}: {_MEMORY_LOWER} must be below {_MEMORY}")
    begins, ends = settings.cpu_satisfaction_lower_percent, settings.cpu_satisfaction_upper_percent
    at = _written(places, _UPPER, _LOWER)
    if begins is None:
        if at := _written(places, _UPPER, _USAGE, _WINDOW):
            decoder.warn(at, f"evicts no pod without {_LOWER}")
    elif at and ends is None:
        decoder.error(at, f"{_UPPER} is missing: it says above which share eviction ends")
    elif at and ends is not None and ends < begins:
        begins_at = f"eviction begins below {begins} % and would end already above {ends} %"
        decoder.error(at, f"{begins_at}: {_UPPER} must not be below {_LOWER}")
    at = _written(places, _MEMORY, _LOWER)
    if at and strategy.enabled is None:
        decoder.warn(at, "evicts no pod until enable is true")
    at = _written(places, "enable")
    if at and strategy.enabled and memory is None and begins is None:
        message = f"evicts no pod: no threshold has a default here; write {_MEMORY} or {_LOWER}"
        decoder.warn(at, message)


def _written(places: Fields, *names: str) -> Place | None:
    """Return the first of these members that is written here."""
    return next((places[name] for name in names if not places[name].is_empty), None)
