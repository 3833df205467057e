"""The official Python client against the local API server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from kubedouble.testing import RunningServer, run_server

kubernetes: Any = pytest.importorskip("kubernetes")  # Any: its types are partial
client, dynamic, watch = kubernetes.client, kubernetes.dynamic, kubernetes.watch
ApiException = client.exceptions.ApiException

PATIENCE = 60


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with run_server() as running:
        yield running


@pytest.fixture(scope="module")
def connection(server: RunningServer) -> Any:
    return server.client()


@pytest.fixture
def core(connection: Any) -> Any:
    return client.CoreV1Api(connection)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).removeprefix("test_").replace("_", "-")[:50]


@pytest.fixture
def node(core: Any, name: str) -> Iterator[str]:
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    ready = client.V1NodeCondition(type="Ready", status="True", reason="KubeletReady")
    status = client.V1NodeStatus(capacity=amounts, allocatable=amounts, conditions=[ready])
    metadata = client.V1ObjectMeta(name=name, labels={"disk": "ssd"})
    core.create_node(client.V1Node(metadata=metadata, status=status))
    yield name
    core.delete_node(name)


def test_objects_are_read_as_the_models_say(core: Any, node: str) -> None:
    found = core.read_node(node)
    assert found.metadata.uid
    assert found.metadata.creation_timestamp.tzinfo
    assert found.status.capacity == {"cpu": "8", "memory": "16Gi", "pods": "110"}
    assert found.status.conditions[0].type == "Ready"


def test_lists_are_selected_and_paged(core: Any, name: str) -> None:
    for number in range(5):
        metadata = client.V1ObjectMeta(name=f"{name}-{number}", labels={"of": name})
        core.create_namespaced_config_map("default", client.V1ConfigMap(metadata=metadata))
    found: list[str] = []
    token = None
    while token != "":
        page = core.list_namespaced_config_map(
            "default", label_selector=f"of={name}", limit=2, _continue=token
        )
        found += [item.metadata.name for item in page.items]
        token = page.metadata._continue or ""
    assert found == [f"{name}-{number}" for number in range(5)]


def test_what_is_not_there_is_a_404(core: Any, name: str) -> None:
    with pytest.raises(ApiException) as problem:
        core.read_node(name)
    assert (problem.value.status, problem.value.reason) == (404, "Not Found")


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"annotations": {"example.com/a": "1"}}},
        [{"op": "add", "path": "/metadata/annotations", "value": {"example.com/a": "1"}}],
    ],
    ids=["strategic", "json"],
)
def test_nodes_are_patched(core: Any, body: Any) -> None:
    core.create_node(client.V1Node(metadata=client.V1ObjectMeta(name="patched")))
    patched = core.patch_node("patched", body)
    core.delete_node("patched")
    assert patched.metadata.annotations == {"example.com/a": "1"}


def test_merge_patches_remove_by_null(core: Any, node: str) -> None:
    core.patch_node(node, {"metadata": {"annotations": {"example.com/a": "1"}}})
    merge = {"_content_type": "application/merge-patch+json"}
    patched = core.patch_node(node, {"metadata": {"annotations": {"example.com/a": None}}}, **merge)
    assert not patched.metadata.annotations


def test_status_is_patched_by_strategic_merge(core: Any, node: str) -> None:
    condition = {"type": "Extra", "status": "True"}
    patched = core.patch_node_status(node, {"status": {"capacity": {"cpu": "12"}, "conditions": [condition]}})
    assert patched.status.capacity["cpu"] == "12"
    assert {item.type for item in patched.status.conditions} == {"Ready", "Extra"}


def test_a_stale_replacement_conflicts(core: Any, node: str) -> None:
    stale = core.read_node(node)
    core.patch_node(node, {"metadata": {"labels": {"a": "1"}}})
    with pytest.raises(ApiException) as problem:
        core.replace_node(node, stale)
    assert problem.value.status == 409


def test_watch_streams_events_until_it_times_out(core: Any, node: str) -> None:
    version = core.list_node().metadata.resource_version
    core.patch_node(node, {"metadata": {"labels": {"tick": "1"}}})
    core.patch_node(node, {"metadata": {"labels": {"tick": "2"}}})
    stream = watch.Watch().stream(core.list_node, resource_version=version, timeout_seconds=1)
    ticks = [event["object"].metadata.labels.get("tick") for event in stream]
    assert ticks == ["1", "2"]


def test_watch_follows_live_changes(core: Any, node: str) -> None:
    version = core.list_node().metadata.resource_version
    change = threading.Timer(0.2, core.patch_node, (node, {"metadata": {"labels": {"tick": "live"}}}))
    change.start()
    watcher = watch.Watch()
    event = next(watcher.stream(core.list_node, resource_version=version, timeout_seconds=PATIENCE))
    watcher.stop()
    change.join()
    assert event["type"] == "MODIFIED"
    assert event["raw_object"]["metadata"]["labels"]["tick"] == "live"


def test_a_lease_changes_hands_by_version(connection: Any, name: str) -> None:
    leases = client.CoordinationV1Api(connection)
    now = datetime.now(UTC)
    spec = client.V1LeaseSpec(holder_identity="a", lease_duration_seconds=15, renew_time=now)
    lease = leases.create_namespaced_lease(
        "default", client.V1Lease(metadata=client.V1ObjectMeta(name=name), spec=spec)
    )
    assert lease.spec.renew_time == now
    lease.spec.holder_identity = "b"
    leases.replace_namespaced_lease(name, "default", lease)
    lease.spec.holder_identity = "c"
    with pytest.raises(ApiException) as problem:
        leases.replace_namespaced_lease(name, "default", lease)
    assert problem.value.status == 409
    assert leases.read_namespaced_lease(name, "default").spec.holder_identity == "b"


@pytest.fixture
def maps(connection: Any) -> Any:
    return dynamic.DynamicClient(connection).resources.get(api_version="v1", kind="ConfigMap")


def test_the_dynamic_client_applies_server_side(maps: Any, name: str) -> None:
    def a_map(**data: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}

    def apply(manager: str, **data: str) -> Any:
        return maps.server_side_apply(
            body=a_map(**data), name=name, namespace="default", field_manager=manager
        )

    apply("first", key="1", other="2")
    assert apply("first", key="1").data.to_dict() == {"key": "1"}
    with pytest.raises(dynamic.exceptions.ConflictError):
        apply("second", key="2")
    taken = maps.server_side_apply(
        body=a_map(key="2"), name=name, namespace="default", field_manager="second", force_conflicts=True
    )
    assert taken.data.to_dict() == {"key": "2"}


def test_the_dynamic_client_discovers_every_kind(connection: Any) -> None:
    resources = dynamic.DynamicClient(connection).resources
    for api_version, kind in (
        ("v1", "Node"),
        ("coordination.k8s.io/v1", "Lease"),
        ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ):
        assert resources.get(api_version=api_version, kind=kind).kind == kind


def test_pods_are_bound(core: Any, node: str, name: str) -> None:
    container = client.V1Container(name="c", image="example.invalid/app")
    pod = client.V1Pod(metadata=client.V1ObjectMeta(name=name), spec=client.V1PodSpec(containers=[container]))
    core.create_namespaced_pod("default", pod)
    target = client.V1ObjectReference(api_version="v1", kind="Node", name=node)
    binding = client.V1Binding(metadata=client.V1ObjectMeta(name=name), target=target)
    core.create_namespaced_pod_binding(name, "default", binding, _preload_content=False)
    (found,) = core.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={node}").items
    assert found.metadata.name == name
    core.delete_namespaced_pod(name, "default", grace_period_seconds=0)


@pytest.mark.parametrize(
    ("query", "options", "code"),
    [
        pytest.param({"dry_run": "All"}, {}, 201, id="in the query"),
        pytest.param({}, {"dryRun": ["All"]}, 201, id="in the delete options"),
        pytest.param({"dry_run": "All"}, {"dryRun": ["All"]}, 201, id="in both"),
        pytest.param({}, {"dryRun": ["Some"]}, 422, id="no such value"),
        pytest.param({"dry_run": "All"}, {"dryRun": ["Some"]}, 500, id="two values"),
    ],
)
def test_dry_run_evicts_nothing(core: Any, query: Any, options: Any, code: int) -> None:
    spec = {"containers": [{"name": "main", "image": "one"}]}
    pod = core.create_namespaced_pod("default", {"metadata": {"generateName": "kept-"}, "spec": spec})
    name = pod.metadata.name
    body = {"metadata": {"name": name}, "deleteOptions": options}
    answered = 201
    try:
        core.create_namespaced_pod_eviction(name, "default", body, **query)
    except ApiException as refused:
        answered = refused.status
    assert answered == code
    assert core.read_namespaced_pod(name, "default").metadata.deletion_timestamp is None


def test_custom_objects_are_generic(connection: Any, name: str) -> None:
    definitions = client.ApiextensionsV1Api(connection)
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    }
    definitions.create_custom_resource_definition(
        {
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Cluster",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
                ],
            },
        }
    )
    things = client.CustomObjectsApi(connection)
    body = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"n": 1}}
    things.create_cluster_custom_object("example.com", "v1", "things", body)
    patched = things.patch_cluster_custom_object("example.com", "v1", "things", name, {"spec": {"n": 2}})
    assert patched["spec"] == {"n": 2}
    definitions.delete_custom_resource_definition("things.example.com")


def test_access_reviews_answer(connection: Any) -> None:
    attributes = client.V1ResourceAttributes(verb="patch", resource="nodes")
    spec = client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes)
    reviews = client.AuthorizationV1Api(connection)
    answer = reviews.create_self_subject_access_review(client.V1SelfSubjectAccessReview(spec=spec))
    assert answer.status.allowed


def test_version_and_groups_are_read(connection: Any) -> None:
    assert client.VersionApi(connection).get_code().git_version.startswith("v1.")
    groups = client.ApisApi(connection).get_api_versions().groups
    assert "apps" in {group.name for group in groups}
