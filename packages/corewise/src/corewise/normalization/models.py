"""The CPU models that nodes have, against a configuration: which of them it gives a ratio.

A node counts as it will once normalization is on: where the configuration does not enable it for the cluster
yet, the ratio is looked up all the same. Nodes for which normalization is off on purpose, by their label or
by an entry that says so within an enabled cluster, need no ratio and are only counted. A label that cannot be
read is passed over: it says nothing about the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from corewise.config.configuration import NormalizationConfig, NormalizationStrategy, RatioField
from corewise.config.facts import CPUFacts
from corewise.config.node_configs import Configuration
from corewise.normalization.decision import NormalizationVerdict, decide, same_product
from corewise.quantities import Ratio
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import NORMALIZATION_ENABLED
from corewise.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True)
class CheckedNode:
    """A node with the parts that decide its ratio: name, labels, and the CPU facts it reports, if any."""

    name: str
    labels: Mapping[str, str]
    facts: CPUFacts | Finding | None
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelInUse:
    """Nodes of one CPU model with the same settings and the same verdict.

    ``is_named``: whether ratioModel has an entry for the model; if not, ``other_name`` is one that it has for
    the same product, if any. ``without_field``: the entries of workloadRatios that state the model, but no
    ratio for its settings. ``respelled``: those that state the product by another name, with that name.
    """

    facts: CPUFacts
    nodes: tuple[str, ...]
    verdict: NormalizationVerdict
    is_named: bool
    other_name: str | None
    without_field: tuple[str, ...] = ()
    respelled: tuple[tuple[str, str], ...] = ()

    @property
    def ratio(self) -> Ratio | None:
        return self.verdict.ratio

    @property
    def field(self) -> RatioField:
        return RatioField.of(hyper_threading=self.facts.hyper_threading, turbo=self.facts.turbo)

    @property
    def is_matched(self) -> bool:
        return self.verdict.reason is Reason.RATIO_FROM_MODEL


@dataclass(frozen=True, slots=True)
class ModelCoverage:
    """The models in use that have a ratio in a configuration; names of nodes in their order.

    ``without_facts`` have no CPU facts, or facts that cannot be read; ``off`` need none.
    """

    models: tuple[ModelInUse, ...]
    without_facts: tuple[str, ...]
    off: tuple[str, ...]

    @property
    def in_use(self) -> frozenset[str]:
        return frozenset(each.facts.model for each in self.models)

    @property
    def matched(self) -> frozenset[str]:
        """The models that get their own ratio on every node."""
        return self.in_use - {each.facts.model for each in self.models if not each.is_matched}


@dataclass(frozen=True, slots=True)
class _Stated:
    """What a strategy states of one model; the fields are those of ModelInUse."""

    is_named: bool
    other_name: str | None
    without_field: tuple[str, ...]
    respelled: tuple[tuple[str, str], ...]


_Alike: TypeAlias = tuple[CPUFacts, Reason, Ratio | None, _Stated]


def model_coverage(nodes: Iterable[CheckedNode], config: NormalizationConfig) -> ModelCoverage:
    """Look up the ratio of every node."""
    found: dict[_Alike, tuple[NormalizationVerdict, list[str]]] = {}
    stated: dict[tuple[CPUFacts, str], _Stated] = {}
    without_facts, off = [], []
    for node in sorted(nodes, key=lambda each: each.name):
        verdict = _verdict(node, config)
        if verdict.reason is Reason.NORMALIZATION_DISABLED:
            off.append(node.name)
        elif isinstance(node.facts, CPUFacts):
            facts = CPUFacts(node.facts.model, node.facts.hyper_threading, node.facts.turbo)
            strategy, source = config.strategy_for(node.labels)
            if (facts, source) not in stated:
                stated[facts, source] = _look_up(facts, strategy)
            alike = facts, verdict.reason, verdict.ratio, stated[facts, source]
            found.setdefault(alike, (verdict, []))[1].append(node.name)
        else:
            without_facts.append(node.name)
    models = (
        ModelInUse(
            facts,
            tuple(names),
            verdict,
            said.is_named,
            said.other_name,
            said.without_field,
            said.respelled,
        )
        for (facts, _, _, said), (verdict, names) in found.items()
    )
    in_order = sorted(models, key=lambda each: (each.facts.model, each.field, each.nodes))
    return ModelCoverage(tuple(in_order), tuple(without_facts), tuple(off))


def _look_up(facts: CPUFacts, strategy: NormalizationStrategy) -> _Stated:
    """Look a model up, also in the entries of workloadRatios that are meant for it and not applied to it."""
    model, named = facts.model, strategy.ratio_model
    ratio_field = RatioField.of(hyper_threading=facts.hyper_threading, turbo=facts.turbo)
    without_field, respelled = [], []
    for each in strategy.workloads:
        ratios = each.ratio_model.get(model)
        if ratios is not None and ratio_field not in ratios:
            without_field.append(each.name)
        elif ratios is None and (other := same_product(model, each.ratio_model)):
            respelled.append((each.name, other))
    other_name = None if model in named else same_product(model, named)
    return _Stated(model in named, other_name, tuple(without_field), tuple(respelled))


def _verdict(node: CheckedNode, config: NormalizationConfig) -> NormalizationVerdict:
    verdict = decide(node, config)
    if verdict.reason is Reason.ENABLE_LABEL_INVALID:
        labels = {name: value for name, value in node.labels.items() if name != NORMALIZATION_ENABLED}
        return _verdict(replace(node, labels=labels), config)
    if verdict.reason is not Reason.NORMALIZATION_DISABLED or config.cluster.enable:
        return verdict
    strategy, _ = config.strategy_for(node.labels)
    return decide(node, Configuration(replace(strategy, enable=True)))
