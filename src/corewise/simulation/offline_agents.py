"""What the agents of simulated nodes do about offline pods: the agent's code, in the simulation's time.

Each node has the keeper of offline pods that ``corewise agent`` has, and its publisher; the ConfigMap is read
once for all of them. A look is taken when the simulation says so, in virtual time; what it found is published
in real time, since that is what the API server and its users live in.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

from corewise.agent.colocation.configuration import ColocationConfiguration
from corewise.agent.colocation.keeper import OfflineKeeper, Tick
from corewise.agent.colocation.node_facts import raw_allocatable
from corewise.agent.colocation.publisher import Publication, Publisher
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import AgentNode, QuotaPod
from corewise.kube.objects import ConfigMap


class Settings:
    """The ConfigMap's settings, for all nodes."""

    def __init__(self) -> None:
        self.configuration = ColocationConfiguration()

    def read(self, config_map: ConfigMap | None) -> None:
        """Take the ConfigMap; None: there is none."""
        self.configuration.read(config_map)


class OfflineAgent:
    """One node's."""

    def __init__(self, local: LocalNode, root: Path, settings: Settings) -> None:
        self._local = local
        self._settings = settings
        self.keeper = OfflineKeeper(local, root)
        self._publisher = Publisher()
        self.last = Tick()

    def look(self, now: float, node: AgentNode, pods: Collection[QuotaPod]) -> Tick:
        """Do what an interval asks for. ``now`` is the simulation's, in seconds."""
        labels, configuration = node.metadata.labels, self._settings.configuration
        self.keeper.settings(configuration.oversubscription(labels), configuration.suppression(labels))
        self.keeper.node(labels, raw_allocatable(node), self._local.ratio)
        self.last = self.keeper.tick(now, time.time(), pods)
        self._local.cgroups.close()
        return self.last

    def publication(self, node: AgentNode) -> Publication | None:
        """Return what is to be written to the Node after the last look, if anything is."""
        return self._publisher.change(self.last, node, self._local.ratio, time.monotonic())

    def published(self, publication: Publication) -> None:
        """Take note that it has been written."""
        self._publisher.done(publication, time.monotonic())
