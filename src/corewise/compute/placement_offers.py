"""Hosts and claims as a Placement has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from corewise.compute.offers import Candidate, Stage, narrowed
from corewise.openstack.placement.client import PlacementClient
from corewise.openstack.placement.keeping import PATIENCE, Patience, claim
from corewise.policy.placement import PCPU, VCPU, Candidates, Consumer, ProviderSummary
from corewise.tracking import PlacementQuery

NOBODY = "00000000-0000-0000-0000-000000000000"
"""The project and the user of a guest that is placed without any."""


class PlacementOffers:
    """A scheduler's view of a Placement; for one thread at a time."""

    def __init__(
        self,
        client: PlacementClient,
        *,
        project: str = NOBODY,
        user: str = NOBODY,
        patience: Patience = PATIENCE,
    ) -> None:
        self._client = client
        self._project = project
        self._user = user
        self._patience = patience
        self._names: dict[str, str] = {}

    def candidates(self, query: PlacementQuery) -> Sequence[Candidate]:
        found = self._client.candidates(str(query))
        self._know(found)
        each = (self._candidate(allocations, found) for allocations in found.candidates)
        return [candidate for candidate in each if candidate is not None]

    def claim(self, guest: str, candidate: Candidate) -> str | None:
        wanted = Consumer(guest, None, self._project, self._user, candidate.allocations)
        refused = claim(self._client, wanted, self._patience)
        return None if refused is None else refused.detail

    def release(self, guest: str) -> bool:
        return self._client.delete_consumer(guest)

    def holds(self, guest: str, provider: str) -> bool:
        consumer = self._client.consumer(guest)
        return consumer is not None and provider in consumer.allocations

    def exists(self, guest: str) -> bool:
        return self._client.consumer(guest) is not None

    def stages(self, query: PlacementQuery) -> tuple[int, Sequence[Stage]]:
        left: list[Stage] = []
        for demand, part in narrowed(query):
            hosts = len(self._client.candidates(str(part)).providers)
            left.append(Stage(demand, hosts))
            if not hosts:
                break
        return len(self._client.providers()), left

    def _know(self, found: Candidates) -> None:
        """Learn the names of providers that were not there before."""
        if found.providers.keys() - self._names.keys():
            self._names = {each.uuid: each.name for each in self._client.providers()}

    def _candidate(self, allocations: Mapping[str, Mapping[str, int]], found: Candidates) -> Candidate | None:
        """Return a candidate, known by the provider that gives its CPUs; None if that has gone meanwhile."""
        host = next((uuid for uuid, amounts in allocations.items() if {VCPU, PCPU} & amounts.keys()), None)
        if host is None or host not in self._names:
            return None
        return Candidate(self._names[host], allocations, host, _free(found.providers[host]))


def _free(summary: ProviderSummary) -> Mapping[str, int]:
    return {name: amount.capacity - amount.used for name, amount in summary.resources.items()}
