"""Leader election among replicas: the leader renews a Lease, and the others watch it grow old.

Semantics of client-go's leaderelection, so that both can share a Lease:
- A replica measures a Lease's age on its **own monotonic clock**, from the moment it first saw this very
  record. Clocks of machines are never compared; the times inside the Lease are for people.
- A Lease is free when its holder is empty, or its record has not changed for ``leaseDurationSeconds`` (the
  holder's figure).
- Every write carries the resourceVersion that was read: of two that take a free Lease one gets a conflict.
- A leader that does not renew for ``renew_deadline`` stops leading, before anyone may take over
  (``lease_duration`` > ``renew_deadline``).
- A leader that ends in order empties the holder, so that another need not wait.

Different from client-go: the Lease is changed by merge patch, so that fields unknown here survive; the verbs
needed are get, create and patch. The deadline counts from when the last good renewal was *sent*.

Source: k8s.io/client-go/tools/leaderelection/leaderelection.go
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from math import ceil

from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK, Clock, rfc3339_micro
from corewise.kube.errors import Conflict, KubeError, NotFound
from corewise.kube.objects import Lease, LeaseSpec, ObjectMeta
from corewise.kube.resources import CLUSTER_ROLES, LEASES

_JITTER = 1.2
_RELEASE_TIMEOUT = 5.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds; the defaults are those of Kubernetes' own components."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > self.retry_period * _JITTER > 0:
            raise ValueError(
                f"lease_duration > renew_deadline > {_JITTER} x retry_period > 0 does not hold: {self}"
            )


DEFAULT_TERMS = Terms()


@dataclass(frozen=True, slots=True)
class _Observed:
    """A Lease as last seen, and since when its record has looked so on our monotonic clock."""

    lease: Lease
    since: float

    @property
    def holder(self) -> str:
        return self.lease.spec.holder_identity or ""

    def valid(self, now: float) -> bool:
        return bool(self.holder) and now < self.since + (self.lease.spec.lease_duration_seconds or 0)


class Elector:
    """Takes part in the election for one Lease; ``is_leader`` is set while this replica leads.

    ``owner`` is the ClusterRole with which a Lease that is created here is deleted; "" is none.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        terms: Terms = DEFAULT_TERMS,
        clock: Clock = SYSTEM_CLOCK,
        rng: random.Random | None = None,
        owner: str = "",
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._terms = terms
        self._clock = clock
        self._owner = owner
        self._rng = rng or random.Random()  # noqa: S311 - spreads retries in time, guards nothing
        self._observed: _Observed | None = None
        self.is_leader = asyncio.Event()

    @property
    def leader(self) -> str:
        """The holder of the Lease when it was last seen; "" if there was none."""
        return self._observed.holder if self._observed else ""

    async def run(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Do ``work`` whenever this replica leads.

        When the lead is lost, ``work`` is canceled and awaited (it must end well within ``lease_duration``
        less ``renew_deadline``), and the election restarts. When ``work`` returns, ``run`` does too; what
        it raises comes in an ``ExceptionGroup``. The Lease is released in each case, and on cancellation.
        """
        done = False
        while not done:
            try:
                renewed = await self._acquire()
                done = await self._lead(work, renewed)
            finally:
                await self._release()

    async def _acquire(self) -> float:
        """Wait until the Lease is ours; the time at which that was asked for."""
        me, lease, logged = self._identity, f"{self._namespace}/{self._name}", ""
        while True:
            asked = self._clock.monotonic()
            if await self._try():
                _log.info("%s leads: it holds lease %s", me, lease)
                return asked
            if self.leader not in {logged, "", me}:
                _log.info("%s waits: %s leads, it holds lease %s", me, self.leader, lease)
            logged = self.leader or logged
            await self._clock.sleep(self._terms.retry_period * self._rng.uniform(1.0, 1 + _JITTER))

    async def _lead(self, work: Callable[[], Coroutine[None, None, None]], renewed: float) -> bool:
        """Work and renew side by side; True when the work is done, False when the lead is lost."""
        try:
            async with asyncio.TaskGroup() as group:
                self.is_leader.set()
                working = group.create_task(work(), name="leading")
                renewing = group.create_task(self._renew(renewed), name="lease-renewal")
                await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
                done = working.done()
                self.is_leader.clear()
                working.cancel()
                renewing.cancel()
            return done
        finally:
            self.is_leader.clear()

    async def _renew(self, renewed: float) -> None:
        """Keep the Lease; returns when it is lost."""
        me, lease = self._identity, f"{self._namespace}/{self._name}"
        deadline = renewed + self._terms.renew_deadline
        while (left := deadline - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(self._terms.retry_period, left))
            asked = self._clock.monotonic()
            with suppress(TimeoutError):
                async with asyncio.timeout(deadline - asked):
                    if await self._try():
                        deadline = asked + self._terms.renew_deadline
                    elif self.leader != me:
                        _log.warning("%s lost lease %s to %r", me, lease, self.leader)
                        return
        within = self._terms.renew_deadline
        _log.warning("%s gives up lease %s: it could not be renewed within %g s", me, lease, within)

    async def _try(self) -> bool:
        """Take or renew the Lease, if it may be ours."""
        try:
            return await self._renew_unread() or await self._take()
        except KubeError as error:
            _log.warning("lease %s/%s: %s", self._namespace, self._name, error.log_text)
            return False

    async def _renew_unread(self) -> bool:
        """Renew without reading, the usual case: no one has written our Lease since we did."""
        seen = self._observed
        if seen is None or seen.holder != self._identity or not seen.valid(self._clock.monotonic()):
            return False
        try:
            await self._write(seen.lease)
        except (Conflict, NotFound):
            return False
        return True

    async def _take(self) -> bool:
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            now = rfc3339_micro(self._clock.now())
            spec = self._spec(acquire_time=now, renew_time=now, transitions=0)
            owners = await self._client.owners(CLUSTER_ROLES, self._owner)
            metadata = ObjectMeta(name=self._name, namespace=self._namespace, owner_references=owners)
            new = Lease(metadata=metadata, spec=spec)
            self._observe(await self._client.create(LEASES, new, self._namespace))
            return True
        self._observe(lease)
        seen = self._observed
        if seen and seen.holder != self._identity and seen.valid(self._clock.monotonic()):
            return False
        await self._write(lease)
        return True

    async def _write(self, lease: Lease) -> None:
        now = rfc3339_micro(self._clock.now())
        old = lease.spec
        ours = old.holder_identity == self._identity
        transitions = (old.lease_transitions or 0) + (not ours)
        acquired = old.acquire_time if ours and old.acquire_time else now
        spec = self._spec(acquire_time=acquired, renew_time=now, transitions=transitions)
        await self._patch(lease, spec)

    def _spec(self, *, acquire_time: str, renew_time: str, transitions: int) -> LeaseSpec:
        return LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=ceil(self._terms.lease_duration),
            acquire_time=acquire_time,
            renew_time=renew_time,
            lease_transitions=transitions,
        )

    async def _patch(self, lease: Lease, spec: LeaseSpec) -> None:
        body = {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
        self._observe(await self._client.patch(LEASES, self._name, body, namespace=self._namespace))

    def _observe(self, lease: Lease) -> None:
        before = self._observed
        # A Lease ages from the moment at which this very record was first seen.
        same = before is not None and before.lease.spec == lease.spec
        self._observed = _Observed(lease, before.since if before and same else self._clock.monotonic())

    async def _release(self) -> None:
        """Empty the holder, if that is us and the API server can be reached."""
        seen = self._observed
        if seen is None or seen.holder != self._identity:
            return
        now = rfc3339_micro(self._clock.now())
        spec = LeaseSpec(
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=now,
            renew_time=now,
            lease_transitions=seen.lease.spec.lease_transitions,
        )
        try:
            async with asyncio.timeout(_RELEASE_TIMEOUT):
                await self._patch(seen.lease, spec)
        except (KubeError, TimeoutError) as error:
            _log.info("lease %s/%s is not released, it will expire: %s", self._namespace, self._name, error)
