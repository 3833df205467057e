"""Equal parts of objects are kept once, and nothing a program holds can change them."""

from __future__ import annotations

from enum import StrEnum

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from corewise.engine.objects import TOPOLOGIES
from corewise.kube import objects as sharing
from corewise.kube.decoding import decode_object
from corewise.kube.objects import EMPTY, ObjectMeta, ResourceRequirements
from corewise.vocabulary.names import CPU_TOPOLOGY, RESOURCE_STATUS
from corewise.workload.pods import WORKLOAD_PODS, Pod, PodStatus

POD = (
    b'{"metadata":{"namespace":"team","name":"%s","labels":{"app":"web"},"ownerReferences":'
    b'[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-1","uid":"u"}]},"spec":{"nodeName":"n1",'
    b'"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]},"status":{"phase":"Running"}}'
)


def pod(name: bytes) -> Pod:
    return decode_object(WORKLOAD_PODS, POD % name, "it")


def test_pods_of_one_deployment_share_what_is_equal() -> None:
    one, two = pod(b"one"), pod(b"two")
    assert one.metadata.labels is two.metadata.labels
    assert one.metadata.namespace is two.metadata.namespace
    assert one.metadata.owner_references is two.metadata.owner_references
    assert one.spec.node_name is two.spec.node_name
    assert one.spec.containers[0].resources.requests is two.spec.containers[0].resources.requests
    assert one.status.phase is two.status.phase


def test_what_a_cluster_has_200000_of_is_small() -> None:
    """Containers and their states have maps in them; what others annotate is each pod's own."""
    more = POD.replace(
        b'"status":{',
        b'"status":{"qosClass":"Burstable","containerStatuses":[{"name":"c","allocatedResources":{"cpu":"1"}}],',
    ).replace(
        b'"labels"',
        b'"annotations":{"cni.example/ip":"10.0.0.1","scheduling.koordinator.sh/resource-status":"{}"},"labels"',
    )
    one, two = (decode_object(WORKLOAD_PODS, more % name, "it") for name in (b"one", b"two"))
    assert one.spec.containers is two.spec.containers
    assert one.spec.containers[0].name == "c"
    assert one.status.container_statuses is two.status.container_statuses
    assert one.status.qos_class is two.status.qos_class
    assert one.metadata.annotations == {RESOURCE_STATUS: "{}"}
    other = decode_object(WORKLOAD_PODS, (more % b"three").replace(b'"cpu":"1"', b'"cpu":"2"'), "it")
    assert other.spec.containers[0].resources == ResourceRequirements(requests={"cpu": "2"})


def test_topologies_of_like_machines_share_their_texts() -> None:
    text = b'{"metadata":{"name":"%s","annotations":{"node.koordinator.sh/cpu-topology":"a long one"}}}'
    one, two = (decode_object(TOPOLOGIES, text % name, "it") for name in (b"one", b"two"))
    assert one.metadata.annotations[CPU_TOPOLOGY] is two.metadata.annotations[CPU_TOPOLOGY]


def test_map_a_program_changes_later_is_not_shared() -> None:
    labels = {"made": "here"}
    meta = ObjectMeta(labels=labels)
    labels["made"] = "elsewhere"
    assert meta.labels == {"made": "here"}
    assert ObjectMeta(labels={"made": "here"}).labels == {"made": "here"}


def test_text_of_another_type_becomes_plain_text() -> None:
    class Phase(StrEnum):
        RUNNING = "Running"

    assert type(PodStatus(phase=Phase.RUNNING).phase) is str


def labels_of(number: int) -> ObjectMeta:
    return ObjectMeta(labels={"app": f"service-{number}"})


def test_shared_parts_stay_shared_while_other_objects_churn() -> None:
    shared = [labels_of(number) for number in range(2 * sharing.POOL_SIZE) for _ in range(2)]
    for number in range(10 * sharing.POOL_SIZE):
        ResourceRequirements(requests={"cpu": f"{number}m"})
    for number, meta in enumerate(shared[::2]):
        assert labels_of(number).labels is meta.labels


def test_pools_are_no_larger_than_what_they_share() -> None:
    shared = [labels_of(number) for number in range(4 * sharing.POOL_SIZE) for _ in range(2)]
    alone = [labels_of(number) for number in range(10**6, 10**6 + 20 * sharing.POOL_SIZE)]
    assert len(sharing._maps) <= 2 * 4 * sharing.POOL_SIZE + sharing.POOL_SIZE
    del shared
    alone += [labels_of(number) for number in range(2 * 10**6, 2 * 10**6 + 20 * sharing.POOL_SIZE)]
    assert len(sharing._maps) <= 2 * sharing.POOL_SIZE


@given(st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=4))
def test_sharing_changes_nothing_that_is_sent(labels: dict[str, str]) -> None:
    meta = ObjectMeta(name="x", labels=labels)
    expected = {"name": "x"} | ({"labels": labels} if labels else {})
    assert msgspec.json.decode(msgspec.json.encode(meta)) == expected
    assert labels or meta.labels == EMPTY
