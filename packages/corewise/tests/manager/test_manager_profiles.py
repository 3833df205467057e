"""New pods and ClusterColocationProfiles: what the installed webhooks make of pods, in a cluster.

| pod | profile | becomes |
|---|---|---|
| selected by labels and namespace | QoS class, PriorityClass, labels, patch | all that; batch resources |
| not selected | | as written; the webhook is not called |
| selected by two | different values | the profile whose name is later counts |
| marked as offline without a profile | | batch resources, a refusal, or as written, by an option |
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from corewise.kube.certificates import Authority
from corewise.kube.errors import Invalid
from corewise.kube.resources import (
    COLOCATION_PROFILES,
    EVENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    VALIDATING_WEBHOOKS,
    WebhookConfiguration,
)
from corewise.manager.options import PODS_NAME, VALIDATING_NAME, OfflinePods
from corewise.manager.webhooks import validating_configuration
from corewise.service.installation import client_config
from corewise.service.options import Address
from corewise.vocabulary.metrics import WEBHOOK_REQUESTS
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY, QOS_CLASS
from corewise.vocabulary.reasons import Reason
from corewise_lab.control_plane import reserve_port
from manager.test_manager_replicas import write_pair
from manager.world import World, eventually
from shipped import definition

PROFILES = "clustercolocationprofiles.config.koordinator.sh"
PLAIN_PODS = PODS.typed(dict)
PLAIN_PROFILES = COLOCATION_PROFILES.typed(dict)
REQUESTS = {"cpu": "1500m", "memory": "1Gi"}
CONTAINER = {
    "name": "c",
    "image": "i",
    "resources": {"requests": REQUESTS, "limits": {"cpu": "2"}},
}
APP = {"matchLabels": {"app": "batch"}}
OFFLINE = {"spec": {"qosClass": "BE", "selector": {"matchLabels": {"app": "batch"}}}}


@pytest.fixture
async def profiles(world: World) -> World:
    """A cluster with the CRD, a namespace for batch jobs, and a PriorityClass."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await world.client.request("POST", path, body=definition(PROFILES))
    await world.client.create(NAMESPACES, {"metadata": {"name": "jobs", "labels": {"team": "data"}}})
    await world.client.create(
        PRIORITY_CLASSES, {"metadata": {"name": "koord-batch"}, "value": 5500, "preemptionPolicy": "Never"}
    )

    async def served() -> bool:
        await world.client.list(COLOCATION_PROFILES)
        return True

    await eventually(served)
    return world


async def add_profile(world: World, name: str, **spec: Any) -> None:
    await world.client.create(PLAIN_PROFILES, {"metadata": {"name": name}, "spec": spec})


async def installed(world: World, *names: str) -> WebhookConfiguration:
    """Wait until exactly these webhooks are installed."""
    found: list[WebhookConfiguration] = []

    async def there() -> bool:
        configuration = await world.client.get(MUTATING_WEBHOOKS, PODS_NAME)
        found[:] = [configuration]
        return [each.name for each in configuration.webhooks] == list(names)

    await eventually(there)
    return found[0]


TRANSLATION = "offline-pods.corewise.io"


async def create(world: World, namespace: str = "jobs", name: str = "p", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **more.pop("metadata", {})}
    spec = {"containers": [CONTAINER], **more}
    return await world.client.create(PLAIN_PODS, {"metadata": metadata, "spec": spec}, namespace)


async def test_pod_selected_by_a_profile_becomes_offline(profiles: World) -> None:
    async with profiles.manager():
        await add_profile(
            profiles,
            "batch",
            namespaceSelector={"matchLabels": {"team": "data"}},
            selector={"matchLabels": {"app": "batch"}},
            qosClass="BE",
            priorityClassName="koord-batch",
            koordinatorPriority=1000,
            schedulerName="other",
            labels={"tier": "offline"},
            patch={"spec": {"terminationGracePeriodSeconds": 7, "containers": [{"name": "c", "tty": True}]}},
        )
        await installed(profiles, "batch.profile.corewise.io", TRANSLATION)
        pod = await create(profiles, metadata={"labels": {"app": "batch"}})
    assert pod["metadata"]["labels"] == {
        "app": "batch",
        "tier": "offline",
        QOS_CLASS: "BE",
        "koordinator.sh/priority": "1000",
    }
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == (
        "koord-batch",
        5500,
        "Never",
    )
    assert (spec["schedulerName"], spec["terminationGracePeriodSeconds"]) == ("other", 7)
    assert (container["image"], container["tty"]) == ("i", True)
    assert container["resources"] == {
        "requests": {BATCH_CPU: "1500", BATCH_MEMORY: "1Gi"},
        "limits": {BATCH_CPU: "2k"},
    }
    assert pod["status"]["qosClass"] == "BestEffort"


async def test_nobody_is_asked_about_other_pods(profiles: World) -> None:
    await profiles.client.create(NAMESPACES, {"metadata": {"name": "web"}})
    async with profiles.manager() as manager:
        await add_profile(
            profiles, "batch", namespaceSelector={"matchLabels": {"team": "data"}}, **OFFLINE["spec"]
        )
        await installed(profiles, "batch.profile.corewise.io", TRANSLATION)
        in_another_namespace = await create(profiles, "web", metadata={"labels": {"app": "batch"}})
        of_another_app = await create(profiles, metadata={"labels": {"app": "web"}})
        asked = [
            manager.metrics.value(WEBHOOK_REQUESTS, webhook, outcome)
            for webhook in ("apply-profile", "offline-pods")
            for outcome in ("allowed", "changed", "refused")
        ]
    assert not any(asked)
    for pod in (in_another_namespace, of_another_app):
        assert pod["spec"]["containers"][0]["resources"] == CONTAINER["resources"]


async def test_with_somebody_elses_certificate_profiles_are_applied_too(
    profiles: World, tmp_path: Path
) -> None:
    """cert-manager writes caBundle into the configuration that the chart installs, and sometimes late."""
    authority = Authority.create("test", now=datetime.now(UTC))
    files = write_pair(tmp_path, authority.issue_server(["127.0.0.1"], now=datetime.now(UTC)))
    listen = Address("127.0.0.1", reserve_port())
    at = {"webhook_listen": listen, "webhook_url": f"https://{listen}", **files}
    config = client_config(at["webhook_url"], "")
    body = validating_configuration(config, "corewise-system")
    await profiles.client.create(VALIDATING_WEBHOOKS.typed(dict), body)
    async with profiles.manager(manage_webhooks=False, **at):
        await add_profile(profiles, "batch", **OFFLINE["spec"])
        injected = validating_configuration(
            client_config(at["webhook_url"], authority.certificate_pem), "corewise-system"
        )
        await profiles.client.patch(VALIDATING_WEBHOOKS.typed(dict), VALIDATING_NAME, injected)
        await installed(profiles, "batch.profile.corewise.io", TRANSLATION)
        pod = await create(profiles, metadata={"labels": {"app": "batch"}})
    assert pod["spec"]["containers"][0]["resources"]["requests"][BATCH_CPU] == "1500"


async def test_profile_conflict_is_refused_or_later_name_wins(
    profiles: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Two may be stored from before the manager, or while it did not answer."""
    selector = OFFLINE["spec"]["selector"]
    await add_profile(profiles, "b", selector=selector, labels={"x": "of-b"})
    await add_profile(profiles, "a", selector=selector, labels={"x": "of-a", "y": "of-a"})
    async with profiles.manager():
        await installed(profiles, "a.profile.corewise.io", "b.profile.corewise.io", TRANSLATION)
        pod = await create(profiles, metadata={"labels": {"app": "batch"}})
        assert pod["metadata"]["labels"] == {"app": "batch", "x": "of-b", "y": "of-a"}
        assert "ClusterColocationProfiles contradict each other" in caplog.text
        with pytest.raises(
            Invalid, match=r"spec.labels.x: profiles a and c set .* to of-a and of-c, and one"
        ):
            await add_profile(profiles, "c", selector=selector, labels={"x": "of-c"})
        with pytest.raises(Invalid, match="profiles a and b set"):
            await profiles.client.patch(PLAIN_PROFILES, "a", {"spec": {"qosClass": "BE"}})
        await profiles.client.patch(PLAIN_PROFILES, "a", {"metadata": {"labels": {"owner": "me"}}})
        await profiles.client.patch(PLAIN_PROFILES, "a", {"spec": {"labels": {"x": "of-b"}}})


async def test_deployment_keeps_pods_though_profile_changes_selector_labels(
    profiles: World,
) -> None:
    """Released pods would be replaced without end. A label that selects nothing is changed."""
    template = {
        "metadata": {"labels": {"app": "batch", "team": "data"}},
        "spec": {"containers": [CONTAINER]},
    }
    async with profiles.manager():
        await add_profile(
            profiles,
            "batch",
            selector={"matchExpressions": [{"key": "app", "operator": "In", "values": ["batch", "batch-x"]}]},
            labelSuffixes={"app": "-x", "team": "-x"},
        )
        await installed(profiles, "batch.profile.corewise.io", TRANSLATION)
        spec = {"replicas": 3, "selector": {"matchLabels": {"app": "batch"}}, "template": template}
        path = "/apis/apps/v1/namespaces/jobs/deployments"
        await profiles.client.request("POST", path, body={"metadata": {"name": "d"}, "spec": spec})

        async def complete() -> bool:
            return len(await profiles.client.list(PLAIN_PODS, "jobs")) >= 3

        await eventually(complete)
        await asyncio.sleep(2)
        pods = await profiles.client.list(PLAIN_PODS, "jobs")
    labels = [{**each["metadata"]["labels"], "pod-template-hash": ""} for each in pods]
    assert labels == [{"app": "batch", "team": "data-x", "pod-template-hash": ""}] * 3


@pytest.mark.parametrize(
    ("owner", "said"),
    [
        (
            {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"},
            "CloneSet gone may select pods by it",
        ),
        ({"apiVersion": "apps/v1", "kind": "ReplicaSet"}, "ReplicaSet gone may select pods by it"),
    ],
)
async def test_pod_with_unknown_controller_selector_keeps_its_labels(
    profiles: World, caplog: pytest.LogCaptureFixture, owner: dict[str, str], said: str
) -> None:
    """One of another kind, and one that does not exist."""
    async with profiles.manager():
        await add_profile(profiles, "batch", labels={"app": "other", "new": "1"}, selector=APP)
        await installed(profiles, "batch.profile.corewise.io", TRANSLATION)
        reference = {**owner, "name": "gone", "uid": "u", "controller": True}
        metadata = {"labels": {"app": "batch"}, "ownerReferences": [reference]}
        pod = await create(profiles, metadata=metadata)
    assert pod["metadata"]["labels"] == {"app": "batch", "new": "1"}
    assert f"profile batch leaves the label app as it is: {said}" in caplog.text


async def test_pod_with_class_set_by_patch_is_offline(profiles: World) -> None:
    async with profiles.manager():
        await add_profile(
            profiles,
            "batch",
            selector=OFFLINE["spec"]["selector"],
            patch={"spec": {"priorityClassName": "koord-batch"}},
        )
        await installed(profiles, "batch.profile.corewise.io", TRANSLATION)
        pod = await create(profiles, metadata={"labels": {"app": "batch"}})
    assert pod["spec"]["priority"] == 5500
    assert pod["spec"]["containers"][0]["resources"]["requests"][BATCH_CPU] == "1500"


async def test_limit_range_defaults_apply_before_and_after_translation(profiles: World) -> None:
    """LimitRanger, which a policy stands for, runs before the webhooks, and again after a change."""
    resources = "object.spec.containers[0].?resources"
    stated = f"{resources}.?requests.hasValue()"
    added = (
        "JSONPatch{op: 'add', path: '/spec/containers/0/resources/requests/cpu', value: '100m'}",
        "JSONPatch{op: 'add', path: '/spec/containers/0/resources', value: {'requests': {'cpu': '100m'}}}",
    )
    policy = {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ]
        },
        "matchConditions": [
            {"name": "no-cpu", "expression": f"!{resources}.?requests[?'cpu'].hasValue()"},
        ],
        "reinvocationPolicy": "IfNeeded",
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": f"{stated} ? [{added[0]}] : [{added[1]}]"},
            }
        ],
    }
    binding = {"metadata": {"name": "defaults"}, "spec": {"policyName": "defaults"}}
    for kind, body in (
        ("mutatingadmissionpolicies", {"metadata": {"name": "defaults"}, "spec": policy}),
        ("mutatingadmissionpolicybindings", binding),
    ):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}"
        await profiles.client.request("POST", path, body=body)
    async with profiles.manager():
        await installed(profiles, TRANSLATION)
        marked = {"labels": {QOS_CLASS: "BE"}}
        online = await create(profiles, name="online", containers=[{"name": "c", "image": "i"}])
        asking = await create(profiles, name="asking", metadata=marked)
        silent = await create(
            profiles, name="silent", metadata=marked, containers=[{"name": "c", "image": "i"}]
        )
    requests = [each["spec"]["containers"][0]["resources"]["requests"] for each in (online, asking, silent)]
    assert requests == [{"cpu": "100m"}, {BATCH_CPU: "1500", BATCH_MEMORY: "1Gi"}, {BATCH_CPU: "100"}]


async def test_removed_profile_takes_its_webhook_along(profiles: World) -> None:
    async with profiles.manager(offline_pods=OfflinePods.LEAVE):
        await add_profile(profiles, "batch", **OFFLINE["spec"])
        await installed(profiles, "batch.profile.corewise.io")
        await profiles.client.delete(COLOCATION_PROFILES, "batch")

        async def removed() -> bool:
            listed = await profiles.client.list(MUTATING_WEBHOOKS)
            return PODS_NAME not in {each.metadata.name for each in listed}

        await eventually(removed)


async def test_missing_priority_class_refuses_pods_with_an_explanation(profiles: World) -> None:
    async with profiles.manager():
        await add_profile(profiles, "batch", priorityClassName="nobody-made-it", **OFFLINE["spec"])
        await installed(profiles, "batch.profile.corewise.io", TRANSLATION)
        with pytest.raises(Invalid, match="profile batch selects this pod: there is no PriorityClass nobody"):
            await create(profiles, metadata={"labels": {"app": "batch"}})


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {QOS_CLASS: "BE"}},
        {"annotations": {"volcano.sh/qos-level": "-1"}},
        {"labels": {"koordinator.sh/priority-class": "koord-batch"}},
    ],
)
async def test_offline_pod_without_a_profile_gets_batch_resources(
    world: World, metadata: dict[str, Any]
) -> None:
    """Without the CRD, too: a cluster may have offline pods and no profiles."""
    async with world.manager():
        await installed(world, TRANSLATION)
        pod = await create(world, "default", metadata=metadata)
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {BATCH_CPU: "1500", BATCH_MEMORY: "1Gi"}


async def test_option_refuses_offline_pods_that_request_cpu(world: World) -> None:
    async with world.manager(offline_pods=OfflinePods.REFUSE):
        await installed(world, TRANSLATION)
        with pytest.raises(Invalid, match=r"label koordinator.sh/qosClass is BE.*container c: requests.cpu"):
            await create(world, "default", metadata={"labels": {QOS_CLASS: "BE"}})


async def test_translation_waits_until_a_node_offers_batch_resources(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.add_node("n1")
    marked = {"labels": {QOS_CLASS: "BE"}}
    async with world.manager():
        await installed(world, TRANSLATION)
        pod = await create(world, "default", metadata=marked)
        assert pod["spec"]["containers"][0]["resources"]["requests"] == REQUESTS
        assert "no node offers kubernetes.io/batch-cpu yet" in caplog.text
        offer = {"status": {"allocatable": {BATCH_CPU: "0", "cpu": "4"}}}
        await world.client.patch(NODES.typed(dict), "n1", offer, subresource="status")

        names = map("later-{}".format, range(1000))

        async def translated() -> bool:
            made = await create(world, "default", next(names), metadata=marked)
            return BATCH_CPU in made["spec"]["containers"][0]["resources"]["requests"]

        await eventually(translated)


async def test_pods_of_kube_system_are_never_touched(profiles: World) -> None:
    async with profiles.manager():
        await add_profile(profiles, "all", qosClass="BE")
        await installed(profiles, "all.profile.corewise.io", TRANSLATION)
        pod = await create(profiles, "kube-system", metadata={"labels": {QOS_CLASS: "BE"}})
    assert pod["spec"]["containers"][0]["resources"] == CONTAINER["resources"]


async def test_pods_are_created_unchanged_while_no_manager_answers(profiles: World) -> None:
    async with profiles.manager():
        await add_profile(profiles, "batch", **OFFLINE["spec"])
        await installed(profiles, "batch.profile.corewise.io", TRANSLATION)
    pod = await create(profiles, metadata={"labels": {"app": "batch"}})
    assert pod["metadata"]["labels"] == {"app": "batch"}


async def test_untranslated_pods_are_found_and_reported_once(profiles: World) -> None:
    """Those that a profile would make offline, and those marked; not what is older, elsewhere, or sound."""
    world, on_node = profiles, {"nodeName": "n1"}
    labels = {"labels": {"app": "batch"}}
    await world.add_node("n1")
    await create(world, name="older", metadata=labels, **on_node)
    await asyncio.sleep(1.1)  # the API counts whole seconds
    await add_profile(world, "batch", namespaceSelector={"matchLabels": {"team": "data"}}, **OFFLINE["spec"])
    await add_profile(world, "part", labels={QOS_CLASS: "BE"}, probability=50)
    await create(world, name="selected", metadata=labels, **on_node)
    await create(world, "default", "marked", metadata={"labels": {QOS_CLASS: "BE"}}, **on_node)
    await create(world, "default", "elsewhere", metadata=labels, **on_node)
    await create(world, "kube-system", "spared", metadata={"labels": {QOS_CLASS: "BE"}}, **on_node)
    sound = [{**CONTAINER, "resources": {"requests": {BATCH_CPU: "1"}, "limits": {BATCH_CPU: "1"}}}]
    await create(world, name="translated", metadata=labels, containers=sound, **on_node)

    async with world.manager() as manager:
        found = manager.untranslated

        async def counted(**of_namespace: int) -> None:
            async def there() -> bool:
                return found.count() == {(name,): n for name, n in of_namespace.items()}

            await eventually(there)

        async def looked() -> bool:
            return found.examined >= 6

        await eventually(looked)
        assert not found.count()  # no node offers batch CPU: pods stay as they are on purpose
        offer = {"status": {"allocatable": {BATCH_CPU: "4000", "cpu": "8"}}}
        await world.client.patch(NODES.typed(dict), "n1", offer, subresource="status")
        await counted(jobs=1, default=1)

        examined = found.examined
        ready = {"status": {"phase": "Running"}}
        await world.client.patch(PLAIN_PODS, "elsewhere", ready, namespace="default", subresource="status")
        await create(world, "default", "another", **on_node)

        async def examined_the_other() -> bool:
            return found.examined > examined

        await eventually(examined_the_other)
        assert found.examined == examined + 1
        await world.client.delete(PLAIN_PODS, "marked", "default")
        await counted(jobs=1)

    events = [
        each
        for namespace in ("jobs", "default", "kube-system")
        for each in await world.client.list(EVENTS, namespace)
        if each.reason == Reason.OFFLINE_POD_ONLINE
    ]
    assert [each.count for each in events] == [1, 1]
    told = {each.involved_object.name: each.message for each in events}
    assert sorted(told) == ["marked", "selected"]
    assert "profile batch selects it: label koordinator.sh/qosClass is BE" in told["selected"]
    assert "container c: requests.cpu" in told["selected"]


async def test_a_bad_profile_is_refused_with_the_field(profiles: World) -> None:
    async with profiles.manager():
        await profiles.installed()
        with pytest.raises(Invalid, match=r"spec.labels\[.*BEE.*did you mean .*BE"):
            await add_profile(profiles, "bad", labels={QOS_CLASS: "BEE"})


async def test_erroneous_profile_bypassing_webhook_is_ignored_and_logged(
    profiles: World, caplog: pytest.LogCaptureFixture
) -> None:
    await add_profile(profiles, "bad", qosClass="BE", labels={"a": "not a value"})
    async with profiles.manager():
        await installed(profiles, TRANSLATION)
        assert "a ClusterColocationProfile is not applied" in caplog.text
        await profiles.client.patch(PLAIN_PROFILES, "bad", {"metadata": {"labels": {"x": "y"}}})
        with pytest.raises(Invalid, match="not a label value"):
            await profiles.client.patch(PLAIN_PROFILES, "bad", {"spec": {"qosClass": "LS"}})


async def test_profile_applies_to_its_share_of_the_pods(profiles: World) -> None:
    async with profiles.manager():
        selector = OFFLINE["spec"]["selector"]
        await add_profile(profiles, "none", selector=selector, labels={"x": "1"}, probability=0)
        await add_profile(profiles, "whole", selector=selector, labels={"y": "1"}, probability="100%")
        await installed(profiles, "none.profile.corewise.io", "whole.profile.corewise.io", TRANSLATION)
        pod = await create(profiles, metadata={"labels": {"app": "batch"}})
    assert pod["metadata"]["labels"] == {"app": "batch", "y": "1"}
