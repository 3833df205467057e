"""A real scheduler under attack over the network: its resident memory stays bounded, and comes back.

The attack: more TLS connections than the server takes, bodies of the largest size that stop short of
their end, gzip bombs, bodies longer than allowed, announced or not. The attacker has taken kube-scheduler's
certificate: without one no body is read at all.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from pathlib import Path

from api_process import local_api_server
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.service.http_servers import EXTENDER, MIB
from identities import command_of
from scheduler.program_world import shown_by
from service.http_servers_world import PATIENCE, Caller

TLS_BUFFERS = 100 * 1024
"""Bytes that one TLS connection costs, rounded up."""
SLACK = 48 * MIB
"""What the interpreter, its allocator and the answers may keep."""


@contextmanager
def scheduler(directory: Path, started: list[str]) -> Iterator[tuple[int, int]]:
    """Run ``corewise scheduler``; yield its process ID and its port."""
    log = directory / "scheduler.log"
    with log.open("w") as file, subprocess.Popen(started, stderr=file) as process:
        try:
            end = time.monotonic() + 60
            while not (found := re.search(r"extender: listens on \S+:(\d+)", log.read_text())):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.05)
            yield process.pid, int(found[1])
        finally:
            process.terminate()
            process.wait(timeout=600)
    assert "Traceback" not in log.read_text()


def memory(pid: int, field: str) -> int:
    """Return a field of the process's status, in bytes."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) * 1024


async def certified(kubeconfig: Path) -> ssl.SSLContext:
    async with Client(load_config(str(kubeconfig))) as client:
        return await shown_by(client)


async def connect(port: int, context: ssl.SSLContext) -> Caller:
    return Caller(*await asyncio.open_connection("127.0.0.1", port, ssl=context))


async def attack(port: int, context: ssl.SSLContext) -> set[int]:
    """Attack until every way in has been tried; return the statuses of all answers."""
    seen: set[int] = set()
    async with AsyncExitStack() as stack:

        async def caller() -> Caller:
            made = await connect(port, context)
            stack.callback(made.end)
            return made

        async def ask(sent: bytes, headers: str) -> None:
            with suppress(ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
                one = await caller()
                with suppress(ConnectionError, ssl.SSLError):
                    await one.say(f"POST /filter HTTP/1.1\r\nHost: h\r\n{headers}\r\n\r\n".encode() + sent)
                seen.add((await one.answer())[0])

        bomb = gzip.compress(bytes(256 * MIB))
        most = EXTENDER.max_body
        chunks = b"".join(b"100000\r\n" + bytes(MIB) + b"\r\n" for _ in range(12))
        await asyncio.gather(
            *(ask(bomb, f"Content-Encoding: gzip\r\nContent-Length: {len(bomb)}") for _ in range(4)),
            *(ask(bytes(most), f"Content-Length: {most}") for _ in range(8)),
            *(ask(bytes(most - 1), f"Content-Length: {most}") for _ in range(16)),
            *(ask(chunks, "Transfer-Encoding: chunked") for _ in range(4)),
            *(ask(b"", f"Content-Length: {1 << 40}") for _ in range(4)),
        )
        with suppress(ConnectionError, ssl.SSLError):
            for _ in range(EXTENDER.connections + 50):
                await caller()
    return seen


async def test_after_an_attack_the_memory_comes_back(tmp_path: Path) -> None:
    options = ("--listen", "127.0.0.1:0", "--manage-webhooks", "--no-leader-elect")
    with ExitStack() as stack:
        kubeconfig = stack.enter_context(local_api_server(tmp_path))
        started = await command_of("scheduler", kubeconfig, *options)
        pid, port = stack.enter_context(scheduler(tmp_path, started))
        context = await certified(kubeconfig)
        first = await connect(port, context)
        first.end()
        before = memory(pid, "VmRSS")
        assert await attack(port, context) == {400, 408, 413, 415, 503}
        most = EXTENDER.connections * TLS_BUFFERS + 2 * EXTENDER.all_bodies + SLACK
        assert memory(pid, "VmHWM") <= before + most
        end = time.monotonic() + PATIENCE
        while memory(pid, "VmRSS") > before + SLACK:
            assert time.monotonic() < end, "the memory does not come back"
            await asyncio.sleep(0.1)
        probe = await room_again(port, context, end)
        await probe.say("POST /filter HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}")
        assert (await probe.answer())[0] == 400
        probe.end()


async def room_again(port: int, context: ssl.SSLContext, end: float) -> Caller:
    """Connect as soon as the scheduler has seen that the attacker's connections are gone."""
    while True:
        try:
            return await connect(port, context)
        except (ConnectionError, ssl.SSLError):
            assert time.monotonic() < end, "there is no room for another connection"
            await asyncio.sleep(0.1)
