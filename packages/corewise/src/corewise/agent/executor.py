"""Carries out what the agent decides. A dry run swaps the executor for one that prints each write as JSON.

Cgroups are written by the journaled writers of ``cgroups``; in a dry run these write to a :class:`Rehearsal`.
The agent hands an executor what they have written, so that a dry run can print it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from corewise.actions import EmitEvent
from corewise.agent.cgroups import NodeCgroups
from corewise.agent.eviction import EvictionResult, EvictPod, evict
from corewise.agent.publication import Publication
from corewise.agent.runtime import RuntimeHook, serve_runtime
from corewise.agent.topology_report import FIELD_MANAGER, TOPOLOGIES, TopologyChange, write_change
from corewise.kernel.cgroups.files import Files
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.writing.journaled_writer import Written
from corewise.kube.client import Client, PatchType
from corewise.kube.events import EventRecorder
from corewise.kube.objects import ObjectReference
from corewise.kube.resources import NODES
from corewise.service.program import Loop

Write = Callable[[str], object]


class Executor(Protocol):
    """Carries out the decisions of one agent. What waits for the API server is a coroutine."""

    @property
    def cgroups(self) -> NodeCgroups: ...

    def wrote(self, written: Iterable[Written]) -> None:
        """Take note of writes to cgroups."""

    def give_back(self, release: Callable[[], object]) -> None:
        """Release what the agent holds in the kernel, at its end."""

    def emit(self, event: EmitEvent) -> None:
        """Record an Event, without waiting."""

    async def publish(self, node: str, publication: Publication) -> bool:
        """Patch the status of the Node; return whether the Node will show it.

        Raises:
            KubeError: if the API server did not take it.
        """

    async def report(self, node: str, change: TopologyChange | None) -> bool:
        """Write a change of the NodeResourceTopology, None for no difference; return whether it is stored.

        Raises:
            KubeError: if the API server did not take it.
        """

    async def annotate(self, node: str, annotations: Mapping[str, str]) -> None:
        """Write annotations of the NodeResourceTopology.

        Raises:
            KubeError: if the API server did not take it; NotFound if there is no such object.
        """

    async def evict(self, eviction: EvictPod) -> tuple[EvictionResult, str]:
        """Evict a pod; return the result, and the API server's answer if the pod is not evicted."""

    def loops(self, hook: RuntimeHook) -> Iterator[Loop]:
        """Yield the loops that carry something out: sending Events, and answering the container runtime."""


class APIExecutor:
    """Writes to the API server. ``nri_socket`` is None where no container runtime is to be answered."""

    def __init__(
        self, cgroups: NodeCgroups, client: Client, events: EventRecorder, nri_socket: Path | None
    ) -> None:
        self.cgroups = cgroups
        self._client = client
        self.events = events
        self._nri_socket = nri_socket

    def wrote(self, written: Iterable[Written]) -> None:
        """Do nothing: the journal has it."""

    def give_back(self, release: Callable[[], object]) -> None:
        release()

    def emit(self, event: EmitEvent) -> None:
        about = ObjectReference(event.regarding_kind, event.name, event.namespace, event.uid)
        self.events.emit(about, event.reason, event.message, warning=event.warning)

    async def publish(self, node: str, publication: Publication) -> bool:
        await write_publication(self._client, node, publication)
        return True

    async def report(self, node: str, change: TopologyChange | None) -> bool:
        if change is not None:
            await write_change(self._client, node, change)
        return change is not None

    async def annotate(self, node: str, annotations: Mapping[str, str]) -> None:
        body = {"metadata": {"annotations": dict(annotations)}}
        await self._client.patch(TOPOLOGIES, node, body, field_manager=FIELD_MANAGER)

    async def evict(self, eviction: EvictPod) -> tuple[EvictionResult, str]:
        if eviction.dry_run:
            return EvictionResult.DRY_RUN, ""
        return await evict(self._client, eviction.pod)

    def loops(self, hook: RuntimeHook) -> Iterator[Loop]:
        yield "events", self.events.run
        socket = self._nri_socket
        if socket is not None:
            yield "nri", lambda: serve_runtime(socket, hook)


async def write_publication(client: Client, node: str, publication: Publication) -> None:
    """Carry out a publication. What is removed goes whoever owns it, so by a patch that names it.

    Raises:
        KubeError: if the API server did not take it.
    """
    removes = publication.amounts is None
    await client.patch(
        NODES,
        node,
        publication.body,
        type=PatchType.STRATEGIC if removes else PatchType.APPLY,
        subresource="status",
        field_manager=FIELD_MANAGER,
        force=not removes,
    )


class PrintingExecutor:
    """Prints what would be written. Events are not printed, and the container runtime gets no answers."""

    def __init__(self, cgroups: NodeCgroups, write: Write) -> None:
        self.cgroups = cgroups
        self._write = write
        self._reported: TopologyChange | None = None

    def wrote(self, written: Iterable[Written]) -> None:
        for each in written:
            is_quota = each.file.startswith(("cpu.max", "cpu.cfs_"))
            of_setting = "WriteCPUSet" if each.file.startswith("cpuset.") else "WriteSetting"
            action = "WriteQuota" if is_quota else of_setting
            line = {"action": action, "cgroup": each.cgroup, "file": each.file}
            self._print({**line, "old": each.old, "new": each.new})

    def give_back(self, release: Callable[[], object]) -> None:
        """Do nothing: nothing has been written."""

    def emit(self, event: EmitEvent) -> None:
        """Do nothing."""

    async def publish(self, node: str, publication: Publication) -> bool:
        self._print({"action": "PatchNodeStatus", "object": node, "body": publication.body})
        return False

    async def report(self, node: str, change: TopologyChange | None) -> bool:
        """Print a change once, as long as it stays due."""
        if change is not None and change != self._reported:
            action = "CreateNodeResourceTopology" if change.create else "PatchNodeResourceTopology"
            self._print({"action": action, "object": node, "why": change.why, "body": change.body})
        self._reported = change
        return False

    async def annotate(self, node: str, annotations: Mapping[str, str]) -> None:
        body = {"metadata": {"annotations": dict(annotations)}}
        self._print({"action": "AnnotateNodeResourceTopology", "object": node, "body": body})

    async def evict(self, eviction: EvictPod) -> tuple[EvictionResult, str]:
        pod, reason, why = eviction.pod.label, eviction.reason, eviction.why
        self._print({"action": "EvictPod", "object": pod, "reason": reason, "why": why})
        return EvictionResult.DRY_RUN, ""

    def loops(self, hook: RuntimeHook) -> Iterator[Loop]:
        return iter(())

    def _print(self, line: object) -> None:
        self._write(msgspec.json.encode(line).decode() + "\n")


class Rehearsal:
    """Cgroup files of a dry run: reads what is there, or what would be there by now."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._written: dict[tuple[str, str], str] = {}

    @property
    def version(self) -> Version:
        return self._files.version

    def read(self, cgroup: str, file: str) -> str:
        found = self._files.read(cgroup, file)
        return self._written.get((cgroup, file), found)

    def write(self, cgroup: str, file: str, text: str) -> None:
        before = self.read(cgroup, file)
        kept_period = before.partition(" ")[2] if file == "cpu.max" and " " not in text else ""
        self._written[cgroup, file] = f"{text} {kept_period}".rstrip()

    def exists(self, cgroup: str) -> bool:
        return self._files.exists(cgroup)

    def children(self, cgroup: str) -> tuple[str, ...]:
        return self._files.children(cgroup)
