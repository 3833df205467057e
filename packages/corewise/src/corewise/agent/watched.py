"""The agent's caches of the API: its own Node, the pods on it, and the ConfigMap with the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Any

from corewise.agent.objects import AGENT_NODES, QUOTA_PODS, AgentNode, QuotaPod
from corewise.kube.cache import Cache, Caches
from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.kube.objects import ConfigMap
from corewise.kube.resources import CONFIG_MAPS
from corewise.vocabulary.names import CONFIG_NAME

LISTED_WITHIN = 30.0
_POLL = 0.1


class Watched:
    """Three caches, bounded by field selectors to one node and one ConfigMap.

    ``node_changed`` is called with the Node, ``pods_changed`` after a change that a quota could follow from,
    ``config_changed`` with the ConfigMap, None when it is gone; ``prepare_config`` is awaited first. Quotas
    need no ConfigMap: where it cannot be listed only what it configures has to wait.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        node_changed: Callable[[AgentNode], None],
        pods_changed: Callable[[], None],
        prepare_config: Callable[[ConfigMap], Awaitable[None]],
        config_changed: Callable[[ConfigMap | None], None],
        config_namespace: str,
        clock: Clock,
    ) -> None:
        self._name = name
        self._config_namespace = config_namespace
        self._clock = clock
        self._node_changed = node_changed
        self._pods_changed = pods_changed
        self._nodes = Cache(
            client,
            AGENT_NODES,
            field_selector=f"metadata.name={name}",
            on_change=self._on_node,
            clock=clock,
        )
        self._pods = Cache(
            client, QUOTA_PODS, field_selector=f"spec.nodeName={name}", on_change=self._on_pod, clock=clock
        )
        self._configs = Cache(
            client,
            CONFIG_MAPS,
            namespace=config_namespace,
            field_selector=f"metadata.name={CONFIG_NAME}",
            prepare=prepare_config,
            on_change=lambda _old, new: config_changed(new),
            clock=clock,
        )
        self.caches = Caches(self._nodes, self._pods, self._configs)

    @property
    def node(self) -> AgentNode | None:
        return self._nodes.get(self._name)

    @property
    def pods(self) -> Collection[QuotaPod]:
        return self._pods.items.values()

    @property
    def config_known(self) -> asyncio.Event:
        """Set once it is known what the ConfigMap says, or that there is none."""
        return self._configs.synced

    @property
    def config(self) -> ConfigMap | None:
        return self._configs.get(CONFIG_NAME, self._config_namespace)

    async def synced(self) -> None:
        await self._nodes.synced.wait()
        await self._pods.synced.wait()

    async def listed(self, *, config: bool = False) -> None:
        """Wait until the Node and its pods have been listed, or with ``config`` the ConfigMap.

        Raises:
            KubeError: if the API server does not allow it, or does not answer in time.
        """
        caches: tuple[Cache[Any], ...] = (self._configs,) if config else (self._nodes, self._pods)
        for cache in caches:
            deadline = self._clock.monotonic() + LISTED_WITHIN
            while not cache.synced.is_set():
                error = cache.last_error
                if error and (not error.retryable or self._clock.monotonic() > deadline):
                    raise error
                await self._clock.sleep(_POLL)

    def problems(self) -> Iterator[str]:
        """Yield the objects missing from the cluster, once they have been listed."""
        if self._nodes.synced.is_set() and self.node is None:
            yield f"there is no Node {self._name}"

    def _on_node(self, _old: AgentNode | None, new: AgentNode | None) -> None:
        if new is not None:
            self._node_changed(new)

    def _on_pod(self, old: QuotaPod | None, new: QuotaPod | None) -> None:
        if old is None or new is None or not new.says_the_same(old):
            self._pods_changed()
