"""Keeping webhook configurations as they should be, with server-side apply.

The leader looks once in a while whether they still say what they should, and applies them if not; another
manager's fields (labels, annotations) stay. They are applied in the order given: who finds a new authority
trusted in the last one may rely on all.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from corewise.kube.client import Client, PatchType
from corewise.kube.clock import Clock
from corewise.kube.errors import KubeError, NotFound
from corewise.kube.resources import Resource, WebhookConfiguration
from corewise.service.logs import fields
from corewise.service.options import ServiceAddress

log = logging.getLogger(__name__)

_LOOK_EVERY = 10.0
_TIMEOUT_SECONDS = 5

ClientConfig: TypeAlias = Callable[[str], dict[str, Any]]
Configurations: TypeAlias = Callable[
    [ClientConfig], Sequence[tuple[Resource[WebhookConfiguration], dict[str, Any]]]
]
"""What is to be installed, in order, from what makes a clientConfig of a path."""


def client_config(base: str | ServiceAddress, bundle: str) -> ClientConfig:
    """Return what makes a webhook's clientConfig from its path."""

    def of(path: str) -> dict[str, Any]:
        if isinstance(base, ServiceAddress):
            service = {"namespace": base.namespace, "name": base.name, "port": base.port, "path": path}
            where: dict[str, Any] = {"service": service}
        else:
            where = {"url": base.rstrip("/") + path}
        return {**where, "caBundle": b64encode(bundle.encode()).decode()} if bundle else where

    return of


class Installer:
    """Keeps the webhook configurations as they should be. Runs on the leader.

    ``base`` and ``bundle`` are None while they are not known yet. An empty bundle leaves ``caBundle`` to
    somebody else, such as cert-manager's injector.
    """

    def __init__(
        self,
        client: Client,
        *,
        base: Callable[[], str | ServiceAddress | None],
        bundle: Callable[[], str | None],
        configurations: Configurations,
        field_manager: str,
        clock: Clock,
        installed: asyncio.Event,
    ) -> None:
        self._client = client
        self._base = base
        self._bundle = bundle
        self._configurations = configurations
        self._field_manager = field_manager
        self._clock = clock
        self._installed = installed

    async def run(self) -> None:
        """Look every ten seconds, until cancelled."""
        while True:
            base, bundle = self._base(), self._bundle()
            if base is not None and bundle is not None:
                await self.look(base, bundle)
            await self._clock.sleep(_LOOK_EVERY)

    async def look(self, base: str | ServiceAddress, bundle: str) -> None:
        """Apply what is not as it should be; an error is logged and tried again at the next look."""
        config = client_config(base, bundle)
        try:
            for resource, wanted in self._configurations(config):
                await self._ensure(resource, wanted)
        except KubeError as error:
            log.warning("webhooks are not installed", extra=fields(error=error, hint=error.hint))
        else:
            self._installed.set()

    async def _ensure(self, resource: Resource[WebhookConfiguration], wanted: dict[str, Any]) -> None:
        name = wanted["metadata"]["name"]
        plain: Resource[Any] = resource.typed(dict)
        try:
            if includes(await self._client.get(plain, name), wanted):
                return
        except NotFound:
            pass
        await self._client.patch(
            plain, name, wanted, type=PatchType.APPLY, field_manager=self._field_manager, force=True
        )
        log.info("webhooks installed", extra=fields(configuration=name))


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


def webhook(name: str, config: dict[str, Any], *rules: dict[str, Any]) -> dict[str, Any]:
    """Return one webhook of a configuration: ignored while nobody answers, without side effects."""
    return {
        "name": name,
        "clientConfig": config,
        "rules": list(rules),
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }


def rule(resource: str, *operations: str, scope: str) -> dict[str, Any]:
    """Return the rule for a resource of the core group."""
    return {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": list(operations),
        "resources": [resource],
        "scope": scope,
    }
