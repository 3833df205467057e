"""Decides what is done to the offline pods of one node. Pure.

| the node offers | suppression | its bounds | resctrl group | samples |
|---|---|---|---|---|
| yes | one quota | follow the offer | as configured | taken |
| yes or no | a quota for each pod | follow the node's utilization | as configured, or removed | taken |
| yes | disabled | given back | as configured | taken |
| no | one quota or disabled | given back | removed | forgotten |
| no | unknown | only that of the BestEffort cgroup is given back | removed | forgotten |

Offline pods are isolated as configured wherever suppression is enabled, whether the node offers or not.

Otherwise what is unknown begins nothing and gives nothing back. A tick moves bounds by one step.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from corewise.config.colocation import (
    Isolation,
    OversubscriptionSettings,
    ResctrlSettings,
    SuppressionMode,
    SuppressionSettings,
)
from corewise.quantities import MILLI, ONE, Ratio
from corewise.suppression.offer import Computed, Offer, OfflineAmounts, Usage, compute


@dataclass(frozen=True, slots=True)
class NodeColocation:
    """The settings that apply to one node, and what its Node says; None is unknown."""

    oversubscription: OversubscriptionSettings | None = None
    suppression: SuppressionSettings | None = None
    resctrl: ResctrlSettings | None = None
    on: bool | None = None
    """Whether the node offers to offline pods."""
    allocatable: OfflineAmounts | None = None
    """The raw amounts."""
    ratio: Ratio = ONE
    """The normalization ratio."""

    @property
    def interval(self) -> float:
        """Seconds between two ticks."""
        return float((self.oversubscription or OversubscriptionSettings()).interval)

    @property
    def mode(self) -> SuppressionMode | None:
        """The option that holds pods back: one quota while the node offers, each pod's own always."""
        settings = self.suppression
        if settings is None or not settings.enabled or self.on is None:
            return None
        return settings.mode if self.on or settings.mode is SuppressionMode.PER_POD_QUOTA else None

    @property
    def isolation(self) -> Isolation | None:
        """The way offline pods are kept apart from online work; None: as they are."""
        settings = self.suppression
        if settings is None:
            return None
        return settings.isolation if settings.enabled else Isolation.WEIGHTS

    @property
    def gives_back(self) -> bool:
        """Whether the bounds of suppression are removed, if there are any."""
        is_disabled = self.suppression is not None and not self.suppression.enabled
        return (self.on is False or is_disabled) and self.mode is None

    @property
    def keeps_pods_bounds(self) -> bool:
        """Whether the pods' own bounds stay when others are removed: it is unknown who holds pods back."""
        return self.suppression is None

    @property
    def computes_offer(self) -> bool:
        """Whether the node offers, by settings that are known."""
        return self.on is True and self.oversubscription is not None and self.allocatable is not None

    @property
    def is_sampled(self) -> bool:
        """Whether usage is measured: for an offer, and for a quota of each pod, which needs none."""
        per_pod = self.mode is SuppressionMode.PER_POD_QUOTA and self.allocatable is not None
        return per_pod or self.computes_offer

    def computed(self, usage: Usage, cpus: int) -> Computed | None:
        """Compute the offer of one sample alone, with ``cpus`` online.

        None as long as settings or amounts are unknown.
        """
        if self.oversubscription is None or self.allocatable is None:
            return None
        online = OfflineAmounts(cpus * MILLI, self.allocatable.memory)
        return compute(usage, self.allocatable.at_most(online), self.oversubscription.ratio)


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurements of one interval: the offer so far, and the sample, None if it is missing."""

    offer: Offer
    usage: Usage | None = None
    utilization: Fraction | None = None
    """The used part of the CPUs that no CPUSet pod owns."""
    problem: str = ""
    """The reason that the sample is missing, if that is worth a report."""


@dataclass(frozen=True, slots=True)
class SuppressionStep:
    """One step of the option that ``settings`` chooses: towards ``offer``, or by ``utilization``.

    ``interval``: seconds until the next one.
    """

    settings: SuppressionSettings
    offer: Offer
    allocatable_milli: int
    interval: float
    utilization: Fraction | None


def next_step(node: NodeColocation, measured: Measurement) -> SuppressionStep | None:
    """Return the step of a tick; None if nothing is suppressed."""
    if node.suppression is None or node.allocatable is None or node.mode is None:
        return None
    latest = measured.offer.latest
    return SuppressionStep(
        node.suppression,
        measured.offer,
        latest.allocatable_milli if latest else node.allocatable.cpu_milli,
        node.interval,
        measured.utilization,
    )
