"""``corewise explain pod``: where a pod is and with which CPUs, or why it is nowhere."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from corewise.cli import corewise
from corewise.cli.errors import ExitCode, Failure
from corewise.kube.resources import NAMESPACES
from corewise.scheduler.listing import read_rules
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_annotations import print_cpu_topology
from corewise.vocabulary.metrics import OWNED_CPUS_PATH
from corewise.vocabulary.names import (
    CPU_TOPOLOGY,
    NORMALIZE_CPUSET,
    NUMA_POLICY,
    NUMA_SPEC,
    RESOURCE_STATUS,
)
from corewise.vocabulary.owned_cpus import CPUOwner, print_owned_cpus
from corewise.vocabulary.qos import QoSRules
from corewise.vocabulary.reasons import Reason
from engine.scenes import arrangement
from manager.world import PODS_NAMESPACE, until
from scheduler.program_world import PLAIN_NODES, PLAIN_PODS, SchedulerWorld, pod_document


@pytest.fixture
def kubeconfig(world: SchedulerWorld, tmp_path: Path) -> str:
    world.server.write_kubeconfig(tmp_path / "user")
    return str(tmp_path / "user")


async def explain(kubeconfig: str, *arguments: str) -> Result:
    options = ["pod", "--kubeconfig", kubeconfig, *arguments]
    return await asyncio.to_thread(CliRunner().invoke, corewise, ["explain", *options])


async def add_bound(world: SchedulerWorld, name: str, cpus: str, cpu: str = "4", *, qos: str = "LSR") -> None:
    status = {RESOURCE_STATUS: json.dumps({"cpuset": cpus})}
    document = pod_document(name, cpu=cpu, qos=qos, annotations=status)
    document["spec"]["nodeName"] = "n1"
    await world.client.create(PLAIN_PODS, document, PODS_NAMESPACE)


async def test_a_pending_pod_is_told_node_by_node(world: SchedulerWorld, kubeconfig: str) -> None:
    await world.add_node("n1", 8, "2.00")
    await world.add_node("n2", 8)
    await add_bound(world, "owner", "0-3")
    await world.add_pod("p", cpu="6", qos="LSR")
    answer = await explain(kubeconfig, "apps/p")
    assert answer.exit_code == 0
    assert answer.stdout.splitlines() == [
        "apps/p: not bound",
        "  requests       6 CPUs of its own (FullPCPUs, preferred)",
        "  nodes          1 of 2 suit it; not the others: not enough free CPUs (1 node)",
        "  n2             suits it, score 62",
        "  n1             AmplifiedCPU: needs 6 CPUs of its own, 4 are free (NotEnoughCPUs)",
    ]
    document = json.loads((await explain(kubeconfig, "apps/p", "--node", "n1", "-o", "json")).stdout)
    assert document["nodesSuiting"] == 1
    assert document["node"] is None
    (node,) = document["nodes"]
    assert node["verdicts"][0]["inputs"]["owned"] == 6000


@pytest.mark.parametrize(
    ("spec", "qos", "nodes", "is_left_out"),
    [
        ("x", "", "1 of 1 suit it", True),
        ("{}", "LS", "1 of 1 suit it", True),
        ("{}", "LSR", "0 of 1 suit it", False),
        ("x", "LSR", "no node suits it", False),
    ],
)
async def test_numa_policy_counts_for_owning_classes_alone(
    world: SchedulerWorld, kubeconfig: str, spec: str, qos: str, nodes: str, is_left_out: bool
) -> None:
    """12 CPUs on a node of 2 x 8: kube-scheduler places a plain pod without asking."""
    await world.add_node("n1", 16, stated=False)
    await world.client.patch(PLAIN_NODES, "n1", {"metadata": {"labels": {NUMA_POLICY: "SingleNUMANode"}}})
    amount = dict.fromkeys(("capacity", "allocatable", "available"), "8")
    zones = [
        {"name": f"node-{zone}", "type": "Node", "resources": [{"name": "cpu", **amount}]}
        for zone in range(2)
    ]
    arranged = {CPU_TOPOLOGY: print_cpu_topology(arrangement(16, numa_nodes=2))}
    await world.state_topology("n1", arranged, zones)
    await world.add_pod("p", cpu="12", qos=qos, annotations={NUMA_SPEC: spec})
    answer = await explain(kubeconfig, "apps/p")
    assert nodes in answer.stdout
    assert ("left out: kube-scheduler asks about this pod only" in answer.stdout) is is_left_out


async def test_bound_pod_shows_its_cpus_and_its_losses(world: SchedulerWorld, kubeconfig: str) -> None:
    await world.add_node("n1", 8)
    await add_bound(world, "first", "0-3")
    await add_bound(world, "second", "2-5")
    answer = await explain(kubeconfig, "apps/second")
    assert "apps/second: on node n1 with CPUs 4-5\n" in answer.stdout
    assert "apps/second claims CPUs 2-3, which apps/first holds" in answer.stdout
    assert "if not bound" in answer.stdout


async def test_bound_pod_is_judged_without_its_ledger_entry(world: SchedulerWorld, kubeconfig: str) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="6", qos="LSR")
    async with world.scheduler():
        await world.bind("p", "n1")
    assert await world.ledger("n1") == {"p": "0-2,4-6"}
    answer = await explain(kubeconfig, "apps/p")
    assert "apps/p: on node n1 with CPUs 0-2,4-6\n" in answer.stdout
    assert "  n1             suits it, score" in answer.stdout


async def test_normalized_pod_shows_owned_and_requested_number(
    world: SchedulerWorld, kubeconfig: str
) -> None:
    await world.add_node("n1", 8)
    status = {RESOURCE_STATUS: '{"cpuset":"0-2","requestedCPUs":4}', NORMALIZE_CPUSET: "true"}
    document = pod_document("p", cpu="4", qos="LSR", annotations=status)
    document["spec"]["nodeName"] = "n1"
    await world.client.create(PLAIN_PODS, document, PODS_NAMESPACE)
    answer = await explain(kubeconfig, "apps/p")
    heading = "apps/p: on node n1 with CPUs 0-2 (3 for the 4 that it requests, normalized)"
    assert answer.stdout.splitlines()[0] == heading


async def test_lost_cpus_change_no_requested_number(world: SchedulerWorld, kubeconfig: str) -> None:
    await world.add_node("n1", 8)
    await add_bound(world, "first", "2-5")
    status = {RESOURCE_STATUS: '{"cpuset":"0-2","requestedCPUs":4}', NORMALIZE_CPUSET: "true"}
    document = pod_document("second", cpu="4", qos="LSR", annotations=status)
    document["spec"]["nodeName"] = "n1"
    await world.client.create(PLAIN_PODS, document, PODS_NAMESPACE)
    answer = await explain(kubeconfig, "apps/second")
    heading = "apps/second: on node n1 with CPUs 0-1 (2 for the 4 that it requests, normalized)"
    assert answer.stdout.splitlines()[0] == heading


async def test_suitable_nodes_come_before_others(world: SchedulerWorld, kubeconfig: str) -> None:
    for number in range(22):
        await world.add_node(f"n{number:02}", 8 if number == 21 else 2)
    await world.add_pod("p", cpu="4", qos="LSR")
    lines = (await explain(kubeconfig, "apps/p")).stdout.splitlines()
    assert lines[3].startswith("  n21            suits it")
    assert lines[4].startswith("  n00            ")
    assert "2 more nodes" in lines[-1]


async def test_problem_of_a_pod_names_its_remedy(world: SchedulerWorld, kubeconfig: str) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="4", qos="LSR", annotations={NORMALIZE_CPUSET: "yes"})
    answer = await explain(kubeconfig, "apps/p")
    reason = Reason.RESOURCE_SPEC_INVALID
    assert f"problem        {reason}: annotation {NORMALIZE_CPUSET}: 'yes' is not valid" in answer.stdout
    assert f"to fix         {reason.fix}" in answer.stdout


@pytest.mark.parametrize(
    ("qos", "annotations", "said"),
    [("LSR", {}, True), ("LS", {}, False), ("LSR", {NORMALIZE_CPUSET: "false"}, False)],
)
async def test_unread_label_of_the_namespace_is_said(
    world: SchedulerWorld, kubeconfig: str, qos: str, annotations: dict[str, str], said: bool
) -> None:
    await world.add_node("n1", 8)
    label = {"metadata": {"labels": {NORMALIZE_CPUSET: "True"}}}
    await world.client.patch(NAMESPACES.typed(dict), PODS_NAMESPACE, label)
    await world.add_pod("p", cpu="4", qos=qos, annotations=annotations)
    answer = await explain(kubeconfig, "apps/p")
    problem = f'{Reason.NORMALIZE_LABEL_INVALID}: namespace apps: the label {NORMALIZE_CPUSET}="True"'
    assert (problem in answer.stdout) == said
    command = f"kubectl --kubeconfig {kubeconfig} label --overwrite namespace apps {NORMALIZE_CPUSET}=true"
    assert (command in answer.stdout) == said


async def test_what_is_not_there_is_said(world: SchedulerWorld, kubeconfig: str) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="2500m", qos="LSR")
    for arguments, wrong in (
        (["apps/nobody"], "no pod apps/nobody"),
        (["apps/p", "--node", "n9"], "no node n9"),
    ):
        answer = await explain(kubeconfig, *arguments)
        assert isinstance(answer.exception, Failure)
        assert answer.exception.exit_code == ExitCode.NOT_FOUND
        assert wrong in str(answer.exception)
    assert f"corewise nodes --kubeconfig {kubeconfig}" in str(answer.exception)
    answer = await explain(kubeconfig, "apps/p")
    assert "  problem        CPUsNotInteger: the requested CPUs must be integer: 2500m" in answer.stdout
    assert "no node suits it, not even an empty one" in answer.stdout
    assert "n1" not in answer.stdout


@pytest.mark.parametrize(
    ("priority", "guarded", "shown"),
    [
        (10, False, "would have room after evicting apps/low (priority 5)"),
        (
            10,
            True,
            "would have room after evicting apps/low (priority 5); a PodDisruptionBudget forbids this",
        ),
        (5, False, ""),
    ],
)
async def test_pods_whose_eviction_helps_are_named(
    world: SchedulerWorld, kubeconfig: str, priority: int, guarded: bool, shown: str
) -> None:
    """kube-scheduler sees room for 8 CPUs beside 0.8, and evicts no one; with its ratio the pod needs 16."""
    await world.add_node("n1", 8, "2.00")
    low, high = pod_document("low", cpu="800m"), pod_document("high", cpu="8", qos="LSR")
    low["spec"] |= {"nodeName": "n1", "priority": 5}
    low["metadata"]["labels"] = {"app": "low"}
    high["spec"]["priority"] = priority
    for each in (low, high):
        await world.client.create(PLAIN_PODS, each, PODS_NAMESPACE)
    if guarded:
        spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "low"}}}
        body = {"metadata": {"name": "keep"}, "spec": spec}
        path = f"/apis/policy/v1/namespaces/{PODS_NAMESPACE}/poddisruptionbudgets"
        await world.client.request("POST", path, body=body)
    answer = await explain(kubeconfig, "apps/high")
    assert [line.strip() for line in answer.stdout.splitlines()[4:]] == ([shown] if shown else [])
    document = json.loads((await explain(kubeconfig, "apps/high", "-o", "json")).stdout)
    assert document["victims"] == ({"n1": ["apps/low"]} if shown else {})


async def test_a_pods_own_entry_takes_no_room(world: SchedulerWorld, kubeconfig: str) -> None:
    """A binding that failed half-way leaves the pod's entry in the Node's ledger for a while."""
    await world.add_node("n1", 8)
    low, high = pod_document("low", cpu="4"), pod_document("high", cpu="6", qos="LSR")
    low["spec"] |= {"nodeName": "n1", "priority": 5}
    high["spec"]["priority"] = 10
    await world.client.create(PLAIN_PODS, low, PODS_NAMESPACE)
    uid = (await world.client.create(PLAIN_PODS, high, PODS_NAMESPACE))["metadata"]["uid"]
    entry = {uid: CPUOwner("apps/high", CPUSet.of(range(6)))}
    await world.client.patch(PLAIN_NODES, "n1", {"metadata": {"annotations": print_owned_cpus(entry)}})
    answer = await explain(kubeconfig, "apps/high")
    assert "would have room after evicting apps/low (priority 5)" in answer.stdout


async def test_node_names_are_separated_from_their_explanations(
    world: SchedulerWorld, kubeconfig: str
) -> None:
    await world.add_node("n1", 8)
    await world.add_node("a-node-with-a-long-name", 8)
    await world.add_pod("p")
    answer = await explain(kubeconfig, "apps/p")
    texts = [line.split("suits it, ")[0] for line in answer.stdout.splitlines() if "suits it, " in line]
    assert texts == ["  a-node-with-a-long-name ", "  n1                      "]


REFUSED = (
    "problem        QoSClassNotAllowed: QoS class LSE is not allowed in namespace apps: use another class"
)
NOT_STATED = (
    "namespaces of LSE pods: no corewise-owned-cpus is installed that states them (corewise scheduler "
    "--manage-webhooks); assuming kube-system"
)


@pytest.mark.parametrize(
    ("namespaces", "shown", "said"),
    [
        ({"apps"}, "apps/p: on node n1 with CPUs 0-3", ""),
        ({"kube-system"}, REFUSED, ""),
        (None, REFUSED, NOT_STATED),
    ],
)
async def test_lse_is_judged_as_the_scheduler_does(
    world: SchedulerWorld, kubeconfig: str, namespaces: set[str] | None, shown: str, said: str
) -> None:
    """``namespaces``: those of the scheduler's option; None: it has installed nothing."""
    await world.add_node("n1", 8)
    await add_bound(world, "p", "0-3", qos="LSE")
    if namespaces:
        async with world.scheduler(rules=QoSRules(frozenset(namespaces))) as scheduler:
            await until(lambda: scheduler.metrics.value(OWNED_CPUS_PATH, "policy") == 1)
    answer = await explain(kubeconfig, "apps/p")
    assert shown in answer.stdout
    assert ("1 of 1 suit it" in answer.stdout) == (shown != REFUSED)
    assert answer.stderr.strip() == said


async def test_who_may_not_read_the_rules_is_told(world: SchedulerWorld) -> None:
    (said,) = (await read_rules(world.client.as_user("reader"))).missing
    assert said == (
        "namespaces of LSE pods: you may not read mutatingadmissionpolicybindings and "
        "mutatingwebhookconfigurations; assuming kube-system"
    )
