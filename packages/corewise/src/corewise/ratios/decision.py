"""The assessment of one node: normalization, amplification, safety and status in one pass, and what to do.

1. The normalization verdict, from labels, CPU facts and configuration.
2. The amplification verdict, from the user's original ratio, configuration and normalization.
3. If the node's pods would not fit after a decrease, it is held back, and 2 is decided again without it.
4. What changed goes into **one** PatchNode, through nodes/status, where the webhook amplifies in the same
   write: a node is never divided but not amplified, nor the reverse. The patch waits for a status that needs
   repair, and for amounts that are not proven raw: kubelet settles these within seconds, or half a minute
   passes, whereas the patch would amplify what may be amplified already.
5. If nothing changed, or the status has to be corrected first, it is compared with ratio and record. A
   status that does not show the ratio is touched at once, after 5, 10, 20, 40 and then every 60 seconds, and
   repaired when ``amplification`` says so, at most once a minute: without the webhook neither has an effect,
   and the API server is spared.

Where something is unknown (a configuration that never was good) or in the way (Koordinator's own webhook),
everything stays as it is and the assessment says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from corewise import amplification
from corewise.actions import EmitEvent, NodeAction, PatchNode, RepairNodeStatus, TouchNodeStatus
from corewise.amplification import (
    AMPLIFIABLE,
    Misfit,
    NodeAmounts,
    Ratios,
    RatioVerdict,
    Repair,
    StatusAssessment,
    StatusObservation,
    StatusState,
    allows_unsafe_change,
    decide_ratio,
    misfits,
)
from corewise.amplification.amounts import count
from corewise.amplification.annotations import effective_ratios, read_node
from corewise.amplification.repair import PATIENCE
from corewise.config.configuration import AmplificationConfig
from corewise.config.workload_ratios import print_workload_ratios
from corewise.normalization.decision import NormalizationVerdict, decide
from corewise.quantities import ONE
from corewise.ratios.cluster import ClusterConfiguration, ClusterContext
from corewise.ratios.nodes import NodeView
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    AMPLIFICATION_RATIO,
    AMPLIFY_CAPACITY,
    CONFIG_NAME,
    NORMALIZATION_KEY,
    NORMALIZATION_RATIO,
    WORKLOAD_RATIOS,
)
from corewise.vocabulary.reasons import Reason

FIRST_RETRY = 5
LONGEST_RETRY = 60
REPAIR_RETRY = 60
_EVERYTHING = frozenset(AMPLIFIABLE)
_REPORTED_ELSEWHERE = frozenset({Reason.CONFIG_INVALID, Reason.KOORDINATOR_WEBHOOK_PRESENT})
"""Problems that are the same on every node: one Event on the object at fault, not one on every node."""


@dataclass(frozen=True, slots=True)
class StatusHistory:
    """The manager's observations of a node over time, in seconds; the assessment has no clock.

    ``since_touch`` and ``since_repair`` are None if there was none since the status last showed the ratio.
    ``record``: for how long the record has been as it is, or absent. ``ratio_written``: the manager has just
    written the ratio, on a status that was correct. ``settled_ratio``: the ratio annotation as it last was
    what it should be.
    """

    mismatch: int = 0
    record: int = 0
    since_touch: int | None = None
    touches: int = 0
    since_repair: int | None = None
    ratio_written: bool = False
    settled_ratio: str | None = None


NO_HISTORY = StatusHistory()


@dataclass(frozen=True, slots=True)
class NodeAssessment:
    """The decision for a node, its inputs, and the actions that follow.

    ``effective`` are the ratios annotated now, ``wanted`` those after the actions; ``problems`` are the
    warning verdicts. ``recheck`` is in how many seconds to look again though nothing changes.
    """

    node: NodeView
    normalization: NormalizationVerdict
    amplification: RatioVerdict
    status: StatusAssessment
    effective: Ratios
    held_back: tuple[Misfit, ...]
    problems: tuple[Finding, ...]
    actions: tuple[NodeAction, ...]
    recheck: int | None

    @property
    def wanted(self) -> Ratios:
        return self.amplification.ratios

    @property
    def lowers(self) -> bool:
        """Whether the actions lower a ratio, so that the node's pods may no longer fit."""
        return self._patch is not None and any(lowered(self.effective, self.wanted))

    @property
    def pending(self) -> bool:
        """Whether the node's status does not show its ratio yet."""
        new_ratio = self._patch is not None and AMPLIFICATION_RATIO in self._patch.annotations
        return new_ratio or self.status.state is not StatusState.SETTLED

    @property
    def _patch(self) -> PatchNode | None:
        return next((action for action in self.actions if isinstance(action, PatchNode)), None)


def assess(node: NodeView, context: ClusterContext, history: StatusHistory = NO_HISTORY) -> NodeAssessment:
    """Assess one node."""
    normalization = normalization_of(node, context.configuration)
    status = amplification.assess(_observation(node, history), maximum=context.largest)
    effective = effective_ratios(node.annotations, maximum=context.largest)
    verdict = wanted_ratio(node, normalization, context)
    unsafe: tuple[Misfit, ...] = ()
    if any(lowered(effective, verdict.ratios)):
        unsafe = unsafe_decreases(node, status.raw, effective, verdict.ratios)
    allowed = allows_unsafe_change(node.annotations)
    held_back = () if allowed else unsafe
    if held_back:
        verdict = wanted_ratio(node, normalization, context, frozenset(each.resource for each in held_back))
    problems = (
        *_unknown_or_in_the_way(node, normalization, context),
        *(Finding(Reason.UNSAFE_DECREASE_HELD_BACK, each.message, each.resource) for each in held_back),
        *(Finding(Reason.UNSAFE_DECREASE_ALLOWED, each.message, each.resource) for each in unsafe if allowed),
        *(
            each
            for each in verdict.findings
            if each.reason is not Reason.NORMALIZATION_UNDECIDED and each.reason.warning
        ),
        *([status.finding] if status.finding and status.finding.reason.warning else []),
        *([Finding(Reason.NODE_SLOWER_THAN_PEERS, node.slow)] if node.slow else []),
    )
    actions: tuple[NodeAction, ...] = ()
    recheck = None
    if not context.koordinator:
        patch = _annotation_patch(node, normalization, verdict, context.configuration)
        # A patch must amplify nothing twice, and hide nothing from a repair.
        if patch and status.repair is None and status.unproven.isdisjoint(verdict.ratios):
            actions = (patch,)
        else:
            actions, recheck = _status_correction(node, status, history)
    overruled = any(
        isinstance(action, PatchNode)
        and history.settled_ratio is not None
        and action.annotations.get(AMPLIFICATION_RATIO) == history.settled_ratio
        for action in actions
    )
    events = _events(node, problems, actions, adopted=verdict.adopted, overruled=overruled)
    return NodeAssessment(
        node=node,
        normalization=normalization,
        amplification=verdict,
        status=status,
        effective=effective,
        held_back=held_back,
        problems=problems,
        actions=(*actions, *events),
        recheck=recheck,
    )


def held_back(
    node: NodeView, normalization: NormalizationVerdict, context: ClusterContext
) -> tuple[Misfit, ...]:
    """Return the decreases that :func:`assess` holds back, without the rest of the assessment."""
    verdict = wanted_ratio(node, normalization, context)
    effective = effective_ratios(node.annotations, maximum=context.largest)
    fallen = tuple(lowered(effective, verdict.ratios))
    if not fallen or allows_unsafe_change(node.annotations):
        return ()
    raw = amplification.assessed_raw(_observation(node, NO_HISTORY), fallen, maximum=context.largest)
    return unsafe_decreases(node, raw, effective, verdict.ratios)


def _observation(node: NodeView, history: StatusHistory) -> StatusObservation:
    return StatusObservation(
        amounts=node.amounts,
        annotations=node.annotations,
        machine=node.machine,
        mismatch_seconds=history.mismatch,
        record_seconds=history.record,
        ratio_written=history.ratio_written,
    )


def normalization_of(node: NodeView, configuration: ClusterConfiguration) -> NormalizationVerdict:
    """Return the normalization verdict; without a known configuration it leaves things as they are."""
    if configuration.normalization is None:
        return NormalizationVerdict(
            None, Reason.CONFIG_INVALID, _unknown_key(NORMALIZATION_KEY), "", "unknown"
        )
    return decide(node, configuration.normalization)


def wanted_ratio(
    node: NodeView,
    normalization: NormalizationVerdict,
    context: ClusterContext,
    held: frozenset[str] = frozenset(),
) -> RatioVerdict:
    """Return the amplification verdict; without a known configuration, all entries stay as they are."""
    config = context.configuration.amplification
    strategy = config.strategy_for(node.labels)[0] if config else None
    if strategy is None or context.koordinator or _is_undecided(node.labels, config):
        held = _EVERYTHING
    else:
        held |= {str(resource) for resource in strategy.unreadable}
    originals = {str(resource): ratio for resource, ratio in strategy.originals.items()} if strategy else {}
    return decide_ratio(
        node.annotations,
        configured=originals,
        normalization=normalization.ratio,
        held=held,
        maximum=context.largest,
    )


def _is_undecided(labels: Mapping[str, str], config: AmplificationConfig | None) -> bool:
    """Whether errors hide what the configuration says of a node with these labels."""
    if config is None:
        return True
    return config.is_undecided(labels) or config.strategy_for(labels)[0].is_unreadable


def amplifies_capacity(labels: Mapping[str, str], configuration: ClusterConfiguration) -> bool:
    """Say whether capacity is amplified along with allocatable on a node with these labels."""
    config = configuration.amplification
    return config is None or config.strategy_for(labels)[0].amplifies_capacity


def lowered(old: Ratios, new: Ratios) -> Iterable[str]:
    """Yield the resources whose ratio falls."""
    return (resource for resource, ratio in old.items() if new.get(resource, ONE) < ratio)


def unsafe_decreases(node: NodeView, raw: NodeAmounts, old: Ratios, new: Ratios) -> tuple[Misfit, ...]:
    """Return the resources whose allocatable falls so far that the node's pods no longer fit."""
    found = misfits(old=old, new=new, raw_allocatable=raw.allocatable, demand=node.demand())
    return tuple(each for each in found if _falls(node, each))


def _falls(node: NodeView, misfit: Misfit) -> bool:
    """Whether allocatable would fall: status may not show a ratio yet that somebody has just raised."""
    resource = misfit.resource
    shown, then = (
        count(resource, each) for each in (node.amounts.allocatable.get(resource), misfit.allocatable)
    )
    fold = read_node(node.annotations).folded(("allocatable", resource), misfit.ratio)
    return shown is None or then is None or then - fold < shown


def _unknown_or_in_the_way(
    node: NodeView, normalization: NormalizationVerdict, context: ClusterContext
) -> Iterable[Finding]:
    if context.koordinator:
        message = f"Koordinator's webhook {context.koordinator} amplifies nodes too: nothing is written"
        yield Finding(Reason.KOORDINATOR_WEBHOOK_PRESENT, message)
    if normalization.reason.warning:
        yield Finding(normalization.reason, normalization.message)
    config = context.configuration.amplification
    if config is None:
        yield Finding(Reason.CONFIG_INVALID, _unknown_key(AMPLIFICATION_KEY))
    elif _is_undecided(node.labels, config) or config.strategy_for(node.labels)[0].unreadable:
        message = (
            f"the key {AMPLIFICATION_KEY} has errors in entries that may apply to the node; "
            "ratios stay as they are"
        )
        yield Finding(Reason.CONFIG_INVALID, message)


def _unknown_key(key: str) -> str:
    return (
        f"the key {key} of ConfigMap {CONFIG_NAME} has errors, or may not be read, and no good one is known"
    )


def _status_correction(
    node: NodeView, status: StatusAssessment, history: StatusHistory
) -> tuple[tuple[NodeAction, ...], int | None]:
    """Return a touch or a repair, at growing intervals, and in how many seconds to look again."""
    if status.state is StatusState.SETTLED:
        return (), None
    if status.repair:
        since = history.since_repair
        if since is not None and since < REPAIR_RETRY:
            return (), REPAIR_RETRY - since
        return (_repair(node, status.repair, status.finding),), REPAIR_RETRY
    if not status.touch:
        # Wait until a repair is due, or until what is recorded nowhere is proven raw.
        left = [PATIENCE + 1 - seconds for seconds in (history.mismatch, history.record)]
        return (), min((each for each in left if each > 0), default=LONGEST_RETRY)
    wait = min(FIRST_RETRY << min(max(history.touches - 1, 0), 8), LONGEST_RETRY)
    due = 0 if history.since_touch is None else wait - history.since_touch
    if due > 0:
        return (), due
    why = "the status does not show the ratio yet"
    return (TouchNodeStatus(node.name, node.resource_version, Reason.STATUS_TOUCHED, why),), wait


def _annotation_patch(
    node: NodeView,
    normalization: NormalizationVerdict,
    ratio: RatioVerdict,
    configuration: ClusterConfiguration,
) -> PatchNode | None:
    """Return the one patch that writes normalization and amplification together, if anything changed."""
    changes = dict(ratio.changes)
    if not _is_undecided(node.labels, configuration.amplification):
        raw_capacity = ratio.ratios and not amplifies_capacity(node.labels, configuration)
        flag = "false" if raw_capacity else None
        if node.annotations.get(AMPLIFY_CAPACITY) != flag:
            changes[AMPLIFY_CAPACITY] = flag
    if normalization.ratio is not None and not ratio.hold_normalization:
        stated = {
            NORMALIZATION_RATIO: str(normalization.ratio),
            WORKLOAD_RATIOS: print_workload_ratios(normalization.workloads),
        }
        changes |= {name: text for name, text in stated.items() if node.annotations.get(name) != text}
    if not changes:
        return None
    shown = ", ".join(f"{resource} {value}" for resource, value in sorted(ratio.ratios.items())) or "none"
    why = f"{normalization.message}; amplification: {shown}"
    return PatchNode(node.name, node.resource_version, changes, Reason.RATIOS_WRITTEN, why)


def _repair(node: NodeView, repair: Repair, finding: Finding | None) -> RepairNodeStatus:
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


def _events(
    node: NodeView,
    problems: Iterable[Finding],
    actions: Iterable[NodeAction],
    *,
    adopted: bool,
    overruled: bool,
) -> Iterable[EmitEvent]:
    """Yield one Event per reason: the problems, a ratio adopted or overruled, and a repair."""
    messages: dict[Reason, str] = {}
    for problem in problems:
        if problem.reason in _REPORTED_ELSEWHERE:
            continue
        messages[problem.reason] = "; ".join(filter(None, (messages.get(problem.reason), problem.message)))
    if adopted:
        messages[Reason.ORIGINAL_ADOPTED] = Reason.ORIGINAL_ADOPTED.meaning
    if overruled:
        messages[Reason.RATIO_OVERRULED] = Reason.RATIO_OVERRULED.meaning
    for action in actions:
        if isinstance(action, RepairNodeStatus):
            messages.setdefault(Reason.STATUS_REPAIRED, action.why)
    for reason, message in messages.items():
        fix = f" {reason.fix}" if reason.fix else ""
        yield EmitEvent(
            "Node", "", node.name, node.uid, reason, message + "." * bool(fix) + fix, reason.warning
        )
