"""Gauges made from the last assessments, when somebody asks for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from corewise.assessment.decision import NodeAssessment
from corewise.prometheus.exposition import Exposition
from corewise.quantities import Ratio, RatioError
from corewise.vocabulary.metrics import manager as metrics
from corewise.vocabulary.names import NORMALIZATION_RATIO

_MILLI = 1000
_HUNDREDTHS = 100


def publish(assessments: Mapping[str, NodeAssessment], exposition: Exposition) -> None:
    """Set the gauges that speak of nodes."""
    nodes = assessments.values()
    exposition.set(metrics.NODES_ASSESSED, len(assessments))
    exposition.set(metrics.NODES_PENDING, sum(node.pending for node in nodes))
    exposition.set(metrics.NODES_HELD_BACK, sum(bool(node.held_back) for node in nodes))
    exposition.replace(metrics.NODES_PROBLEM, _problems(nodes))
    exposition.replace(metrics.NODE_NORMALIZATION_RATIO, _normalization(assessments))
    exposition.replace(metrics.NODE_AMPLIFICATION_RATIO, _amplification(assessments))
    exposition.replace(metrics.NODE_RAW_CPU, _raw_cpu(assessments))
    exposition.replace(metrics.NODE_AMPLIFIED_CPU, _amplified_cpu(assessments))


def _problems(nodes: Iterable[NodeAssessment]) -> dict[tuple[str, ...], float]:
    counts = Counter(reason for node in nodes for reason in {each.reason for each in node.problems})
    return {(reason.value,): float(count) for reason, count in counts.items()}


def _normalization(assessments: Mapping[str, NodeAssessment]) -> dict[tuple[str, ...], float]:
    series: dict[tuple[str, ...], float] = {}
    for name, assessment in assessments.items():
        try:
            ratio = Ratio.parse(assessment.node.annotations.get(NORMALIZATION_RATIO, ""))
        except RatioError:
            continue
        series[name,] = ratio.hundredths / _HUNDREDTHS
    return series


def _amplification(assessments: Mapping[str, NodeAssessment]) -> dict[tuple[str, ...], float]:
    return {
        (name, resource): ratio.hundredths / _HUNDREDTHS
        for name, assessment in assessments.items()
        for resource, ratio in assessment.effective.items()
    }


def _raw_cpu(assessments: Mapping[str, NodeAssessment]) -> dict[tuple[str, ...], float]:
    raw = ((name, each.status.raw.allocatable.get("cpu")) for name, each in assessments.items())
    return {(name,): amount.milli / _MILLI for name, amount in raw if amount is not None}


def _amplified_cpu(assessments: Mapping[str, NodeAssessment]) -> dict[tuple[str, ...], float]:
    shown = ((name, each.node.amounts.allocatable.get("cpu")) for name, each in assessments.items())
    return {(name,): amount.milli / _MILLI for name, amount in shown if amount is not None}
