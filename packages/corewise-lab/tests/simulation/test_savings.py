"""Machines that amplification saves: the same online pods packed with ratios, and with raw CPUs and copies.

nodes            ratio   pods                           with   without   left over
2 of 4 CPUs      1.00    4 of 2 CPUs                       2         2           0
2 of 4 CPUs      2.00    8 of 2 CPUs                       2         4           0
2 of 4 CPUs      2.00    1 of 6 CPUs                       0         0           1
2 of 4 CPUs      2.00    4 of 2 CPUs, 9 offline            1         2           0
2 of 4 CPUs      2.00    none                              0         0           0
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from corewise.config.configuration import NO_NORMALIZATION, parse_amplification
from corewise.planner.inputs import PlanInput, plan_from_objects
from corewise.planner.savings import Savings, savings
from corewise.ratios.cluster import ClusterConfiguration
from corewise.topology import CPUSet
from corewise.vocabulary.names import AMPLIFICATION_ORIGINAL, BATCH_CPU, QOS_CLASS
from corewise.vocabulary.owned_cpus import CPUOwner, print_owned_cpus
from corewise.workload.nodes import Node
from corewise.workload.pods import Pod


def node(name: str, cpu: int = 4, annotations: Mapping[str, str] = {}) -> Node:
    amounts = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    document: dict[str, Any] = {
        "metadata": {"name": name, "annotations": dict(annotations)},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    return msgspec.convert(document, Node)


def pods(number: int, cpu: int, resource: str = "cpu") -> list[Pod]:
    container = {"name": "c", "resources": {"requests": {resource: str(cpu)}}}
    return [
        msgspec.convert(
            {
                "metadata": {"name": f"{resource[:1]}{place}", "namespace": "d"},
                "spec": {"containers": [container]},
            },
            Pod,
        )
        for place in range(number)
    ]


def given(nodes: list[Node], placed: list[Pod]) -> PlanInput:
    return plan_from_objects("test", nodes, (), placed, {}, rules=None)


def ratio(text: str) -> ClusterConfiguration:
    key = f'{{"enable": true, "resourceAmplificationRatio": {{"cpu": {text}}}}}'
    return ClusterConfiguration(NO_NORMALIZATION, parse_amplification(key).value)


@pytest.mark.parametrize(
    ("cpu_ratio", "placed", "found"),
    [
        ("1.00", pods(4, 2), Savings(4, 2, 2)),
        ("2.00", pods(8, 2), Savings(8, 2, 4)),
        ("2.00", pods(1, 6), Savings(0, 0, 0, left_over=1)),
        ("2.00", [*pods(4, 2), *pods(9, 1, BATCH_CPU)], Savings(4, 1, 2)),
        ("2.00", [], Savings(0, 0, 0)),
    ],
)
def test_same_pods_are_packed_with_and_without_ratios(
    cpu_ratio: str, placed: list[Pod], found: Savings
) -> None:
    assert savings(given([node("a"), node("b")], placed), ratio(cpu_ratio)) == found


def test_ratio_stated_on_a_node_adds_no_machine() -> None:
    stated = {AMPLIFICATION_ORIGINAL: '{"cpu": 2}'}
    found = savings(given([node("a", annotations=stated)], pods(4, 2)), ratio("1.00"))
    assert (found.nodes, found.nodes_without, found.saved) == (1, 2, 1)


def test_copies_of_a_node_own_nothing() -> None:
    """A pod owns node a. It and 4 pods of 2 CPUs need two nodes at 2.00, and a copy more without."""
    owner = {
        "metadata": {"name": "o", "namespace": "d", "uid": "u", "labels": {QOS_CLASS: "LSR"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]},
    }
    ledger = print_owned_cpus({"u": CPUOwner("d/o", CPUSet.parse("0-3"))})
    owned = node("a", annotations={name: text for name, text in ledger.items() if text})
    placed = [msgspec.convert(owner, Pod), *pods(4, 2)]
    assert savings(given([owned, node("b")], placed), ratio("2.00")) == Savings(5, 2, 3)


def test_copies_are_as_many_as_uneven_nodes_need() -> None:
    found = savings(given([node("small", 2), node("large", 8)], pods(20, 1)), ratio("2.00"))
    assert found == Savings(20, 2, 4)
