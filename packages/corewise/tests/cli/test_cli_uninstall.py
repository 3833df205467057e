"""``corewise uninstall``: what stands in the way, the command that removes it, when it is safe; the steps.

| cluster | said | exit code |
|---|---|---|
| corewise has changed nothing, or nothing is installed | it is safe | 0 |
| the ConfigMap amplifies nodes | its keys; each node; pods that do not fit the raw node | 1 |
| a user annotated a ratio, or labeled the node | the annotations, or the label | 1 |
| a node has the condition SlowCPU | it is safe; the condition is among what stays | 0 |
| a node is raw, but its agent still divides quotas | the agent of that node | 1 |
| a node is raw, but has ratios of workloads | the key, and that node | 1 |
| an agent offers CPU to offline pods | the label | 1 |
| the ConfigMap suppresses offline pods of some nodes, or has errors there | the key | 1 |
| a pod owns CPUs | the pod | 1 |
| a webhook that neither a ClusterRole owns nor the chart | the webhook | 1 |
| webhooks of deploy/cert-manager, and no Helm | it is safe, by deleting that folder | 0 |
| something may not be read | that it is forbidden, and not that it is safe | 8 |
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from click.testing import CliRunner, Result

from corewise.cli import corewise
from corewise.cli.errors import ExitCode, Failure
from corewise.kube.client import PatchType
from corewise.kube.objects import PartialObject
from corewise.kube.resources import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    MUTATING_WEBHOOKS,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    PODS,
    VALIDATING_WEBHOOKS,
)
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    AMPLIFICATION_ORIGINAL,
    AMPLIFICATION_RATIO,
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    CPU_RATIO_APPLIED,
    NORMALIZATION_ENABLED,
    NORMALIZATION_KEY,
    NORMALIZATION_RATIO,
    OFFLINE_REPORT,
    OFFLINE_SHORTFALL,
    OVERSUBSCRIPTION,
    RESOURCE_STATUS,
    SLOW_CPU,
    SUPPRESSION_KEY,
    WORKLOAD_RATIOS,
)
from kubedouble import LocalAPIServer
from manager.world import (
    PODS_NAMESPACE,
    SLOW,
    World,
    amplification,
    apply_config,
    eventually,
    normalization,
    small_cluster,
)

CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}


@pytest.fixture
async def world(api_server: LocalAPIServer, tmp_path: Path) -> AsyncIterator[World]:
    async with small_cluster(api_server, tmp_path) as cluster:
        yield cluster


class Checked:
    """The output of one call of the command."""

    def __init__(self, result: Result, kubeconfig: str) -> None:
        failure = result.exception if isinstance(result.exception, Failure) else None
        self.exit_code = failure.exit_code if failure else result.exit_code
        self.stderr = f"{result.stderr}{failure or ''}"
        self.items = json.loads(result.stdout)["items"] if result.stdout else []
        self._cluster = f" --kubeconfig {kubeconfig}"

    def commands(self) -> list[str]:
        """Return the commands, each of which names the cluster, without that name."""
        found = [each["command"] for each in self.items]
        assert all(self._cluster in each for each in found)
        return [each.replace(self._cluster, "") for each in found]


async def check(world: World, user: str = "admin", groups: tuple[str, ...] = ("system:masters",)) -> Checked:
    """Run the command as a user, beside the API server that this loop runs."""
    with NamedTemporaryFile() as kubeconfig:
        world.server.write_kubeconfig(kubeconfig.name, user, groups)
        arguments = ["uninstall", "--check", "--kubeconfig", kubeconfig.name, "-o", "json"]
        result = await asyncio.to_thread(CliRunner().invoke, corewise, arguments)
        return Checked(result, kubeconfig.name)


async def test_cluster_unchanged_by_corewise_is_safe(world: World) -> None:
    await world.add_node("n1")
    checked = await check(world)
    assert (checked.exit_code, checked.items) == (0, [])
    assert "safe" in checked.stderr


async def test_amplified_nodes_are_named_until_commands_reset_them(world: World) -> None:
    await world.add_node("n1", cpu="8")
    await world.add_pod("big", "n1", cpu="10")
    async with world.manager():
        await world.installed()
        await world.configure(amplification=amplification(cpu=1.5))
        await world.kubelet_gets("n1", "12")
        checked = await check(world)
        assert checked.exit_code == ExitCode.VERDICT
        patch = json.dumps({"data": {AMPLIFICATION_KEY: None}})
        assert checked.commands()[:3] == [
            f"kubectl patch configmap {CONFIG_NAME} -n {CONFIG_NAMESPACE} --type=merge -p '{patch}'",
            "kubectl drain n1 --ignore-daemonsets --delete-emptydir-data",
            "corewise explain node n1",
        ]
        assert "request 10" in checked.items[1]["why"]
        ended = {"status": {"phase": "Succeeded"}}
        await world.client.patch(
            PODS.typed(dict), "big", ended, namespace=PODS_NAMESPACE, subresource="status"
        )
        body = {"data": {AMPLIFICATION_KEY: None}}
        await world.client.patch(CONFIG_MAPS, CONFIG_NAME, body, namespace=CONFIG_NAMESPACE)
        await world.kubelet_gets("n1", "8")

        async def raw() -> bool:
            return not any("node/" in each["object"] for each in (await check(world)).items)

        await eventually(raw)


REMOVE_RATIO = f"kubectl annotate node n1 {AMPLIFICATION_RATIO}- {AMPLIFICATION_ORIGINAL}-"
EXPLAIN = "corewise explain node n1"


@pytest.mark.parametrize(
    ("notes", "label", "command"),
    [
        ({AMPLIFICATION_RATIO: '{"cpu":1.5}', AMPLIFICATION_ORIGINAL: '{"cpu":1.5}'}, None, REMOVE_RATIO),
        ({AMPLIFICATION_RATIO: '{"cpu":1.5}', AMPLIFICATION_ORIGINAL: '{"cpu":"x"}'}, None, REMOVE_RATIO),
        ({AMPLIFICATION_RATIO: '{"cpu":1.5}', AMPLIFICATION_ORIGINAL: '{"cpu":1.5}'}, "t", REMOVE_RATIO),
        ({AMPLIFICATION_RATIO: '{"cpu":1.5}'}, None, REMOVE_RATIO),
        ({AMPLIFICATION_RATIO: '{"cpu":1.5}', NORMALIZATION_RATIO: "1.50"}, None, REMOVE_RATIO),
        ({AMPLIFICATION_RATIO: '{"cpu":1.5}', AMPLIFICATION_ORIGINAL: "{}"}, None, EXPLAIN),
        ({AMPLIFICATION_RATIO: '{"cpu":1.5}', AMPLIFICATION_ORIGINAL: '{"cpu":1.0}'}, None, EXPLAIN),
        ({AMPLIFICATION_RATIO: '{"cpu":1.5}', AMPLIFICATION_ORIGINAL: '{"memory":2.0}'}, None, EXPLAIN),
        ({AMPLIFICATION_RATIO: '{"cpu":1.5}', AMPLIFICATION_ORIGINAL: "{}"}, "f", EXPLAIN),
        *(
            (
                {AMPLIFICATION_RATIO: '{"cpu":1.5}', AMPLIFICATION_ORIGINAL: "{}"},
                label,
                f"kubectl label node n1 {NORMALIZATION_ENABLED}-",
            )
            for label in ("true", "1", "t", "yes")
        ),
    ],
)
async def test_command_removes_what_sets_the_ratio(
    world: World, notes: dict[str, str], label: str | None, command: str
) -> None:
    await world.add_node("n1")
    await world.annotate("n1", notes)
    if label is not None:
        await world.label("n1", {NORMALIZATION_ENABLED: label})
    assert (await check(world)).commands() == [command]


@pytest.mark.parametrize("written", [{}, {AMPLIFICATION_ORIGINAL: '{"cpu":1.5}'}])
async def test_webhook_allows_removing_both_annotations(world: World, written: dict[str, str]) -> None:
    await world.add_node("n1", cpu="8")
    async with world.manager():
        await world.installed()
        await world.annotate("n1", {AMPLIFICATION_RATIO: '{"cpu":1.5}', **written})
        await world.kubelet_gets("n1", "12")
        assert (await check(world)).commands() == [REMOVE_RATIO]
        await world.annotate("n1", {AMPLIFICATION_RATIO: None, AMPLIFICATION_ORIGINAL: None})
        await world.kubelet_gets("n1", "8")
        assert (await check(world)).exit_code == 0


async def test_condition_of_slow_node_is_named(world: World) -> None:
    await world.add_node("n1")
    condition = {"type": SLOW_CPU, "status": "True", "reason": "r", "message": "20.0 % slower"}
    status = {"status": {"conditions": [condition]}}
    await world.client.patch(NODES.typed(dict), "n1", status, subresource="status", type=PatchType.STRATEGIC)
    assert (await check(world)).exit_code == 0
    patch = '{"status": {"conditions": [{"$patch": "delete", "type": "SlowCPU"}]}}'
    command = f"kubectl patch node n1 --subresource=status -p '{patch}'"
    assert f"    {command}" in await steps(world)
    removal = json.loads(patch)
    await world.client.patch(NODES.typed(dict), "n1", removal, subresource="status", type=PatchType.STRATEGIC)
    assert not any("SlowCPU" in line for line in await steps(world))


async def test_an_agent_that_still_divides_quotas_is_named(world: World) -> None:
    await world.add_node("n1")
    body = {"metadata": {"annotations": {CPU_RATIO_APPLIED: "1.50"}}}
    await world.client.patch(NODE_RESOURCE_TOPOLOGIES, "n1", body)
    (found,) = (await check(world)).items
    assert (found["object"], "quotas by 1.50" in found["why"]) == ("node/n1", True)
    body = {"metadata": {"annotations": {CPU_RATIO_APPLIED: "1.00"}}}
    await world.client.patch(NODE_RESOURCE_TOPOLOGIES, "n1", body)
    assert (await check(world)).exit_code == 0


async def test_ratios_of_workloads_are_named_until_undone(world: World) -> None:
    selector = {"matchLabels": {"app": "vector"}}
    entry = {"name": "vector", "podSelector": selector, "ratioModel": {SLOW: {"baseRatio": 1.3}}}
    await world.add_node("n1", model=SLOW)
    async with world.manager():
        await world.installed()
        await world.configure(normalization=normalization(workloadRatios=[entry]))

        async def written() -> bool:
            return WORKLOAD_RATIOS in (await world.node("n1"))["metadata"]["annotations"]

        await eventually(written)
        patch = json.dumps({"data": {NORMALIZATION_KEY: None}})
        assert (await check(world)).commands()[:2] == [
            f"kubectl patch configmap {CONFIG_NAME} -n {CONFIG_NAMESPACE} --type=merge -p '{patch}'",
            EXPLAIN,
        ]
        await world.client.patch(CONFIG_MAPS, CONFIG_NAME, json.loads(patch), namespace=CONFIG_NAMESPACE)

        async def safe() -> bool:
            return (await check(world)).exit_code == 0

        await eventually(safe)


async def test_label_withdraws_offers_to_offline_pods(world: World) -> None:
    await world.add_node("n1")
    await world.label("n1", {OVERSUBSCRIPTION: "true"})
    assert (await check(world)).commands() == [f"kubectl label node n1 {OVERSUBSCRIPTION}-"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{}", True),
        ('{"mode": "per-pod-quota"}', True),
        ('{"enabled": false, "nodeConfigs": [{"nodeSelector": {}, "enabled": true}]}', True),
        ('{"highThreshold": 80}', True),
        ('{"enabled": false}', False),
        ("", True),
    ],
    ids=["defaults", "per pod", "some nodes", "errors: the last good one", "disabled", "blank: an error"],
)
async def test_suppression_of_unlabeled_nodes_is_named(world: World, text: str, named: bool) -> None:
    await world.add_node("n1")
    await apply_config(world.client, {SUPPRESSION_KEY: text})
    checked = await check(world)
    patch = json.dumps({"data": {SUPPRESSION_KEY: None}})
    command = f"kubectl patch configmap {CONFIG_NAME} -n {CONFIG_NAMESPACE} --type=merge -p '{patch}'"
    assert checked.commands() == [command] * named
    assert ("It is safe" in checked.stderr) is not named


async def test_a_pod_that_owns_cpus_is_named(world: World) -> None:
    await world.add_node("n1")
    annotations = {RESOURCE_STATUS: '{"cpuset":"2-3"}'}
    body = {
        "metadata": {"name": "db", "annotations": annotations},
        "spec": {"nodeName": "n1", "containers": [CONTAINER]},
    }
    await world.client.create(PODS, body, "default")
    checked = await check(world)
    assert checked.commands() == ["kubectl delete pod db -n default"]
    assert "owns CPUs 2-3 of node n1" in checked.items[0]["why"]


async def test_only_webhooks_without_cluster_role_owner_are_named(world: World) -> None:
    async with world.manager():
        await world.installed()
    unowned = {"metadata": {"ownerReferences": None}}
    await world.client.patch(VALIDATING_WEBHOOKS, "corewise-validating", unowned)
    names = {each["object"] for each in (await check(world)).items}
    assert "validatingwebhookconfiguration/corewise-validating" in names

    async def owned() -> bool:
        return (await check(world)).exit_code == 0

    async with world.manager():
        await eventually(owned)
    found = await world.client.get(VALIDATING_WEBHOOKS, "corewise-validating")
    assert [each.name for each in found.metadata.owner_references] == ["corewise-manager"]


@pytest.mark.parametrize("by", ["meta.helm.sh/release-name", "cert-manager.io/inject-ca-from"])
async def test_webhooks_of_the_installation_are_not_named(world: World, by: str) -> None:
    body = {"metadata": {"name": "corewise-mutating", "annotations": {by: "x"}}, "webhooks": []}
    await world.client.create(MUTATING_WEBHOOKS.typed(dict), body)
    assert (await check(world)).exit_code == 0


BY_CERT_MANAGER = {"cert-manager.io/inject-ca-from": "corewise-system/corewise-webhook"}
OVERLAY = "kubectl delete -k deploy/cert-manager"


@pytest.mark.parametrize(
    ("roles", "uninstalling"),
    [
        ({"corewise-manager"}, OVERLAY),
        ({"corewise-manager", "corewise-scheduler"}, f"kubectl delete -k deploy/scheduler && {OVERLAY}"),
        (set(), OVERLAY),
    ],
    ids=["overlay", "and scheduler", "after kubectl delete -k deploy"],
)
async def test_webhooks_of_overlay_go_with_it(world: World, roles: set[str], uninstalling: str) -> None:
    body = {"metadata": {"name": "corewise-mutating", "annotations": BY_CERT_MANAGER}, "webhooks": []}
    await world.client.create(MUTATING_WEBHOOKS.typed(dict), body)
    for each in await world.client.list(CLUSTER_ROLES.typed(PartialObject)):
        await world.client.delete(CLUSTER_ROLES, each.metadata.name)
    for name in roles:
        await world.client.create(CLUSTER_ROLES.typed(dict), {"metadata": {"name": name}, "rules": []})
    checked = await check(world)
    said = re.sub(r" --kubeconfig \S+", "", checked.stderr)
    assert (checked.exit_code, f"safe to uninstall: {uninstalling}\n" in said) == (0, True), said
    assert f"    {uninstalling}" in await steps(world)


async def test_helm_keeps_webhooks_of_cert_manager_overlay(world: World) -> None:
    body = {"metadata": {"name": "corewise-mutating", "annotations": BY_CERT_MANAGER}, "webhooks": []}
    await world.client.create(MUTATING_WEBHOOKS.typed(dict), body)
    role = {"metadata": {"name": ROLE, "annotations": BY_HELM}, "rules": []}
    await world.client.create(CLUSTER_ROLES.typed(dict), role)
    delete = "kubectl delete mutatingwebhookconfiguration corewise-mutating"
    assert (await check(world)).commands() == [delete]


async def test_last_amplifier_is_named_when_nodes_are_raw(world: World) -> None:
    body = {"metadata": {"name": "corewise-mutating"}, "webhooks": []}
    await world.client.create(MUTATING_WEBHOOKS.typed(dict), body)
    await world.add_node("n1", cpu="8")
    await world.annotate("n1", {AMPLIFICATION_RATIO: '{"cpu":1.5}'})
    delete = "kubectl delete mutatingwebhookconfiguration corewise-mutating"
    assert delete not in (await check(world)).commands()
    await world.annotate("n1", {AMPLIFICATION_RATIO: None})
    assert (await check(world)).commands() == [delete]


async def test_offer_that_is_not_withdrawn_is_named(world: World) -> None:
    await world.add_node("n1")
    command = "corewise explain suppression n1"
    await world.annotate("n1", {OFFLINE_REPORT: "{}"})
    assert (await check(world)).commands() == [command]
    await world.annotate("n1", {OFFLINE_REPORT: None})
    condition = {"type": OFFLINE_SHORTFALL, "status": "True", "reason": "r", "message": "m"}
    status = {"status": {"conditions": [condition]}}
    await world.client.patch(NODES.typed(dict), "n1", status, subresource="status", type=PatchType.STRATEGIC)
    assert (await check(world)).commands() == [command]


async def test_user_without_read_access_is_not_told_safe(world: World) -> None:
    checked = await check(world, "nobody", ())
    assert checked.exit_code == ExitCode.UNAUTHORIZED
    assert "safe" not in checked.stderr


ROLE = "corewise-scheduler"
BY_HELM = {"meta.helm.sh/release-name": "mine", "meta.helm.sh/release-namespace": "cpu"}


async def steps(world: World) -> list[str]:
    """Return the steps that the command prints, without the option that each of their commands has."""
    with NamedTemporaryFile() as kubeconfig:
        world.server.write_kubeconfig(kubeconfig.name)
        arguments = ["uninstall", "--kubeconfig", kubeconfig.name]
        done = await asyncio.to_thread(CliRunner().invoke, corewise, arguments)
    assert done.exit_code == 0, done.output
    option, lines = f" --kubeconfig {kubeconfig.name}", done.stdout.splitlines()
    assert all(option in line for line in lines if line.startswith("    "))
    return [line.replace(option, "") for line in lines]


@pytest.mark.parametrize(
    ("annotations", "uninstalling"),
    [(BY_HELM, "helm uninstall mine -n cpu"), ({}, "kubectl delete -k deploy")],
    ids=["helm", "kubectl"],
)
async def test_steps_follow_the_installation_method(
    world: World, annotations: dict[str, str], uninstalling: str
) -> None:
    body = {"metadata": {"name": ROLE, "annotations": annotations}, "rules": []}
    await world.client.create(CLUSTER_ROLES.typed(dict), body)
    await world.add_node("n1")
    printed = await steps(world)
    assert printed[:4] == [
        "1. Undo what the programs did: nothing is left.",
        "2. Remove the extender from the configuration of kube-scheduler, and restart it.",
        "3. Uninstall:",
        f"    {uninstalling}",
    ]
    said = re.sub(r" --kubeconfig \S+", "", (await check(world)).stderr)
    assert f"safe to uninstall: {uninstalling}" in said
    await world.annotate("n1", {AMPLIFICATION_RATIO: '{"cpu":1.5}', AMPLIFICATION_ORIGINAL: '{"cpu":1.5}'})
    printed = await steps(world)
    undo = f"    {REMOVE_RATIO}"
    assert printed[0] == "1. Undo what the programs did, while they run: 1 thing left."
    assert printed.index(undo) < printed.index("    corewise uninstall --check")
    assert printed.index("    corewise uninstall --check") < printed.index(f"    {uninstalling}")


async def test_leftovers_are_named_though_no_program_is_installed(
    world: World,
) -> None:
    await world.add_node("n1")
    roles = [each.metadata.name for each in await world.client.list(CLUSTER_ROLES.typed(PartialObject))]
    for name in roles:
        await world.client.delete(CLUSTER_ROLES, name)
    assert await steps(world) == ["None of the programs is installed."]
    await world.annotate("n1", {AMPLIFICATION_RATIO: '{"cpu":1.5}', AMPLIFICATION_ORIGINAL: '{"cpu":1.5}'})
    printed = await steps(world)
    assert printed[1] == "They left something to undo. Install them again, then:"
    assert not any("helm" in line or "-k deploy" in line for line in printed)
