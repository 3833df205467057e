"""Manager n works with agent n-1 and the reverse, and takes over what manager n-1 wrote.

``previous/`` has what each earlier version wrote: its manager to a Node, its agent to the
NodeResourceTopology (tools/record_objects.py). The programs of the present version run against it as a user
starts them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden.cluster import Cluster
from tools.record_objects import (
    AMPLIFIED,
    CONFIG,
    NAMESPACE,
    NODE,
    PREVIOUS,
    RATIO,
    RAW,
    Object,
    agent,
    cluster_of,
    configuration,
    manager,
    offers,
    raw_node,
    record,
)


@pytest.fixture(params=sorted(PREVIOUS.glob("*.json")), ids=lambda path: path.stem)
def previous(request: pytest.FixtureRequest) -> dict[str, Object]:
    """Return the objects that a previous version wrote, by kind."""
    return {each["kind"]: each for each in json.loads(request.param.read_text())}


def amounts(cluster: Cluster) -> tuple[str, str]:
    status = cluster.get("Node", NODE)["status"]
    return status["capacity"]["cpu"], status["allocatable"]["cpu"]


def test_manager_reads_the_previous_agents_report(tmp_path: Path, previous: dict[str, Object]) -> None:
    with (
        cluster_of(tmp_path, [raw_node(), previous["NodeResourceTopology"]]) as cluster,
        manager(tmp_path, cluster),
    ):
        offers(cluster, AMPLIFIED)
        assert cluster.get("Node", NODE)["metadata"]["annotations"][RATIO] == "2.00"


def test_previous_managers_node_is_amplified_once_and_restored(
    tmp_path: Path, previous: dict[str, Object]
) -> None:
    with cluster_of(tmp_path, previous.values()) as cluster:
        assert amounts(cluster) == (AMPLIFIED, AMPLIFIED)
        with manager(tmp_path, cluster):
            for _ in range(3):
                offers(cluster, AMPLIFIED)
                assert amounts(cluster) == (AMPLIFIED, AMPLIFIED)
            cluster.patch("ConfigMap", CONFIG, configuration(enabled=False), NAMESPACE)
            offers(cluster, RAW)
            assert amounts(cluster) == (RAW, RAW)


def test_agent_applies_the_previous_managers_ratio(tmp_path: Path, previous: dict[str, Object]) -> None:
    with cluster_of(tmp_path, previous.values()) as cluster, agent(tmp_path, cluster) as program:
        program.is_ready()
        program.find(r"normalization ratio 2.00 is (applied)")


def test_present_output_can_be_recorded_for_next_version(tmp_path: Path) -> None:
    node, topology = record(tmp_path)
    assert node["metadata"]["annotations"][RATIO] == "2.00"
    assert node["status"]["allocatable"]["cpu"] == AMPLIFIED
    assert topology["metadata"]["name"] == NODE
