"""The webhook configurations: what they say, and keeping them so with server-side apply.

The leader looks once in a while whether they still say what they should, and applies them if not; another
manager's fields (labels, annotations) stay. The validating configuration is applied first and the
mutating one last, so who finds a new authority trusted in the mutating one may rely on both.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from corewise.kube.client import Client, PatchType
from corewise.kube.clock import Clock
from corewise.kube.errors import KubeError, NotFound
from corewise.kube.registration import WebhookConfiguration
from corewise.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from corewise.manager.executor import FIELD_MANAGER
from corewise.manager.options import ServiceAddress
from corewise.manager.webhooks.server import CONFIG_MAP, NODE, NODE_STATUS, PATHS
from corewise.service.logs import fields

log = logging.getLogger(__name__)

MUTATING_NAME = "corewise-mutating"
VALIDATING_NAME = "corewise-validating"
_LOOK_EVERY = 10.0
_TIMEOUT_SECONDS = 5

ClientConfig = Callable[[str], dict[str, Any]]


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


def mutating_configuration(config: ClientConfig) -> dict[str, Any]:
    """Return the MutatingWebhookConfiguration."""
    rule = _rule("nodes/status", "UPDATE", scope="Cluster")
    webhook = _webhook("node-status.corewise.io", config(PATHS[NODE_STATUS]), rule)
    return {"metadata": {"name": MUTATING_NAME}, "webhooks": [{**webhook, "reinvocationPolicy": "Never"}]}


def validating_configuration(config: ClientConfig, config_namespace: str) -> dict[str, Any]:
    """Return the ValidatingWebhookConfiguration; of ConfigMaps, only one namespace's are asked about."""
    node = _webhook("node.corewise.io", config(PATHS[NODE]), _rule("nodes", "UPDATE", scope="Cluster"))
    rule = _rule("configmaps", "CREATE", "UPDATE", scope="Namespaced")
    config_map = _webhook("config-map.corewise.io", config(PATHS[CONFIG_MAP]), rule)
    selector = {"matchLabels": {"kubernetes.io/metadata.name": config_namespace}}
    webhooks = [node, {**config_map, "namespaceSelector": selector}]
    return {"metadata": {"name": VALIDATING_NAME}, "webhooks": webhooks}


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
        config_namespace: str,
        clock: Clock,
        installed: asyncio.Event,
    ) -> None:
        self._client = client
        self._base = base
        self._bundle = bundle
        self._config_namespace = config_namespace
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
            await self._ensure(VALIDATING_WEBHOOKS, validating_configuration(config, self._config_namespace))
            await self._ensure(MUTATING_WEBHOOKS, mutating_configuration(config))
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
            plain, name, wanted, type=PatchType.APPLY, field_manager=FIELD_MANAGER, force=True
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


def _webhook(name: str, config: dict[str, Any], rule: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "clientConfig": config,
        "rules": [rule],
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }


def _rule(resource: str, *operations: str, scope: str) -> dict[str, Any]:
    return {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": list(operations),
        "resources": [resource],
        "scope": scope,
    }
