"""The longest step of the manager's event loop does not grow with the largest objects that can be stored.

| input | largest |
|---|---|
| the ConfigMap | 1 MiB: 1,000 entries that all select the same nodes |
| a profile | 1 MiB of selector and labels |
| a profile with a patch | the first one, with which the fields of pods are loaded |
| profiles that contradict each other | 200, stored while no webhook refused them |
| nodes that a reviewed configuration may raise | 5,000 |
| a reviewed pod | 3,000 containers, 0.4 MB: translated, and changed by a profile |
"""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import msgspec
import pytest

from corewise.amplification.amounts import FIELDS
from corewise.config import pod_schema
from corewise.config.pod_schema import PodField
from corewise.kube.admission import decode_review
from corewise.kube.objects import ConfigMap
from corewise.manager.busy_nodes import raised_on_busy_nodes
from corewise.manager.pod_webhooks import PROFILE_PATH
from corewise.manager.webhooks import APPLY_PROFILE, OFFLINE_PODS
from corewise.ratios.cluster import ClusterContext, read_configuration
from corewise.ratios.nodes import view_of
from corewise.service.webhooks import Answer
from corewise.vocabulary.names import AMPLIFICATION_KEY, QOS_CLASS
from corewise.workload.nodes import Node
from loop_steps import FEW, counted
from manager.reviews import body, patch_of, review, webhooks
from manager.test_manager_profiles import PLAIN_PROFILES, profiles
from manager.world import World, until

__all__ = ["profiles"]
PAD = "x" * 900
NOT_IN = [
    {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": [f"{at}"]}]} for at in range(1000)
]
ENTRIES = json.dumps(
    {"enable": True, "nodeConfigs": [{"name": PAD, "nodeSelector": each} for each in NOT_IN]}
)
VALUES = [f"value-{at}" for at in range(60_000)]
LARGE = {
    "selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": VALUES}]},
    "labels": {f"label-{at}": "x" for at in range(10_000)},
}
PATCH = {"selector": {}, "patch": {"spec": {"terminationGracePeriodSeconds": 7}}}
CONTRADICTING = [{"selector": {"matchLabels": {"app": "a"}}, "labels": {"of": f"{at}"}} for at in range(200)]


async def test_the_largest_configuration_is_a_short_step(world: World) -> None:
    for number in range(20):
        await world.add_node(f"n{number}", zone="a")
    async with world.manager() as manager:
        with counted() as steps:
            await world.configure(normalization=ENTRIES)
            await until(lambda: manager.snapshot.reading.present)
            await world.told("ConflictingNodeConfigs", "ConfigMap")
    assert 0 < steps.most < FEW, steps.where


@pytest.mark.parametrize("specs", [[LARGE], CONTRADICTING], ids=["large", "contradicting"])
async def test_the_largest_profiles_are_short_steps(profiles: World, specs: list[dict[str, Any]]) -> None:
    for at, spec in enumerate(specs):
        await profiles.client.create(PLAIN_PROFILES, {"metadata": {"name": f"p{at:03}"}, "spec": spec})
    with counted() as steps:
        async with profiles.manager() as manager:
            assert len(manager.profiles.good) == len(specs)
    assert 0 < steps.most < FEW, steps.where


async def test_pod_fields_are_loaded_in_a_thread(profiles: World, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def loaded() -> dict[str, dict[str, PodField]]:
        threads.append(threading.get_ident())
        return pod_types()

    pod_types = pod_schema._types
    monkeypatch.setattr(pod_schema, "_types", loaded)
    async with profiles.manager() as manager:
        await profiles.client.create(PLAIN_PROFILES, {"metadata": {"name": "p"}, "spec": PATCH})
        await until(lambda: "p" in manager.profiles.good)
    assert threads
    assert threading.get_ident() not in threads


async def test_five_thousand_nodes_are_short_steps() -> None:
    body = {"status": {each: {"cpu": "10", "memory": "32Gi"} for each in FIELDS}}
    nodes = [
        view_of(msgspec.convert({**body, "metadata": {"name": f"n{at}"}}, Node), None, tuple)
        for at in range(5000)
    ]
    text = '{"enable":true,"resourceAmplificationRatio":{"cpu":1.70}}'
    reading = read_configuration(ConfigMap(data={AMPLIFICATION_KEY: text}))

    async def usages() -> dict[str, int]:
        return {node.name: 7000 for node in nodes}

    with counted() as steps:
        context = ClusterContext(reading.configuration)
        warnings = await asyncio.create_task(raised_on_busy_nodes(nodes, context, usages))
    assert warnings[-1] == "4997 more busy nodes get a higher cpu ratio, too"
    assert 0 < steps.most < FEW, steps.where


@pytest.mark.parametrize("webhook", [OFFLINE_PODS, APPLY_PROFILE])
async def test_a_large_reviewed_pod_is_short_steps(webhook: str) -> None:
    requests = {"requests": {"cpu": "1", "memory": "1Gi"}}
    containers = [{"name": f"c{at}", "image": "i", "resources": requests} for at in range(3000)]
    pod = {
        "metadata": {"name": "p", "labels": {QOS_CLASS: "BE"}},
        "spec": {"containers": containers, "initContainers": containers},
    }
    hook = webhooks()[webhook]
    document = body(review(webhook, pod, None, operation="CREATE", name="p"))

    async def reviewed() -> Answer:
        request = decode_review(document, PROFILE_PATH if webhook == APPLY_PROFILE else "")
        return await hook(request)

    with counted() as steps:
        answer = await asyncio.create_task(reviewed())
    assert len(patch_of(answer.body)) >= 1
    assert 0 < steps.most < FEW, steps.where
