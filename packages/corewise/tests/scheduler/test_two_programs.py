"""Two ``corewise scheduler`` processes at one API server, one of which is killed while it binds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from corewise.topology import CPUSet
from corewise.vocabulary.cpu_annotations import stated_cpus
from corewise.vocabulary.names import RESOURCE_STATUS
from corewise_lab.control_plane import reserve_port
from identities import command_of
from manager.world import PODS_NAMESPACE, eventually
from scheduler.program_world import PLAIN_PODS, SchedulerWorld, shown_by

PODS, CPUS = 24, 64


@asynccontextmanager
async def program(administrator: Path, log: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A scheduler in a process of its own, ready, and its address; killed on the way out."""
    listen, health = f"127.0.0.1:{reserve_port()}", f"127.0.0.1:{reserve_port()}"
    options = ("--listen", listen, "--webhook-url", f"https://{listen}", "--metrics-listen", health)
    started = await command_of("scheduler", administrator, "--manage-webhooks", *options)
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*started, stdout=output, stderr=output)
    try:
        async with aiohttp.ClientSession() as session:

            async def ready() -> bool:
                assert process.returncode is None, "it has ended"
                try:
                    async with session.get(f"http://{health}/readyz") as answer:
                        return answer.status == 200
                except aiohttp.ClientError:
                    return False

            await eventually(ready, 60.0)
        yield process, f"https://{listen}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_replica_killed_while_binding_loses_and_doubles_nothing(
    world: SchedulerWorld, tmp_path: Path
) -> None:
    await world.add_node("n1", CPUS)
    pods = [await world.add_pod(f"p{number}", cpu="4", qos="LSR") for number in range(PODS)]
    async with (
        program(world.administrator, tmp_path / "one.log") as (doomed, one),
        program(world.administrator, tmp_path / "other.log") as (_, other),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=await shown_by(world.client))) as session,
    ):

        async def bind(pod: dict[str, Any], base: str) -> str:
            meta = pod["metadata"]
            names = {"PodName": meta["name"], "PodNamespace": PODS_NAMESPACE, "PodUID": meta["uid"]}
            async with session.post(f"{base}/bind", data=json.dumps({**names, "Node": "n1"})) as answer:
                text: str = json.loads(await answer.read())["Error"]
                return text

        async def tried(number: int) -> str:
            """Bind as kube-scheduler does: ask a replica that answers, and try again after a conflict."""
            while True:
                try:
                    text = await bind(pods[number], one if number % 2 else other)
                except aiohttp.ClientError:
                    text = await bind(pods[number], other)
                if "kept changing" not in text and "was not bound within" not in text:
                    return text

        async def kill() -> None:
            async def some_are_bound() -> bool:
                return len(await world.ledger("n1")) >= 4

            await eventually(some_are_bound)
            doomed.kill()

        *said, _ = await asyncio.gather(*map(tried, range(PODS)), kill())
    found = {pod["metadata"]["name"]: pod for pod in await world.client.list(PLAIN_PODS, PODS_NAMESPACE)}
    bound = {name: pod for name, pod in found.items() if pod["spec"].get("nodeName")}
    assert len(bound) == CPUS // 4
    assert {f"p{number}" for number, text in enumerate(said) if not text} == bound.keys()
    assert all("0 are free" in text for text in said if text)
    stated = {
        name: stated_cpus(pod["metadata"]["annotations"][RESOURCE_STATUS]) for name, pod in bound.items()
    }
    assert sorted(cpu for cpus in stated.values() for cpu in cpus) == list(range(CPUS))
    assert {name: CPUSet.parse(cpus) for name, cpus in (await world.ledger("n1")).items()} == stated
