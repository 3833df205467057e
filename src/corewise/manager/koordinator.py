"""Finds Koordinator's own webhook on nodes/status: two webhooks that amplify would amplify twice.

Koordinator names its webhooks below ``koordinator.sh``; this one is ``mnode-status.koordinator.sh``.
Source: koordinator pkg/webhook/node/mutating/webhooks.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from corewise.kube.registration import RuleWithOperations, WebhookConfiguration

_SUFFIX = ".koordinator.sh"
_CORE_GROUP = frozenset({"", "*"})
_NODE_STATUS = frozenset({"nodes/status", "nodes/*", "*/status", "*/*"})


def interfering_webhook(configurations: Iterable[WebhookConfiguration]) -> str:
    """Return "configuration/webhook" of Koordinator's webhook on node status; empty if there is none."""
    for configuration in configurations:
        for webhook in configuration.webhooks:
            if webhook.name.endswith(_SUFFIX) and any(map(_covers_node_status, webhook.rules)):
                return f"{configuration.metadata.name}/{webhook.name}"
    return ""


def _covers_node_status(rule: RuleWithOperations) -> bool:
    return not _CORE_GROUP.isdisjoint(rule.api_groups) and not _NODE_STATUS.isdisjoint(rule.resources)
