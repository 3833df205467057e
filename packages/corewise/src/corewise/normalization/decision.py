"""The normalization ratio of a node.

1. The node's strategy is the cluster's with the first matching nodeConfigs entry over it.
2. Enabled is what the node's label says, else the strategy, else no. An unreadable label is an error verdict.
3. Disabled: the ratio is 1.00, written out.
4. Enabled: the model's ratio for HT and turbo as they are set. Where model or field is missing, defaultRatio;
   it does not stand in for missing or malformed CPU facts.
5. A ratio outside 1.00..5.00 is an error verdict, never clamped.
6. The workloads' ratios for the node's CPU go with the ratio: none without it, none where it is disabled.

An error verdict has no ratio: the node's annotations stay as they are.

A new source of the ratio is a branch of :func:`decide`; the label or annotation that states it is a row of
:data:`STATED`, from which the webhook on nodes and the reader of dumps follow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from corewise.config.configuration import (
    LARGEST_NORMALIZATION_RATIO,
    SMALLEST_RATIO,
    NormalizationConfig,
    NormalizationStrategy,
    RatioField,
)
from corewise.config.decoding import nearest_words
from corewise.config.facts import CPUFacts
from corewise.config.workload_ratios import WorkloadRatio
from corewise.quantities import ONE, Ratio
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import NORMALIZATION_ENABLED, NORMALIZATION_KEY, NameKind
from corewise.vocabulary.reasons import Reason

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
DEFAULT_FIELD = "defaultRatio"


class RatioNode(Protocol):
    """The parts of a node that decide its ratio. ``facts`` is None where the node has reported none."""

    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def annotations(self) -> Mapping[str, str]: ...
    @property
    def facts(self) -> CPUFacts | Finding | None: ...


@dataclass(frozen=True, slots=True)
class UserText:
    """A label or annotation by which a user decides about one node.

    ``problem`` says what is wrong with its text; empty if nothing is.
    """

    name: str
    kind: NameKind
    problem: Callable[[str], str]

    def text(self, node: RatioNode) -> str | None:
        return (node.labels if self.kind is NameKind.LABEL else node.annotations).get(self.name)


@dataclass(frozen=True, slots=True)
class NormalizationVerdict:
    """The decision for one node, and its inputs.

    ``ratio`` is None where things are left as they are. ``ratio_field`` is the key the ratio comes from, or
    was looked for under; ``nearest_model`` is the known model most like an unknown one. ``workloads``
    are the ratios that divide the quotas of some pods in place of ``ratio``.
    """

    ratio: Ratio | None
    reason: Reason
    message: str
    enabled_by: str
    strategy_source: str
    ratio_field: str = ""
    nearest_model: str | None = None
    workloads: tuple[WorkloadRatio, ...] = ()


def decide(node: RatioNode, config: NormalizationConfig) -> NormalizationVerdict:
    """Decide a node's ratio."""
    strategy, source = config.strategy_for(node.labels)
    label = node.labels.get(NORMALIZATION_ENABLED)
    if label is not None:
        enabled, enabled_by = label in _TRUE, f'label {NORMALIZATION_ENABLED}="{label}"'
    elif strategy.enable is None:
        enabled, enabled_by = False, "neither label nor strategy enables it"
    else:
        enabled, enabled_by = strategy.enable, f"strategy says enable: {str(strategy.enable).lower()}"
    draft = NormalizationVerdict(None, Reason.NORMALIZATION_DISABLED, "", enabled_by, source)
    if strategy.is_unreadable or config.is_undecided(node.labels):
        message = f"the key {NORMALIZATION_KEY} has errors in entries that may apply to the node"
        return replace(draft, reason=Reason.CONFIG_INVALID, message=message)
    problem = "" if label is None else _label_problem(label)
    if problem:
        return replace(draft, reason=Reason.ENABLE_LABEL_INVALID, message=problem)
    if not enabled:
        return replace(draft, ratio=ONE, message=f"normalization is off ({enabled_by})")
    return _in_range(_looked_up(draft, node.facts, strategy))


def may_be_enabled_by_label(labels: Mapping[str, str]) -> bool:
    """Say whether a node's label enables normalization, or cannot be read."""
    return labels.get(NORMALIZATION_ENABLED, "false") not in _FALSE


def configured_ratio(node: RatioNode, config: NormalizationConfig) -> Ratio | None:
    """Return the ratio that the configuration states for a node's CPUs, enabled or not; None if unknown."""
    strategy, source = config.strategy_for(node.labels)
    draft = NormalizationVerdict(None, Reason.NORMALIZATION_DISABLED, "", "", source)
    return _in_range(_looked_up(draft, node.facts, strategy)).ratio


def _workload_ratios(facts: CPUFacts, strategy: NormalizationStrategy) -> tuple[WorkloadRatio, ...]:
    """Return the ratios that workloads have of their own on a node with these facts, in their order."""
    field = _field_of(facts)
    stated = ((each, each.ratio_model.get(facts.model, {}).get(field)) for each in strategy.workloads)
    return tuple(
        WorkloadRatio(each.name, each.selector, ratio) for each, ratio in stated if ratio is not None
    )


def _field_of(facts: CPUFacts) -> RatioField:
    return RatioField.of(hyper_threading=facts.hyper_threading, turbo=facts.turbo)


def _label_problem(text: str) -> str:
    if text in _TRUE or text in _FALSE:
        return ""
    label = f'label {NORMALIZATION_ENABLED}="{text}"'
    return f'{label} is not a bool string: write "true" or "false", or remove the label'


STATED: tuple[UserText, ...] = (UserText(NORMALIZATION_ENABLED, NameKind.LABEL, _label_problem),)


def _looked_up(
    draft: NormalizationVerdict, facts: CPUFacts | Finding | None, strategy: NormalizationStrategy
) -> NormalizationVerdict:
    if facts is None:
        message = "the node's NodeResourceTopology states no CPU facts"
        return replace(draft, reason=Reason.CPU_FACTS_MISSING, message=message)
    if isinstance(facts, Finding):
        return replace(draft, reason=facts.reason, message=facts.message)
    field = _field_of(facts)
    if facts.model in strategy.unreadable:
        message = f'the key {NORMALIZATION_KEY} has errors in what it says of "{facts.model}"'
        return replace(draft, reason=Reason.CONFIG_INVALID, message=message)
    model = strategy.ratio_model.get(facts.model)
    ratio = model.get(field) if model is not None else None
    workloads = _workload_ratios(facts, strategy)
    if ratio is not None:
        message = f'{field} of "{facts.model}" is {ratio}'
        return replace(
            draft,
            ratio=ratio,
            reason=Reason.RATIO_FROM_MODEL,
            message=message,
            ratio_field=field.value,
            workloads=workloads,
        )
    if model is None:
        nearest = nearest_model(facts.model, tuple(strategy.ratio_model))
        also = f'; nearest is "{nearest}"' if nearest else ""
        reason, missing = Reason.UNKNOWN_CPU_MODEL, f'ratioModel has no entry for "{facts.model}"{also}'
    else:
        nearest = None
        reason, missing = Reason.RATIO_FIELD_MISSING, f'ratioModel has no {field} for "{facts.model}"'
    draft = replace(draft, nearest_model=nearest)
    if strategy.default_ratio is None:
        return replace(
            draft, reason=reason, message=f"{missing}, and there is no defaultRatio", ratio_field=field.value
        )
    return replace(
        draft,
        ratio=strategy.default_ratio,
        reason=Reason.RATIO_FROM_DEFAULT,
        message=f"{missing}; defaultRatio is {strategy.default_ratio}",
        ratio_field=DEFAULT_FIELD,
        workloads=workloads,
    )


def _in_range(verdict: NormalizationVerdict) -> NormalizationVerdict:
    ratio = verdict.ratio
    if ratio is None or SMALLEST_RATIO <= ratio <= LARGEST_NORMALIZATION_RATIO:
        return verdict
    allowed = f"{SMALLEST_RATIO}..{LARGEST_NORMALIZATION_RATIO}"
    message = f"{verdict.message}, which is outside {allowed}"
    return replace(verdict, ratio=None, reason=Reason.RATIO_OUT_OF_RANGE, message=message, workloads=())


@lru_cache(maxsize=256)
def nearest_model(model: str, known: tuple[str, ...]) -> str | None:
    """Return the known name of the same product, else the known model spelled most like this one, if any is.

    Cached, since the nodes of a cluster share few models and every pass asks again.
    """
    return same_product(model, known) or next(iter(nearest_words(model, known, closeness=0.5)), None)


_NOT_THE_PRODUCT = re.compile(r"@.*|[0-9]+-core|[0-9.]+ ?ghz")
_NUMBER = re.compile(r"[a-z0-9+-]*[0-9][a-z0-9+-]*")


def same_product(model: str, known: Iterable[str]) -> str | None:
    """Return another spelling of a model among known names: one with the same product number, if any.

    "Xeon Platinum 8369B" is "Intel(R) Xeon(R) Platinum 8369B CPU @ 2.70GHz"; "Gold 6130" and "Gold 6230" are
    two products, however alike they are spelled.
    """
    number = _product_number(model)
    return next(
        (name for name in known if number and name != model and _product_number(name) == number), None
    )


def _product_number(model: str) -> tuple[str, ...]:
    return tuple(_NUMBER.findall(_NOT_THE_PRODUCT.sub(" ", model.lower())))
