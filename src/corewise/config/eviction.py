"""When offline pods are evicted: the settings that apply to a node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EvictionSettings:
    """When offline pods are evicted. A threshold of None evicts nobody; so do all defaults.

    Memory is in percent of the node's physical memory: eviction begins above ``memory_threshold_percent``
    and ends below ``memory_lower_percent``. CPU satisfaction is the quota of offline pods in percent of the
    CPU that they request: eviction begins when it has been below ``cpu_satisfaction_lower_percent`` for
    ``cpu_window_seconds`` while they used at least ``cpu_usage_threshold_percent`` of the quota, and ends
    above ``cpu_satisfaction_upper_percent``. ``cooldown_seconds`` pass between two evictions. ``dry_run``
    says who would be evicted, and evicts nobody.
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
"""What applies where nothing is configured: nobody is evicted."""
