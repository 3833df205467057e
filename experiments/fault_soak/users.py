"""Users of the cluster: their pods come and go, and they change ratios, labels and amounts of nodes.

They are on a link with faults too, so each of their requests is sent until it was answered, and may have been
carried out more than once. A name is used again and again, by one pod after the other.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

from corewise.kube.client import Client
from corewise.kube.errors import AlreadyExists, KubeError, NotFound
from corewise.kube.resources import CONFIG_MAPS, NODES, PODS
from corewise.vocabulary.cpu_annotations import YES
from corewise.vocabulary.names import CONFIG_NAME, CONFIG_NAMESPACE, NORMALIZATION_KEY, NORMALIZE_CPUSET
from corewise_lab.machines import Machine
from corewise_lab.pods import manifest

NAMESPACE: Final = "default"
PLAIN, OWNER, NORMALIZED, OFFLINE = "plain", "owner", "normalized-owner", "offline"
_STEP: Final = 0.01
"""How much each ratio of the table is raised at a time: a hundredth."""
_MOST_RAISED: Final = 100
"""No ratio may be above 5.00."""
_AGAIN_AFTER: Final = 0.5
_PATIENCE: Final = 60.0
"""Seconds after which a pod that has no node is deleted."""
_POLL: Final = 0.2
_GIBI: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of pods: how many at once, seconds that each lives on average, and its requests (0: none)."""

    name: str
    count: int
    life: float
    cpu_milli: int
    qos_class: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)


KINDS: Final = (
    Kind(PLAIN, 16, 12.0, 500),
    Kind(OWNER, 16, 10.0, 2000, "LSR"),
    Kind(NORMALIZED, 6, 10.0, 4000, "LSR", {NORMALIZE_CPUSET: YES}),
    Kind(OFFLINE, 16, 40.0, 0),
)


@dataclass
class Users:
    """What users do.

    ``node_of`` says where a pod is bound, "" if it is not; ``table``: the ratios of CPU models.
    """

    client: Client
    machines: Mapping[str, Machine]
    node_of: Callable[[str], str]
    table: Mapping[str, Any]
    draw: Random
    raised: int = 0
    """How many times all ratios were raised."""
    done: Counter[str] = field(default_factory=Counter)

    async def run(self) -> None:
        """Go on until canceled; the pods that are there then stay."""
        async with asyncio.TaskGroup() as tasks:
            for kind in KINDS:
                for number in range(kind.count):
                    tasks.create_task(self._replace_forever(kind, f"{kind.name}-{number}"))
            tasks.create_task(self._change_nodes())
            tasks.create_task(self._raise_ratios())

    def ratios(self) -> dict[str, Any]:
        """Return the table as it is raised now."""
        models = {
            model: {key: round(ratio + _STEP * self.raised, 2) for key, ratio in ratios.items()}
            for model, ratios in self.table["ratioModel"].items()
        }
        return {**self.table, "ratioModel": models}

    async def state_ratios(self, client: Client) -> None:
        """Write the table to the ConfigMap."""
        body = {"data": {NORMALIZATION_KEY: json.dumps(self.ratios())}}
        await client.patch(CONFIG_MAPS, CONFIG_NAME, body, namespace=CONFIG_NAMESPACE)

    async def _replace_forever(self, kind: Kind, name: str) -> None:
        await asyncio.sleep(self.draw.uniform(0, kind.life))
        while True:
            await self._insist(lambda: self._create(kind, name))
            self.done[f"{kind.name} pods created"] += 1
            waited = 0.0
            while not self.node_of(name) and waited < _PATIENCE:
                await asyncio.sleep(_POLL)
                waited += _POLL
            await asyncio.sleep(kind.life * self.draw.uniform(0.5, 1.5))
            await self._insist(lambda: self.client.delete(PODS, name, NAMESPACE))

    async def _create(self, kind: Kind, name: str) -> None:
        pod = manifest(name, cpu_milli=kind.cpu_milli, memory=_GIBI, qos_class=kind.qos_class)
        pod["metadata"]["annotations"] = dict(kind.annotations)
        if not kind.cpu_milli:
            del pod["spec"]["containers"][0]["resources"]
        try:
            await self.client.create(PODS.typed(dict), pod, NAMESPACE)
        except AlreadyExists:
            return  # the answer to an earlier request was lost

    async def _change_nodes(self) -> None:
        """Write to nodes what no program wants there: raw amounts, as another writer, and labels."""
        while True:
            await asyncio.sleep(self.draw.uniform(1, 5))
            name = self.draw.choice(sorted(self.machines))
            if self.draw.random() < 0.5:
                amounts = {"cpu": f"{self.machines[name].allocatable_milli}m"}
                body: dict[str, Any] = {"status": {"allocatable": amounts}}
                done, subresource = "raw amounts stated by others", "status"
            else:
                body = {"metadata": {"labels": {"example.com/turn": str(self.done.total())}}}
                done, subresource = "nodes labeled", ""
            await self._insist(partial(self.client.patch, NODES, name, body, subresource=subresource))
            self.done[done] += 1

    async def _raise_ratios(self) -> None:
        while self.raised < _MOST_RAISED:
            await asyncio.sleep(self.draw.uniform(15, 60))
            self.raised += 1
            await self._insist(lambda: self.state_ratios(self.client))
            self.done["times all ratios raised"] += 1

    @staticmethod
    async def _insist(act: Callable[[], Awaitable[object]]) -> None:
        """Act until the API server says that it is done, or that the object is gone."""
        while True:
            try:
                await act()
            except NotFound:
                return
            except KubeError:
                await asyncio.sleep(_AGAIN_AFTER)
            else:
                return
