"""Starter ratios: what published benchmark results say about CPU models that nobody here has measured yet.

The table is ``config/starter-ratios.yaml``, with the source of each row. A ratio is the score of a machine
over its number of CPUs, over the smallest such quotient of the models taken, half-even to hundredths. So the
slowest of them is 1.00, as it must be.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from decimal import Decimal
from fractions import Fraction

import msgspec

from corewise.config.configuration import ModelRatios, RatioField
from corewise.config.yaml_text import load_document
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
