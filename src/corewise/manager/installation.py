"""What the manager's webhook configurations say, and where its webhooks are served."""

from __future__ import annotations

from typing import Any

from corewise.kube.registration import WebhookConfiguration
from corewise.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from corewise.service.webhooks.installation import ClientConfig, rule, webhook

MUTATING_NAME = "corewise-mutating"
VALIDATING_NAME = "corewise-validating"
SECRET_NAME = "corewise-webhook-certificates"  # noqa: S105 - the name of a Secret is none

NODE_STATUS = "node-status"
NODE = "node"
CONFIG_MAP = "config-map"
PATHS = {NODE_STATUS: "/mutate-node-status", NODE: "/validate-node", CONFIG_MAP: "/validate-config"}


def configurations(
    config: ClientConfig, config_namespace: str
) -> list[tuple[Resource[WebhookConfiguration], dict[str, Any]]]:
    """Return what is to be installed: the validating configuration, then the mutating one."""
    return [
        (VALIDATING_WEBHOOKS, validating_configuration(config, config_namespace)),
        (MUTATING_WEBHOOKS, mutating_configuration(config)),
    ]


def mutating_configuration(config: ClientConfig) -> dict[str, Any]:
    """Return the MutatingWebhookConfiguration."""
    status = webhook(
        "node-status.corewise.io",
        config(PATHS[NODE_STATUS]),
        rule("nodes/status", "UPDATE", scope="Cluster"),
    )
    return {"metadata": {"name": MUTATING_NAME}, "webhooks": [{**status, "reinvocationPolicy": "Never"}]}


def validating_configuration(config: ClientConfig, config_namespace: str) -> dict[str, Any]:
    """Return the ValidatingWebhookConfiguration; of ConfigMaps, only one namespace's are asked about."""
    node = webhook("node.corewise.io", config(PATHS[NODE]), rule("nodes", "UPDATE", scope="Cluster"))
    config_map = webhook(
        "config-map.corewise.io",
        config(PATHS[CONFIG_MAP]),
        rule("configmaps", "CREATE", "UPDATE", scope="Namespaced"),
    )
    selector = {"matchLabels": {"kubernetes.io/metadata.name": config_namespace}}
    webhooks = [node, {**config_map, "namespaceSelector": selector}]
    return {"metadata": {"name": VALIDATING_NAME}, "webhooks": webhooks}
