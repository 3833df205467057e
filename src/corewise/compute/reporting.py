"""What a host offers, brought to Placement: once, and again whenever it is not what Placement has.

First the upgrade: where ``cpu_dedicated_set`` is set and pinned guests still hold VCPU, inventories and
allocations change together, in one request (:mod:`corewise.tracking.reshape`). Then inventories, then traits,
one write at a time, each under the generation that was read. Nothing is written where nothing differs, and a
write that somebody else came before is decided anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from corewise.actions import Reshape
from corewise.compute.offering import Offering, Write, planned, rehearsed, reshape_due
from corewise.openstack.placement.client import PlacementClient
from corewise.openstack.placement.keeping import (
    PATIENCE,
    Patience,
    ensure_provider,
    keep_provider,
    reshape,
)
from corewise.policy.placement import Provider, ProviderUse
from corewise.tracking import Compat, HostedGuest, HostSettings, ReshapePlan, next_write


class Reporter:
    """Brings hosts to Placement. For one thread at a time."""

    def __init__(
        self, client: PlacementClient, compat: Compat = Compat.SPEC, *, patience: Patience = PATIENCE
    ) -> None:
        self._client = client
        self._compat = compat
        self._patience = patience
        self._content: dict[str, tuple[HostSettings, tuple[HostedGuest, ...]]] = {}
        """What each host was when nothing was left to move: to ask again would cost a request a guest."""

    def report(self, host: Offering) -> Sequence[Write]:
        """Write what differs, and return what was written.

        Raises:
            ReshapeImpossible: if the pinned guests do not fit into the new inventories.
            PlacementError: what Placement refuses; whatever was written before stands.
        """
        provider = ensure_provider(self._client, host.name)
        moved = self.reshape(host, provider)
        kept = keep_provider(
            self._client, provider.uuid, lambda read: next_write(read, host.offer(read)), self._patience
        )
        return [moved.action, *kept] if moved else kept

    def reshape(self, host: Offering, provider: Provider) -> ReshapePlan | None:
        """Upgrade the host if that is due; None if there is nothing to move."""
        looked_at = host.settings, host.guests
        if not reshape_due(host) or self._content.get(host.name) == looked_at:
            return None
        made: list[ReshapePlan] = []

        def decide(use: ProviderUse) -> Reshape | None:
            made.clear()
            plan = self.plan(host, use)
            if plan is None:
                return None
            made.append(plan)
            return plan.action

        done = reshape(self._client, provider.uuid, decide, self._patience)
        self._content[host.name] = looked_at
        return made[0] if done is not None else None

    def plan(self, host: Offering, use: ProviderUse) -> ReshapePlan | None:
        """Return what the upgrade would change; None if there is nothing to move.

        Raises:
            ReshapeImpossible: if the pinned guests do not fit into the new inventories.
        """
        return planned(host, use, self._compat)

    def rehearse(self, host: Offering) -> Sequence[Write]:
        """Return what ``report`` would write now; nothing is written."""
        provider = self._client.find_provider(host.name)
        if provider is None:
            return rehearsed(host, Provider("", host.name, 0))
        plan = self.plan(host, self._client.use(provider.uuid)) if reshape_due(host) else None
        if plan is None:
            return rehearsed(host, provider)
        return [plan.action, *rehearsed(host, replace(provider, inventories=plan.after))]
