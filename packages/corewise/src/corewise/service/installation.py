"""The installation of a program in the API server: webhook configurations, and policies in their place.

The installer runs on the leader. It checks once in a while whether everything is as it should be, and applies
it (server-side) if not; another manager's fields (labels, annotations) stay. What is installed belongs to the
program's ClusterRole, which has the name of the field manager: the manifests that install the program create
it, so uninstalling them deletes all that the program has installed.

**A policy or a webhook.** What a MutatingAdmissionPolicy does in the API server, from Kubernetes 1.36 on, a
webhook does before. The installer asks by discovery whether the API server serves policies, installs the one,
and removes the other when that has become superfluous: an API server reads a new policy or webhook some
moments after it was stored, so both stay for :data:`GRACE` after the last change, and a webhook goes only
when a policy was seen to work. The two must therefore do no harm together. What is to go is kept up to date
until it goes.

**A policy in a file** of the API server (KEP-5793) does what the stored policy does, and cannot be read
through the API. Where it answers, neither policy nor webhook is installed; those that are go after the grace.
Every API server needs the file: one probe reaches one of them.

**Without a certificate** no webhook can be installed, since its configuration states the address and the
authority of the server. A policy needs neither: it is installed at once.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from corewise.kube.client import Client, PatchType
from corewise.kube.clock import Clock, sleep_unless, to_beat
from corewise.kube.errors import KubeError, NotFound
from corewise.kube.resources import CLUSTER_ROLES, MUTATING_POLICIES, MUTATING_WEBHOOKS, Resource
from corewise.service.logs import fields
from corewise.service.options import ServiceAddress

log = logging.getLogger(__name__)

_LOOK_EVERY = 10.0
GRACE = 30.0
_SETTLED = GRACE - 1
"""A look that comes GRACE after another one may come milliseconds early."""

ClientConfig: TypeAlias = Callable[[str], dict[str, Any]]
Objects: TypeAlias = Sequence[tuple[Resource[Any], dict[str, Any]]]
"""Objects to install, in this order."""
Configurations: TypeAlias = Callable[[ClientConfig], Objects]
"""Webhook configurations to install, from what makes a clientConfig of a path."""


def client_config(base: str | ServiceAddress, bundle: str) -> ClientConfig:
    """Return a function that makes a webhook's clientConfig from its path."""

    def of(path: str) -> dict[str, Any]:
        if isinstance(base, ServiceAddress):
            service = {"namespace": base.namespace, "name": base.name, "port": base.port, "path": path}
            where: dict[str, Any] = {"service": service}
        else:
            where = {"url": base.rstrip("/") + path}
        return {**where, "caBundle": b64encode(bundle.encode()).decode()} if bundle else where

    return of


class Path(StrEnum):
    """What changes objects: a policy in the API server, one in a file of it, or a webhook that it calls."""

    POLICY = "policy"
    FILE = "file"
    WEBHOOK = "webhook"


async def _not_in_file() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Alternative:
    """A policy, and the webhook that does the same.

    ``policies``: each policy before its binding. ``forced``: the path that an option names; None is by what
    the API server serves. ``works``: whether a policy that is installed was seen to work, also while the
    webhook is there. ``report`` is told, after every look, which of them are there; at the end, none.
    ``stopped``: while it says so there must be no policy, and one that is there goes at once: a webhook can
    keep still. ``in_file``: whether the API server has the policy in a file.
    """

    policies: Callable[[], Objects]
    webhooks: Configurations
    forced: Path | None
    works: Callable[[], Awaitable[bool]]
    report: Callable[[frozenset[Path]], None]
    stopped: Callable[[], bool] = lambda: False
    in_file: Callable[[], Awaitable[bool]] = _not_in_file


class Installer:
    """Keeps what a program has installed as it should be. Runs on the leader.

    ``base`` and ``bundle`` are None while they are not known yet: until then, only policies are installed.
    An empty bundle leaves ``caBundle`` to somebody else, such as cert-manager's injector. ``configurations``
    are applied in their order, after the ``alternatives``: whoever finds a new authority trusted in the last
    one may rely on all. ``installed`` is set once a policy, or every webhook, is installed.
    """

    def __init__(
        self,
        client: Client,
        *,
        base: Callable[[], str | ServiceAddress | None],
        bundle: Callable[[], str | None],
        configurations: Configurations,
        alternatives: Sequence[Alternative],
        field_manager: str,
        clock: Clock,
        installed: asyncio.Event,
    ) -> None:
        self._client = client
        self._base = base
        self._bundle = bundle
        self._configurations = configurations
        self._alternatives = alternatives
        self._field_manager = field_manager
        self._clock = clock
        self._installed = installed
        self._steady: dict[int, tuple[Path, float]] = {}
        """Of each alternative, what is wanted, and since when nothing of it has changed."""
        self.outdated = asyncio.Event()
        """Set by whoever knows that what is to be installed has changed: the next look is at once."""
        self._ownership: dict[str, Any] = {}

    async def run(self) -> None:
        """Look every ten seconds, sooner when something is outdated, until canceled."""
        try:
            while True:
                self.outdated.clear()
                base, bundle = self._base(), self._bundle()
                is_known = base is not None and bundle is not None
                await self._look(client_config(base or "", bundle or "") if is_known else None)
                await sleep_unless(self.outdated, self._clock, to_beat(self._clock, _LOOK_EVERY))
        finally:
            # From here on, the next leader says what is there.
            for alternative in self._alternatives:
                alternative.report(frozenset())

    async def _look(self, config: ClientConfig | None) -> None:
        """Apply what is not as it should be; an error is logged and tried again at the next look.

        ``config`` is None while the certificate is not known.
        """
        by_policy = False
        if config is None and not self._alternatives:
            return
        try:
            owners = await self._client.owners(CLUSTER_ROLES, self._field_manager)
            self._ownership = (
                {"ownerReferences": [msgspec.to_builtins(each) for each in owners]} if owners else {}
            )
            for number in range(len(self._alternatives)):
                by_policy |= await self._choose(number, config)
            if config is not None:
                await self._ensure(self._configurations(config))
        except KubeError as error:
            log.warning("webhooks or policies are not installed", extra=fields(error=error, hint=error.hint))
        else:
            if by_policy or config is not None:
                self._installed.set()

    async def _choose(self, number: int, config: ClientConfig | None) -> bool:
        """Install the policy or the webhook, and remove the other when it is superfluous.

        Returns whether the policy is the one that is wanted. Without ``config`` a webhook is neither
        installed nor changed, and a policy goes only if it has to stop.
        """
        alternative = self._alternatives[number]
        served = await self._client.serves(MUTATING_POLICIES)
        if alternative.forced is Path.POLICY and not served:
            log.error("the API server serves no MutatingAdmissionPolicies: the webhook is installed instead")
        stopped = alternative.stopped()
        policies = alternative.policies() if served else ()
        if served and alternative.forced is None and await alternative.in_file():
            await self._yield_to_file(number, [*policies, *alternative.webhooks(client_config("", ""))])
            return True
        by_policy = served and not stopped and bool(policies)
        by_policy = by_policy and alternative.forced is not Path.WEBHOOK
        if config is None and not by_policy and not stopped:
            return False
        wanted, other = (Path.POLICY, Path.WEBHOOK) if by_policy else (Path.WEBHOOK, Path.POLICY)
        objects = {
            Path.POLICY: policies,
            Path.WEBHOOK: alternative.webhooks(config or client_config("", "")),
        }
        installable = {Path.POLICY} if config is None else {Path.POLICY, Path.WEBHOOK}
        changed = wanted in installable and await self._ensure(objects[wanted])
        superfluous = await self._present(objects[other])
        changed = (other in installable and await self._ensure(superfluous)) or changed
        now = self._clock.monotonic()
        if changed or number not in self._steady or self._steady[number][0] is not wanted:
            self._steady[number] = (wanted, now)
        settled = stopped or now - self._steady[number][1] > _SETTLED
        if superfluous and settled and (not by_policy or await alternative.works()):
            for resource, obj in reversed(superfluous):
                await self._remove(resource, obj["metadata"]["name"])
            log.info("switched over", extra=fields(now_by=wanted.value, removed=other.value))
            superfluous = []
        alternative.report(frozenset({wanted} & installable) | ({other} if superfluous else set()))
        return by_policy

    async def _yield_to_file(self, number: int, objects: Objects) -> None:
        """Remove what the policy in the API server's file makes superfluous, once the grace is over."""
        superfluous, now = await self._present(objects), self._clock.monotonic()
        if number not in self._steady or self._steady[number][0] is not Path.FILE:
            self._steady[number] = (Path.FILE, now)
        if superfluous and now - self._steady[number][1] > _SETTLED:
            for resource, obj in reversed(superfluous):
                await self._remove(resource, obj["metadata"]["name"])
            log.info("switched over", extra=fields(now_by=Path.FILE.value))
            superfluous = []
        webhooks = any(resource.kind == MUTATING_WEBHOOKS.kind for resource, _ in superfluous)
        policies = any(resource.kind != MUTATING_WEBHOOKS.kind for resource, _ in superfluous)
        there = {Path.POLICY: policies, Path.WEBHOOK: webhooks, Path.FILE: True}
        self._alternatives[number].report(frozenset(path for path, is_there in there.items() if is_there))

    async def _present(self, objects: Objects) -> list[tuple[Resource[Any], dict[str, Any]]]:
        """Return those of the objects that exist."""
        return [
            (resource, wanted)
            for resource, wanted in objects
            if await self._find(resource, wanted["metadata"]["name"]) is not None
        ]

    async def _ensure(self, objects: Objects) -> bool:
        """Apply the objects that are not as they should be; return whether there were any.

        A configuration without webhooks is removed.
        """
        changed = False
        for resource, manifest in objects:
            name = manifest["metadata"]["name"]
            if manifest.get("webhooks") == []:
                if await self._find(resource, name) is not None:
                    await self._remove(resource, name)
                continue
            metadata = {**manifest["metadata"], **self._ownership}
            wanted = {**manifest, "metadata": metadata}
            if includes(await self._find(resource, name), wanted):
                continue
            await self._client.patch(
                resource.typed(dict),
                name,
                wanted,
                type=PatchType.APPLY,
                field_manager=self._field_manager,
                force=True,
            )
            log.info("installed", extra=fields(kind=resource.kind, configuration=name))
            changed = True
        return changed

    async def _find(self, resource: Resource[Any], name: str) -> Mapping[str, Any] | None:
        try:
            return await self._client.get(resource.typed(dict), name)
        except NotFound:
            return None

    async def _remove(self, resource: Resource[Any], name: str) -> None:
        try:
            await self._client.delete(resource, name)
        except NotFound:
            return
        log.info("removed", extra=fields(kind=resource.kind, configuration=name))


def includes(actual: object, wanted: object) -> bool:
    """Say whether an object of the API has everything that is wanted; it may have more members."""
    if isinstance(wanted, Mapping):
        return isinstance(actual, Mapping) and all(
            key in actual and includes(actual[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        if not isinstance(actual, list) or len(actual) != len(wanted):
            return False
        return all(includes(*both) for both in zip(actual, wanted, strict=True))
    return actual == wanted
