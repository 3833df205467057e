"""The offline report of one node: what was measured, what is offered, what holds offline pods back. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime

from corewise.config.colocation import OversubscriptionSettings
from corewise.kube.clock import rfc3339
from corewise.quantities import Ratio
from corewise.suppression.offer import Amounts, Computed, Offer, Usage
from corewise.vocabulary.offline_report import LONGEST_CURVE, MemoryReport, OfflineReport, SuppressionReport
from corewise.vocabulary.reasons import Reason

_NOTHING_USED = Usage(0, 0, (), 0, 0)
_NOTHING_COMPUTED = Computed(0, 0, 0, 0, 0, Reason.OFFER_WITHDRAWN)


def _curve() -> deque[int]:
    return deque(maxlen=LONGEST_CURVE)


@dataclass(slots=True)
class Measured:
    """The last samples of a node. ``wall``: when the last one was taken, in seconds since 1970."""

    wall: float = 0.0
    usage: Usage | None = None
    online: deque[int] = field(default_factory=_curve)
    offline: deque[int] = field(default_factory=_curve)

    def add(self, wall: float, usage: Usage, computed: Computed) -> None:
        """Take a sample."""
        self.wall, self.usage = wall, usage
        self.online.append(computed.online_milli)
        self.offline.append(usage.offline_milli)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What an offer follows from besides usage, and the pods that are concerned."""

    settings: OversubscriptionSettings
    allocatable: Amounts
    normalization: Ratio
    native: int
    offline: int


def report_of(
    inputs: Inputs, measured: Measured, offer: Offer, suppression: SuppressionReport | None
) -> OfflineReport | None:
    """Return the report, or None as long as there is nothing to act on.

    What was withdrawn without ever having been measured (an agent that can read nothing) is reported with
    zeros.
    """
    if not offer.is_known:
        return None
    usage, latest = measured.usage or _NOTHING_USED, offer.latest or _NOTHING_COMPUTED
    return OfflineReport(
        time=rfc3339(datetime.fromtimestamp(measured.wall, UTC)),
        interval_seconds=int(inputs.settings.interval),
        state=offer.state,
        ratio=str(inputs.settings.ratio),
        normalization_ratio=str(inputs.normalization),
        allocatable_milli=inputs.allocatable.cpu_milli,
        node_milli=usage.node_milli,
        online_milli=latest.online_milli,
        offline_milli=usage.offline_milli,
        pinned_milli=latest.pinned_extra_milli,
        offered_milli=offer.cpu_milli,
        raw_offer_milli=latest.cpu_milli,
        memory=MemoryReport(
            allocatable=inputs.allocatable.memory,
            online=latest.online_memory,
            offline=usage.offline_memory,
            offered=offer.memory,
        ),
        samples=offer.samples,
        missing=offer.missing,
        native_best_effort=inputs.native,
        offline_pods=inputs.offline,
        limited_by=offer.reason,
        suppression=suppression,
        online=list(measured.online),
        offline=list(measured.offline),
    )
