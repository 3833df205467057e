"""What the manager remembers of a node between two assessments. Lost at a restart, and no harm done.

- Since when the node's status has not been what it should be; when it was touched and repaired since.
- For how long its record has been as it is.
- Whether the agent's report of raw capacity has changed after the node's record did: only what was seen to
  change counts, so after a restart the answer is no.
- Which resourceVersion a write was decided on: until the cache shows another, the node is not assessed again,
  so that nothing is written twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from corewise.actions import NodeAction, PatchNode, RepairNodeStatus, TouchNodeStatus
from corewise.amplification import State
from corewise.assessment.decision import NodeAssessment, StatusHistory
from corewise.assessment.nodes import NodeView
from corewise.vocabulary.names import AMPLIFICATION_RATIO, AMPLIFIED

JUST_NOW = 60.0
"""Seconds for which a ratio counts as just written: what status shows is taken for raw on our word."""
STALE_FOR = 5.0
"""Seconds after which a node is assessed again although the cache shows what was written upon."""


@dataclass(slots=True)
class _Sighting:
    """A text, when it was first seen as it is, and when it was seen to become so; None if it never was."""

    text: str | None = None
    since: float = 0.0
    changed: float | None = None
    seen: bool = False

    def see(self, text: str | None, now: float) -> None:
        if self.seen and text != self.text:
            self.changed = now
        if not self.seen or text != self.text:
            self.since = now
        self.text, self.seen = text, True


class NodeMemory:
    """One node's."""

    def __init__(self) -> None:
        self._mismatch_since: float | None = None
        self._touched: float | None = None
        self._touches = 0
        self._repaired: float | None = None
        self._shows_raw = False
        self._ratio_written: float | None = None
        self._record = _Sighting()
        self._report = _Sighting()
        self._written_on = ""
        self._written = 0.0
        self.failures = 0

    def stale(self, node: NodeView, now: float) -> bool:
        """Say whether the cache does not show our last write yet."""
        return node.resource_version == self._written_on and now - self._written < STALE_FOR

    def observe(self, node: NodeView, now: float) -> StatusHistory:
        """Take a look at the node, and return what has been seen of it over time."""
        self._record.see(node.annotations.get(AMPLIFIED), now)
        self._report.see(node.reported_capacity, now)
        return StatusHistory(
            mismatch=0 if self._mismatch_since is None else int(now - self._mismatch_since),
            record=int(now - self._record.since),
            since_touch=None if self._touched is None else int(now - self._touched),
            touches=self._touches,
            since_repair=None if self._repaired is None else int(now - self._repaired),
            ratio_written=self._ratio_written is not None and now - self._ratio_written < JUST_NOW,
            report_newer_than_record=self._report_is_newer(),
        )

    def assessed(self, assessment: NodeAssessment, now: float) -> None:
        """Note whether the status is what it should be."""
        self._shows_raw = assessment.status.state is State.SETTLED or assessment.status.touch
        if assessment.status.state is State.SETTLED:
            self._mismatch_since = self._touched = self._repaired = self._ratio_written = None
            self._touches = 0
        elif self._mismatch_since is None:
            self._mismatch_since = now

    def wrote(self, action: NodeAction, node: NodeView, version: str | None, now: float) -> None:
        """Note that an action was carried out; ``version`` is the node's resourceVersion afterwards."""
        match action:
            case PatchNode():
                self._mismatch_since = None
                self._touched, self._touches = now, 1
                if AMPLIFICATION_RATIO in action.annotations:
                    self._ratio_written = now if self._shows_raw else None
            case TouchNodeStatus():
                self._touched = now
                self._touches += 1
            case RepairNodeStatus():
                self._repaired = now
        if version is not None and version != node.resource_version:
            self.outdated(node, now)

    def outdated(self, node: NodeView, now: float) -> None:
        """Note that the node is known to have a newer version than the one in the cache."""
        self._written_on, self._written = node.resource_version, now

    def _report_is_newer(self) -> bool:
        report, record = self._report.changed, self._record.changed
        return report is not None and (record is None or report > record)
