"""With a real containerd, the real agent program divides containers from their first moment, as NRI plugin.

The agent runs as a user starts it, against a local API server, with the permissions of its manifest; its
cgroups are those that containerd and runc make, below a cgroup root of the test's own.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from corewise.topology import CPUSet
from node.agent_cluster import AgentCluster, agent_cluster
from node.containerd import UNLIMITED, ContainerdNode, containerd_or_skip, unified
from node.cri import Pod

ONE_CPU, ONE_CPU_DIVIDED = 100_000, 66_667
TWO_CPU, TWO_CPU_DIVIDED = 200_000, 133_334
APPLIED = "normalization ratio 1.50 is applied"
REGISTERED = "registered with containerd"


@pytest.fixture(scope="module")
def node() -> Iterator[ContainerdNode]:
    with containerd_or_skip() as node:
        node.make_kubepods()
        yield node


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentCluster]:
    with agent_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.annotate("1.50")
        yield cluster


@contextmanager
def agent(cluster: AgentCluster, node: ContainerdNode) -> Iterator[None]:
    """An agent that knows the ratio and is registered with containerd, and is killed at the end."""
    known, registered = cluster.said(APPLIED), cluster.said(REGISTERED)
    with cluster.agent("--cgroup-root", node.cgroup_root, "--nri-socket", str(node.nri_socket)):
        cluster.wait_for(lambda: cluster.said(APPLIED) > known, "the agent knows the ratio")
        cluster.wait_for(lambda: cluster.said(REGISTERED) > registered, "containerd has the agent")
        yield


@contextmanager
def web(cluster: AgentCluster, node: ContainerdNode, name: str) -> Iterator[Pod]:
    """A pod that the API server has assigned to the node, and that runs."""
    uid = cluster.add_pod(name, {"one": "1", "two": "2"})
    with node.pod(uid) as pod:
        yield pod


def created(node: ContainerdNode, pod: Pod, name: str, quota: int) -> tuple[str, int]:
    """Start a container; return its ID and the quota that its first process saw."""
    container = node.create(pod, name, quota=quota)
    node.cri.start(container)
    return container, node.first_seen_quota(name)


def test_agent_divides_new_containers_and_updates_exactly_once(
    node: ContainerdNode, cluster: AgentCluster
) -> None:
    with agent(cluster, node), web(cluster, node, "divided") as pod:
        container, seen = created(node, pod, "one", ONE_CPU)
        assert (seen, node.stated_quota(container)) == (ONE_CPU_DIVIDED, ONE_CPU_DIVIDED)
        cluster.run_pod("divided", {"one": container})
        for quota, divided in ((TWO_CPU, TWO_CPU_DIVIDED), (ONE_CPU, ONE_CPU_DIVIDED)):
            node.cri.update(container, cpu_quota=quota, cpu_period=100_000)
            assert node.stated_quota(container) == divided
        node.wait_for(lambda: node.quota(pod, container) == ONE_CPU_DIVIDED, "the quota is that of the spec")
        cluster.annotate("2.00")
        node.wait_for(lambda: node.quota(pod, container) == ONE_CPU // 2, "the quota follows the ratio")
        cluster.annotate("1.50")
        node.wait_for(lambda: node.quota(pod, container) == ONE_CPU_DIVIDED, "the quota follows it back")
    assert cluster.said("this is a bug") == 0


def test_pods_start_without_agent_and_divide_on_return(node: ContainerdNode, cluster: AgentCluster) -> None:
    with web(cluster, node, "alone") as pod:
        with agent(cluster, node):
            pass
        container, seen = created(node, pod, "alone", ONE_CPU)
        assert seen == ONE_CPU
        cluster.run_pod("alone", {"one": container})
        with agent(cluster, node):
            node.wait_for(lambda: node.quota(pod, container) == ONE_CPU_DIVIDED, "it is divided")


@pytest.fixture
def own() -> CPUSet:
    """The CPU that a pod is to own; others are left to share."""
    everything = CPUSet.of(os.sched_getaffinity(0))
    if len(everything) < 2:
        pytest.skip("needs two CPUs")
    return CPUSet.of(list(everything)[-1:])


def test_pod_has_no_quota_only_while_owning_cpus(
    node: ContainerdNode, cluster: AgentCluster, own: CPUSet
) -> None:
    """The pod and its container; on v1 the pod's quota is not divided: its container's bounds it."""
    divided = (ONE_CPU_DIVIDED if unified() else ONE_CPU, ONE_CPU_DIVIDED)
    uid = cluster.add_pod("lifted", {"one": "1"}, str(own))
    node.make_pod_cgroup(uid, ONE_CPU)
    with node.pod(uid) as pod:

        def quotas() -> tuple[int, int]:
            return node.quota(pod), node.quota(pod, container)

        with agent(cluster, node):
            node.wait_for(lambda: node.quota(pod) == UNLIMITED, "the pod's quota is lifted")
            container, seen = created(node, pod, "lifted", ONE_CPU)
            assert (seen, node.stated_quota(container)) == (UNLIMITED, UNLIMITED)
            cluster.run_pod("lifted", {"one": container})
            node.cri.update(container, cpu_quota=ONE_CPU, cpu_period=100_000)
            assert node.stated_quota(container) == UNLIMITED
            assert quotas() == (UNLIMITED, UNLIMITED)
            cluster.own("lifted", "")
            node.wait_for(lambda: quotas() == divided, "it shares CPUs, and its quota is divided")
            cluster.own("lifted", str(own))
            node.wait_for(lambda: quotas() == (UNLIMITED, UNLIMITED), "it owns them again")
        cluster.own("lifted", "")
        assert quotas() == (UNLIMITED, UNLIMITED), "no one writes while no agent runs"
        with agent(cluster, node):
            node.wait_for(lambda: quotas() == divided, "the next agent puts its quota back")
    cluster.remove_pod("lifted")
    assert cluster.said("this is a bug") == 0


def test_pod_beside_an_owner_has_cpus_before_containers(
    node: ContainerdNode, cluster: AgentCluster, own: CPUSet
) -> None:
    everything = CPUSet.of(os.sched_getaffinity(0))
    uid = cluster.add_pod("owner", {"one": "1"}, str(own))
    unknown_yet = str(uuid.uuid4())
    with agent(cluster, node), node.pod(uid) as owner, node.pod(unknown_yet) as beside:
        assert node.cpus(owner) == own
        assert node.cpus(beside) == everything - own
        cluster.remove_pod("owner")
        node.wait_for(lambda: node.cpus(beside) == everything, "the CPUs are shared again")
    assert cluster.said("this is a bug") == 0


def test_a_restarted_containerd_has_the_agent_again(node: ContainerdNode, cluster: AgentCluster) -> None:
    with agent(cluster, node), web(cluster, node, "again") as pod:
        before, seen = created(node, pod, "before", ONE_CPU)
        assert seen == ONE_CPU_DIVIDED
        registered = cluster.said(REGISTERED)
        node.kill()
        node.start()
        cluster.wait_for(lambda: cluster.said(REGISTERED) > registered, "the agent has registered again")
        assert created(node, pod, "after", TWO_CPU)[1] == TWO_CPU_DIVIDED
        assert node.quota(pod, before) == ONE_CPU_DIVIDED
    assert cluster.said("Traceback") == 0
