"""Builds the report of an interval, and decides what of the Node's status changes, and when. Pure.

The Node shows the offer by one server-side apply of nodes/status: batch-cpu and batch-memory in capacity and
allocatable, and the offline report as an annotation. It is due when the amounts have changed by more than
10 %, every 90 s, when the state of the offer or the task of suppression changes, and when the Node does
not show what was written. Without the label all of it is removed; the annotation says that the agent of this
node wrote it, maybe before a restart. As long as offline pods run there, what they request stays: see
:mod:`corewise.suppression.offer`. Where it is more than the offer, a condition of the Node says so. The patch
names no other resource, so what kubelet and the amplifying policy keep there stays theirs.

It is an apply because of the order of managedFields: first those who apply, then the others by the time of
their last write. A kubelet on an amplified node writes every 10 s what the policy puts back. As one of the
others, the agent would be ahead of it after each publication, and the kubelet's next write would be stored
only because the two change places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from corewise.actions import EmitEvent
from corewise.agent.cgroups import Cycle
from corewise.agent.objects import AgentNode
from corewise.agent.offline_cache import SampleHistory
from corewise.agent.offline_decision import NodeColocation
from corewise.kube.clock import rfc3339
from corewise.quantities import Quantity, QuantityError, Ratio
from corewise.suppression.offer import (
    NO_AMOUNTS,
    Computed,
    Offer,
    OfflineAmounts,
    Usage,
    due,
    published_form,
)
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY, OFFLINE_REPORT, OFFLINE_SHORTFALL
from corewise.vocabulary.offline_report import (
    EvictionReport,
    IsolationReport,
    MemoryReport,
    OfflineReport,
    ResctrlReport,
    ShortfallReport,
    SuppressionReport,
)
from corewise.vocabulary.reasons import Reason
from corewise.workload.nodes import NodeCondition

_SEEN_WITHIN = 5.0
"""Seconds within which the own write comes back through the watch."""
_NOTHING_USED = Usage(0, 0, (), 0, 0)


@dataclass(slots=True)
class Tick(Cycle):
    """The result of one interval.

    ``on``: whether the node offers at all; None if that is not known; then nothing is reported. ``wall``:
    when it was, in seconds since 1970. ``running`` and ``requested``: the batch resources that pods of the
    node request, those that run and all of them. ``events`` are to be emitted.
    """

    on: bool | None = None
    wall: float = 0.0
    running: OfflineAmounts = NO_AMOUNTS
    requested: OfflineAmounts = NO_AMOUNTS
    offer: Offer | None = None
    report: OfflineReport | None = None
    events: list[EmitEvent] = field(default_factory=list)


def report_of(
    measured: SampleHistory,
    offer: Offer,
    node: NodeColocation,
    *,
    native: int = 0,
    offline: int = 0,
    suppression: SuppressionReport | None = None,
    resctrl: ResctrlReport | None = None,
    eviction: EvictionReport | None = None,
    isolation: IsolationReport | None = None,
) -> OfflineReport | None:
    """Return the report, or None as long as there is nothing to act on.

    What was withdrawn without ever having been measured (an agent that can read nothing) is reported with
    zeros. ``native`` and ``offline`` count the best-effort pods of the node.
    """
    settings, allocatable = node.oversubscription, node.allocatable
    if settings is None or allocatable is None or not offer.is_known:
        return None
    nothing = Computed(0, 0, allocatable.cpu_milli, 0, 0, 0, Reason.OFFER_WITHDRAWN)
    usage, latest = measured.usage or _NOTHING_USED, offer.latest or nothing
    return OfflineReport(
        time=rfc3339(datetime.fromtimestamp(measured.wall, UTC)),
        interval_seconds=int(settings.interval),
        state=offer.state,
        ratio=str(settings.ratio),
        normalization_ratio=str(node.ratio),
        allocatable_milli=latest.allocatable_milli,
        node_milli=usage.node_milli,
        online_milli=latest.online_milli,
        offline_milli=usage.offline_milli,
        pinned_milli=latest.pinned_extra_milli,
        offered_milli=offer.cpu_milli,
        raw_offer_milli=latest.cpu_milli,
        memory=MemoryReport(
            allocatable=allocatable.memory,
            online=latest.online_memory,
            offline=usage.offline_memory,
            offered=offer.memory,
        ),
        samples=offer.samples,
        missing=offer.missing,
        native_best_effort=native,
        offline_pods=offline,
        limited_by=offer.reason,
        suppression=suppression,
        resctrl=resctrl,
        eviction=eviction,
        isolation=isolation,
        online=list(measured.online),
        offline=list(measured.offline),
    )


@dataclass(frozen=True, slots=True)
class Publication:
    """A patch of nodes/status. ``amounts`` is None where everything is removed.

    ``report`` is None where the node offers nothing, ``shortfall`` where there is none.
    """

    amounts: OfflineAmounts | None
    report: OfflineReport | None
    shortfall: Mapping[str, str] | None = None

    @property
    def body(self) -> Mapping[str, Any]:
        if self.amounts is None:
            nothing = {BATCH_CPU: None, BATCH_MEMORY: None}
            gone = [{"$patch": "delete", "type": OFFLINE_SHORTFALL}]
            return {
                "metadata": {"annotations": {OFFLINE_REPORT: None}},
                "status": {"capacity": nothing, "allocatable": nothing, "conditions": gone},
            }
        amounts = {BATCH_CPU: str(self.amounts.cpu_milli), BATCH_MEMORY: str(self.amounts.memory)}
        return {
            "metadata": {"annotations": {OFFLINE_REPORT: self.report.encode()} if self.report else {}},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [self.shortfall] if self.shortfall else [],
            },
        }


_NOTHING = Publication(None, None)


class Publisher:
    """The offer shown on one Node."""

    def __init__(self) -> None:
        self._last = _NOTHING
        self._is_written = False
        self._written_at: float | None = None

    @property
    def published(self) -> OfflineAmounts | None:
        """The amounts written last; None if none were, or if they were removed."""
        return self._last.amounts

    @property
    def is_short(self) -> bool:
        """Whether the Node shows more than is offered; then what pods leave behind is not for others."""
        return self._last.shortfall is not None

    def change(self, tick: Tick, node: AgentNode, normalization: Ratio, now: float) -> Publication | None:
        """Return the publication to write, if any. ``now`` is monotonic, in seconds."""
        shown = _shown(node.status.allocatable) or NO_AMOUNTS
        held = tick.running.at_least(shown.at_most(tick.requested))
        if tick.on is False:
            return self._withdrawal(tick, node, held, now)
        if tick.offer is None or tick.report is None:
            return None
        offered = published_form(tick.offer, normalization)
        amounts = due(self.published, self._written_at, offered, held, now)
        if amounts is None and (
            _states(self._last.report) != _states(tick.report) or self._is_lost(node, now)
        ):
            amounts = offered.at_least(held)
        if amounts is None:
            return None
        if offered.at_least(held) == offered:
            return Publication(amounts, tick.report)
        short = ShortfallReport(batch_cpu=held.cpu_milli, batch_memory=held.memory)
        report = msgspec.structs.replace(tick.report, shortfall=short)
        why = f"{_text(offered)} are offered"
        return Publication(amounts, report, _shortfall(node, tick, held, why))

    def _withdrawal(
        self, tick: Tick, node: AgentNode, held: OfflineAmounts, now: float
    ) -> Publication | None:
        """Return the withdrawal of the offer; it keeps the requests of offline pods that still run."""
        condition = _condition(node)
        if OFFLINE_REPORT not in node.metadata.annotations and condition is None:
            return None
        wanted = _NOTHING
        if held != NO_AMOUNTS:
            wanted = Publication(held, None, _shortfall(node, tick, held, "nothing is offered any more"))
            if condition is not None and self._shows(node, held):
                return None
        if self._written_at is not None and self._last.report is None and self.published == wanted.amounts:
            is_coming = not self._is_written or now - self._written_at < _SEEN_WITHIN
            return None if is_coming else wanted
        return wanted

    def done(self, publication: Publication, now: float, *, is_written: bool = True) -> None:
        """Take note of a publication; one of a dry run is not written, and the Node never shows it."""
        self._last, self._written_at, self._is_written = publication, now, is_written

    def _is_lost(self, node: AgentNode, now: float) -> bool:
        """Whether somebody else has changed or removed what was written."""
        if not self._is_written or self._written_at is None or now - self._written_at < _SEEN_WITHIN:
            return False
        return (
            (self._last.report is not None and OFFLINE_REPORT not in node.metadata.annotations)
            or (self._last.shortfall is not None) != (_condition(node) is not None)
            or not self._shows(node, self.published)
        )

    def _shows(self, node: AgentNode, amounts: OfflineAmounts | None) -> bool:
        return all(_shown(each) == amounts for each in (node.status.capacity, node.status.allocatable))


def _states(report: OfflineReport | None) -> tuple[str, ...]:
    if report is None:
        return ()
    suppression, resctrl, isolation = report.suppression, report.resctrl, report.isolation
    held_back = (suppression.mode, suppression.task) if suppression else ("", "")
    evicted = (report.eviction.pressure, report.eviction.last) if report.eviction else ("", "")
    reasons = (each.reason if each else "" for each in (resctrl, isolation))
    return (report.state, *held_back, *reasons, *evicted)


def _condition(node: AgentNode) -> NodeCondition | None:
    return next((each for each in node.status.conditions if each.type == OFFLINE_SHORTFALL), None)


def _shortfall(node: AgentNode, tick: Tick, held: OfflineAmounts, why: str) -> Mapping[str, str]:
    """Return the condition: since when, and the amounts as they are published."""
    before = _condition(node)
    return {
        "type": OFFLINE_SHORTFALL,
        "status": "True",
        "reason": Reason.OFFER_BELOW_REQUESTS,
        "message": f"offline pods request {_text(held)}, and {why}: "
        "what they request stays published, so that a restart of kubelet does not fail them",
        "lastTransitionTime": (before and before.since) or rfc3339(datetime.fromtimestamp(tick.wall, UTC)),
    }


def _text(amounts: OfflineAmounts) -> str:
    return f"{amounts.cpu_milli} {BATCH_CPU} and {amounts.memory} {BATCH_MEMORY}"


def _shown(amounts: Mapping[str, str]) -> OfflineAmounts | None:
    try:
        return OfflineAmounts(*(Quantity.parse(amounts[name]).units for name in (BATCH_CPU, BATCH_MEMORY)))
    except (KeyError, QuantityError):
        return None
