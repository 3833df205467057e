"""The amplification ratio that a node should have, and the author of the present one.

    cpu            = original(cpu) x normalization ratio      half-even to hundredths
    other resource = original
    original       = the user's annotation, else configuration, else 1.00       (per resource)

Whose annotation it is. A user may annotate the ratio directly. Before corewise writes that annotation for the
first time it moves the user's text, as it stands, to the -original annotation; from then on that one is the
user's and the ratio is corewise's. So the presence of -original says who wrote the ratio, a ratio is
multiplied once whatever restarts, and nothing of the user's is overwritten or lost. A user's annotation that
already says what is wanted is left alone.

Koordinator writes ratio = configured ratio x normalization ratio, and no -original. corewise writes all three
in one patch, so a node that states a normalization ratio above 1.00 without -original comes from Koordinator.
The quotient is then the user's original, unless it is at most 1.00 or what configuration states.

What cannot be decided stays as it is: a bad or held back entry keeps its text while the other resources go
on. If that is the cpu entry, the normalization annotation has to stay with it (``hold_normalization``), so
that a node is never divided but not amplified, nor the reverse.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

from corewise.amplification.amounts import AMPLIFIABLE, CPU, MAXIMUM, Ratios
from corewise.amplification.annotations import RatioReading, print_entries, read_ratios
from corewise.quantities import ONE, Ratio, RatioError, ratio_product, ratio_quotient
from corewise.vocabulary import names
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason


class StatedBy(StrEnum):
    """The source of an original ratio."""

    ANNOTATION = "annotation"
    CONFIGURATION = "configuration"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class RatioSource:
    """The origin of a resource's ratio.

    ``original`` is None if it is bad, ``normalization`` if it could not be decided, ``ratio`` if for any
    reason the entry stays as it is.
    """

    original: Ratio | None
    stated_by: StatedBy
    normalization: Ratio | None
    ratio: Ratio | None


@dataclass(frozen=True, slots=True)
class RatioVerdict:
    """The ratio that a node is to have.

    ``ratios``: what applies once ``changes`` are written, without 1.00 entries.
    ``changes``: annotations to write (None removes); empty when all is well, so that nothing is patched.
    ``adopted``: a user's annotation is moved by these changes.
    ``hold_normalization``: the cpu entry stays as it is, and the normalization annotation must stay with it.
    """

    ratios: Ratios
    changes: Mapping[str, str | None]
    sources: Mapping[str, RatioSource]
    findings: tuple[Finding, ...]
    adopted: bool
    hold_normalization: bool


def decide_ratio(
    annotations: Mapping[str, str],
    *,
    configured: Ratios,
    normalization: Ratio | None,
    held: frozenset[str] = frozenset(),
    maximum: Ratio = MAXIMUM,
) -> RatioVerdict:
    """Compute a node's wanted ratio annotations.

    Args:
        annotations: of the node.
        configured: ratios of the strategy that applies to the node; empty if there is none or it is disabled.
        normalization: the normalization ratio; None if it could not be decided.
        held: resources whose entry must stay as it is, because lowering it now is not safe.
        maximum: the largest ratio allowed.
    """
    current = read_ratios(
        annotations.get(names.AMPLIFICATION_RATIO), annotation=names.AMPLIFICATION_RATIO, maximum=maximum
    )
    owned = annotations.get(names.AMPLIFICATION_ORIGINAL)
    by_koordinator = None if owned is not None else _normalized_by(annotations)
    users = current
    if owned is not None:
        users = read_ratios(owned, annotation=names.AMPLIFICATION_ORIGINAL, maximum=maximum)
    elif by_koordinator is not None:
        users = _stated_to_koordinator(current, by_koordinator, configured)
    sources, findings = _sources(users, configured, normalization, maximum)
    wanted = {resource: None if resource in held else source.ratio for resource, source in sources.items()}
    undecided = None in wanted.values()
    nothing_decided = by_koordinator is not None and set(wanted.values()) == {None}
    if not users.readable or nothing_decided or (undecided and not current.readable):
        ratios = _in_force(dict.fromkeys(AMPLIFIABLE), current)
        return RatioVerdict(ratios, {}, sources, findings, adopted=False, hold_normalization=True)
    changes = _changes(annotations, wanted, current, users)
    return RatioVerdict(
        ratios=_in_force(wanted, current),
        changes=changes,
        sources=sources,
        findings=findings,
        adopted=bool(changes) and owned is None and bool(users.texts),
        hold_normalization=wanted[CPU] is None,
    )


def _normalized_by(annotations: Mapping[str, str]) -> Ratio | None:
    """Return the normalization ratio that a node states, if it is above 1.00."""
    with suppress(RatioError):
        ratio = Ratio.parse(annotations.get(names.NORMALIZATION_RATIO, ""))
        return ratio if ratio > ONE else None
    return None


def _stated_to_koordinator(written: RatioReading, factor: Ratio, configured: Ratios) -> RatioReading:
    """Return the user's part of ratios that Koordinator wrote."""
    ratios = dict(written.ratios)
    if CPU in ratios:
        ratios[CPU] = max(ONE, ratio_quotient(ratios[CPU], factor))
    not_users = {each for each, ratio in ratios.items() if ratio in {ONE, configured.get(each, ONE)}}
    ratios = {each: ratio for each, ratio in ratios.items() if each not in not_users}
    texts = {each: text for each, text in written.texts.items() if each not in not_users}
    if CPU in ratios:
        texts[CPU] = str(ratios[CPU])
    return replace(written, ratios=ratios, texts=texts)


def _sources(
    users: RatioReading, configured: Ratios, normalization: Ratio | None, maximum: Ratio
) -> tuple[dict[str, RatioSource], tuple[Finding, ...]]:
    findings = list(users.findings)
    findings += [
        Finding(
            Reason.AMPLIFICATION_RESOURCE_REFUSED,
            f"configuration: {resource}: only cpu and memory can be amplified; remove this entry",
            resource,
        )
        for resource in configured
        if resource not in AMPLIFIABLE
    ]
    sources: dict[str, RatioSource] = {}
    for resource in AMPLIFIABLE:
        stated = _stated(resource, users, configured, normalization if resource == CPU else ONE)
        finding = _obstacle(resource, stated, maximum)
        sources[resource] = stated if finding is None else replace(stated, ratio=None)
        findings += [finding] if finding else []
    return sources, tuple(findings)


def _stated(resource: str, users: RatioReading, configured: Ratios, factor: Ratio | None) -> RatioSource:
    """Return the origin of a resource's ratio, before any limit is checked."""
    if users.is_bad(resource):
        return RatioSource(None, StatedBy.ANNOTATION, factor, None)
    original, by = ONE, StatedBy.DEFAULT
    if resource in users.ratios:
        original, by = users.ratios[resource], StatedBy.ANNOTATION
    elif resource in configured:
        original, by = configured[resource], StatedBy.CONFIGURATION
    return RatioSource(original, by, factor, None if factor is None else ratio_product(original, factor))


def _obstacle(resource: str, source: RatioSource, maximum: Ratio) -> Finding | None:
    """Return the reason not to write a readable ratio. Unreadable ones have their findings already."""
    if source.original is None:
        return None
    if source.original < ONE:
        text = f"{source.stated_by}: {resource}: {source.original} is below 1.00"
        return Finding(Reason.AMPLIFICATION_ORIGINAL_BELOW_ONE, text, resource)
    if source.ratio is None:
        text = f"{resource} stays as it is, because the normalization ratio could not be decided"
        return Finding(Reason.NORMALIZATION_UNDECIDED, text, resource)
    if source.ratio > maximum:
        text = (
            f"{resource}: original {source.original} ({source.stated_by}) x normalization "
            f"{source.normalization} = {source.ratio} is above the largest ratio allowed, {maximum}"
        )
        return Finding(Reason.AMPLIFICATION_RATIO_OUT_OF_RANGE, text, resource)
    return None


def _in_force(wanted: Mapping[str, Ratio | None], current: RatioReading) -> Ratios:
    """Return the ratios above 1.00 that the annotation states once all decided ones are written."""
    ratios = {
        resource: current.ratios.get(resource, ONE) if ratio is None else ratio
        for resource, ratio in wanted.items()
    }
    return {resource: ratio for resource, ratio in ratios.items() if ratio != ONE}


def _changes(
    annotations: Mapping[str, str],
    wanted: Mapping[str, Ratio | None],
    current: RatioReading,
    users: RatioReading,
) -> dict[str, str | None]:
    ratios = _in_force(wanted, current)
    if users is current and ratios == {
        resource: ratio for resource, ratio in current.ratios.items() if ratio != ONE
    }:
        return {}
    entries = {resource: str(ratio) for resource, ratio in ratios.items() if wanted[resource] is not None}
    entries |= {r: current.texts[r] for r, ratio in wanted.items() if ratio is None and r in current.texts}
    original = annotations.get(names.AMPLIFICATION_ORIGINAL)
    if original is None:
        stated = annotations.get(names.AMPLIFICATION_RATIO, "{}")
        original = stated if users is current else print_entries(users.texts)
    aims = {
        names.AMPLIFICATION_RATIO: print_entries(entries) if entries else None,
        # With nothing of the user's and nothing of corewise's there is nothing to own.
        names.AMPLIFICATION_ORIGINAL: original if entries or users.texts else None,
    }
    return {name: text for name, text in aims.items() if text != annotations.get(name)}
