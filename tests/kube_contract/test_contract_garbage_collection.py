"""Objects follow their owners: in the background, before them (Foreground), or not at all (Orphan)."""

from __future__ import annotations

from kube_contract.api import Api, Object
from kube_contract.conftest import Make, eventually

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def owned_by(owner: Object, name: str, **more: object) -> Object:
    """Return an object that another owns; both are of the same kind or not."""
    fields = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
    reference = {**fields, "uid": owner["metadata"]["uid"], "blockOwnerDeletion": True}
    return {"metadata": {"name": name, "ownerReferences": [reference], **more}}


async def is_gone(api: Api, path: str) -> bool:
    return (await api.request("GET", path)).code == 404


async def test_deleting_a_cluster_scoped_object_deletes_its_dependents(
    api: Api, make: Make, namespace: str, unique: str
) -> None:
    owner = await make(ROLES, {"metadata": {"name": unique}, "rules": []})
    await make(ROLES, {**owned_by(owner, f"{unique}-child"), "rules": []})
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    await make(maps, owned_by(owner, "child"))
    await api.delete(f"{ROLES}/{unique}")
    await eventually(lambda: is_gone(api, f"{ROLES}/{unique}-child"))
    await eventually(lambda: is_gone(api, f"{maps}/child"))


async def test_in_the_foreground_the_owner_goes_last(api: Api, make: Make, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    owner = await make(maps, {"metadata": {"name": "owner"}})
    await make(maps, owned_by(owner, "child", finalizers=["example.com/hold"]))
    await api.delete(f"{maps}/owner", propagationPolicy="Foreground")

    async def child_is_leaving() -> bool:
        return "deletionTimestamp" in (await api.get(f"{maps}/child"))["metadata"]

    await eventually(child_is_leaving)
    assert (await api.get(f"{maps}/owner"))["metadata"]["finalizers"] == ["foregroundDeletion"]
    await api.patch(f"{maps}/child", {"metadata": {"finalizers": None}})
    await eventually(lambda: is_gone(api, f"{maps}/owner"))


async def test_an_orphan_stays_and_forgets_its_owner(api: Api, make: Make, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    owner = await make(maps, {"metadata": {"name": "owner"}})
    await make(maps, owned_by(owner, "child"))
    await api.delete(f"{maps}/owner", propagationPolicy="Orphan")
    await eventually(lambda: is_gone(api, f"{maps}/owner"))
    assert not (await api.get(f"{maps}/child"))["metadata"].get("ownerReferences")
