"""Validating webhook on nodes: changes of ratios by anybody are safe and well-formed, or refused.

- A ratio annotation or the enabling label that is changed to something unreadable is refused.
- Removing the -original annotation alone is refused: the ratio that corewise computed would from then on
  count as the user's own.
- A change after which the node's pods no longer fit is refused: a lower ratio annotation, or a label or
  original ratio that makes the manager want a lower one. The refusal names the smallest safe ratio. The
  annotation ``node.corewise.io/allow-unsafe-amplification-change`` overrides.
- A ratio annotation that the manager will replace, since it computes that one, is warned about.
- A higher cpu ratio on a node whose real usage is above 60 % is warned about, where usage is known
  (metrics.k8s.io); where that API is absent, nothing is said.

Writes that change none of this, by far the most, are answered from a comparison of labels and annotations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from corewise.amplification import (
    Misfit,
    StatusObservation,
    allows_unsafe_change,
    assessed_raw,
    read_ratios,
)
from corewise.amplification.annotations import effective_ratios
from corewise.config.configuration import LARGEST_NORMALIZATION_RATIO
from corewise.config.workload_ratios import WorkloadRatiosError, read_workload_ratios
from corewise.kube.admission import AdmissionRequest
from corewise.kube.decoding import decode_object
from corewise.manager.busy_nodes import ReadUsage, busy_node_raise, wanted_ratios
from corewise.normalization.decision import STATED
from corewise.quantities import ONE, Ratio, RatioError
from corewise.ratios.cluster import ClusterContext
from corewise.ratios.decision import lowered, normalization_of, unsafe_decreases, wanted_ratio
from corewise.ratios.nodes import NodeView
from corewise.service.webhooks import Answer, allowed, refused
from corewise.vocabulary.names import (
    AMPLIFICATION_ORIGINAL,
    AMPLIFICATION_RATIO,
    NORMALIZATION_RATIO,
    WORKLOAD_RATIOS,
)
from corewise.vocabulary.reasons import Reason
from corewise.workload.nodes import WORKLOAD_NODES, Node

_RATIO_MAPS = (AMPLIFICATION_RATIO, AMPLIFICATION_ORIGINAL)
_REVIEWED = (*_RATIO_MAPS, NORMALIZATION_RATIO, WORKLOAD_RATIOS, *(each.name for each in STATED))


@dataclass(frozen=True, slots=True)
class NodeWebhook:
    """Answers reviews of nodes.

    ``ready`` says whether the nodes' pods are known; ``usage`` returns a node's real CPU usage in milli-CPU.
    The manager's own writes go through nodes/status and never come here: it checks them itself.
    """

    context: Callable[[], ClusterContext]
    view: Callable[[Node], NodeView]
    ready: Callable[[], bool]
    usage: ReadUsage

    async def review(self, request: AdmissionRequest) -> Answer:
        """Answer one review.

        Raises:
            DecodeError: if the objects are not Nodes.
        """
        new_node = decode_object(WORKLOAD_NODES, request.object, "object")
        old_node = decode_object(WORKLOAD_NODES, request.old_object, "oldObject")
        if not _differ(old_node, new_node):
            return allowed(request)
        old, new = self.view(old_node), self.view(new_node)
        context = self.context()
        refusal = _refusal(request, old, new, context.largest)
        if refusal:
            return refusal
        cut = list(_cut(old, new, context.largest))
        if not self.ready():
            unchecked = "the node's pods are not known yet: safety was not checked"
            return allowed(request, warnings=[*cut, unchecked])
        unsafe = _unsafe(old, new, context)
        if unsafe and not allows_unsafe_change(new.annotations):
            message = "; ".join(each.message for each in unsafe)
            fix = Reason.UNSAFE_DECREASE_REFUSED.fix
            return refused(request, f"{message}. {fix}", code=403, reason=Reason.UNSAFE_DECREASE_REFUSED)
        warnings = [f"{each.message} ({Reason.UNSAFE_DECREASE_ALLOWED})" for each in unsafe]
        warnings += _overruled(old, new, context)
        return allowed(request, warnings=[*cut, *warnings, *await self._busy(old, new, context)])

    async def _busy(self, old: NodeView, new: NodeView, context: ClusterContext) -> Iterable[str]:
        before = effective_ratios(old.annotations, maximum=context.largest)
        after = effective_ratios(new.annotations, maximum=context.largest)
        if not any(lowered(after, before)):
            return ()
        finding = busy_node_raise(old, before, after, await self.usage(new.name))
        return (f"{finding.message} ({finding.reason})",) if finding else ()


def _differ(old: Node, new: Node) -> bool:
    before, after = old.metadata, new.metadata
    return before.labels != after.labels or any(
        before.annotations.get(name) != after.annotations.get(name) for name in _REVIEWED
    )


def _refusal(request: AdmissionRequest, old: NodeView, new: NodeView, largest: Ratio) -> Answer | None:
    """Refuse what is wrong whatever the node's pods request."""
    faults = list(_malformed(old, new, largest))
    if faults:
        return refused(request, "; ".join(faults), code=422, reason="Invalid")
    if _disowned(old, new):
        reason = Reason.ORIGINAL_NEEDED
        return refused(request, f"{reason.meaning} {reason.fix}", code=403, reason=reason)
    return None


def _malformed(old: NodeView, new: NodeView, largest: Ratio) -> Iterable[str]:
    """Yield the faults in the texts that this write changes; old faults stay allowed."""
    for name in _RATIO_MAPS:
        text = new.annotations.get(name)
        if text is not None and text != old.annotations.get(name):
            findings = read_ratios(text, annotation=name, maximum=largest).findings
            yield from (finding.message for finding in findings)
            if findings and name == AMPLIFICATION_ORIGINAL:
                yield "to have no ratio of your own, set it to {}"
    text = new.annotations.get(NORMALIZATION_RATIO)
    if text is not None and text != old.annotations.get(NORMALIZATION_RATIO):
        yield from _malformed_normalization(text)
    text = new.annotations.get(WORKLOAD_RATIOS)
    if text is not None and text != old.annotations.get(WORKLOAD_RATIOS):
        try:
            read_workload_ratios(text)
        except WorkloadRatiosError as error:
            yield str(error)
    for stated in STATED:
        text = stated.text(new)
        problem = "" if text is None or text == stated.text(old) else stated.problem(text)
        if problem:
            yield problem


def _cut(old: NodeView, new: NodeView, largest: Ratio) -> Iterable[str]:
    """Warn about decimals of a ratio that do not count, in the texts that this write changes."""
    for name in _RATIO_MAPS:
        text = new.annotations.get(name)
        if text is not None and text != old.annotations.get(name):
            reading = read_ratios(text, annotation=name, maximum=largest)
            for resource, ratio in reading.ratios.items():
                stated = reading.texts[resource]
                if stated.partition(".")[2][2:].strip("0"):
                    yield (
                        f"{name}: {resource}: {stated} has more than two decimal places: it counts as {ratio}"
                    )


def _disowned(old: NodeView, new: NodeView) -> bool:
    """Whether a ratio that corewise wrote would stay, and be taken for the user's own."""
    ratio = new.annotations.get(AMPLIFICATION_RATIO)
    removed = AMPLIFICATION_ORIGINAL in old.annotations and AMPLIFICATION_ORIGINAL not in new.annotations
    return removed and ratio is not None and ratio == old.annotations.get(AMPLIFICATION_RATIO)


def _malformed_normalization(text: str) -> Iterable[str]:
    try:
        ratio = Ratio.parse(text)
    except RatioError as error:
        yield f"annotation {NORMALIZATION_RATIO}: {error}"
        return
    if not ONE <= ratio <= LARGEST_NORMALIZATION_RATIO:
        yield f"annotation {NORMALIZATION_RATIO}: {text} is outside {ONE}..{LARGEST_NORMALIZATION_RATIO}"


def _overruled(old: NodeView, new: NodeView, context: ClusterContext) -> Iterable[str]:
    """Warn about a ratio that the manager will replace, since it owns the annotation."""
    ratio = new.annotations.get(AMPLIFICATION_RATIO)
    if (
        ratio is None
        or ratio == old.annotations.get(AMPLIFICATION_RATIO)
        or AMPLIFICATION_ORIGINAL not in new.annotations
    ):
        return
    verdict = wanted_ratio(new, normalization_of(new, context.configuration), context)
    wanted = verdict.changes.get(AMPLIFICATION_RATIO, ratio)
    if wanted != ratio:
        yield (
            f"the manager will replace {AMPLIFICATION_RATIO} by {wanted or 'none'}: "
            f"set {AMPLIFICATION_ORIGINAL} instead ({Reason.RATIO_OVERRULED})"
        )


def _unsafe(old: NodeView, new: NodeView, context: ClusterContext) -> tuple[Misfit, ...]:
    """Return the misfits: by the annotation itself, or by what the manager would write after it."""
    before = effective_ratios(old.annotations, maximum=context.largest)
    after = effective_ratios(new.annotations, maximum=context.largest)
    targets = [after]
    wanted = wanted_ratios(new, context)
    if any(lowered(wanted_ratios(old, context), wanted)):
        targets.append(wanted)
    targets = [target for target in targets if any(lowered(before, target))]
    if not targets:
        return ()
    seen = StatusObservation(old.amounts, old.annotations, old.machine, 0)
    raw = assessed_raw(seen, maximum=context.largest)
    found = [unsafe_decreases(old, raw, before, target) for target in targets]
    return max(found, key=len)
