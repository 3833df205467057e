"""How others find the scheduler: the API server by a webhook, kube-scheduler by its configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from corewise.kube.resources import MUTATING_WEBHOOKS, Resource, WebhookConfiguration
from corewise.service.webhooks import ClientConfig, rule, webhook
from corewise.vocabulary.names import CONFIG_NAMESPACE

CONFIGURATION_NAME = "corewise-binding-gate"
SECRET_NAME = "corewise-scheduler-certificates"  # noqa: S105 - the name of a Secret is none
CLIENT_SECRET_NAME = "corewise-scheduler-client"  # noqa: S105
GATE = "binding-gate"
GATE_PATH = "/gate-binding"
FILTER, PRIORITIZE, EXPLAIN = "filter", "prioritize", "explain"
TIMEOUT_SECONDS = 5
SERVICE_URL = f"https://corewise-scheduler.{CONFIG_NAMESPACE}.svc:443"
_HEAD = """\
# For kube-scheduler --config FILE; merge `extenders` into the configuration you have.
# If you have none, add clientConnection.kubeconfig (kubeadm: /etc/kubernetes/scheduler.conf), since
# kube-scheduler ignores --kubeconfig beside --config; and mount the file into its Pod.
# kube-scheduler goes on without corewise while no replica answers (ignorable).
"""
_SERVICE = """\
# On the host's network, as with kubeadm, it does not know the names of Services: give the Service's cluster
# IP with --url, and with --server-name the name that the certificate is for.
"""
_UNVERIFIED = """\
# Without tlsConfig.caFile kube-scheduler does not check who answers: give --ca-file.
"""


def configurations(config: ClientConfig) -> list[tuple[Resource[WebhookConfiguration], dict[str, Any]]]:
    """Return the webhook configurations to install."""
    return [(MUTATING_WEBHOOKS, gate_configuration(config))]


def gate_configuration(config: ClientConfig) -> dict[str, Any]:
    """Return the MutatingWebhookConfiguration: called for every binding; a dry run has no effect.

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


def scheduler_configuration(url: str = SERVICE_URL, tls: Mapping[str, str] | None = None) -> str:
    """Return the KubeSchedulerConfiguration that makes kube-scheduler call the extender, as YAML.

    ``tls`` is the extender's ``tlsConfig``, by field: ``caFile`` is where kube-scheduler finds the authority
    to trust, ``certFile`` and ``keyFile`` what it shows to the extender, ``serverName`` the name to verify,
    if that is not the host of ``url``. Empty texts are left out.
    """
    secure = url.startswith("https://")
    stated = {key: value for key, value in (tls or {}).items() if value}
    extender = {
        "urlPrefix": url.rstrip("/"),
        "filterVerb": FILTER,
        "prioritizeVerb": PRIORITIZE,
        "weight": 1,
        "nodeCacheCapable": True,
        "ignorable": True,
        "httpTimeout": "1s",
        "enableHTTPS": secure,
        **({"tlsConfig": stated} if stated else {}),
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [extender],
    }
    head = _HEAD + (_SERVICE if ".svc" in url else "")
    head += "" if "caFile" in stated or not secure else _UNVERIFIED
    return head + yaml.safe_dump(document, sort_keys=False)
