"""A cluster of one node for ``corewise agent``: API server and agent are processes, as a user starts them.

The agent has the identity and the permissions that its manifest gives it. Waiting is for conditions, with a
patience that an emulated or busy machine needs; what ends is told with the end of the agent's log.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from api_process import local_api_server
from corewise.kube.client import Client, PatchType
from corewise.kube.config import load_config
from corewise.kube.errors import NotFound
from corewise.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, PODS
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    CONFIG_NAMESPACE,
    NORMALIZATION_RATIO,
    QOS_CLASS,
    RESOURCE_STATUS,
)
from corewise_lab.control_plane import (
    ensure_namespace,
    install,
    shipped_manifests,
)
from identities import command_of
from manager.world import PODS_NAMESPACE

NODE = "n1"
PATIENCE = 600.0
"""More than a guest may be silent for: one that is too slow is booted again, and fails nothing."""

RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
T = TypeVar("T")
Object = dict[str, Any]


def corewise(*arguments: str) -> list[str]:
    """Return the command line of corewise."""
    return [sys.executable, "-m", "corewise", *arguments]


class AgentCluster:
    """A test's control of the cluster, and of the agent."""

    def __init__(self, directory: Path, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self.state = directory / "state"
        self.log = directory / "agent.log"
        self.log.touch()

    def prepare(self) -> None:
        """Install the CRDs that are shipped, and create the node."""

        async def prepared(client: Client) -> None:
            for each in (CONFIG_NAMESPACE, PODS_NAMESPACE):
                await ensure_namespace(client, each)
            definitions = [each for each in shipped_manifests() if "CustomResource" in each["kind"]]
            await install(client, definitions)
            await client.create(NODES.typed(dict), {"metadata": {"name": NODE}})

        self._with_client(prepared)

    def annotate(self, ratio: str | None) -> None:
        """Set the ratio on the Node as the manager does."""
        amplification = None if ratio is None else f'{{"cpu":{ratio}}}'
        annotations = {NORMALIZATION_RATIO: ratio, AMPLIFICATION_RATIO: amplification}
        body = {"metadata": {"annotations": annotations}}
        self._with_client(lambda client: client.patch(NODES.typed(dict), NODE, body))

    def add_pod(self, name: str, limits: Mapping[str, str], cpus: str = "") -> str:
        """Create a pod with a CPU limit for each container, and return its UID.

        One that owns ``cpus`` requests its limits: as many as it owns.
        """
        containers = [
            {
                "name": container,
                "image": "i",
                "resources": {"requests": {"cpu": limit if cpus else "10m"}, "limits": {"cpu": limit}},
            }
            for container, limit in limits.items()
        ]
        annotations = {RESOURCE_STATUS: json.dumps({"cpuset": cpus})} if cpus else {}
        labels = {QOS_CLASS: "LSR"} if cpus else {}
        metadata = {"name": name, "labels": labels, "annotations": annotations}
        body = {"metadata": metadata, "spec": {"nodeName": NODE, "containers": containers}}
        created = self._with_client(lambda client: client.create(PODS.typed(dict), body, PODS_NAMESPACE))
        return str(created["metadata"]["uid"])

    def own(self, name: str, cpus: str) -> None:
        """Have a pod own these CPUs from now on; "": none."""
        status = json.dumps({"cpuset": cpus}) if cpus else None
        body = {"metadata": {"annotations": {RESOURCE_STATUS: status}}}
        self._with_client(lambda client: client.patch(PODS.typed(dict), name, body, namespace=PODS_NAMESPACE))

    def remove_pod(self, name: str) -> None:
        """Delete a pod at once."""
        self._with_client(lambda client: client.delete(PODS, name, PODS_NAMESPACE, grace_period=0))

    def run_pod(self, name: str, container_ids: Mapping[str, str]) -> None:
        """Have these containers of a pod run, as kubelet states it."""
        statuses = [
            {
                "name": container,
                "containerID": f"containerd://{number}",
                "state": RUNNING,
                "image": "i",
                "imageID": "i",
                "ready": True,
                "restartCount": 0,
            }
            for container, number in container_ids.items()
        ]
        body = {"status": {"phase": "Running", "containerStatuses": statuses}}
        self._with_client(
            lambda client: client.patch(
                PODS.typed(dict),
                name,
                body,
                namespace=PODS_NAMESPACE,
                subresource="status",
                type=PatchType.MERGE,
            )
        )

    def topology(self) -> Object:
        """Return the node's NodeResourceTopology; {} as long as there is none."""

        async def found(client: Client) -> Object:
            try:
                return await client.get(NODE_RESOURCE_TOPOLOGIES.typed(dict), NODE)
            except NotFound:
                return {}

        return self._with_client(found)

    @contextmanager
    def agent(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run an agent; what still runs at the end is killed."""
        given = ("--node-name", NODE, "--state-dir", str(self.state), *options)
        started = asyncio.run(command_of("agent", self._kubeconfig, *given))
        with (
            self.log.open("ab") as log,
            subprocess.Popen(
                started,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    def restore(self, *options: str) -> int:
        """Undo what agents did, and return the exit code."""
        command = corewise("agent", "restore", "--state-dir", str(self.state), *options)
        with self.log.open("ab") as log:
            return subprocess.run(command, stdout=log, stderr=log, timeout=PATIENCE, check=False).returncode

    def said(self, words: str) -> int:
        """Return in how many lines of the agents' log something was said."""
        return sum(words in line for line in self.log.read_text(errors="replace").splitlines())

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        """Look again and again until something has come about."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                log = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
                raise AssertionError(f"waited in vain until {what}; the end of the agent's log:\n{log}")
            time.sleep(0.05)

    def _with_client(self, call: Callable[[Client], Awaitable[T]]) -> T:
        async def called() -> T:
            async with Client(load_config(str(self._kubeconfig))) as client:
                return await call(client)

        return asyncio.run(called())


@contextmanager
def agent_cluster(directory: Path) -> Iterator[AgentCluster]:
    """A cluster, as long as the block lasts."""
    with local_api_server(directory) as kubeconfig:
        cluster = AgentCluster(directory, kubeconfig)
        cluster.prepare()
        yield cluster
