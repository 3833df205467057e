"""What is said of the offer on the Node, and when: one merge patch of nodes/status.

The patch has batch-cpu and batch-memory in capacity and allocatable, and the offline report as an
annotation. It is due when the amounts have changed by more than 10 %, once a minute, when the state of the
offer or the task of suppression changes, and when the Node does not show what was written. Without the label
all of it is removed; the annotation tells that it was the agent of this node who wrote it, maybe before a
restart.

The patch names no other resource, so what kubelet and the amplifying webhook keep there stays theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corewise.agent.colocation.keeper import Tick
from corewise.agent.objects import AgentNode
from corewise.kube.client import Client
from corewise.kube.resources import NODES
from corewise.quantities import Quantity, QuantityError, Ratio
from corewise.suppression.offer import Amounts, due, published_form
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY, OFFLINE_REPORT
from corewise.vocabulary.offline_report import OfflineReport

FIELD_MANAGER = "corewise-agent"
_SEEN_WITHIN = 5.0
"""Seconds within which the own write comes back through the watch."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A patch of nodes/status. ``amounts`` is None where everything is removed."""

    amounts: Amounts | None
    report: OfflineReport | None

    @property
    def body(self) -> Mapping[str, Any]:
        """The merge patch."""
        amounts: dict[str, str | None] = {BATCH_CPU: None, BATCH_MEMORY: None}
        report = None
        if self.amounts is not None and self.report is not None:
            amounts = {BATCH_CPU: str(self.amounts.cpu_milli), BATCH_MEMORY: str(self.amounts.memory)}
            report = self.report.encode()
        return {
            "metadata": {"annotations": {OFFLINE_REPORT: report}},
            "status": {"capacity": amounts, "allocatable": amounts},
        }


_NOTHING = Publication(None, None)


class Publisher:
    """What one Node shows of its offer. ``published`` is what was written last, None if nothing was.

    ``rehearses``: nothing is written really, so what the Node shows says nothing.
    """

    def __init__(self, *, rehearses: bool = False) -> None:
        self._rehearses = rehearses
        self.published: Amounts | None = None
        self._published_at: float | None = None
        self._told: tuple[str, ...] = ()
        self._removed = False

    def change(self, tick: Tick, node: AgentNode, normalization: Ratio, now: float) -> Publication | None:
        """Return what is to be written, if anything is. ``now`` is monotonic, in seconds."""
        if tick.on is False:
            shows = OFFLINE_REPORT in node.metadata.annotations
            return _NOTHING if shows and not (self._rehearses and self._removed) else None
        if tick.offer is None or tick.report is None:
            return None
        amounts = due(self.published, self._published_at, tick.offer, normalization, now)
        if amounts is None and (self._told != _told(tick.report) or self._is_lost(node, now)):
            amounts = published_form(tick.offer, normalization)
        return None if amounts is None else Publication(amounts, tick.report)

    def done(self, publication: Publication, now: float) -> None:
        """Take note that it has been written."""
        self.published, self._published_at = publication.amounts, now
        self._told = _told(publication.report) if publication.report else ()
        self._removed = publication == _NOTHING

    def _is_lost(self, node: AgentNode, now: float) -> bool:
        """Whether somebody else has changed or removed what was written."""
        if self._rehearses or self._published_at is None or now - self._published_at < _SEEN_WITHIN:
            return False
        return OFFLINE_REPORT not in node.metadata.annotations or any(
            _shown(amounts) != self.published for amounts in (node.status.capacity, node.status.allocatable)
        )


async def write_publication(client: Client, node: str, publication: Publication) -> None:
    """Carry out a publication.

    Raises:
        KubeError: if the API server did not take it.
    """
    await client.patch(NODES, node, publication.body, subresource="status", field_manager=FIELD_MANAGER)


def _told(report: OfflineReport) -> tuple[str, ...]:
    suppression = report.suppression
    return (report.state, suppression.mode, suppression.task) if suppression else (report.state,)


def _shown(amounts: Mapping[str, str]) -> Amounts | None:
    try:
        return Amounts(*(Quantity.parse(amounts[name]).units for name in (BATCH_CPU, BATCH_MEMORY)))
    except (KeyError, QuantityError):
        return None
