"""The steps of one test: marks, something that happens, and a look at what is rewritten."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from corewise.kernel.cgroups.layout import PodCgroups
from corewise.kube.clock import Clock
from corewise.kube.errors import KubeError
from experiments.kubelet_rewrites.marks import node_cgroups
from experiments.kubelet_rewrites.observing import Observer, Rewrite
from experiments.kubelet_rewrites.pods import KubeletTestError, TestPods
from experiments.kubelet_rewrites.record import Step

_NEIGHBOR = "neighbor"


@dataclass(frozen=True, slots=True)
class Lengths:
    """Seconds for which files are watched: nothing happens, something happens, kubelet restarts."""

    quiet: float = 150.0
    step: float = 20.0
    restart: float = 90.0


async def nothing() -> None:
    """Do nothing."""


@dataclass(slots=True)
class Trial:
    """One test. ``restart_kubelet`` is None where kubelet is not to be restarted."""

    pods: TestPods
    observer: Observer
    names: PodCgroups
    clock: Clock
    procs: Callable[[str], Sequence[int]]
    lengths: Lengths = Lengths()
    restart_kubelet: Callable[[], Awaitable[None]] | None = None
    say: Callable[[str], None] = print
    steps: list[Step] = field(default_factory=list)
    marked: set[tuple[str, str]] = field(default_factory=set)

    async def run(self) -> None:
        """Create the pods, take all steps, and leave nothing behind."""
        try:
            await self.pods.remove_all()
            await self.pods.create()
            self._follow()
            burstable = {"requests": {"cpu": "10m", "memory": "8Mi"}}
            await self._step("nothing happens", nothing, self.lengths.quiet)
            await self._step("another pod starts", lambda: self.pods.add(_NEIGHBOR, burstable))
            await self._step("another pod ends", lambda: self.pods.remove(_NEIGHBOR))
            await self._step("pods get an annotation", self.pods.annotate)
            await self._step("pods are resized in place", self.pods.resize)
            await self._step("containers restart", lambda: self.pods.restart(self.names, self.procs))
            if self.restart_kubelet is not None:
                await self._step("kubelet restarts", self.restart_kubelet, self.lengths.restart)
        finally:
            failed = self.observer.restore()
            await self.pods.remove_all()
            if failed:
                raise KubeletTestError(
                    "these files could not be given back what they had:\n" + "\n".join(failed)
                )

    def _follow(self) -> list[Rewrite]:
        """Watch the cgroups as they are now; return the files of new ones as rewrites."""
        cgroups = [*node_cgroups(self.names), *self.pods.cgroups(self.names)]
        return [
            Rewrite(*watched.key, "", original, 0.0, new=True)
            for watched in self.observer.follow(cgroups)
            if (original := self.observer.original(watched)) is not None
        ]

    async def _step(self, name: str, act: Callable[[], Awaitable[None]], seconds: float = 0.0) -> None:
        seconds = seconds or self.lengths.step
        self.say(f"{name}: watching for {seconds:.0f} s")
        self.observer.mark()
        self.marked |= self.observer.marked
        began, note = self.clock.monotonic(), ""
        acting = asyncio.ensure_future(act())
        try:
            rewrites = await self.observer.watch(seconds, acting.done)
        finally:
            acting.cancel()
            (failed,) = await asyncio.gather(acting, return_exceptions=True)
        if isinstance(failed, KubeError | KubeletTestError):
            note = str(failed)
        elif failed is not None:
            raise failed
        rewrites += self._follow()
        self.steps.append(Step(name, round(self.clock.monotonic() - began, 1), rewrites, note))
