"""From nothing to a normalized, amplified cluster, and through changes of configuration and labels."""

from __future__ import annotations

import json

import pytest

from corewise.kube.errors import Forbidden, Invalid
from corewise.kube.resources import CONFIG_MAPS, LEASES, NODES, PODS
from corewise.manager.options import FailurePolicy
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import CONFIG_VALID, LOOP_RESTARTS
from corewise.vocabulary.names import (
    ALLOW_UNSAFE_CHANGE,
    AMPLIFICATION_KEY,
    AMPLIFICATION_ORIGINAL,
    AMPLIFICATION_RATIO,
    AMPLIFIED,
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    NORMALIZATION_ENABLED,
    NORMALIZATION_KEY,
    NORMALIZATION_RATIO,
    RAW_ALLOCATABLE,
    RAW_CAPACITY,
)
from identities import kubeconfig_of
from manager.world import FAST, PODS_NAMESPACE, SLOW, World, amplification, eventually, normalization, until


async def test_nodes_get_their_ratios_and_offer_amplified_cpu(world: World) -> None:
    await world.add_node("fast", model=FAST)
    await world.add_node("slow", model=SLOW)
    await world.configure(normalization=normalization())
    async with world.manager() as manager:
        await world.shows_cpu("fast", "16")
        await world.shows_cpu("slow", "8")
        annotations = (await world.node("fast"))["metadata"]["annotations"]
        assert annotations[NORMALIZATION_RATIO] == "2.00"
        assert annotations[AMPLIFICATION_RATIO] == '{"cpu":2.00}'
        assert json.loads(annotations[RAW_CAPACITY]) == {"cpu": "8"}
        assert json.loads(annotations[RAW_ALLOCATABLE]) == {"cpu": "8"}
        manager.program.metrics_text()
        assert manager.metrics.value(metrics.NODE_NORMALIZATION_RATIO, "fast") == 2
        assert manager.metrics.value(metrics.NODE_AMPLIFIED_CPU, "fast") == 16
        assert manager.metrics.value(metrics.NODES_PENDING) == 0
    slow = (await world.node("slow"))["metadata"]["annotations"]
    assert slow[NORMALIZATION_RATIO] == "1.00"
    assert AMPLIFIED not in slow


async def test_a_cluster_at_rest_is_not_written_to(world: World) -> None:
    await world.add_node("fast")
    await world.configure(normalization=normalization())
    async with world.manager() as manager:
        await world.shows_cpu("fast", "16")
        before = manager.metrics.value(metrics.WRITES, "PatchNode", "ok")
        version = (await world.node("fast"))["metadata"]["resourceVersion"]
        manager.queue.add_all(["fast"] * 3)
        await until(lambda: not len(manager.queue))
        assert manager.metrics.value(metrics.WRITES, "PatchNode", "ok") == before == 1
    assert (await world.node("fast"))["metadata"]["resourceVersion"] == version


async def test_a_restart_multiplies_nothing_twice(world: World) -> None:
    await world.add_node("fast")
    await world.annotate("fast", {AMPLIFICATION_RATIO: '{"cpu":1.50}'})
    await world.configure(normalization=normalization())
    async with world.manager(node_status_failure_policy=FailurePolicy.IGNORE) as manager:
        await until(lambda: "fast" in manager.reconciler.reports)
        world.clock.skip(31)
        manager.queue.add("fast")
        await world.shows_cpu("fast", "24")
    await world.kubelet_writes("fast")
    async with world.manager():
        await world.kubelet_gets("fast", "24")
        assert await world.ratio("fast") == '{"cpu":3.00}'
    annotations = (await world.node("fast"))["metadata"]["annotations"]
    assert annotations[AMPLIFICATION_ORIGINAL] == '{"cpu":1.50}'
    assert "OriginalAdopted" in await world.reasons()


async def test_a_change_of_configuration_reaches_every_node(world: World) -> None:
    await world.add_node("fast")
    await world.configure(normalization=normalization())
    async with world.manager():
        await world.shows_cpu("fast", "16")
        await world.configure(
            normalization=normalization(), amplification=amplification(cpu=1.5, memory=1.25)
        )
        await world.shows_cpu("fast", "24")
        assert (await world.node("fast"))["status"]["allocatable"]["memory"] == "20Gi"
        await world.client.delete(CONFIG_MAPS, CONFIG_NAME, CONFIG_NAMESPACE)
        await world.shows_cpu("fast", "8")
    annotations = (await world.node("fast"))["metadata"]["annotations"]
    assert annotations[NORMALIZATION_RATIO] == "1.00"
    assert AMPLIFICATION_RATIO not in annotations
    assert AMPLIFIED not in annotations


async def test_the_label_switches_a_node_off_and_on(world: World) -> None:
    await world.add_node("fast")
    await world.configure(normalization=normalization())
    async with world.manager():
        await world.shows_cpu("fast", "16")
        await world.label("fast", {NORMALIZATION_ENABLED: "false"})
        await world.shows_cpu("fast", "8")
        await world.label("fast", {NORMALIZATION_ENABLED: None})
        await world.shows_cpu("fast", "16")


async def test_unknown_model_is_reported_and_leaves_node_unchanged(world: World) -> None:
    await world.add_node("odd", model="Odd CPU")
    await world.configure(normalization=normalization())
    async with world.manager() as manager:
        await world.told("UnknownCPUModel")
        manager.program.metrics_text()
        assert manager.metrics.value(metrics.NODE_PROBLEM, "odd", "UnknownCPUModel") == 1
        assert NORMALIZATION_RATIO not in (await world.node("odd"))["metadata"].get("annotations", {})
        await world.report("odd", model=FAST)
        await world.shows_cpu("odd", "16")
        manager.program.metrics_text()
        assert manager.metrics.value(metrics.NODE_PROBLEM, "odd", "UnknownCPUModel") == 0


async def test_webhook_refuses_bad_configuration_and_names_its_place(world: World) -> None:
    await world.add_node("n1", zone="a", disk="ssd")
    async with world.manager():
        await world.installed()
        with pytest.raises(Invalid, match=r"line 1, column \d+: ratioModel.*5\.01"):
            await world.configure(normalization=normalization(models={FAST: {"baseRatio": 5.01}}))
        entries = [
            {"nodeSelector": {"matchLabels": {"zone": "a"}}},
            {"nodeSelector": {"matchLabels": {"disk": "ssd"}}},
        ]
        with pytest.raises(Invalid, match="n1"):
            await world.configure(normalization=normalization(nodeConfigs=entries))
        await world.configure(normalization=normalization())


async def test_bad_configuration_that_bypasses_the_webhook_changes_nothing(world: World) -> None:
    await world.add_node("fast")
    await world.configure(normalization=normalization())
    async with world.manager(webhook_listen=None, manage_webhooks=False) as manager:

        async def is_two() -> bool:
            return await world.ratio("fast") == '{"cpu":2.00}'

        await eventually(is_two)
        await world.configure(normalization='{"enable": tru}')
        await world.told("ConfigInvalid", "ConfigMap")
        manager.program.metrics_text()
        assert manager.metrics.value(CONFIG_VALID, NORMALIZATION_KEY) == 0
        assert manager.metrics.value(CONFIG_VALID, AMPLIFICATION_KEY) == 1
        await world.add_node("other")

        async def other_too() -> bool:
            return await world.ratio("other") == '{"cpu":2.00}'

        await eventually(other_too)
        await world.configure(normalization=normalization(models={FAST: {"baseRatio": 3}}))
        await world.told("ConfigApplied", "ConfigMap")


async def test_bad_configuration_at_startup_leaves_everything_unchanged(world: World) -> None:
    await world.add_node("fast")
    await world.configure(normalization=normalization())
    async with world.manager():
        await world.shows_cpu("fast", "16")
    await world.configure(normalization="{", amplification="[]")
    async with world.manager() as manager:
        await until(lambda: "fast" in manager.reconciler.reports)
        assert {reason for reason, _ in manager.reconciler.reports["fast"].problems} == {"ConfigInvalid"}
        assert await world.cpu("fast") == ("16", "16")


async def test_unsafe_decrease_is_held_back_until_safe(world: World) -> None:
    await world.add_node("fast")
    await world.configure(normalization=normalization())
    async with world.manager() as manager:
        await world.shows_cpu("fast", "16")
        await world.add_pod("big", "fast", cpu="11")
        await until(lambda: len(manager.snapshot.pods.items) == 1)
        await world.configure(normalization=normalization(models={FAST: {"baseRatio": 1.2}}))
        await world.told("UnsafeDecreaseHeldBack")
        assert await world.cpu("fast") == ("16", "16")
        assert (await world.node("fast"))["metadata"]["annotations"][NORMALIZATION_RATIO] == "2.00"
        manager.program.metrics_text()
        assert manager.metrics.value(metrics.NODES_HELD_BACK) == 1
        await world.client.delete(PODS, "big", PODS_NAMESPACE, grace_period=0)
        await world.shows_cpu("fast", "9600m")
        manager.program.metrics_text()
        assert manager.metrics.value(metrics.NODES_HELD_BACK) == 0


async def test_foreign_unsafe_change_is_refused_unless_allowed(world: World) -> None:
    await world.add_node("fast")
    await world.configure(normalization=normalization())
    async with world.manager() as manager:
        await world.shows_cpu("fast", "16")
        await world.add_pod("big", "fast", cpu="11")
        await until(lambda: len(manager.snapshot.pods.items) == 1)
        with pytest.raises(Forbidden, match=r"cpu.*11.*smallest safe ratio is 1\.38"):
            await world.annotate("fast", {AMPLIFICATION_RATIO: '{"cpu":1.20}'})
        with pytest.raises(Forbidden, match="smallest safe ratio"):
            await world.label("fast", {NORMALIZATION_ENABLED: "false"})
        await world.annotate("fast", {"example.com/note": "unrelated changes go through"})
        await world.annotate("fast", {ALLOW_UNSAFE_CHANGE: "true"})
        await world.label("fast", {NORMALIZATION_ENABLED: "false"})
        await world.shows_cpu("fast", "8")
    assert "UnsafeDecreaseAllowed" in await world.reasons()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (AMPLIFICATION_RATIO, "NaN"),
        (AMPLIFICATION_RATIO, '{"cpu":0.99}'),
        (AMPLIFICATION_RATIO, '{"pods":2.00}'),
        (AMPLIFICATION_ORIGINAL, '{"cpu":"1,2"}'),
        (NORMALIZATION_RATIO, "1,2"),
        (NORMALIZATION_RATIO, "5.01"),
    ],
)
async def test_malformed_ratio_annotations_are_refused(world: World, name: str, text: str) -> None:
    await world.add_node("n1")
    async with world.manager():
        await world.installed()
        with pytest.raises(Invalid, match="ratio"):
            await world.annotate("n1", {name: text})


async def test_a_dry_run_prints_and_writes_nothing(world: World) -> None:
    await world.add_node("fast")
    await world.configure(normalization=normalization())
    await kubeconfig_of("manager", world.administrator)
    before = world.server.store.version
    lines: list[str] = []
    async with world.manager(dry_run=True, leader_elect=True, write=lines.append) as manager:
        await until(lambda: "fast" in manager.reconciler.reports)
        manager.queue.add("fast")
        await until(lambda: not len(manager.queue))
    assert world.server.store.version == before
    assert not await world.client.list(LEASES, CONFIG_NAMESPACE)
    actions = [json.loads(line) for line in lines]
    assert [(action["action"], action["subresource"]) for action in actions] == [("PatchNode", "status")]
    assert actions[0]["patch"]["metadata"]["annotations"][NORMALIZATION_RATIO] == "2.00"


async def test_node_that_vanishes_before_its_patch_is_harmless(world: World) -> None:
    await world.add_node("fast")
    await world.add_node("slow", model=SLOW)
    async with world.manager() as manager:
        await world.installed()
        carry_out = manager.reconciler._executor.carry_out

        async def after_deleting(action: object) -> str | None:
            if getattr(action, "name", "") == "fast":
                await world.client.delete(NODES, "fast")
            manager.reconciler._executor.carry_out = carry_out  # type: ignore[method-assign]
            return await carry_out(action)  # type: ignore[arg-type]

        manager.reconciler._executor.carry_out = after_deleting  # type: ignore[method-assign]
        await world.configure(normalization=normalization())
        await until(lambda: "fast" not in manager.reconciler.reports and "slow" in manager.reconciler.reports)
        assert manager.metrics.value(LOOP_RESTARTS, "reconciler") == 0


async def test_amplification_works_without_node_resource_topologies(world: World) -> None:
    path = (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/noderesourcetopologies.topology.node.k8s.io"
    )
    await world.client.request("DELETE", path)
    await world.client.create(NODES, {"metadata": {"name": "plain"}})
    await world.kubelet_writes("plain")
    await world.configure(amplification=amplification(cpu=1.5))
    async with world.manager():
        await world.shows_cpu("plain", "12")


async def test_next_to_koordinators_webhook_nothing_is_amplified(world: World) -> None:
    await world.add_node("fast")
    await world.configure(normalization=normalization())
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"]}
    webhook = {
        "name": "mnode-status.koordinator.sh",
        "clientConfig": {"url": "https://127.0.0.1:1/mutate-node-status"},
        "rules": [rule],
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    body = {"metadata": {"name": "koordinator-mutating-webhook-configuration"}, "webhooks": [webhook]}
    await world.client.request(
        "POST",
        path,
        body={
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            **body,
        },
    )
    async with world.manager() as manager:
        await world.told("KoordinatorWebhookPresent", "MutatingWebhookConfiguration")
        await until(lambda: "fast" in manager.reconciler.reports)
        assert await world.ratio("fast") is None
        await world.client.request("DELETE", f"{path}/koordinator-mutating-webhook-configuration")
        await world.shows_cpu("fast", "16")
