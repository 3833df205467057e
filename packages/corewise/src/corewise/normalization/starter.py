"""Starter ratios: published benchmark results for CPU models that have not been measured here yet.

The table is ``config/starter-ratios.yaml``, with the source of each row. A ratio is the score of a machine
over its number of CPUs, over the smallest such quotient of the models taken, half-even to hundredths. So the
slowest of them is 1.00, as it must be.

The results are of machines with hyper-threading and turbo on, so they say nothing about a node with other
settings. A ratio compares two CPUs: where only one CPU of a cluster has a result and others have none, it
gets no ratio, since 1.00 would claim that it is the slowest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import msgspec

from corewise.config.configuration import ModelRatios, RatioField
from corewise.config.facts import CPUFacts
from corewise.config.yaml_text import load_document
from corewise.normalization.models import CheckedNode
from corewise.quantities import Ratio

STARTER_FIELD = RatioField.HYPER_THREADING_TURBO
"""The settings of the machines whose results are in the table."""


class PublishedScore(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row: the median of a model's ``of`` results. ``ratio`` is relative to the slowest of the table."""

    model: str
    ratio: str
    score: Decimal
    cpus: int
    published: str
    result: str
    of: int

    @property
    def of_one_cpu(self) -> Fraction:
        return Fraction(self.score) / self.cpus

    @property
    def url(self) -> str:
        return f"https://www.spec.org/cpu2017/results/{self.result}.html"


class _Table(msgspec.Struct, frozen=True):
    rows: tuple[PublishedScore, ...]


def published_scores(text: str) -> tuple[PublishedScore, ...]:
    """Read the table."""
    return msgspec.convert(load_document(text), _Table).rows


def starter_ratios(scores: Collection[PublishedScore]) -> Mapping[str, ModelRatios]:
    """Return the ratios of some rows, by model; the slowest of them is 1.00."""
    slowest = min((each.of_one_cpu for each in scores), default=Fraction(1))
    return {
        each.model: {STARTER_FIELD: Ratio(round(each.of_one_cpu / slowest * 100))}
        for each in sorted(scores, key=lambda each: (each.of_one_cpu, each.model))
    }


@dataclass(frozen=True, slots=True)
class StarterCPUs:
    """The CPUs of some nodes, with and without a published result.

    ``unpublished`` have none, each with the settings that count. ``without_facts`` are names of nodes.
    """

    published: tuple[PublishedScore, ...]
    unpublished: tuple[CPUFacts, ...]
    without_facts: tuple[str, ...]

    @property
    def is_comparable(self) -> bool:
        """Whether ratios mean anything: there are two results to compare, or one CPU on all nodes."""
        return len(self.published) > 1 or not (self.unpublished or self.without_facts)


def starter_cpus(scores: Iterable[PublishedScore], nodes: Collection[CheckedNode]) -> StarterCPUs:
    """Return the CPUs of nodes with and without a published result."""
    rows = {each.model: each for each in scores}
    in_use = {
        (node.facts.model, node.facts.hyper_threading, node.facts.turbo)
        for node in nodes
        if isinstance(node.facts, CPUFacts)
    }
    measured = {(model, True, True) for model in rows}
    return StarterCPUs(
        published=tuple(row for row in rows.values() if (row.model, True, True) in in_use),
        unpublished=tuple(CPUFacts(*cpu) for cpu in sorted(in_use - measured)),
        without_facts=tuple(sorted(node.name for node in nodes if not isinstance(node.facts, CPUFacts))),
    )
