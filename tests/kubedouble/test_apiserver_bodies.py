"""The local API server reads no compressed body, and none beyond kube-apiserver's limit."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import aiohttp

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
