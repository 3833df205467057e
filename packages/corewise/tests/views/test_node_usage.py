"""The CPU that a node uses: as its agent reports it, else as metrics.k8s.io does, and its last minutes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from cli.offline_world import CALM, NOW, REPORT, aged, labeled
from cli.top_screen import HandmadeData, StoppedClock, node
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import Resource
from corewise.manager.busy_nodes import cpu_usage_milli
from corewise.views.node_table import NodeRow, columns, total_of
from corewise.views.node_usage import NodeUsages
from corewise.views.offline_table import PLAIN, condensed
from kubedouble.server import serve

SCHEMA = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
VERSIONS = [("v1beta1",), ("v1",), ("v1beta1", "v1")]
"""What a metrics server serves: before Kubernetes 1.37, after the end of v1beta1, and between."""


def definition(versions: Sequence[str]) -> dict[str, Any]:
    """Return the resource definition that serves NodeMetrics in these versions."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "nodes.metrics.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved"},
        },
        "spec": {
            "group": "metrics.k8s.io",
            "names": {"plural": "nodes", "kind": "NodeMetrics", "listKind": "NodeMetricsList"},
            "scope": "Cluster",
            "versions": [
                {"name": each, "served": True, "storage": each == versions[0], "schema": SCHEMA}
                for each in versions
            ],
        },
    }


def shown(row: NodeRow) -> tuple[str, str]:
    texts = {column.title: column.text(row) for column in columns(PLAIN)}
    return texts["USED"], texts["LATELY"]


def rows(*nodes: dict[str, Any], used: dict[str, list[int | None]] | None = None) -> dict[str, NodeRow]:
    data = HandmadeData(nodes)
    for name, samples in (used or {}).items():
        for each in samples:
            data.usages.take({} if each is None else {name: each})
    return {row.name: row for row in data.tables["nodes"].rows(NOW)}


def test_an_agents_report_is_what_a_node_uses() -> None:
    (row,) = rows(node("n1", 16, **labeled(REPORT)), used={"n1": [1]}).values()
    assert (row.amounts.used, row.used_of) == (13_000, 16_000)
    assert row.lately == (10_000,) * 6 + (13_000,) * 4
    assert shown(row) == ("13.0 (81%)", "***%%")


def test_a_node_without_a_report_shows_measured_samples() -> None:
    found = rows(node("n1", 8), node("n2", 8), used={"n1": [1_000, 2_000, 8_000]})
    assert shown(found["n1"]) == ("8.00 (100%)", ".-#")
    assert shown(found["n2"]) == ("-", "")


@pytest.mark.parametrize(
    ("samples", "used", "lately"),
    [
        ([1_000, None, 8_000], "8.00 (100%)", ". #"),
        ([8_000, None], "-", "# "),
        ([8_000, *[None] * 8, 4_000, 8_000], "8.00 (100%)", "#    %"),
        ([8_000, *[None] * 20], "-", ""),
        ([8_000, *[None] * 20, 4_000], "4.00 (50%)", "+"),
    ],
    ids=["one failure", "the last read failed", "eight failures", "forgotten", "measured again"],
)
def test_a_failed_read_leaves_a_gap(samples: list[int | None], used: str, lately: str) -> None:
    found = rows(node("n1", 8), used={"n1": samples})
    assert shown(found["n1"]) == (used, lately)
    assert shown(total_of([*found.values()])) == (used, lately)


def test_an_unmeasured_node_keeps_its_history() -> None:
    data = HandmadeData([node("n1", 8), node("n2", 8)])
    for used in ({"n1": 8_000, "n2": 4_000}, {"n2": 4_000}):
        data.usages.take(used)
    found = data.tables["nodes"].rows(NOW)
    assert [shown(row) for row in found] == [("-", "# "), ("4.00 (50%)", "++")]
    assert shown(total_of(found)) == ("4.00 (50%)", "%+")


def test_many_unmeasured_nodes_make_no_dip() -> None:
    names = [f"n{number}" for number in range(10)]
    data = HandmadeData([node(name, 8) for name in names])
    for missing in (0, 9, 0, 10):
        data.usages.take(dict.fromkeys(names[missing:], 6_000))
    total = total_of(data.tables["nodes"].rows(NOW))
    assert total.lately == (60_000, 60_000, 60_000, None)


def test_an_old_report_shows_no_usage() -> None:
    (row,) = rows(node("n1", 16, **labeled(aged(CALM, 3600)))).values()
    assert shown(row) == ("-", "")


def test_the_sum_counts_only_nodes_that_are_measured() -> None:
    found = rows(node("n1", 8), node("n2", 8), used={"n1": [4_000]})
    assert shown(total_of([*found.values()])) == ("4.00 (50%)", "+")


@pytest.mark.parametrize(
    ("values", "width", "means"),
    [
        ([], 8, []),
        ([1, 2, 3], 8, [1, 2, 3]),
        ([1, 3, 5, 7], 2, [2, 6]),
        ([9, 1, 3, 5, 7], 2, [5, 5]),
        ([9, None, None, 5, 7], 3, [9, None, 6]),
        (list(range(30)), 8, [0, 3, 7, 11, 15, 19, 23, 27]),
    ],
)
def test_many_samples_become_few_means_the_newest_whole(
    values: list[int | None], width: int, means: list[int | None]
) -> None:
    assert condensed(values, width) == means


@pytest.fixture
async def client(tmp_path: Any) -> AsyncIterator[Client]:
    async with serve(listen="127.0.0.1:0", name="c") as server:
        server.write_kubeconfig(str(tmp_path / "kubeconfig"))
        async with Client(load_config(str(tmp_path / "kubeconfig"))) as made:
            yield made


@pytest.mark.parametrize("versions", VERSIONS)
async def test_usages_are_read_from_metrics_with_gaps(client: Client, versions: Sequence[str]) -> None:
    metrics = Resource("metrics.k8s.io", versions[0], "nodes", "NodeMetrics", namespaced=False, type=dict)
    changed: list[str] = []
    usages = NodeUsages(client, StoppedClock(), changed.append)
    await usages.read()
    assert changed == []
    await client.request(
        "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=definition(versions)
    )
    await client.create(metrics, {"metadata": {"name": "n1"}, "usage": {"cpu": "1500m", "memory": "1Gi"}})
    await usages.read()
    await client.patch(metrics, "n1", {"usage": {"cpu": "2500000000n"}})
    await usages.read()
    assert (usages.of("n1"), changed) == ((1_500, 2_500), ["n1", "n1"])
    assert await cpu_usage_milli(client, "n1") == 2_500
    assert await cpu_usage_milli(client, "n2") is None
    await client.delete(metrics, "n1")
    await usages.read()
    assert (usages.of("n1"), changed) == ((1_500, 2_500, None), ["n1"] * 3)
