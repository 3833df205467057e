"""The pods of the test: one of each QoS class, on one node, and how they change."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from corewise.kernel.cgroups.layout import PodCgroups, QOSClass
from corewise.kube.client import Client, PatchType
from corewise.kube.clock import Clock
from corewise.kube.errors import NotFound
from corewise.kube.resources import PODS
from experiments.kubelet_rewrites.marks import Kind, WatchedCgroup

PLAIN_PODS = PODS.typed(dict[str, Any])
LABEL: Final = "corewise.io/kubelet-test"
_NAMES: Final = "corewise-kubelet-test"
_CONTAINER: Final = "c"
_LOOK_EVERY = 0.25
_WITHIN = 120.0
_LONGEST = 3600
"""Seconds after which kubelet ends a pod whose test was killed."""

Document = dict[str, Any]

AMOUNTS: dict[QOSClass, Document] = {
    QOSClass.GUARANTEED: {"requests": {"cpu": "100m", "memory": "32Mi"}},
    QOSClass.BURSTABLE: {"requests": {"cpu": "50m", "memory": "16Mi"}, "limits": {"cpu": "200m"}},
    QOSClass.BEST_EFFORT: {},
}
AMOUNTS[QOSClass.GUARANTEED]["limits"] = AMOUNTS[QOSClass.GUARANTEED]["requests"]
RESIZED: dict[QOSClass, str] = {QOSClass.GUARANTEED: "150m", QOSClass.BURSTABLE: "300m"}
"""The new CPU limits; the Guaranteed pod's is its request, too."""


class KubeletTestError(Exception):
    """The test cannot go on; the message says why, and what to do."""


@dataclass(slots=True)
class TestPods:
    """The pods on one node; whoever uses them removes them."""

    __test__ = False

    client: Client
    clock: Clock
    node: str
    namespace: str
    image: str
    made: dict[str, Document] = field(default_factory=dict)

    async def create(self) -> None:
        """Create a pod of each class, and wait until they run."""
        for qos in QOSClass:
            await self.add(qos.lower(), AMOUNTS[qos])
        await self._wait_for(lambda: all(map(container_id, self.made.values())), "its containers run")

    async def add(self, name: str, amounts: Document) -> None:
        """Create one pod."""
        full = f"{_NAMES}-{name}"
        container = {
            "name": _CONTAINER,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "resources": amounts,
        }
        spec = {
            "nodeName": self.node,
            "hostNetwork": True,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "activeDeadlineSeconds": _LONGEST,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
        }
        body = {"metadata": {"name": full, "labels": {LABEL: self.node}}, "spec": spec}
        self.made[full] = await self.client.create(PLAIN_PODS, body, self.namespace)

    async def annotate(self) -> None:
        """Change the pods without changing what they are to have."""
        for name in self.made:
            body = {"metadata": {"annotations": {LABEL: "changed"}}}
            await self.client.patch(PLAIN_PODS, name, body, namespace=self.namespace)

    async def resize(self) -> None:
        """Resize in place the pods with a limit, and wait until kubelet has done it.

        Raises:
            KubeletTestError: if it does not.
            KubeError: if the API server has no resize.
        """
        for qos, cpu in RESIZED.items():
            amounts: Document = {"limits": {"cpu": cpu}}
            if qos is QOSClass.GUARANTEED:
                amounts["requests"] = amounts["limits"]
            body = {"spec": {"containers": [{"name": _CONTAINER, "resources": amounts}]}}
            await self.client.patch(
                PLAIN_PODS,
                f"{_NAMES}-{qos.lower()}",
                body,
                type=PatchType.STRATEGIC,
                namespace=self.namespace,
                subresource="resize",
            )

        def resized() -> bool:
            return all(
                limit_in_force(self.made[f"{_NAMES}-{qos.lower()}"]) == cpu for qos, cpu in RESIZED.items()
            )

        await self._wait_for(resized, "kubelet states the new limits", within=60.0)

    async def restart(self, names: PodCgroups, procs: Callable[[str], Sequence[int]]) -> None:
        """Kill the containers' processes, and wait until kubelet has started new ones."""
        before = {name: container_id(pod) for name, pod in self.made.items()}
        for pod in filter(container_id, self.made.values()):
            for pid in procs(container_cgroup(pod, names)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

        def restarted() -> bool:
            now = {name: container_id(pod) for name, pod in self.made.items()}
            return all(now[name] and now[name] != before[name] for name in before)

        await self._wait_for(restarted, "their containers run again")

    async def remove(self, name: str) -> None:
        """Delete one pod, and wait until it is gone."""
        full = f"{_NAMES}-{name}"
        self.made.pop(full, None)
        with suppress(NotFound):
            await self.client.delete(PODS, full, self.namespace, grace_period=1)
        await self._wait_until_gone({full})

    async def remove_all(self) -> None:
        """Delete all pods of tests on this node, those of a killed test included."""
        listed = await self.client.list(
            PLAIN_PODS, namespace=self.namespace, label_selector=f"{LABEL}={self.node}"
        )
        names = {pod["metadata"]["name"] for pod in listed}
        for name in names:
            with suppress(NotFound):
                await self.client.delete(PODS, name, self.namespace, grace_period=1)
        await self._wait_until_gone(names)
        self.made.clear()

    def cgroups(self, names: PodCgroups) -> list[WatchedCgroup]:
        """Return the cgroups of the pods of each class and of their containers that run."""
        found = []
        for qos in QOSClass:
            pod = self.made[f"{_NAMES}-{qos.lower()}"]
            best_effort = qos is QOSClass.BEST_EFFORT
            uid = pod["metadata"]["uid"]
            found.append(WatchedCgroup(f"{qos} pod", names.pod(uid, qos), Kind.POD, best_effort))
            if container_id(pod):
                inner = container_cgroup(pod, names)
                found.append(WatchedCgroup(f"{qos} container", inner, Kind.CONTAINER, best_effort))
        return found

    async def _wait_until_gone(self, names: set[str]) -> None:
        until = self.clock.monotonic() + _WITHIN
        left = set(names)
        while left:
            if self.clock.monotonic() > until:
                pods = " ".join(sorted(left))
                raise KubeletTestError(
                    f"kubelet has not removed pods {pods} within {_WITHIN:.0f} s. Remove them with:\n"
                    f"  kubectl -n {self.namespace} delete pod --force {pods}"
                )
            for name in sorted(left):
                try:
                    await self.client.get(PLAIN_PODS, name, self.namespace)
                except NotFound:
                    left.discard(name)
            if left:
                await self.clock.sleep(_LOOK_EVERY)

    async def _wait_for(self, is_so: Callable[[], bool], what: str, within: float = _WITHIN) -> None:
        until = self.clock.monotonic() + within
        while True:
            for name in self.made:
                self.made[name] = await self.client.get(PLAIN_PODS, name, self.namespace)
            if is_so():
                return
            if self.clock.monotonic() > until:
                states = "\n".join(f"  {name}: {_state(pod)}" for name, pod in sorted(self.made.items()))
                raise KubeletTestError(f"waited {within:.0f} s until {what}:\n{states}")
            await self.clock.sleep(_LOOK_EVERY)


def container_id(pod: Document) -> str:
    """Return the ID of a pod's running container; "" if it does not run."""
    for status in pod.get("status", {}).get("containerStatuses") or ():
        if "running" in (status.get("state") or {}):
            return str(status.get("containerID", ""))
    return ""


def container_cgroup(pod: Document, names: PodCgroups) -> str:
    """Return the cgroup of a pod's container."""
    qos = QOSClass(pod["status"]["qosClass"])
    return names.container(pod["metadata"]["uid"], qos, container_id(pod))


def limit_in_force(pod: Document) -> str:
    """Return the CPU limit that kubelet states of the running container; "" if it states none."""
    for status in pod.get("status", {}).get("containerStatuses") or ():
        limits = (status.get("resources") or {}).get("limits") or {}
        return str(limits.get("cpu", ""))
    return ""


def _state(pod: Document) -> str:
    status = pod.get("status", {})
    told = [
        f"{each.get('type')}={each.get('status')} {each.get('reason', '')} {each.get('message', '')}".strip()
        for each in status.get("conditions") or ()
        if each.get("status") != "True" or each.get("type", "").startswith("PodResize")
    ]
    waiting = [
        f"{state['waiting'].get('reason', '')} {state['waiting'].get('message', '')}".strip()
        for each in status.get("containerStatuses") or ()
        if "waiting" in (state := each.get("state") or {})
    ]
    return "; ".join([status.get("phase", "unknown"), *waiting, *told])


def read_procs(directory: Path) -> list[int]:
    """Return the processes in a cgroup's directory."""
    return [int(line) for line in (directory / "cgroup.procs").read_text().split()]
