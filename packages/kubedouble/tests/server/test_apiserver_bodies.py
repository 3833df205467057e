"""The local API server reads no compressed body, none that is too large, and none nested too deep."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import aiohttp
import pytest

from kubedouble import serve
from kubedouble.authentication import User
from kubedouble.routes import LARGEST_BODY


async def test_gzip_bombs_and_large_bodies_are_refused(tmp_path: Path) -> None:
    async with serve() as server:
        token = server.cluster.authenticator.tokens.issue(User("admin", ("system:masters",)))
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        url = f"{server.url}/api/v1/namespaces/default/configmaps"
        document = json.dumps({"metadata": {"name": "c"}}).encode()
        bomb = document + b" " * (64 * 1024 * 1024)
        connector = aiohttp.TCPConnector(ssl=False)
        async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
            for data in (gzip.compress(bomb), gzip.compress(document)):
                answer = await session.post(url, data=data, headers={"Content-Encoding": "gzip"})
                assert (answer.status, (await answer.json())["reason"]) == (415, "UnsupportedMediaType")
            large = await session.post(url, data=io.BytesIO(document + b" " * LARGEST_BODY))
            assert (large.status, (await large.json())["reason"]) == (413, "RequestEntityTooLarge")
            assert (await session.post(url, data=document)).status == 201


async def test_bodies_nested_too_deep_are_refused_without_storing() -> None:
    async with serve() as server:
        token = server.cluster.authenticator.tokens.issue(User("admin", ("system:masters",)))
        url = f"{server.url}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        connector = aiohttp.TCPConnector(ssl=False)
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
            for depth in (300, 800, 20_000):
                schema = '{"type":"object","properties":{"a":' * depth + "{}" + "}}" * depth
                version = (
                    '{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":' + schema + "}}"
                )
                spec = '{"group":"x.io","scope":"Cluster","names":{"plural":"as","kind":"A"},"versions":['
                body = '{"metadata":{"name":"as.x.io"},"spec":' + spec + version + "]}}"
                for kind in ("application/json", "application/yaml"):
                    answer = await session.post(url, data=body.encode(), headers={"Content-Type": kind})
                    assert (answer.status, (await answer.json())["reason"]) == (400, "BadRequest")
            assert (await session.get(f"{url}/as.x.io")).status == 404


CRD = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"patch": {"x-kubernetes-preserve-unknown-fields": True}},
                            }
                        },
                    }
                },
            }
        ],
    },
}
DEEP = {
    "create": ("POST", "application/json", '{"metadata": {"generateName": "new"}, "spec": {"patch": %s}}'),
    "merge patch": ("PATCH", "application/merge-patch+json", '{"spec": {"patch": %s}}'),
    "JSON patch": (
        "PATCH",
        "application/json-patch+json",
        '[{"op": "add", "path": "/spec/patch", "value": %s}]',
    ),
}
"""How objects of any depth are sent: in a field without a schema."""


@pytest.mark.parametrize(("method", "kind", "body"), DEEP.values(), ids=DEEP)
async def test_json_nested_too_deep_is_refused(method: str, kind: str, body: str) -> None:
    async with serve() as server:
        token = server.cluster.authenticator.tokens.issue(User("admin", ("system:masters",)))
        connector = aiohttp.TCPConnector(ssl=False)
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(f"{server.url}/", headers=headers, connector=connector) as session:
            await session.post("apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=CRD)
            path = "apis/example.com/v1/things"
            assert (await session.post(path, json={"metadata": {"name": "old"}, "spec": {}})).status == 201
            url = f"{path}/old" if method == "PATCH" else path

            async def sent(inner: str) -> tuple[int, str]:
                type_ = {"Content-Type": kind}
                answer = await session.request(method, url, data=(body % inner).encode(), headers=type_)
                return answer.status, (await answer.json()).get("message", "")

            for opened, closed in (('{"a":', "}"), ("[", "]")):
                for depth in (300, 900, 20_000):
                    inner = f'{{"a":{opened * depth}{{}}{closed * depth}}}'
                    code, message = await sent(inner)
                    assert (code, message.rpartition(": ")[2]) == (400, "exceeded max depth")
            assert (await sent('{"a": "' + '[{\\"' * 1000 + '"}'))[0] < 300
            assert (await sent('{"a":' * 200 + "{}" + "}" * 200))[0] < 300
