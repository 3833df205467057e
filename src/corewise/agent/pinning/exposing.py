"""The metrics of pinning and of settings, set when somebody asks for them."""

from __future__ import annotations

from collections.abc import Mapping

from corewise.agent.local_node import LocalNode
from corewise.prometheus.exposition import Exposition
from corewise.vocabulary.metrics import agent as metrics


def publish(local: LocalNode, exposition: Exposition) -> None:
    """Set everything that is told about owned CPUs and settings."""
    division = local.pins.division
    exposition.set(metrics.PINNING_PODS, sum(bool(owner.online) for owner in division.owners.values()))
    exposition.set(metrics.PINNING_OWNED, len(division.owned))
    shared: Mapping[tuple[str, ...], float] = {(): len(division.shared)} if division.owners else {}
    exposition.replace(metrics.PINNING_SHARED, shared)
    exposition.set(metrics.PINNING_FAILING, local.complaints.count("CPU sets"))
    if local.cgroups.found is not None:
        totals = local.cgroups.found.settings.totals
        exposition.set(metrics.SETTING_WRITES, totals["written"])
        exposition.set(metrics.SETTING_DRIFTS, totals["drifted"])
        exposition.set(metrics.SETTING_ERRORS, totals["failed"])
