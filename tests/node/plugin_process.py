"""A program with corewise's NRI plugin: divides by a ratio what kubelet asks for, and prints what it is told.

    python -m node.plugin_process SOCKET HUNDREDTHS [slow]

A line for each thing; the quotas of what runs already come from an annotation, in the place of a pod's spec.
It ends when its input does.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence

from corewise.normalization.quota import divided_quota
from corewise.nri.messages import (
    ContainerAdjustment,
    ContainerUpdate,
    CPUResources,
    LifecycleEvent,
    NRIContainer,
    PodSandbox,
    RequestOutcome,
)
from corewise.nri.plugin import NRIPlugin, PluginOptions
from corewise.quantities import Microseconds, Ratio


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201 - read by the test


class DividingHandler:
    """Divides, and with ``slow`` never finishes."""

    def __init__(self, ratio: Ratio, *, slow: bool) -> None:
        self._ratio = ratio
        self._slow = slow

    async def on_synchronize(
        self, pods: Sequence[PodSandbox], containers: Sequence[NRIContainer]
    ) -> Sequence[ContainerUpdate]:
        say("synchronize", len(pods), *sorted(container.name for container in containers))
        return [
            ContainerUpdate(container.id, divided_quota(Microseconds(int(stated)), self._ratio))
            for container in containers
            if (stated := container.annotations.get("test/quota"))
        ]

    async def on_run_pod_sandbox(self, pod: PodSandbox) -> None:
        say("run", pod.uid, pod.cgroup_parent)

    async def on_create(self, pod: PodSandbox, container: NRIContainer) -> ContainerAdjustment | None:
        say("create", pod.uid, container.name, container.cpu.quota)
        return await self._divided(container.cpu)

    async def on_update(
        self, pod: PodSandbox, container: NRIContainer, requested: CPUResources
    ) -> ContainerAdjustment | None:
        say("update", pod.uid, container.name, requested.quota)
        return await self._divided(requested)

    async def on_event(self, event: LifecycleEvent, pod: PodSandbox, container: NRIContainer | None) -> None:
        say(event.name, pod.uid, *([container.name] if container else []))

    async def _divided(self, requested: CPUResources) -> ContainerAdjustment | None:
        if self._slow:
            await asyncio.sleep(3600)
        return ContainerAdjustment(divided_quota(requested.quota, self._ratio)) if requested.quota else None


class Saying:
    """An observer that prints what is worth it."""

    def request(self, method: str, outcome: RequestOutcome) -> None:
        if outcome is not RequestOutcome.ANSWERED:
            say(outcome.value, method)

    def synchronized(self, *, now: bool) -> None:
        say("connected" if now else "disconnected")


async def main(socket: str, hundredths: str, *flags: str) -> None:
    handler = DividingHandler(Ratio(int(hundredths)), slow="slow" in flags)
    plugin = NRIPlugin(handler, PluginOptions(socket=socket), observer=Saying())
    running = asyncio.create_task(plugin.run())
    await asyncio.to_thread(sys.stdin.read)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main(*sys.argv[1:]))
