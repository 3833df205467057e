"""What an idle node costs with oversubscription on: stored writes of its Node, counted over half an hour.

The API server's date, the kubelet stand-in and the agent's publisher go by one clock, which the test moves by
10 s at a time. managedFields are kept in the order of their times, so a patch that puts back what was stored
is stored all the same where it moves its writer behind another one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from corewise.agent.executor import write_publication
from corewise.agent.objects import AGENT_NODES
from corewise.agent.offline_cache import SampleHistory
from corewise.agent.offline_decision import NodeColocation
from corewise.agent.publication import Publisher, Tick, report_of
from corewise.amplification.policy import amplification_policy
from corewise.config.colocation import OversubscriptionSettings
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import NODES
from corewise.quantities import ONE, Ratio, Share
from corewise.suppression.offer import OfferHistory, OfflineAmounts, Usage, compute
from corewise.vocabulary.names import AMPLIFICATION_RATIO
from corewise_lab.kubelets import SIMULATED_NODES, Kubelet, KubeletCounters, Periods
from kubedouble import LocalAPIServer
from kubedouble.expressions import is_available
from simulation.test_kubelet_status import MACHINE

MINUTES, STEP = 30, 10
IDLE = Usage(300, 0, (), 2 << 30, 0)
ALLOCATABLE = OfflineAmounts(7750, 31 << 30)


@dataclass
class MovedClock:
    """The date, as a test moves it."""

    seconds: float = 0.0
    began: datetime = datetime.now(UTC)  # noqa: RUF009 - one date for all of a test's parts

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return self.began + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nothing waits for {seconds} s")


def idle_offers(clock: MovedClock) -> Callable[[], Tick]:
    """Return the computation of an idle node's agent: usage varies by a hundredth of a CPU each interval."""
    history, measured, settings = OfferHistory(), SampleHistory(), OversubscriptionSettings()

    def look() -> Tick:
        nonlocal history
        usage = Usage(IDLE.node_milli + int(clock.seconds) % 11, 0, (), IDLE.node_memory, 0)
        computed = compute(usage, ALLOCATABLE, Share(6000))
        history = history.with_sample(clock.seconds, computed)
        measured.add(clock.now().timestamp(), usage, computed)
        offer = history.offer(clock.seconds)
        report = report_of(measured, offer, NodeColocation(settings, allocatable=ALLOCATABLE))
        return Tick(on=True, offer=offer, report=report)

    return look


@pytest.mark.parametrize("ratio", [None, "1.50"], ids=["plain", "amplified"])
async def test_idle_offering_node_writes_at_most_once_minutely(
    api_server: LocalAPIServer, tmp_path: Path, ratio: str | None
) -> None:
    if ratio and not is_available():
        pytest.skip("cel-expr-python is not installed")
    clock = MovedClock()
    api_server.cluster.clock = clock.now
    for name, user, groups in (
        ("admin", "admin", ["system:masters"]),
        ("kubelet", "system:node:n1", ["system:nodes"]),
    ):
        api_server.write_kubeconfig(tmp_path / name, user, groups)
    async with (
        Client(load_config(str(tmp_path / "admin"))) as admin,
        Client(load_config(str(tmp_path / "kubelet"))) as own,
    ):
        kubelet = Kubelet(MACHINE, own, "10.0.0.1", "boot", clock, Periods(), KubeletCounters())
        await kubelet.register()
        if ratio:
            for document in amplification_policy(maximum=Ratio(1000)):
                path = {True: "mutatingadmissionpolicybindings", False: "mutatingadmissionpolicies"}[
                    document["kind"].endswith("Binding")
                ]
                await admin.request("POST", f"/apis/admissionregistration.k8s.io/v1/{path}", body=document)
            annotations = {AMPLIFICATION_RATIO: f'{{"cpu":{ratio}}}'}
            await admin.patch(NODES, "n1", {"metadata": {"annotations": annotations}})
        publisher, look = Publisher(), idle_offers(clock)

        async def pass_time(seconds: int) -> int:
            """Return in how many versions the Node was stored; each of the two writes at most once a step."""
            versions = {version(api_server)}
            for _ in range(seconds // STEP):
                clock.seconds += STEP / 2
                await kubelet.report(await own.get(SIMULATED_NODES, "n1"))
                versions.add(version(api_server))
                clock.seconds += STEP / 2
                node = await admin.get(AGENT_NODES, "n1")
                publication = publisher.change(look(), node, ONE, clock.seconds)
                if publication is not None:
                    await write_publication(admin, "n1", publication)
                    publisher.done(publication, clock.seconds)
                versions.add(version(api_server))
            return len(versions) - 1

        await pass_time(120)
        sent = kubelet.counters.status_patches
        assert 0 < await pass_time(MINUTES * 60) <= MINUTES
        patches = kubelet.counters.status_patches - sent
        assert patches >= (MINUTES * 6 if ratio else MINUTES // 5)


def version(server: LocalAPIServer) -> str:
    stored = server.store.get("nodes", "", "n1")
    assert stored
    return str(stored.object["metadata"]["resourceVersion"])
