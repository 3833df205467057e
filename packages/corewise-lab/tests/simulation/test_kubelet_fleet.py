"""Kubelet and agent stand-ins at the real API server: nodes, leases, pods, topologies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.config import load_config
from corewise.kube.errors import Forbidden, NotFound
from corewise.kube.objects import ObjectMeta, ResourceRequirements
from corewise.kube.resources import LEASES, NODE_RESOURCE_TOPOLOGIES, NODES, PODS, Resource
from corewise.quantities import ONE, Bytes, Ratio
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    CPU_BASIC_INFO,
    CPU_RATIO_APPLIED,
    NORMALIZATION_RATIO,
    SIMULATED_LOAD,
)
from corewise.workload.pods import PodStatus
from corewise_lab import control_plane as bootstrap
from corewise_lab.cluster import LocalCluster
from corewise_lab.control_plane import running
from corewise_lab.kubelets import (
    LEASE_NAMESPACE,
    SIMULATED_NODES,
    Periods,
    PodReconciler,
    SimulatedContainer,
    SimulatedNode,
    SimulatedPod,
    SimulatedPodSpec,
)
from corewise_lab.machines import CATALOG, Machine
from corewise_lab.plan import Plan
from corewise_lab.pods import manifest
from corewise_lab.resource_metrics import DEFINITIONS, NODE_METRICS, POD_METRICS
from kubedouble import LocalAPIServer

SLOW = Periods(status=3600.0, lease=3600.0)
QUICK = Periods(status=0.05, report=3600.0, lease=0.05)


def machine(name: str = "n1", cpus: int = 4) -> Machine:
    return Machine(name, CATALOG["Neoverse-N1"], cpus, Bytes(16 << 30), hyper_threading=False, turbo=False)


def pod(name: str, *, cpu_milli: int = 1000, node: str = "n1") -> dict[str, Any]:
    return manifest(name, cpu_milli=cpu_milli, memory=1 << 30, node=node)


def container(cpu: str) -> SimulatedContainer:
    return SimulatedContainer("main", ResourceRequirements(requests={"cpu": cpu}))


@asynccontextmanager
async def cluster_of(
    server: LocalAPIServer, folder: Path, *machines: Machine, periods: Periods = SLOW
) -> AsyncIterator[LocalCluster]:
    server.write_kubeconfig(folder / "kubeconfig")
    async with Client(load_config(str(folder / "kubeconfig"))) as client:
        await bootstrap.install(client, bootstrap.shipped_manifests())
        cluster = LocalCluster(Plan("a test", machines, {}), client, folder / "machines", periods)
        async with running(*cluster.loops()):
            await cluster.load()
            yield cluster


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(90):
        while not condition():  # noqa: ASYNC110 - the caches tell no one
            await asyncio.sleep(0.01)


def node(cluster: LocalCluster, name: str = "n1") -> SimulatedNode:
    return next(each for each in cluster.nodes if each.metadata.name == name)


def phase(cluster: LocalCluster, name: str) -> str:
    return next((each.status.phase for each in cluster.pods if each.metadata.name == name), "")


def has_phase(cluster: LocalCluster, name: str, wanted: str) -> bool:
    return phase(cluster, name) == wanted


async def set_status(cluster: LocalCluster, status: dict[str, Any]) -> None:
    await cluster.client.patch(SIMULATED_NODES, "n1", {"status": status}, subresource="status")


async def test_a_node_registers_itself_with_its_machines_amounts(
    api_server: LocalAPIServer, tmp_path: Path
) -> None:
    async with cluster_of(api_server, tmp_path, machine(), machine("n2", 8)) as cluster:
        assert node(cluster).status["capacity"]["cpu"] == "4"
        assert node(cluster, "n2").status["allocatable"]["cpu"] == "8"
        assert node(cluster).metadata.labels["kubernetes.io/arch"] == "arm64"


async def test_kubelet_writes_only_as_its_own_node(api_server: LocalAPIServer, tmp_path: Path) -> None:
    async with cluster_of(api_server, tmp_path, machine(), machine("n2")) as cluster:
        kubelet = cluster.kubelets.kubelets["n1"]
        with pytest.raises(Forbidden):
            await kubelet.client.patch(NODES, "n2", {"status": {"phase": "x"}}, subresource="status")


async def test_leases_are_renewed(api_server: LocalAPIServer, tmp_path: Path) -> None:
    async with cluster_of(api_server, tmp_path, machine(), periods=QUICK) as cluster:
        await until(lambda: cluster.kubelets.counters.lease_renewals >= 3)
        lease = await cluster.client.get(LEASES, "n1", LEASE_NAMESPACE)
        assert lease.spec.holder_identity == "n1"
        assert lease.spec.renew_time != lease.spec.acquire_time


async def test_nothing_is_written_as_long_as_nothing_changes(
    api_server: LocalAPIServer, tmp_path: Path
) -> None:
    async with cluster_of(api_server, tmp_path, machine(), periods=QUICK) as cluster:
        await until(lambda: cluster.kubelets.counters.lease_renewals >= 5)
        assert cluster.kubelets.counters.status_patches == 0
        assert cluster.node_writes == 0


async def test_heartbeats_are_written_after_the_report_period_regardless(
    api_server: LocalAPIServer, tmp_path: Path
) -> None:
    periods = Periods(status=0.05, report=0.2, lease=3600.0)
    async with cluster_of(api_server, tmp_path, machine(), periods=periods) as cluster:
        await until(lambda: cluster.kubelets.counters.status_patches >= 2)


async def test_foreign_amounts_are_put_back_to_raw(api_server: LocalAPIServer, tmp_path: Path) -> None:
    async with cluster_of(api_server, tmp_path, machine(), periods=QUICK) as cluster:
        await set_status(cluster, {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "8"}})
        await until(lambda: cluster.kubelets.counters.status_patches_stored >= 1)
        await until(lambda: node(cluster).status["capacity"]["cpu"] == "4")


async def test_a_condition_that_turns_is_written(api_server: LocalAPIServer, tmp_path: Path) -> None:
    async with cluster_of(api_server, tmp_path, machine(), periods=QUICK) as cluster:
        cluster.kubelets.kubelets["n1"].pressure = ("DiskPressure",)
        await until(
            lambda: any(
                each["type"] == "DiskPressure" and each["status"] == "True"
                for each in node(cluster).status["conditions"]
            )
        )


async def test_pods_run_until_allocatable_is_full_then_refused(
    api_server: LocalAPIServer, tmp_path: Path
) -> None:
    async with cluster_of(api_server, tmp_path, machine()) as cluster:
        for name in ("a", "b", "c", "d"):
            await cluster.client.create(PODS, pod(name), "default")
            await until(partial(has_phase, cluster, name, "Running"))
        await cluster.client.create(PODS, pod("e"), "default")
        await until(lambda: phase(cluster, "e") == "Failed")
        refused = await cluster.client.get(PODS.typed(dict), "e", "default")
        assert refused["status"]["reason"] == "OutOfcpu"
        assert cluster.kubelets.counters.pods_rejected == 1


async def test_kubelet_admits_by_the_apis_amplified_allocatable(
    api_server: LocalAPIServer, tmp_path: Path
) -> None:
    async with cluster_of(api_server, tmp_path, machine()) as cluster:
        await set_status(cluster, {"allocatable": {"cpu": "6"}})
        await until(lambda: node(cluster).status["allocatable"]["cpu"] == "6")
        await cluster.client.create(PODS, pod("large", cpu_milli=6000), "default")
        await until(lambda: phase(cluster, "large") == "Running")


async def test_pod_without_a_node_is_scheduled_and_runs(api_server: LocalAPIServer, tmp_path: Path) -> None:
    async with cluster_of(api_server, tmp_path, machine(), machine("n2")) as cluster:
        for name in ("a", "b"):
            await cluster.client.create(PODS, pod(name, cpu_milli=3000, node=""), "default")
            await until(partial(has_phase, cluster, name, "Running"))
        assert {each.spec.node_name for each in cluster.pods} == {"n1", "n2"}
        await cluster.client.create(PODS, pod("c", cpu_milli=3000, node=""), "default")
        await until(lambda: cluster.scheduler.has_refused(("default", "c")))
        assert cluster.kubelets.counters.pods_rejected == 0, "who fits nowhere is bound nowhere"


async def test_kubelet_admits_on_grown_node_before_watch_event(
    api_server: LocalAPIServer, tmp_path: Path
) -> None:
    async with cluster_of(api_server, tmp_path, machine()) as cluster:
        small = node(cluster)
        await set_status(cluster, {"allocatable": {"cpu": "6"}})
        await until(lambda: node(cluster).status["allocatable"]["cpu"] == "6")
        spec = SimulatedPodSpec(node_name="n1", containers=(container("6"),))
        large = SimulatedPod(
            metadata=ObjectMeta(name="large", namespace="default", uid="u"),
            spec=spec,
            status=PodStatus(qos_class="Burstable"),
        )
        reconciler = PodReconciler(
            cluster.kubelets,
            cached_node=lambda _: small,
            cached_pods={("default", "large"): large},
            files=cluster.files,
            clock=SYSTEM_CLOCK,
            on_start=lambda _: None,
        )
        reconciler.changed(None, large)
        async with running(reconciler.run):
            await until(lambda: cluster.kubelets.counters.pods_started)
        assert cluster.kubelets.counters.pods_rejected == 0


async def test_deleted_pods_go_and_make_room(api_server: LocalAPIServer, tmp_path: Path) -> None:
    async with cluster_of(api_server, tmp_path, machine()) as cluster:
        await cluster.client.create(PODS, pod("first", cpu_milli=4000), "default")
        await until(lambda: phase(cluster, "first") == "Running")
        await cluster.client.delete(PODS, "first", "default", grace_period=30)
        await until(lambda: not cluster.pods)
        await cluster.client.create(PODS, pod("second", cpu_milli=4000), "default")
        await until(lambda: phase(cluster, "second") == "Running")


async def test_pod_replaced_under_its_name_makes_room(api_server: LocalAPIServer, tmp_path: Path) -> None:
    """A list after a watch that was lost shows the next pod in place of the one before."""
    async with cluster_of(api_server, tmp_path, machine()) as cluster:
        small = node(cluster)
        first, second = (
            SimulatedPod(
                metadata=ObjectMeta(name="db", namespace="default", uid=uid),
                spec=SimulatedPodSpec(node_name="n1", containers=(container("4"),)),
                status=PodStatus(qos_class="Burstable"),
            )
            for uid in ("first", "second")
        )
        pods: dict[object, SimulatedPod] = {("default", "db"): first}
        counters = cluster.kubelets.counters
        reconciler = PodReconciler(
            cluster.kubelets,
            cached_node=lambda _: small,
            cached_pods=pods,
            files=cluster.files,
            clock=SYSTEM_CLOCK,
            on_start=lambda _: None,
        )
        reconciler.changed(None, first)
        async with running(reconciler.run):
            await until(lambda: counters.pods_started == 1)
            pods["default", "db"] = second
            reconciler.changed(first, second)
            await until(lambda: counters.pods_started + counters.pods_rejected == 2)
        assert counters.pods_rejected == 0


JOBS = Resource("batch", "v1", "jobs", "Job", namespaced=True, type=dict)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True, type=dict)


@pytest.mark.parametrize(
    ("command", "policy", "ended", "phases"),
    [
        ("sleep 0.1", "Never", "Complete", ["Succeeded"]),
        ("sleep 0.1", "OnFailure", "Complete", ["Succeeded"]),
        ("false", "Never", "Failed", ["Failed", "Failed"]),
        ("false", "OnFailure", "Failed", []),
    ],
)
async def test_a_job_ends_with_what_its_pods_run(
    api_server: LocalAPIServer, tmp_path: Path, command: str, policy: str, ended: str, phases: list[str]
) -> None:
    async with cluster_of(api_server, tmp_path, machine()) as cluster:
        container = {"name": "main", "image": "any", "command": command.split()}
        template = {"spec": {"containers": [container], "restartPolicy": policy}}
        body = {"metadata": {"name": "once"}, "spec": {"template": template, "backoffLimit": 1}}
        await cluster.client.create(JOBS, body, "default")
        await condition_met(cluster, JOBS, "once", ended)
        await until(lambda: [each.status.phase for each in cluster.pods] == phases)


async def test_a_deployment_rolls_out_onto_the_nodes(api_server: LocalAPIServer, tmp_path: Path) -> None:
    async with cluster_of(api_server, tmp_path, machine()) as cluster:
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": pod("web", cpu_milli=500, node="")["spec"]}
        spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
        await cluster.client.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec}, "default")
        await condition_met(cluster, DEPLOYMENTS, "web", "Available")
        assert len(cluster.pods) == 3


async def test_metrics_report_node_and_pod_use_until_deleted(
    api_server: LocalAPIServer, tmp_path: Path
) -> None:
    async with cluster_of(api_server, tmp_path, machine()) as cluster:
        await bootstrap.install(cluster.client, DEFINITIONS)
        for name, load in (("idle", {SIMULATED_LOAD: "0.5"}), ("busy", {})):
            body = pod(name)
            body["metadata"]["annotations"] = load
            await cluster.client.create(PODS, body, "default")
        await until(lambda: [each.status.phase for each in cluster.pods] == ["Running"] * 2)
        async with running(cluster.metrics.run):
            used = {name: await metrics_of(cluster, POD_METRICS, name) for name in ("idle", "busy")}
            node = await metrics_of(cluster, NODE_METRICS, "n1")
        assert {name: each["containers"][0]["usage"]["memory"] for name, each in used.items()} == {
            "idle": "734003Ki",
            "busy": "734003Ki",
        }
        cpu = {name: int(each["containers"][0]["usage"]["cpu"][:-1]) for name, each in used.items()}
        threads = machine().threads
        assert threads
        assert cpu["idle"] == pytest.approx(0.5 / threads.lone * 1e9)
        assert cpu["busy"] == pytest.approx(1e9), "it wants four times its limit"
        assert int(node["usage"]["cpu"][:-1]) == pytest.approx(sum(cpu.values()))
        await cluster.client.delete(PODS, "idle", "default", grace_period=0)
        async with asyncio.timeout(90):
            while len((await cluster.client.list(POD_METRICS)).items) > 1:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.1)


async def metrics_of(cluster: LocalCluster, resource: Resource[dict[str, Any]], name: str) -> dict[str, Any]:
    """Wait until there are metrics of a node or pod, and return them."""
    async with asyncio.timeout(90):
        while True:
            try:
                return await cluster.client.get(resource, name, "default" if resource.namespaced else "")
            except NotFound:
                await asyncio.sleep(0.1)


async def condition_met(
    cluster: LocalCluster, resource: Resource[dict[str, Any]], name: str, condition: str
) -> None:
    """Wait until a condition of an object is True."""
    wanted = {"type": condition, "status": "True"}.items()
    async with asyncio.timeout(90):
        while True:
            obj = await cluster.client.get(resource, name, "default")
            if any(wanted <= each.items() for each in obj["status"].get("conditions") or ()):
                return
            await asyncio.sleep(0.1)


async def test_the_agent_reports_facts_and_zones(api_server: LocalAPIServer, tmp_path: Path) -> None:
    async with cluster_of(api_server, tmp_path, machine()) as cluster:
        topology = await cluster.client.get(NODE_RESOURCE_TOPOLOGIES, "n1")
        facts = json.loads(topology.metadata.annotations[CPU_BASIC_INFO])
        assert facts["cpuModel"] == "Neoverse-N1"
        assert [zone.name for zone in topology.zones] == ["node-0"]
        assert topology.metadata.owner_references[0].kind == "Node"


async def test_agent_follows_the_ratios_and_amplifies_its_zones(
    api_server: LocalAPIServer, tmp_path: Path
) -> None:
    async with cluster_of(api_server, tmp_path, machine()) as cluster:
        ratios = {NORMALIZATION_RATIO: "2.00", AMPLIFICATION_RATIO: '{"cpu":2.50}'}
        await cluster.client.patch(NODES, "n1", {"metadata": {"annotations": ratios}})
        await until(lambda: cluster.agents.ratio("n1") == Ratio(200))
        async with asyncio.timeout(90):
            while True:
                topology = await cluster.client.get(NODE_RESOURCE_TOPOLOGIES, "n1")
                if topology.metadata.annotations[CPU_RATIO_APPLIED] == "2.50":
                    break
        amounts = {resource.name: resource.capacity for resource in topology.zones[0].resources}
        assert amounts["cpu"] in {"10", 10}


async def test_unreadable_ratio_keeps_the_last_good_one(api_server: LocalAPIServer, tmp_path: Path) -> None:
    async with cluster_of(api_server, tmp_path, machine()) as cluster:
        for text in ("1.50", "1,2", "0.99"):
            await cluster.client.patch(
                NODES, "n1", {"metadata": {"annotations": {NORMALIZATION_RATIO: text}}}
            )
        await until(lambda: cluster.agents.unreadable_ratios == 2)
        assert cluster.agents.ratio("n1") == Ratio(150)
        await cluster.client.patch(NODES, "n1", {"metadata": {"annotations": {NORMALIZATION_RATIO: None}}})
        await until(lambda: cluster.agents.ratio("n1") == ONE)
