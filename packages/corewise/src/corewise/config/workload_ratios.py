"""The ratios of workloads on one node: the Node annotation that the manager writes and the agent reads.

    node.corewise.io/workload-ratios  [{"name":"vector","selector":{"matchExpressions":[...]},"ratio":"1.20"}]

It lists the entries of ``workloadRatios`` (:mod:`corewise.config.configuration`) that state a ratio for the
node's CPU, in the order of the configuration. The first whose selector matches a pod's labels divides the
quotas of that pod in place of the node's ratio; a pod that none selects has the node's. The annotation is
absent where there are no such entries, and on nodes that are not normalized; without a normalization ratio
beside it, it does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from corewise.config.configuration import LARGEST_NORMALIZATION_RATIO
from corewise.quantities import ONE, Ratio, RatioError
from corewise.vocabulary.errors import UNREADABLE, unreadable_text
from corewise.vocabulary.names import NORMALIZATION_RATIO, WORKLOAD_RATIOS
from corewise.vocabulary.selectors import LabelSelector, Operator, Requirement


@dataclass(frozen=True, slots=True)
class WorkloadRatio:
    """The ratio of the pods that a selector selects, on one node."""

    name: str
    selector: LabelSelector
    ratio: Ratio


class WorkloadRatiosError(ValueError):
    """The annotation cannot be read, or states a ratio that is not allowed."""


class _Requirement(msgspec.Struct):
    key: str
    operator: Operator
    values: tuple[str, ...] = ()


class _Selector(msgspec.Struct, rename="camel"):
    match_expressions: tuple[_Requirement, ...] = ()


class _Entry(msgspec.Struct):
    name: str
    selector: _Selector
    ratio: str


_DECODER = msgspec.json.Decoder(tuple[_Entry, ...])


def print_workload_ratios(ratios: Iterable[WorkloadRatio]) -> str | None:
    """Write the annotation; None if there are no ratios."""
    entries = [
        {"name": each.name, "selector": each.selector.document, "ratio": str(each.ratio)} for each in ratios
    ]
    return msgspec.json.encode(entries).decode() if entries else None


def read_workload_ratios(text: str | None) -> tuple[WorkloadRatio, ...]:
    """Read the annotation; None is an absent one.

    Raises:
        WorkloadRatiosError: if it cannot be read, or a ratio is outside 1.00..5.00.
    """
    if text is None:
        return ()
    try:
        return tuple(map(_workload_ratio, _DECODER.decode(text)))
    except UNREADABLE as error:
        raise WorkloadRatiosError(f"annotation {WORKLOAD_RATIOS}: {unreadable_text(error)}") from error
    except RatioError as error:
        raise WorkloadRatiosError(f"annotation {WORKLOAD_RATIOS}: {error}") from error


def _workload_ratio(entry: _Entry) -> WorkloadRatio:
    ratio = Ratio.parse(entry.ratio)
    if not ONE <= ratio <= LARGEST_NORMALIZATION_RATIO:
        raise RatioError(f'"{entry.name[:40]}": {ratio} is outside {ONE}..{LARGEST_NORMALIZATION_RATIO}')
    requirements = tuple(
        Requirement(each.key, each.operator, frozenset(each.values))
        for each in entry.selector.match_expressions
    )
    return WorkloadRatio(entry.name, LabelSelector(requirements), ratio)


def first_matching(ratios: Iterable[WorkloadRatio], labels: Mapping[str, str]) -> WorkloadRatio | None:
    """Return the entry that counts for a pod with these labels; None if none selects it."""
    return next((each for each in ratios if each.selector.matches(labels)), None)


@dataclass(frozen=True, slots=True)
class QuotaRatio:
    """The ratio that divides the quotas of a pod that shares CPUs: its workload's, or ``node``, the node's.

    ``workload`` names the entry of the configuration; it is None where the node's ratio counts.
    """

    ratio: Ratio
    node: Ratio
    workload: str | None = None


def quota_ratio(labels: Mapping[str, str], annotations: Mapping[str, str]) -> QuotaRatio:
    """Return the ratio of a pod with these labels on a Node; an unreadable annotation counts as absent."""
    try:
        node = Ratio.parse(annotations.get(NORMALIZATION_RATIO, str(ONE)))
    except RatioError:
        return QuotaRatio(ONE, ONE)
    if not ONE <= node <= LARGEST_NORMALIZATION_RATIO:  # agents do not take it either
        return QuotaRatio(ONE, ONE)
    try:
        stated = read_workload_ratios(annotations.get(WORKLOAD_RATIOS))
    except WorkloadRatiosError:
        stated = ()
    entry = first_matching(stated, labels) if NORMALIZATION_RATIO in annotations else None
    return QuotaRatio(node, node) if entry is None else QuotaRatio(entry.ratio, node, entry.name)
