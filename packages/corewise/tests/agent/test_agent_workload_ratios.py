"""Whose quota is divided by what, where the Node states ratios of workloads.

A node of ratio 1.50, and a workload of 1.20 that the label ``app: encoder`` selects; limit 1 CPU.

| pod, node                                      | quota                                   |
|------------------------------------------------|-----------------------------------------|
| selected                                       | 83,334: by the workload's ratio         |
| not selected                                   | 66,667: by the node's                   |
| label set, then removed                        | follows, without a restart of the pod   |
| annotation changed, then removed               | follows; removed: by the node's         |
| workload's ratio 1.00 on a normalized node     | 100,000: kubelet's                      |
| workload's ratio above 1.00 on a node of 1.00  | divided there alone                     |
| annotation unreadable                          | by the last good ratio                  |
| no normalization ratio on the Node             | 100,000: the annotation does not count  |
| somebody else changes the quota                | put right, by the workload's ratio      |
| selected, but owns CPUs, SYSTEM or BE          | as ever: no ratio divides               |
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from agent.fake_node import FakeNode, container, pod
from agent.pinning_node import PinNode, claim, pin_pod
from corewise.agent.cgroups import NodeCgroups
from corewise.agent.local_node import LocalNode
from corewise.agent.metrics import publish_quotas
from corewise.agent.objects import QuotaPod
from corewise.agent.runtime import RuntimeHook
from corewise.config.workload_ratios import WorkloadRatio, print_workload_ratios
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.writing.journal import MemoryLog
from corewise.nri.messages import ContainerAdjustment, CPUResources, NRIContainer, PodSandbox
from corewise.prometheus.exposition import Exposition
from corewise.quantities import Microseconds, Ratio
from corewise.vocabulary.metrics import CONTAINER_RATIO, METRICS
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    NORMALIZATION_RATIO,
    NORMALIZE_CPUSET,
    QOS_CLASS,
    WORKLOAD_RATIOS,
)
from corewise.vocabulary.selectors import LabelSelector

ENCODER = {"app": "encoder"}
VECTOR = pod("vector", container("a", "1"), labels=ENCODER)
WEB = pod("web", container("a", "1"))


def stated(ratio: int = 150, workload: int | None = 120) -> dict[str, str]:
    """The annotations of a Node."""
    entry = WorkloadRatio("vector", LabelSelector.of_labels(ENCODER), Ratio(workload or 100))
    text = print_workload_ratios([entry] if workload else [])
    return {NORMALIZATION_RATIO: str(Ratio(ratio))} | ({WORKLOAD_RATIOS: text} if text else {})


def labeled(of: QuotaPod, labels: Mapping[str, str]) -> QuotaPod:
    return msgspec.structs.replace(of, metadata=msgspec.structs.replace(of.metadata, labels=dict(labels)))


class Divided:
    """A node with an agent."""

    def __init__(self, root: Path, version: Version) -> None:
        self.node = FakeNode(root, version)
        self.unreadable = 0
        cgroups = NodeCgroups(root, "/", MemoryLog(), now=lambda: 1.0)
        self.local = LocalNode("n1", root, cgroups, unreadable=self.count)
        self.node.start(VECTOR, WEB)

    def count(self) -> None:
        self.unreadable += 1

    def cycle(self, annotations: Mapping[str, str], *pods: QuotaPod) -> list[int | None]:
        self.local.see(annotations)
        cycle = self.local.cycle(pods)
        assert not cycle.problems
        return [self.node.quota(each, "a") for each in pods]


@pytest.fixture(params=Version)
def divided(request: pytest.FixtureRequest, tmp_path: Path) -> Divided:
    return Divided(tmp_path, request.param)


def test_selected_pods_are_divided_by_workload_ratio(divided: Divided) -> None:
    assert divided.cycle(stated(), VECTOR, WEB) == [83_334, 66_667]
    assert divided.node.quota(VECTOR) == (100_000 if divided.node.version is Version.V1 else 83_334)


def test_quota_follows_a_label_of_running_pod(divided: Divided) -> None:
    assert divided.cycle(stated(), VECTOR) == [83_334]
    assert divided.cycle(stated(), labeled(VECTOR, {})) == [66_667]
    assert divided.cycle(stated(), VECTOR) == [83_334]
    assert not VECTOR.says_the_same(labeled(VECTOR, {})), "so the change wakes the agent"


def test_quota_follows_the_annotation(divided: Divided) -> None:
    assert divided.cycle(stated(), VECTOR, WEB) == [83_334, 66_667]
    assert divided.local.see(stated(workload=200)), "so the change wakes the agent"
    assert divided.cycle(stated(workload=200), VECTOR, WEB) == [50_000, 66_667]
    assert divided.cycle(stated(workload=None), VECTOR, WEB) == [66_667, 66_667]


def test_workload_of_ratio_one_has_kubelets_quota(divided: Divided) -> None:
    assert divided.cycle(stated(workload=None), VECTOR, WEB) == [66_667, 66_667]
    assert divided.cycle(stated(workload=100), VECTOR, WEB) == [100_000, 66_667]


def test_workload_is_divided_on_a_baseline_node(divided: Divided) -> None:
    assert not divided.local.is_dividing
    assert divided.cycle(stated(ratio=100), VECTOR, WEB) == [83_334, 100_000]
    assert divided.local.is_dividing


def test_unreadable_annotation_leaves_the_last_good_one(divided: Divided) -> None:
    divided.cycle(stated(), VECTOR)
    broken = stated() | {WORKLOAD_RATIOS: "[{}]"}
    assert divided.cycle(broken, VECTOR, WEB) == [83_334, 66_667]
    assert divided.cycle(broken, VECTOR, WEB) == [83_334, 66_667]
    assert divided.unreadable == 1
    assert divided.local.problem_log.count("workload ratios") == 1
    assert divided.cycle(stated(workload=200), VECTOR) == [50_000]
    assert divided.local.problem_log.count("workload ratios") == 0


def test_node_without_a_ratio_divides_no_workload(divided: Divided) -> None:
    divided.cycle(stated(), VECTOR)
    assert divided.cycle({WORKLOAD_RATIOS: stated()[WORKLOAD_RATIOS]}, VECTOR) == [100_000]


def test_drift_is_put_right_by_workload_ratio(divided: Divided) -> None:
    divided.cycle(stated(), VECTOR)
    divided.node.write(VECTOR, "a", 90_000)
    divided.local.see(stated())
    cycle = divided.local.cycle([VECTOR])
    assert cycle.drifted == [divided.node.cgroup(VECTOR, "a")]
    assert divided.node.quota(VECTOR, "a") == 83_334


@pytest.mark.parametrize("qos_class", ["BE", "SYSTEM"])
def test_exempt_pod_is_not_divided_by_label(divided: Divided, qos_class: str) -> None:
    exempt = labeled(VECTOR, ENCODER | {QOS_CLASS: qos_class})
    system = msgspec.structs.replace(
        exempt, metadata=msgspec.structs.replace(exempt.metadata, namespace="kube-system")
    )
    assert divided.cycle(stated(), system) == [100_000]


def test_pod_that_owns_cpus_is_not_divided(tmp_path: Path) -> None:
    node = PinNode(tmp_path, Version.V2)
    owner = pin_pod("owner", claim("0-3"), qos="Guaranteed")
    owner = labeled(owner, {**owner.metadata.labels, **ENCODER})
    node.start(owner)
    node.local.see(stated())
    node.cycle(owner)
    assert node.machine.quota(owner, "a") is None


def test_metric_states_the_ratio_of_each_pod(divided: Divided) -> None:
    for each in (VECTOR, WEB):
        for name in ("", "a"):
            folder = divided.node.path(each, name).parent
            (folder / "cpu.stat").write_text("usage_usec 5\n")
            counted = Path(str(folder).replace("/cgroup/cpu/", "/cgroup/cpuacct/"))
            counted.mkdir(parents=True, exist_ok=True)
            (counted / "cpuacct.usage").write_text("5\n")
    divided.cycle(stated(), VECTOR, WEB)
    exposition = Exposition(METRICS)
    publish_quotas(divided.local, [VECTOR, WEB], exposition)
    assert exposition.value(CONTAINER_RATIO, "default", "vector", "a") == 1.2
    assert exposition.value(CONTAINER_RATIO, "default", "web", "a") == 1.5


@pytest.mark.parametrize(
    ("normalize", "qos_class", "amplification", "policy", "ratio"),
    [
        (None, "LSR", "1.50", "none", 1.0),
        ("false", "LSR", "1.50", "none", 1.0),
        ("true", "LSR", "1.50", "none", 1.5),
        ("true", "LSR", "2.00", "none", 1.5),
        ("true", "LSR", "1.20", "none", 1.2),
        ("true", "LSR", None, "none", 1.0),
        ("true", "LSR", "1.50", "static", 1.0),
        ("true", "SYSTEM", "1.50", "none", 1.0),
        ("true", "BE", "1.50", "none", 1.0),
    ],
)
def test_metric_counts_owners_by_what_they_request(
    tmp_path: Path,
    normalize: str | None,
    qos_class: str,
    amplification: str | None,
    policy: str,
    ratio: float,
) -> None:
    """An owner's CPU time counts by what the scheduler divides its request by, on a node of ratio 1.50."""
    node = PinNode(tmp_path, Version.V2)
    owner = pin_pod("owner", claim("0-3"), qos="Guaranteed")
    annotations = {**owner.metadata.annotations, **({NORMALIZE_CPUSET: normalize} if normalize else {})}
    labels = {**owner.metadata.labels, **ENCODER, QOS_CLASS: qos_class}
    meta = msgspec.structs.replace(
        owner.metadata, annotations=annotations, labels=labels, namespace="kube-system"
    )
    owner = msgspec.structs.replace(owner, metadata=meta)
    node.start(owner)
    node.put(f"sys/fs/cgroup{node.cgroup(owner, 'a')}/cpu.stat", "usage_usec 5\n")
    node.kubelet(policy, **({owner.uid: "0-3"} if policy == "static" else {}))
    node.local.see(stated() | ({AMPLIFICATION_RATIO: f'{{"cpu":{amplification}}}'} if amplification else {}))
    node.cycle(owner)
    exposition = Exposition(METRICS)
    publish_quotas(node.local, [owner], exposition)
    assert exposition.value(CONTAINER_RATIO, "kube-system", "owner", "a") == ratio


@pytest.mark.parametrize(
    ("at_start", "shown", "quota"),
    [
        (ENCODER, None, 83_334),
        ({}, None, 66_667),
        ({}, ENCODER, 83_334),
        (ENCODER, {}, 66_667),
    ],
    ids=["new, selected", "new, not selected", "label set since", "label removed since"],
)
async def test_runtime_answer_goes_by_the_labels_of_now(
    tmp_path: Path, at_start: Mapping[str, str], shown: Mapping[str, str] | None, quota: int
) -> None:
    """A runtime keeps the labels that a pod started with; the API has the ones of now."""
    local = LocalNode("n1", tmp_path, NodeCgroups(tmp_path, "/", MemoryLog(), now=lambda: 1.0))
    local.see(stated())
    known = [] if shown is None else [labeled(VECTOR, shown)]
    hook = RuntimeHook(local, lambda: known, Exposition(METRICS), lambda: None)
    sandbox = PodSandbox("s", "vector", VECTOR.uid, "default", labels=at_start)
    created = NRIContainer("c", "s", "a", cpu=CPUResources(Microseconds(100_000), Microseconds(100_000)))
    assert await hook.on_create(sandbox, created) == ContainerAdjustment(Microseconds(quota))
