"""``corewise web`` as a program: whom it answers behind TLS, and how it ends while pages are open."""

from __future__ import annotations

import asyncio
import re
import ssl
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import ClientConnectorCertificateError, ClientSession, TCPConnector

from corewise.kube.certificates import Authority
from corewise.kube.resources import NODES
from kubedouble.authentication import User, service_account
from page_account import page_command
from service.test_service_access import scene
from web.test_web_server import next_event

WITHIN = 60


@asynccontextmanager
async def program(administrator: Path, *arguments: str) -> AsyncIterator[tuple[Process, str]]:
    """Run it until the block ends; yields it and the address of its page."""
    started = await page_command(administrator, "--listen", "127.0.0.1:0", *arguments)
    process = await asyncio.create_subprocess_exec(*started, stderr=PIPE)
    assert process.stderr
    try:
        said = b""
        async with asyncio.timeout(WITHIN):
            while not (found := re.search(rb"the page is at (\S+)", said)):
                line = await process.stderr.readline()
                assert line, said
                said += line
        yield process, found[1].decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_tls_server_answers_only_tokens_that_may_list(tmp_path: Path) -> None:
    authority = Authority.create("test authority", now=datetime.now(UTC))
    pair = authority.issue_server(["localhost", "127.0.0.1"], now=datetime.now(UTC))
    (tmp_path / "tls.crt").write_text(pair.certificate_pem)
    (tmp_path / "tls.key").write_text(pair.key_pem)
    trust = ssl.create_default_context(cadata=authority.certificate_pem)
    async with (
        scene(tmp_path) as world,
        program(
            *(tmp_path / "admin", "--auth", "token"),
            *("--tls-cert", str(tmp_path / "tls.crt"), "--tls-key", str(tmp_path / "tls.key")),
        ) as (_, url),
        ClientSession(url, connector=TCPConnector(ssl=trust)) as session,
        ClientSession(url) as stranger,
    ):
        await world.client.create(NODES, {"metadata": {"name": "n1"}})
        assert url.startswith("https://")
        with pytest.raises(ClientConnectorCertificateError):
            await stranger.get("/")
        tokens = {
            "": 401,
            "nonsense": 401,
            world.token(service_account("team", "nobody")): 403,
            world.token(User("root", ("system:masters",))): 200,
        }
        for token, status in tokens.items():
            for path in ("/api/tables/nodes", "/api/stream/tables/nodes"):
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                async with session.get(path, headers=headers) as answer:
                    assert (answer.status, answer.headers["X-Content-Type-Options"]) == (status, "nosniff")
                    if status == 200 and "stream" in path:
                        kind, data = await next_event(answer)
                        assert (kind, data["total"]["rawCapacityCPUMilli"]) == ("all", None)


async def test_it_ends_in_order_while_pages_are_open(tmp_path: Path) -> None:
    async with (
        scene(tmp_path),
        program(tmp_path / "admin") as (process, url),
        ClientSession(url) as session,
        AsyncExitStack() as pages,
    ):
        open_pages = [
            await pages.enter_async_context(session.get(f"/api/stream/tables/{name}"))
            for name in ("nodes", "pods", "problems")
        ]
        assert [(await next_event(each))[0] for each in open_pages] == ["all"] * 3
        process.terminate()
        assert process.stderr
        async with asyncio.timeout(WITHIN):
            said = await process.stderr.read()
            assert await process.wait() == 0, said
        assert b"Traceback" not in said
        assert b"Error" not in said
