"""The assessment of one node: normalization, amplification, safety and status in one pass, and what to do.

Pure, and the same for the manager, ``corewise nodes`` and ``corewise explain``. The order of things:

1. the normalization verdict, from labels, CPU facts and configuration;
2. the amplification verdict, from the user's original ratio, configuration and normalization;
3. a decrease that the node's pods do not survive is held back, and 2 is decided anew without it;
4. what changed goes into **one** PatchNode, which takes effect in that same write: a node is never divided
   but not amplified, nor the reverse;
5. if nothing changed, or the status has to be put right first, it is compared with ratio and record: touched
   while pending, repaired when it stays wrong.

Where something is unknown (configuration that never was good) or in the way (Koordinator's own webhook),
everything stays as it is and the assessment says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from corewise import amplification
from corewise.actions import NodeAction, PatchNode
from corewise.amplification import (
    AMPLIFIABLE,
    MAXIMUM,
    Finding,
    Misfit,
    Observation,
    Ratios,
    RatioVerdict,
    State,
    StatusAssessment,
    allows_unsafe_change,
    misfits,
    ratio_in_force,
)
from corewise.amplification.annotations import effective_ratios
from corewise.manager import remedies
from corewise.manager.configuration import ClusterConfiguration
from corewise.manager.remedies import UNOBSERVED, Observed
from corewise.manager.view import NodeView
from corewise.normalization import NormalizationVerdict, decide
from corewise.quantities import Ratio
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    AMPLIFICATION_RATIO,
    CONFIG_NAME,
    NORMALIZATION_KEY,
)
from corewise.vocabulary.reasons import Reason

_EVERYTHING = frozenset(AMPLIFIABLE)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What holds for all nodes. ``koordinator`` names its webhook that is in the way; empty if none is."""

    configuration: ClusterConfiguration
    koordinator: str = ""
    largest: Ratio = MAXIMUM


@dataclass(frozen=True, slots=True)
class NodeAssessment:
    """What was decided for a node, from what, and what to do about it.

    ``in_force`` are the ratios annotated now, ``wanted`` those after the actions; ``problems`` are the
    warning verdicts. ``recheck`` is in how many seconds to look again though nothing changes.
    """

    node: NodeView
    normalization: NormalizationVerdict
    amplification: RatioVerdict
    status: StatusAssessment
    in_force: Ratios
    held_back: tuple[Misfit, ...]
    problems: tuple[Finding, ...]
    actions: tuple[NodeAction, ...]
    recheck: int | None

    @property
    def wanted(self) -> Ratios:
        return self.amplification.ratios

    @property
    def lowers(self) -> bool:
        """Whether the actions lower a ratio, which the node's pods have to survive."""
        return any(isinstance(action, PatchNode) for action in self.actions) and any(
            lowered(self.in_force, self.wanted)
        )

    @property
    def pending(self) -> bool:
        """Whether the node's status does not show its ratio yet."""
        return self.status.state is not State.SETTLED or any(
            isinstance(action, PatchNode) and AMPLIFICATION_RATIO in action.annotations
            for action in self.actions
        )


@dataclass(frozen=True, slots=True)
class _Ratio:
    """Step 2 and 3: the ratio, and what was held back for safety."""

    verdict: RatioVerdict
    held_back: tuple[Misfit, ...] = ()
    allowed: tuple[Misfit, ...] = ()


def assess(node: NodeView, around: Surroundings, observed: Observed = UNOBSERVED) -> NodeAssessment:
    """Assess one node."""
    normalization = normalization_of(node, around.configuration)
    status = _status(node, around, observed)
    in_force = effective_ratios(node.annotations, maximum=around.largest)
    ratio = _ratio(node, normalization, status, in_force, around)
    problems = tuple(_problems(normalization, ratio, status, around))
    actions, recheck = remedies.NOTHING
    if not around.koordinator:
        patch = remedies.patch(node, normalization, ratio.verdict)
        if patch and remedies.may_write(status, ratio.verdict.ratios):
            actions = (patch,)
        else:
            actions, recheck = remedies.mend(node, status, observed)
    events = remedies.events(node, problems, actions, adopted=ratio.verdict.adopted)
    return NodeAssessment(
        node=node,
        normalization=normalization,
        amplification=ratio.verdict,
        status=status,
        in_force=in_force,
        held_back=ratio.held_back,
        problems=problems,
        actions=(*actions, *events),
        recheck=recheck,
    )


def normalization_of(node: NodeView, configuration: ClusterConfiguration) -> NormalizationVerdict:
    """Return the normalization verdict; without a known configuration it leaves things as they are."""
    if configuration.normalization is None:
        message = (
            f"the key {NORMALIZATION_KEY} of ConfigMap {CONFIG_NAME} has errors and no good one is known"
        )
        return NormalizationVerdict(None, Reason.CONFIG_INVALID, message, "", "unknown")
    return decide(node.labels, node.facts, configuration.normalization)


def wanted_ratio(
    node: NodeView,
    normalization: NormalizationVerdict,
    around: Surroundings,
    held: frozenset[str] = frozenset(),
) -> RatioVerdict:
    """Return the amplification verdict; without a known configuration, all entries stay as they are."""
    config = around.configuration.amplification
    strategy = config.strategy_for(node.labels)[0] if config else None
    if strategy is None or around.koordinator:
        held = _EVERYTHING
    originals = {str(resource): ratio for resource, ratio in strategy.originals.items()} if strategy else {}
    return ratio_in_force(
        node.annotations,
        configured=originals,
        normalization=normalization.ratio,
        held=held,
        maximum=around.largest,
    )


def amplifies_capacity(labels: Mapping[str, str], configuration: ClusterConfiguration) -> bool:
    """Say whether capacity is amplified along with allocatable on a node with these labels."""
    config = configuration.amplification
    return config is None or config.strategy_for(labels)[0].amplifies_capacity


def _status(node: NodeView, around: Surroundings, observed: Observed) -> StatusAssessment:
    seen = Observation(
        amounts=node.amounts,
        annotations=node.annotations,
        machine=node.machine(newer_than_record=observed.report_newer_than_record),
        mismatch_seconds=observed.mismatch,
        record_seconds=observed.record,
        ratio_written=observed.ratio_written,
    )
    capacity = amplifies_capacity(node.labels, around.configuration)
    return amplification.assess(seen, amplify_capacity=capacity, maximum=around.largest)


def _ratio(
    node: NodeView,
    normalization: NormalizationVerdict,
    status: StatusAssessment,
    in_force: Ratios,
    around: Surroundings,
) -> _Ratio:
    verdict = wanted_ratio(node, normalization, around)
    if not any(lowered(in_force, verdict.ratios)):
        return _Ratio(verdict)
    unsafe = misfits(
        old=in_force, new=verdict.ratios, raw_allocatable=status.raw.allocatable, demand=node.demand()
    )
    if not unsafe:
        return _Ratio(verdict)
    if allows_unsafe_change(node.annotations):
        return _Ratio(verdict, allowed=unsafe)
    held = frozenset(each.resource for each in unsafe)
    return _Ratio(wanted_ratio(node, normalization, around, held), held_back=unsafe)


def lowered(old: Ratios, new: Ratios) -> Iterable[str]:
    """Yield the resources whose ratio falls."""
    one = Ratio(100)
    return (resource for resource, ratio in old.items() if new.get(resource, one) < ratio)


def _problems(
    normalization: NormalizationVerdict,
    ratio: _Ratio,
    status: StatusAssessment,
    around: Surroundings,
) -> Iterable[Finding]:
    if around.koordinator:
        message = f"Koordinator's webhook {around.koordinator} amplifies nodes too: nothing is written"
        yield Finding(Reason.KOORDINATOR_WEBHOOK_PRESENT, message)
    if normalization.reason.text.warning:
        yield Finding(normalization.reason, normalization.message)
    if around.configuration.amplification is None:
        message = (
            f"the key {AMPLIFICATION_KEY} of ConfigMap {CONFIG_NAME} has errors and no good one is known"
        )
        yield Finding(Reason.CONFIG_INVALID, message)
    for misfit in ratio.held_back:
        yield Finding(Reason.UNSAFE_DECREASE_HELD_BACK, misfit.message, misfit.resource)
    for misfit in ratio.allowed:
        yield Finding(Reason.UNSAFE_DECREASE_ALLOWED, misfit.message, misfit.resource)
    consequence = Reason.NORMALIZATION_UNDECIDED
    yield from (
        each for each in ratio.verdict.findings if each.reason.text.warning and each.reason is not consequence
    )
    if status.finding and status.finding.reason.text.warning:
        yield status.finding
