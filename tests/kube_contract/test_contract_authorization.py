"""RBAC, impersonation, and access reviews."""

from __future__ import annotations

import pytest

from kube_contract.api import Api, Object
from kube_contract.conftest import Grant

AUTHENTICATED = "system:authenticated"


@pytest.fixture
def user(unique: str) -> str:
    return f"{unique}@example.com"


@pytest.fixture
def somebody(api: Api, user: str) -> Api:
    return api.acting_as(user, AUTHENTICATED)


def allow(verbs: list[str], resources: list[str], group: str = "", **more: list[str]) -> Object:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs, **more}


def the_user(name: str) -> Object:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}


async def test_a_refusal_names_user_verb_resource_and_scope(somebody: Api, user: str) -> None:
    reply = await somebody.request(
        "PATCH", "/api/v1/nodes/n1", {}, content_type="application/merge-patch+json"
    )
    status = reply.refused(403, "Forbidden")
    assert status["message"] == (
        f'nodes "n1" is forbidden: User "{user}" cannot patch resource "nodes" '
        'in API group "" at the cluster scope'
    )
    assert status["details"] == {"name": "n1", "kind": "nodes"}


async def test_a_refusal_names_the_namespace_and_the_subresource(somebody: Api, user: str) -> None:
    reply = await somebody.request("POST", "/api/v1/namespaces/default/pods/p1/binding", {})
    assert reply.refused(403)["message"] == (
        f'pods "p1" is forbidden: User "{user}" cannot create resource "pods/binding" '
        'in API group "" in the namespace "default"'
    )


async def test_a_refused_list_names_the_group(somebody: Api, user: str) -> None:
    reply = await somebody.request("GET", "/apis/coordination.k8s.io/v1/leases")
    assert reply.refused(403)["message"] == (
        f'leases.coordination.k8s.io is forbidden: User "{user}" cannot list resource "leases" '
        'in API group "coordination.k8s.io" at the cluster scope'
    )


async def test_a_refused_path_is_named(somebody: Api, user: str) -> None:
    status = (await somebody.request("GET", "/metrics")).refused(403)
    assert status["message"] == f'forbidden: User "{user}" cannot get path "/metrics"'


async def test_anybody_authenticated_may_discover(somebody: Api) -> None:
    for path in ("/api", "/apis", "/api/v1", "/version"):
        await somebody.get(path)


async def test_a_role_grants_its_verbs_and_no_others(somebody: Api, grant: Grant, user: str) -> None:
    await grant(the_user(user), allow(["list"], ["nodes"]))
    await somebody.get("/api/v1/nodes", limit="1")
    (await somebody.request("GET", "/api/v1/nodes/n1")).refused(403)


async def test_a_resource_does_not_cover_its_subresources(
    somebody: Api, grant: Grant, user: str, node: str
) -> None:
    await grant(the_user(user), allow(["patch"], ["nodes"]))
    merge = "application/merge-patch+json"
    (await somebody.request("PATCH", f"/api/v1/nodes/{node}", {}, content_type=merge)).ok()
    (await somebody.request("PATCH", f"/api/v1/nodes/{node}/status", {}, content_type=merge)).refused(403)


async def test_a_rule_may_be_limited_to_names(somebody: Api, grant: Grant, user: str) -> None:
    rule = allow(["get"], ["configmaps"], resourceNames=["only-this"])
    await grant(the_user(user), rule)
    maps = "/api/v1/namespaces/default/configmaps"
    (await somebody.request("GET", f"{maps}/only-this")).refused(404)
    (await somebody.request("GET", f"{maps}/another")).refused(403)


async def test_a_name_limited_watch_needs_the_field_selector(somebody: Api, grant: Grant, user: str) -> None:
    rule = allow(["list", "watch"], ["configmaps"], resourceNames=["only-this"])
    await grant(the_user(user), rule)
    maps = "/api/v1/namespaces/default/configmaps"
    await somebody.get(maps, fieldSelector="metadata.name=only-this")
    (await somebody.request("GET", maps)).refused(403)


async def test_applying_a_missing_object_requires_create_permission(
    somebody: Api, grant: Grant, user: str, namespace: str
) -> None:
    await grant(the_user(user), allow(["patch"], ["configmaps"]))
    path = f"/api/v1/namespaces/{namespace}/configmaps/one"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
    (await somebody.apply(path, body, "somebody")).refused(403, "Forbidden")


async def test_create_by_apply_may_be_limited_by_name(
    somebody: Api, grant: Grant, user: str, namespace: str
) -> None:
    rule = allow(["patch", "create"], ["configmaps"], resourceNames=["one"])
    await grant(the_user(user), rule)
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    for name, code in (("one", 201), ("two", 403)):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        assert (await somebody.apply(f"{maps}/{name}", body, "somebody")).code == code


async def test_a_role_of_a_namespace_ends_there(
    somebody: Api, grant_in_namespace: Grant, namespace: str, user: str
) -> None:
    await grant_in_namespace(the_user(user), allow(["list"], ["configmaps"]))
    await somebody.get(f"/api/v1/namespaces/{namespace}/configmaps")
    (await somebody.request("GET", "/api/v1/namespaces/default/configmaps")).refused(403)
    (await somebody.request("GET", "/api/v1/configmaps")).refused(403)


async def test_a_group_is_a_subject(api: Api, grant: Grant, unique: str) -> None:
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": f"{unique}:readers"}
    await grant(subject, allow(["list"], ["nodes"]))
    await api.acting_as("anyone", f"{unique}:readers").get("/api/v1/nodes", limit="1")


async def test_a_service_account_is_a_subject(api: Api, grant: Grant, unique: str, namespace: str) -> None:
    subject = {"kind": "ServiceAccount", "name": "manager", "namespace": namespace}
    await grant(subject, allow(["list"], ["nodes"]))
    account = f"system:serviceaccount:{namespace}:manager"
    await api.acting_as(account).get("/api/v1/nodes", limit="1")
    (await api.acting_as(f"{account}2").request("GET", "/api/v1/nodes")).refused(403)


async def test_who_am_i_answers_with_the_impersonated_identity(somebody: Api, user: str) -> None:
    whoami = await somebody.create(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )
    assert whoami["status"]["userInfo"]["username"] == user
    assert AUTHENTICATED in whoami["status"]["userInfo"]["groups"]


async def test_self_subject_access_reviews_answer_for_the_asker(
    somebody: Api, grant: Grant, user: str
) -> None:
    await grant(the_user(user), allow(["patch"], ["nodes/status"]))

    async def may(verb: str, subresource: str) -> bool:
        attributes = {"verb": verb, "resource": "nodes", "subresource": subresource}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        review = await somebody.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
        return bool(review["status"]["allowed"])

    assert await may("patch", "status")
    assert not await may("patch", "")
    assert not await may("delete", "status")


async def test_an_administrator_may_ask_for_others(api: Api, user: str) -> None:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": {"verb": "get", "resource": "nodes"}},
    }
    review = await api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    assert review["status"]["allowed"] is False
