"""The KubeSchedulerConfiguration that makes the stock kube-scheduler ask this extender."""

from __future__ import annotations

import yaml

from corewise.policy.names import CONFIG_NAMESPACE
from corewise.scheduler.installation import FILTER, PRIORITIZE

SERVICE_URL = f"https://corewise-scheduler.{CONFIG_NAMESPACE}.svc:443"
_HEAD = """\
# For kube-scheduler --config FILE; merge `extenders` into the configuration you have.
# kube-scheduler goes on without corewise while no replica answers (ignorable).
"""
_UNVERIFIED = """\
# Without tlsConfig.caFile kube-scheduler does not check who answers: give --ca-file.
"""


def scheduler_configuration(url: str = SERVICE_URL, ca_file: str = "") -> str:
    """Return it as YAML. ``ca_file``: where kube-scheduler finds the authority to trust."""
    secure = url.startswith("https://")
    extender = {
        "urlPrefix": url.rstrip("/"),
        "filterVerb": FILTER,
        "prioritizeVerb": PRIORITIZE,
        "weight": 1,
        "nodeCacheCapable": True,
        "ignorable": True,
        "httpTimeout": "1s",
        "enableHTTPS": secure,
        **({"tlsConfig": {"caFile": ca_file}} if ca_file else {}),
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [extender],
    }
    head = _HEAD if ca_file or not secure else _HEAD + _UNVERIFIED
    return head + yaml.safe_dump(document, sort_keys=False)
