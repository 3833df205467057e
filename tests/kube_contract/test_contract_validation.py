"""What the server refuses in an object, and what it says about unknown fields."""

from __future__ import annotations

import pytest

from kube_contract.api import Api, Object
from kube_contract.conftest import Make


async def test_an_invalid_object_lists_the_fields_at_fault(
    api: Api, namespace: str, pod_body: Object
) -> None:
    pod_body["metadata"]["name"] = "Not_A_Name"
    pod_body["spec"]["containers"] = []
    path = f"/api/v1/namespaces/{namespace}/pods"
    status = (await api.request("POST", path, pod_body)).refused(422, "Invalid")
    causes = {cause["field"]: cause["reason"] for cause in status["details"]["causes"]}
    assert causes["metadata.name"] == "FieldValueInvalid"
    assert causes["spec.containers"] == "FieldValueRequired"
    assert status["details"]["kind"] == "Pod"
    assert status["message"].startswith('Pod "Not_A_Name" is invalid: [')


async def test_a_limit_below_its_request_is_refused(api: Api, namespace: str, pod_body: Object) -> None:
    pod_body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    status = (await api.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod_body)).refused(422)
    assert "must be less than or equal to cpu limit" in status["message"]


@pytest.mark.parametrize("labels", [{"bad key": "x"}, {"key": "bad value"}, {"k" * 64: "x"}])
async def test_malformed_labels_are_refused(api: Api, node: str, labels: dict[str, str]) -> None:
    reply = await api.request(
        "PATCH",
        f"/api/v1/nodes/{node}",
        {"metadata": {"labels": labels}},
        content_type="application/merge-patch+json",
    )
    status = reply.refused(422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.labels"


async def test_an_annotation_key_with_two_slashes_is_refused(api: Api, node: str) -> None:
    body = {"metadata": {"annotations": {"a/b/c": "x"}}}
    reply = await api.request(
        "PATCH", f"/api/v1/nodes/{node}", body, content_type="application/merge-patch+json"
    )
    assert reply.refused(422, "Invalid")["details"]["causes"][0]["field"] == "metadata.annotations"


async def test_annotations_are_limited_to_256_kib(api: Api, node: str) -> None:
    body = {"metadata": {"annotations": {"example.com/long": "x" * (256 * 1024 + 1)}}}
    reply = await api.request(
        "PATCH", f"/api/v1/nodes/{node}", body, content_type="application/merge-patch+json"
    )
    reply.refused(422, "Invalid")


async def test_a_wrong_json_type_is_refused(api: Api, namespace: str) -> None:
    body = {"metadata": {"name": "one"}, "data": {"key": 1}}
    (await api.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)).refused(400, "BadRequest")


async def test_unknown_fields_are_dropped_with_a_warning(api: Api, namespace: str) -> None:
    body = {"metadata": {"name": "one"}, "bogus": 1}
    reply = await api.request(
        "POST", f"/api/v1/namespaces/{namespace}/configmaps", body, fieldValidation="Warn"
    )
    assert reply.warnings == ('299 - "unknown field \\"bogus\\""',)
    assert "bogus" not in reply.ok()


async def test_unknown_fields_are_refused_when_strict(api: Api, namespace: str) -> None:
    body = {"metadata": {"name": "one"}, "bogus": 1}
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    status = (await api.request("POST", path, body, fieldValidation="Strict")).refused(400, "BadRequest")
    assert 'strict decoding error: unknown field "bogus"' in status["message"]


async def test_unknown_fields_are_dropped_silently_when_ignored(api: Api, namespace: str) -> None:
    body = {"metadata": {"name": "one"}, "bogus": 1}
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    reply = await api.request("POST", path, body, fieldValidation="Ignore")
    assert reply.warnings == ()
    assert "bogus" not in reply.ok()


async def test_unknown_fields_of_a_patch_are_reported_too(api: Api, node: str) -> None:
    reply = await api.request(
        "PATCH",
        f"/api/v1/nodes/{node}",
        {"spec": {"bogus": 1}},
        content_type="application/merge-patch+json",
        fieldValidation="Strict",
    )
    assert reply.code in {400, 422}
    assert 'unknown field "spec.bogus"' in reply.body["message"]


async def test_a_config_map_is_limited_to_one_mebibyte(api: Api, namespace: str) -> None:
    body = {"metadata": {"name": "one"}, "data": {"key": "x" * (1024 * 1024 + 1)}}
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert (await api.request("POST", path, body)).code == 422


async def test_an_immutable_config_map_cannot_change(api: Api, namespace: str, make: Make) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    await make(path, {"metadata": {"name": "one"}, "immutable": True, "data": {"key": "1"}})
    reply = await api.request(
        "PATCH", f"{path}/one", {"data": {"key": "2"}}, content_type="application/merge-patch+json"
    )
    reply.refused(422, "Invalid")
