"""Deployments, ReplicaSets and Jobs: what they make, and their subresource ``scale``."""

from __future__ import annotations

from typing import Any

import pytest

from kube_contract.api import MERGE_PATCH, Api, Object
from kube_contract.conftest import TEST_LABEL, Make, eventually


def a_template(pod_body: Object, **spec: Any) -> Object:
    labels = {TEST_LABEL: pod_body["metadata"]["name"]}
    return {"metadata": {"labels": labels}, "spec": {**pod_body["spec"], **spec}}


@pytest.fixture
async def deployment(make: Make, namespace: str, unique: str, pod_body: Object) -> str:
    """The path of a Deployment of two pods that no scheduler takes up."""
    selector = {"matchLabels": {TEST_LABEL: unique}}
    body = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": selector, "template": a_template(pod_body)},
    }
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    return f"{path}/{(await make(path, body))['metadata']['name']}"


async def pods_of(api: Api, namespace: str) -> list[Object]:
    items: list[Object] = (await api.get(f"/api/v1/namespaces/{namespace}/pods"))["items"]
    return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]


async def has_pods(api: Api, namespace: str, count: int) -> bool:
    return len(await pods_of(api, namespace)) == count


async def test_deployment_creates_pods_through_a_replica_set(
    api: Api, deployment: str, namespace: str
) -> None:
    await eventually(lambda: has_pods(api, namespace, 2))
    pod = (await pods_of(api, namespace))[0]
    owner = pod["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["controller"], owner["blockOwnerDeletion"]) == ("ReplicaSet", True, True)
    digest = pod["metadata"]["labels"]["pod-template-hash"]
    assert owner["name"] == f"web-{digest}"
    assert pod["metadata"]["generateName"] == f"web-{digest}-"
    replica_set = await api.get(f"/apis/apps/v1/namespaces/{namespace}/replicasets/{owner['name']}")
    assert replica_set["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
    assert replica_set["spec"]["selector"]["matchLabels"]["pod-template-hash"] == digest
    status = (await api.get(deployment))["status"]
    assert {each["type"]: each["status"] for each in status["conditions"]} == {
        "Available": "False",
        "Progressing": "True",
    }


async def test_scale_reads_and_writes_the_number_of_pods(api: Api, deployment: str, namespace: str) -> None:
    await eventually(lambda: has_pods(api, namespace, 2))
    scale = await api.get(f"{deployment}/scale")
    assert (scale["apiVersion"], scale["kind"], scale["spec"]) == ("autoscaling/v1", "Scale", {"replicas": 2})
    assert scale["status"]["selector"].startswith(f"{TEST_LABEL}=")
    await api.patch(f"{deployment}/scale", {"spec": {"replicas": 3}}, MERGE_PATCH)
    await eventually(lambda: has_pods(api, namespace, 3))
    stale = {**scale, "spec": {"replicas": 1}}
    (await api.request("PUT", f"{deployment}/scale", stale)).refused(409, "Conflict")

    async def is_replaced() -> bool:
        """A controller may write the status between the two."""
        fresh = await api.get(f"{deployment}/scale")
        reply = await api.request("PUT", f"{deployment}/scale", {**fresh, "spec": {"replicas": 1}})
        return reply.code == 200

    await eventually(is_replaced)
    await eventually(lambda: has_pods(api, namespace, 1))


async def test_deleting_a_deployment_deletes_its_pods(api: Api, deployment: str, namespace: str) -> None:
    await eventually(lambda: has_pods(api, namespace, 2))
    await api.delete(deployment, propagationPolicy="Background")
    await eventually(lambda: has_pods(api, namespace, 0))


async def test_job_marks_its_pods_with_uid_and_name(
    api: Api, make: Make, namespace: str, pod_body: Object
) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    body = {"metadata": {"name": "once"}, "spec": {"template": a_template(pod_body, restartPolicy="Never")}}
    job = await make(jobs, body)
    uid = job["metadata"]["uid"]
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert (job["spec"]["completions"], job["spec"]["parallelism"], job["spec"]["backoffLimit"]) == (1, 1, 6)
    await eventually(lambda: has_pods(api, namespace, 1))
    labels = (await pods_of(api, namespace))[0]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == labels["job-name"] == "once"
    assert labels["batch.kubernetes.io/controller-uid"] == labels["controller-uid"] == uid


async def test_a_job_whose_pods_never_end_is_refused(api: Api, namespace: str, pod_body: Object) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    body = {"metadata": {"name": "once"}, "spec": {"template": a_template(pod_body, restartPolicy="Always")}}
    refusal = (await api.request("POST", jobs, body)).refused(422, "Invalid")
    assert "restartPolicy" in refusal["message"]
