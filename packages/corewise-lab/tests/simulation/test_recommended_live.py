"""Recommendations about offline pods on a living cluster: each appears there, and what it promises happens.

Two nodes offer idle CPU. A Deployment requests a part of it: then more of its pods are recommended, and as
many run after the recommended command. An offline pod waits for a scheduler that does not run: then a node
with room for it is named, and its kubelet takes the pod.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from corewise.cli import corewise
from corewise.kube.config import load_config
from corewise.kube.resources import PODS, Resource
from corewise.views.page.followed import FollowedCluster
from corewise.views.page.tables import PageTables
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY, CONFIG_NAMESPACE
from corewise_lab import control_plane
from corewise_lab.cluster import LocalCluster, local_cluster
from corewise_lab.control_plane import running
from corewise_lab.kubelets import Periods
from corewise_lab.pods import manifest
from corewise_lab.scenario import load_scenario

SCENARIO = """\
name: offering
nodes:
  - name: big
    model: Neoverse-N1
    coresPerSocket: 16
    memory: 64Gi
    labels: {volcano.sh/oversubscription: "true"}
  - name: small
    model: Neoverse-N1
    coresPerSocket: 8
    memory: 32Gi
    labels: {volcano.sh/oversubscription: "true"}
pods:
  - {name: web, fill: 0.5, cpu: "2", load: {low: 1, high: 1}}
config:
  cpu-suppression-config: '{"enabled": true}'
"""
PERIODS = Periods(status=0.5, report=300.0, lease=5.0)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True, type=dict)
BATCH = {
    "metadata": {"name": "batch"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "batch"}},
        "template": {
            "metadata": {"labels": {"app": "batch"}},
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "any",
                        "resources": {
                            "requests": {BATCH_CPU: "1500", BATCH_MEMORY: "256Mi"},
                            "limits": {BATCH_CPU: "1500", BATCH_MEMORY: "256Mi"},
                        },
                    }
                ]
            },
        },
    },
}


@asynccontextmanager
async def offering(folder: Path) -> AsyncIterator[LocalCluster]:
    """A cluster of two nodes that offer idle CPU, which stays the same: so does what online pods use."""
    file = folder / "offering.yaml"
    file.write_text(SCENARIO)
    plan = load_scenario(str(file)).plan()
    async with local_cluster(plan, control_plane.Folder(folder), periods=PERIODS) as made:
        await made.load()
        await made.turn_on()
        await made.agents_done()
        async with running(made.simulations.run):
            await until(lambda: all(BATCH_CPU in node.status["allocatable"] for node in made.nodes))
            yield made


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - the caches tell no one
            await asyncio.sleep(0.05)


async def recommended(made: LocalCluster, folder: Path, advice: str) -> list[dict[str, Any]]:
    """Return the page's recommendations of one kind."""
    async with asyncio.TaskGroup() as group:
        config = load_config(str(folder / "kubeconfig"))
        cluster = FollowedCluster(config, made.client, config_namespace=CONFIG_NAMESPACE)
        await cluster.list_nodes()
        cluster.follow(group)
        tables = PageTables(cluster)
        await tables.made()
        rows = tables.table("recommendations")["rows"]
        assert tables.summary()["recommendations"] == len(rows)
        cluster.stop()
    return [row for row in rows if row["advice"] == advice]


def started(made: LocalCluster, app: str) -> list[str]:
    """Return the nodes of the pods of an app that run."""
    return [
        pod.spec.node_name
        for pod in made.pods
        if pod.metadata.labels.get("app") == app and pod.status.phase == "Running"
    ]


async def test_recommended_copies_all_run(tmp_path: Path) -> None:
    async with offering(tmp_path) as made:
        assert await recommended(made, tmp_path, "OfferUnrequested") == [], "no workload requests any"
        await made.client.create(DEPLOYMENTS, BATCH, "default")
        await until(lambda: len(started(made, "batch")) == 2)
        (row,) = await recommended(made, tmp_path, "OfferUnrequested")
        assert (row["kind"], row["object"]) == ("Deployment", "default/batch")
        *scale, replicas = shlex.split(row["command"])
        assert scale == ["kubectl", "-n", "default", "scale", "deployment/batch"]
        wanted = int(replicas.removeprefix("--replicas="))
        assert row["what"] == f"{wanted - 2} more pods of Deployment default/batch could run now."
        assert row["amountCPUMilli"] == (wanted - 2) * 1500
        assert wanted > 3
        await made.client.patch(
            DEPLOYMENTS, "batch", {"spec": {"replicas": wanted}}, namespace="default", subresource="scale"
        )
        await until(lambda: len(started(made, "batch")) == wanted)
        assert {*started(made, "batch")} == {"big-0", "small-0"}
        assert await recommended(made, tmp_path, "OfferUnrequested") == [], "nothing is left"


async def test_node_with_room_for_waiting_pod_runs_it(tmp_path: Path) -> None:
    async with offering(tmp_path) as made:
        for name, milli in (("late", 1500), ("huge", 400_000)):
            pod = manifest(name, cpu_milli=milli, memory=0, offline=True, labels={"app": name})
            pod["spec"]["schedulerName"] = "absent"
            await made.client.create(PODS, pod, "default")
        (row,) = await recommended(made, tmp_path, "OfflinePodFits")
        assert row["object"] == "default/late"
        assert row["why"].startswith(
            "it requests 1.5 normalized CPUs and waits for the scheduler absent; 2 nodes"
        )
        node = row["what"].removeprefix("Offline pod default/late could run now on ").removesuffix(".")
        assert node in {"big-0", "small-0"}
        *_, kind, name = words = row["command"].split()
        assert words[:2] == ["corewise", "explain"]
        options = ["explain", kind, name, "--kubeconfig", str(tmp_path / "kubeconfig")]
        shown = (await asyncio.to_thread(CliRunner().invoke, corewise, options)).stdout
        assert node in shown
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "late"}, "target": target}
        path = "/api/v1/namespaces/default/pods/late/binding"
        await made.client.request("POST", path, body=body)
        await until(lambda: started(made, "late") == [node])
        assert await recommended(made, tmp_path, "OfflinePodFits") == [], "huge fits nowhere"
