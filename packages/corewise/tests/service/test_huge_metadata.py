"""Metadata as large as the API server takes makes no log line and no Event without bounds.

The API server bounds labels to 63 characters and an object's annotations to 256 KiB. A caller of the extender
may send more: it is answered, or refused, and nothing of it is printed whole.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from corewise.kube.resources import EVENTS
from corewise.service.logs import LineFormatter, LogFormat
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    CPU_BASIC_INFO,
    CPU_TOPOLOGY,
    NORMALIZATION_RATIO,
    OFFLINE_REPORT,
    OWNED_CPUS,
    OWNED_MILLI_CPU,
    QOS_CLASS,
    RESOURCE_STATUS,
)
from kubedouble import LocalAPIServer
from manager.world import PODS_NAMESPACE, normalization, small_cluster, until
from scheduler.program_world import PLAIN_NODES, PLAIN_PODS, SchedulerWorld, caller, pod_document

LARGEST = 250 * 1024
NEARLY_A_MB = 900_000
LONGEST_LINE = 4096
LONGEST_EVENT = 1024
FORMS = {
    "text": "x" * LARGEST,
    "JSON": json.dumps({"cpu": "9" * (LARGEST - 20)}),
    "object of long keys": json.dumps({"k" * (LARGEST - 20): 1}),
}


OF_NODES = (AMPLIFICATION_RATIO, NORMALIZATION_RATIO, OWNED_CPUS, OWNED_MILLI_CPU, OFFLINE_REPORT)
OF_TOPOLOGIES = (CPU_TOPOLOGY, CPU_BASIC_INFO)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    formatter = LineFormatter(LogFormat.JSON)
    return [formatter.format(record) for record in caplog.records if record.name.startswith("corewise")]


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
async def test_largest_annotations_are_cut_where_told(
    api_server: LocalAPIServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    """A node for each annotation, and on each a pod with all that pods can have, one by one."""
    caplog.set_level(logging.DEBUG)
    async with small_cluster(api_server, tmp_path) as cluster:
        world = SchedulerWorld(cluster.server, cluster.client, cluster.administrator)
        for number, name in enumerate(OF_NODES + OF_TOPOLOGIES):
            node, annotations = f"n{number}", {name: text}
            await world.add_node(node, 8, stated=False)
            if name in OF_NODES:
                await world.client.patch(PLAIN_NODES, node, {"metadata": {"annotations": annotations}})
            else:
                await world.state_topology(node, annotations)
            pod = pod_document(f"p{number}", annotations={RESOURCE_STATUS: text}, qos="LSR")
            pod["spec"]["nodeName"] = node
            await world.client.create(PLAIN_PODS, pod, PODS_NAMESPACE)
        await cluster.configure(normalization=normalization())
        async with cluster.manager() as manager, world.scheduler() as scheduler:
            await until(lambda: len(manager.reconciler.reports) == len(OF_NODES + OF_TOPOLOGIES))
            await until(lambda: not len(manager.queue))
            await until(lambda: bool(scheduler.state.counted.findings and scheduler.events.written))
        events = await world.client.list(EVENTS)
        assert events
        assert [line[:200] for line in lines(caplog) if len(line) > LONGEST_LINE] == []
        assert [each.reason for each in events if len(each.message) > LONGEST_EVENT] == []


async def test_a_pod_with_huge_labels_is_answered_shortly(
    api_server: LocalAPIServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with small_cluster(api_server, tmp_path) as cluster:
        world = SchedulerWorld(cluster.server, cluster.client, cluster.administrator)
        await world.add_node("n1", 8)
        async with world.scheduler() as scheduler, caller(scheduler) as call:
            for labels in (
                {QOS_CLASS: "x" * NEARLY_A_MB},
                {"k" * NEARLY_A_MB: "x"},
                {"app": "x" * NEARLY_A_MB},
            ):
                pod = pod_document("p", annotations={"a": "x"})
                pod["metadata"]["labels"] = labels
                status, answer = await call("filter", {"Pod": pod, "NodeNames": ["n1"]})
                assert status == 200
                assert len(json.dumps(answer)) < LONGEST_LINE
            _, told = await call("explain?pod=default/p&nodes=all")
            assert len(json.dumps(told)) < 64 * 1024
        assert [len(line) for line in lines(caplog) if len(line) > LONGEST_LINE] == []
