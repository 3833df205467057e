"""What to do about a node: actions from verdicts, and how often to try again (pure).

A patch of annotations comes first and alone, through nodes/status, where the webhook amplifies in the same
write: there is no moment at which a node is divided but not amplified. It waits for a status that needs
repair, and for amounts that are not proven raw: kubelet settles these within seconds, or half a minute
passes, whereas the patch would amplify what may be amplified already.

A status that is not what it should be is touched at once, after 5, 10, 20, 40 and then every 60 seconds, and
repaired when ``amplification`` says so, at most once a minute: without the webhook neither has an effect, and
the API server is spared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from corewise.actions import EmitEvent, NodeAction, PatchNode, RepairNodeStatus, TouchNodeStatus
from corewise.amplification import Finding, Ratios, RatioVerdict, Repair, State, StatusAssessment
from corewise.amplification.repair import PATIENCE
from corewise.manager.view import NodeView
from corewise.normalization import NormalizationVerdict
from corewise.vocabulary.names import NORMALIZATION_RATIO
from corewise.vocabulary.reasons import Reason

FIRST_RETRY = 5
LONGEST_RETRY = 60
REPAIR_RETRY = 60
_TOLD_ONCE_FOR_ALL = frozenset({Reason.CONFIG_INVALID, Reason.KOORDINATOR_WEBHOOK_PRESENT})
"""What is the same on every node becomes one Event on the object at fault, not one on every node."""

Remedy: TypeAlias = tuple[tuple[NodeAction, ...], int | None]
"""Actions, and in how many seconds to look again though nothing changes."""

NOTHING: Remedy = ((), None)


@dataclass(frozen=True, slots=True)
class Observed:
    """What the manager has seen of a node over time, in seconds; the pure part has no clock.

    ``since_touch`` and ``since_repair`` are None if there was none since the status last was as it should be.
    ``record``: for how long the record has been as it is, or absent. ``ratio_written``: the manager has just
    written the ratio, on a status that was as it should be.
    """

    mismatch: int = 0
    record: int = 0
    since_touch: int | None = None
    touches: int = 0
    since_repair: int | None = None
    ratio_written: bool = False
    report_newer_than_record: bool = False


UNOBSERVED = Observed()


def patch(node: NodeView, normalization: NormalizationVerdict, ratio: RatioVerdict) -> PatchNode | None:
    """Return the one patch that writes normalization and amplification together, if anything changed."""
    changes = dict(ratio.changes)
    if normalization.ratio is not None and not ratio.hold_normalization:
        wanted = str(normalization.ratio)
        if node.annotations.get(NORMALIZATION_RATIO) != wanted:
            changes[NORMALIZATION_RATIO] = wanted
    if not changes:
        return None
    shown = ", ".join(f"{resource} {value}" for resource, value in sorted(ratio.ratios.items())) or "none"
    why = f"{normalization.message}; amplification: {shown}"
    return PatchNode(node.name, node.resource_version, changes, Reason.RATIOS_WRITTEN, why)


def may_write(status: StatusAssessment, wanted: Ratios) -> bool:
    """Whether a patch with these ratios amplifies nothing twice, and hides nothing from a repair."""
    return status.repair is None and status.unproven.isdisjoint(wanted)


def mend(node: NodeView, status: StatusAssessment, observed: Observed) -> Remedy:
    """Touch or repair a status that is not what it should be, at growing intervals."""
    if status.state is State.SETTLED:
        return NOTHING
    if status.repair:
        since = observed.since_repair
        if since is not None and since < REPAIR_RETRY:
            return (), REPAIR_RETRY - since
        return (_repairing(node, status.repair, status.finding),), REPAIR_RETRY
    if not status.touch:
        return (), _patience_left(observed)
    wait = min(FIRST_RETRY << min(max(observed.touches - 1, 0), 8), LONGEST_RETRY)
    left = 0 if observed.since_touch is None else wait - observed.since_touch
    if left > 0:
        return (), left
    why = "the status does not show the ratio yet"
    return (TouchNodeStatus(node.name, node.resource_version, Reason.STATUS_TOUCHED, why),), wait


def _patience_left(observed: Observed) -> int:
    """Return in how many seconds a repair is due, or what is recorded nowhere proven raw."""
    left = [PATIENCE + 1 - seconds for seconds in (observed.mismatch, observed.record)]
    return min((each for each in left if each > 0), default=LONGEST_RETRY)


def _repairing(node: NodeView, repair: Repair, finding: Finding | None) -> RepairNodeStatus:
    why = finding.message if finding else "the status is not what ratio and record say"
    return RepairNodeStatus(
        name=node.name,
        resource_version=node.resource_version,
        capacity=repair.raw.capacity,
        allocatable=repair.raw.allocatable,
        drop_annotations=repair.drop_annotations,
        reason=Reason.STATUS_REPAIRED,
        why=why,
    )


def events(
    node: NodeView, problems: Iterable[Finding], actions: Iterable[NodeAction], *, adopted: bool
) -> Iterable[EmitEvent]:
    """One Event per reason: problems, and the two good things a user should know of without asking."""
    told: dict[Reason, str] = {}
    for problem in problems:
        if problem.reason in _TOLD_ONCE_FOR_ALL:
            continue
        told[problem.reason] = "; ".join(filter(None, (told.get(problem.reason), problem.message)))
    if adopted:
        told[Reason.ORIGINAL_ADOPTED] = Reason.ORIGINAL_ADOPTED.text.meaning
    for action in actions:
        if isinstance(action, RepairNodeStatus):
            told.setdefault(Reason.STATUS_REPAIRED, action.why)
    for reason, message in told.items():
        fix = f" {reason.text.fix}" if reason.text.fix else ""
        yield EmitEvent(
            "Node", "", node.name, node.uid, reason, message + "." * bool(fix) + fix, reason.text.warning
        )
