"""What kubectl and client libraries ask a server before anything else."""

from __future__ import annotations

from kube_contract.api import Api


async def test_version_names_a_git_version(api: Api) -> None:
    version = await api.get("/version")
    assert version["major"] == "1"
    assert version["gitVersion"].startswith(f"v1.{version['minor']}")


async def test_core_group_lists_v1(api: Api) -> None:
    versions = await api.get("/api")
    assert versions["kind"] == "APIVersions"
    assert versions["versions"] == ["v1"]


async def test_groups_corewise_uses_are_listed_with_preferred_version(api: Api) -> None:
    groups = {group["name"]: group for group in (await api.get("/apis"))["groups"]}
    for name in ("admissionregistration.k8s.io", "apiextensions.k8s.io", "coordination.k8s.io", "policy"):
        assert groups[name]["preferredVersion"]["version"] == "v1"


async def test_nodes_are_cluster_scoped_with_a_status_subresource(api: Api) -> None:
    resources = {item["name"]: item for item in (await api.get("/api/v1"))["resources"]}
    assert resources["nodes"]["namespaced"] is False
    assert resources["nodes"]["kind"] == "Node"
    assert {"get", "list", "watch", "patch", "update"} <= set(resources["nodes"]["verbs"])
    assert {"get", "patch", "update"} <= set(resources["nodes/status"]["verbs"])


async def test_subresources_of_pods_name_their_own_kinds(api: Api) -> None:
    resources = {item["name"]: item for item in (await api.get("/api/v1"))["resources"]}
    assert resources["pods"]["namespaced"] is True
    assert resources["pods/binding"]["kind"] == "Binding"
    assert resources["pods/eviction"]["kind"] == "Eviction"
    assert resources["pods/eviction"]["group"] == "policy"


async def test_short_names_are_discoverable(api: Api) -> None:
    resources = {item["name"]: item for item in (await api.get("/api/v1"))["resources"]}
    assert "no" in resources["nodes"]["shortNames"]
    assert "cm" in resources["configmaps"]["shortNames"]


async def test_group_that_is_not_served_is_not_found(api: Api) -> None:
    assert (await api.request("GET", "/apis/nobody.example.com/v1/things")).code == 404


async def test_health_endpoints_say_ok(api: Api) -> None:
    for path in ("/livez", "/readyz", "/healthz"):
        reply = await api.request("GET", path)
        assert reply.code == 200
        assert reply.text == "ok"


async def test_openapi_v3_lists_its_documents(api: Api) -> None:
    paths = (await api.get("/openapi/v3"))["paths"]
    assert "api/v1" in paths
    document = await api.get(paths["api/v1"]["serverRelativeURL"].split("?")[0])
    assert "io.k8s.api.core.v1.Node" in document["components"]["schemas"]
