"""Nodes whose time runs: measured without and with their agents, and alive as long as the cluster is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from corewise.config.colocation import SuppressionMode
from corewise.kube.resources import CONFIG_MAPS, PODS
from corewise.vocabulary.names import (
    BATCH_CPU,
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    OFFLINE_REPORT,
    OVERSUBSCRIPTION,
    SUPPRESSION_KEY,
)
from corewise.vocabulary.offline_report import OfferState, decode
from corewise_lab import control_plane
from corewise_lab.cluster import LocalCluster, local_cluster
from corewise_lab.control_plane import running
from corewise_lab.kubelets import SIMULATED_NODES, Periods, SimulatedNode
from corewise_lab.node_cgroups import BEST_EFFORT, is_offline, read_quota
from corewise_lab.pods import manifest
from corewise_lab.scenario import load_scenario

SCENARIO = """\
name: two
nodes:
  - name: labeled
    model: Neoverse-N1
    coresPerSocket: 8
    memory: 32Gi
    labels: {volcano.sh/oversubscription: "true"}
  - {name: plain, model: Neoverse-N1, coresPerSocket: 8, memory: 32Gi}
pods:
  - {name: web, fill: 0.5, cpu: "2", load: {low: 1, high: 1}}
  - {name: batch, replicas: 4, cpu: "4", offline: true}
config:
  cpu-suppression-config: '{"enabled": true}'
"""
PERIODS = Periods(status=0.5, report=300.0, lease=5.0)


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[LocalCluster]:
    """A cluster of two nodes with pods; there is no manager, so that nothing but agents acts."""
    file = folder / "two.yaml"
    file.write_text(SCENARIO)
    plan = load_scenario(str(file)).plan()
    async with local_cluster(plan, control_plane.Folder(folder), periods=PERIODS) as made:
        await made.load()
        yield made


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - the caches tell no one
            await asyncio.sleep(0.05)


def named(made: LocalCluster, name: str) -> SimulatedNode:
    return next(node for node in made.nodes if node.metadata.name == name)


def quota(made: LocalCluster, name: str) -> float | None:
    return read_quota(made.files.root(name), BEST_EFFORT)


async def test_agents_limit_offline_pods_to_what_is_offered(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as made:
        off = await made.simulations.measure(on=False)
        assert off.keys() == {"labeled-0", "plain-0"}, "both have offline pods"
        assert all(round(each.utilization, 3) == 1.0 and each.offered is None for each in off.values())
        assert quota(made, "labeled-0") is None
        await made.turn_on()
        await made.agents_done()
        on = await made.simulations.measure(on=True)
        labeled, plain = on["labeled-0"], on["plain-0"]
        assert labeled.offered is not None
        assert round(labeled.offline, 2) == round(labeled.offered, 2)
        assert round(labeled.offered, 2) == round(0.6 * (8 - labeled.online), 2)
        assert (plain.offered, round(plain.utilization, 3)) == (None, 1.0), "its label does not ask for it"
        await until(lambda: BATCH_CPU in named(made, "labeled-0").status["allocatable"])
        report = decode(named(made, "labeled-0").metadata.annotations[OFFLINE_REPORT])
        assert report is not None
        assert (report.state, report.offline_pods) == (OfferState.FRESH, 2)
        assert BATCH_CPU not in named(made, "plain-0").status["allocatable"]


async def test_removing_a_label_live_gives_everything_back(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as made:
        await made.turn_on()
        await made.agents_done()
        async with running(made.simulations.run):
            await until(lambda: BATCH_CPU in named(made, "labeled-0").status["allocatable"])
            await until(lambda: quota(made, "labeled-0") is not None)
            label = {"metadata": {"labels": {OVERSUBSCRIPTION: None}}}
            await made.client.patch(SIMULATED_NODES, "labeled-0", label)
            await until(lambda: quota(made, "labeled-0") is None)
            await until(lambda: OFFLINE_REPORT not in named(made, "labeled-0").metadata.annotations)
            assert BATCH_CPU in named(made, "labeled-0").status["allocatable"], "its offline pods still run"
            for pod in (await made.client.list(PODS)).items:
                if pod.metadata.name.startswith("batch"):
                    await made.client.delete(PODS, pod.metadata.name, pod.metadata.namespace, grace_period=0)
            await until(lambda: BATCH_CPU not in named(made, "labeled-0").status["allocatable"])


async def test_changed_configuration_option_takes_over_in_running_cluster(tmp_path: Path) -> None:
    def mode() -> str:
        text = named(made, "labeled-0").metadata.annotations.get(OFFLINE_REPORT, "")
        report = decode(text)
        return report.suppression.mode if report and report.suppression else ""

    async with cluster(tmp_path) as made:
        await made.turn_on()
        await made.agents_done()
        async with running(made.simulations.run):
            await until(lambda: mode() == SuppressionMode.BESTEFFORT_QUOTA)
            await until(lambda: quota(made, "labeled-0") is not None)
            data = {SUPPRESSION_KEY: '{"mode": "per-pod-quota"}'}
            await made.client.patch(CONFIG_MAPS, CONFIG_NAME, {"data": data}, namespace=CONFIG_NAMESPACE)
            await until(lambda: mode() == SuppressionMode.PER_POD_QUOTA)
            await until(lambda: quota(made, "labeled-0") is None)


async def test_node_labeled_in_running_cluster_starts_offering(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await made.turn_on()
        async with running(made.simulations.run):
            label = {"metadata": {"labels": {OVERSUBSCRIPTION: "true"}}}
            await made.client.patch(SIMULATED_NODES, "plain-0", label)
            await until(lambda: BATCH_CPU in named(made, "plain-0").status["allocatable"])
            assert made.agents.publications >= 1


async def test_user_offline_pod_schedules_by_offer_into_groups(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as made:
        groups = {pod.metadata.name: pod.spec.node_name for pod in made.pods if is_offline(pod)}
        assert sorted(groups.values()) == ["labeled-0", "labeled-0", "plain-0", "plain-0"]
        assert made.scheduler.pending == 0, "no one offers batch CPU yet, and the pods of the groups run"
        await made.turn_on()
        await made.agents_done()
        async with running(made.simulations.run):
            await until(lambda: BATCH_CPU in named(made, "labeled-0").status["allocatable"])
            for name, milli in (("small", 1), ("large", 400_000)):
                pod = manifest(name, cpu_milli=milli, memory=0, offline=True)
                await made.client.create(PODS, pod, "default")
            await until(lambda: made.scheduler.has_refused(("default", "large")))
            await until(lambda: made.scheduler.has_refused(("default", "small")))
            for name in groups:
                await made.client.delete(PODS, name, "default", grace_period=0)
            await until(
                lambda: any(p.metadata.name == "small" and p.status.phase == "Running" for p in made.pods)
            )
            (small,) = (pod for pod in made.pods if pod.metadata.name == "small")
            assert small.spec.node_name == "labeled-0"
            assert made.scheduler.has_refused(("default", "large"))
