"""What the scheduler's webhook configuration says, and where extender and gate are served."""

from __future__ import annotations

from typing import Any

from corewise.kube.registration import WebhookConfiguration
from corewise.kube.resources import MUTATING_WEBHOOKS, Resource
from corewise.service.webhooks.installation import ClientConfig, rule, webhook

CONFIGURATION_NAME = "corewise-binding-gate"
SECRET_NAME = "corewise-scheduler-certificates"  # noqa: S105 - the name of a Secret is none
GATE = "binding-gate"
GATE_PATH = "/gate-binding"
FILTER, PRIORITIZE, EXPLAIN = "filter", "prioritize", "explain"
TIMEOUT_SECONDS = 5


def configurations(config: ClientConfig) -> list[tuple[Resource[WebhookConfiguration], dict[str, Any]]]:
    """Return what is to be installed."""
    return [(MUTATING_WEBHOOKS, gate_configuration(config))]


def gate_configuration(config: ClientConfig) -> dict[str, Any]:
    """Return the MutatingWebhookConfiguration: asked of every binding; a dry run has no effect.

    Binding by the resource ``bindings`` is deprecated, and still served.
    """
    asked = [rule(each, "CREATE", scope="Namespaced") for each in ("pods/binding", "bindings")]
    gate = {
        **webhook("binding-gate.corewise.io", config(GATE_PATH), *asked),
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "reinvocationPolicy": "Never",
    }
    return {"metadata": {"name": CONFIGURATION_NAME}, "webhooks": [gate]}
