"""CustomResourceDefinitions: NodeResourceTopology as corewise ships it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kube_contract.api import MERGE_PATCH, STRATEGIC_PATCH, Api, Object, connect
from kube_contract.conftest import SETTLED_WITHIN, Make, eventually

MANIFEST = Path(__file__).parents[2] / "deploy" / "prerequisites" / "noderesourcetopology-crd.yaml"
DEFINITION: Object = yaml.safe_load(MANIFEST.read_text())
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"
FACTS = "node.koordinator.sh/cpu-basic-info"


@pytest.fixture(scope="module")
def topologies(kubeconfig: Path) -> Iterator[str]:
    """The collection of NodeResourceTopologies; the definition stays if the cluster had it before."""
    ours = asyncio.run(_define(kubeconfig))
    yield TOPOLOGIES
    if ours:
        asyncio.run(_undefine(kubeconfig))


async def _define(kubeconfig: Path) -> bool:
    """Have the definition; whether it was not there before. One that is being deleted is waited for."""
    ours = False
    async with connect(kubeconfig) as api:

        async def ready() -> bool:
            nonlocal ours
            reply = await api.request("POST", DEFINITIONS, DEFINITION)
            assert reply.code in {201, 409}, reply.text
            ours = ours or reply.code == 201
            return await _is_established(api) and await _is_served(api) and await _is_discoverable(api)

        await eventually(ready)
    return ours


async def _undefine(kubeconfig: Path) -> None:
    async with connect(kubeconfig) as api:
        await api.delete(f"{DEFINITIONS}/{DEFINITION['metadata']['name']}")


async def _is_established(api: Api) -> bool:
    reply = await api.request("GET", f"{DEFINITIONS}/{DEFINITION['metadata']['name']}")
    if reply.code != 200 or "deletionTimestamp" in reply.body["metadata"]:
        return False
    conditions = reply.body.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


async def _is_served(api: Api) -> bool:
    return (await api.request("GET", TOPOLOGIES, limit="1")).code == 200


async def _is_discoverable(api: Api) -> bool:
    return (await api.request("GET", TOPOLOGIES.rpartition("/")[0])).code == 200


@pytest.fixture
def topology(unique: str) -> Object:
    cpu = {"name": "cpu", "capacity": "48", "allocatable": 47, "available": "46500m"}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {"name": unique, "annotations": {FACTS: '{"cpuModel":"AMD EPYC 9654"}'}},
        "topologyPolicies": ["None"],
        "zones": [{"name": "node-0", "type": "Node", "resources": [cpu]}],
    }


async def test_the_kind_is_discoverable_once_established(api: Api, topologies: str) -> None:
    resources = {
        item["name"]: item for item in (await api.get("/apis/topology.node.k8s.io/v1alpha1"))["resources"]
    }
    assert resources["noderesourcetopologies"]["namespaced"] is False
    assert resources["noderesourcetopologies"]["kind"] == "NodeResourceTopology"


async def test_objects_keep_numbers_and_strings_as_written(
    api: Api, topologies: str, topology: Object, make: Make
) -> None:
    made = await make(topologies, topology)
    assert made["zones"] == topology["zones"]
    assert made["metadata"]["generation"] == 1


async def test_unknown_fields_are_pruned(api: Api, topologies: str, topology: Object, make: Make) -> None:
    topology["zones"][0]["bogus"] = 1
    made = await make(topologies, topology)
    assert "bogus" not in made["zones"][0]


async def test_the_schema_is_enforced(api: Api, topologies: str, topology: Object) -> None:
    del topology["zones"][0]["type"]
    status = (await api.request("POST", topologies, topology)).refused(422, "Invalid")
    assert "zones[0].type" in status["message"]


async def test_a_wrong_type_is_refused(api: Api, topologies: str, topology: Object) -> None:
    topology["topologyPolicies"] = "None"
    (await api.request("POST", topologies, topology)).refused(422, "Invalid")


async def test_annotations_take_merge_patches(
    api: Api, topologies: str, topology: Object, make: Make
) -> None:
    name = (await make(topologies, topology))["metadata"]["name"]
    patched = await api.patch(
        f"{topologies}/{name}",
        {"metadata": {"annotations": {FACTS: None, "example.com/a": "1"}}},
        MERGE_PATCH,
    )
    assert patched["metadata"]["annotations"] == {"example.com/a": "1"}
    assert patched["metadata"]["generation"] == 1


async def test_strategic_patches_are_not_for_custom_resources(
    api: Api, topologies: str, topology: Object, make: Make
) -> None:
    name = (await make(topologies, topology))["metadata"]["name"]
    reply = await api.request("PATCH", f"{topologies}/{name}", {}, content_type=STRATEGIC_PATCH)
    reply.refused(415, "UnsupportedMediaType")


async def test_a_custom_resource_cannot_be_replaced_blindly(
    api: Api, topologies: str, topology: Object, make: Make
) -> None:
    name = (await make(topologies, topology))["metadata"]["name"]
    (await api.request("PUT", f"{topologies}/{name}", topology)).refused(422, "Invalid")


async def test_custom_resources_are_applied_server_side(
    api: Api, topologies: str, topology: Object, make: Make
) -> None:
    name = (await make(topologies, topology))["metadata"]["name"]
    body = {
        "apiVersion": topology["apiVersion"],
        "kind": topology["kind"],
        "metadata": {"name": name, "annotations": {"example.com/applied": "yes"}},
    }
    applied = (await api.apply(f"{topologies}/{name}", body, "agent")).ok()
    assert applied["metadata"]["annotations"]["example.com/applied"] == "yes"
    assert applied["zones"] == topology["zones"]


async def test_custom_resources_are_watched(api: Api, topologies: str, topology: Object, make: Make) -> None:
    version = (await api.get(topologies))["metadata"]["resourceVersion"]
    async with api.watch(topologies, resourceVersion=version) as events, asyncio.timeout(SETTLED_WITHIN):
        name = (await make(topologies, topology))["metadata"]["name"]
        async for event in events:
            if event["object"]["metadata"]["name"] == name:
                break
    assert event["type"] == "ADDED"


async def test_an_owner_is_kept(api: Api, topologies: str, topology: Object, make: Make, node: str) -> None:
    uid = (await api.get(f"/api/v1/nodes/{node}"))["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
    topology["metadata"]["ownerReferences"] = [owner]
    made = await make(topologies, topology)
    assert made["metadata"]["ownerReferences"] == [owner]
