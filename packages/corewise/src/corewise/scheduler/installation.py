"""kube-scheduler's configuration file: it calls the extender, and counts batch resources."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import chain
from textwrap import wrap

import yaml

from corewise.engine.kube_plugins import FIT_WEIGHTS
from corewise.vocabulary.names import BATCH_CPU, OWNED_CPUS_RESOURCE, SYSTEM_NAMESPACE

FORMER_GATE = "corewise-binding-gate"
"""The webhook configuration of older versions, which checked bindings at a gate; the leader removes it."""
SECRET_NAME = "corewise-scheduler-certificates"  # noqa: S105 - the name of a Secret is none
CLIENT_SECRET_NAME = "corewise-scheduler-client"  # noqa: S105
FILTER, PRIORITIZE, PREEMPT, BIND, EXPLAIN = "filter", "prioritize", "preempt", "bind", "explain"
HTTP_TIMEOUT = 2.0
"""Seconds that kube-scheduler waits for an answer, and schedules nothing else meanwhile, except for bind."""
SERVICE_URL = f"https://corewise-scheduler.{SYSTEM_NAMESPACE}.svc:443"
EXTENDER_WEIGHT = 1
CERTIFICATES = "/etc/kubernetes/corewise"
"""Where kube-scheduler finds its certificate, unless somebody says otherwise."""
CA_FILE, CERT_FILE, KEY_FILE = "ca.crt", "client.crt", "client.key"
WEIGHT = (
    "an extender's score of 0 to 10 counts as 0 to 100 x weight, as a plugin's does; kube-scheduler's own "
    "plugins have weights of 1 to 3, together 12."
)
_WIDTH = 110
_HEAD = """\
For kube-scheduler --config FILE; merge `extenders` and `pluginConfig` into the configuration you have. If you
have none, add clientConnection.kubeconfig (kubeadm: /etc/kubernetes/scheduler.conf), since kube-scheduler
ignores --kubeconfig beside --config. Mount the file and the directory of the certificates into its Pod. Only
one extender may have a bindVerb."""
_FIT = f"""\
NodeResourcesFit: offline pods request neither cpu nor memory, so without {BATCH_CPU} here
kube-scheduler would choose their nodes by what other pods request. Both batch resources count only for pods
that request them."""
_SERVICE = """\
On the host's network, as with kubeadm, kube-scheduler does not know the names of Services: give the Service's
cluster IP with --url, and with --server-name the name that the certificate is for."""
_CERTIFICATE = """\
certFile and keyFile are read again for each new connection, caFile only when kube-scheduler starts.
`corewise scheduler config --write-certificates DIR` writes and renews all three."""


class Pods(StrEnum):
    """For which pods kube-scheduler calls the extender."""

    OWNED = "owned"
    ALL = "all"

    @property
    def consequence(self) -> str:
        """The consequence for pods, in a sentence or two."""
        return _CONSEQUENCES[self]


_CONSEQUENCES = {
    Pods.OWNED: (
        f"corewise is called only for pods that request {OWNED_CPUS_RESOURCE}, which its policy adds to pods "
        "that own CPUs. While no replica of corewise answers, these pods wait; others are scheduled as ever."
    ),
    Pods.ALL: (
        "corewise is called for every pod: kube-scheduler then schedules less than half as many pods a "
        "second (151 instead of 403, measured on 5,000 nodes). While no replica of corewise answers, NO POD "
        "IS SCHEDULED, since corewise binds all of them."
    ),
}


def scheduler_configuration(
    url: str = SERVICE_URL, tls: Mapping[str, str] | None = None, pods: Pods = Pods.OWNED
) -> str:
    """Return the KubeSchedulerConfiguration: NodeResourcesFit's scoring, and the extender, as YAML.

    ``tls`` is the extender's ``tlsConfig``, by field, over the defaults: ``caFile`` is where kube-scheduler
    finds the authority to trust, ``certFile`` and ``keyFile`` what it shows to the extender, ``serverName``
    the name to verify, if that is not the host of ``url``. Empty texts are left out.
    """
    files = {"caFile": CA_FILE, "certFile": CERT_FILE, "keyFile": KEY_FILE}
    stated = {**{field: f"{CERTIFICATES}/{name}" for field, name in files.items()}, **(tls or {})}
    managed = [{"name": OWNED_CPUS_RESOURCE, "ignoredByScheduler": True}]
    extender = {
        "urlPrefix": url.rstrip("/"),
        "filterVerb": FILTER,
        "prioritizeVerb": PRIORITIZE,
        "preemptVerb": PREEMPT,
        "bindVerb": BIND,
        "weight": EXTENDER_WEIGHT,
        "nodeCacheCapable": True,
        "ignorable": False,
        "httpTimeout": f"{HTTP_TIMEOUT:.0f}s",
        "enableHTTPS": True,
        "tlsConfig": {field: value for field, value in stated.items() if value},
        **({"managedResources": managed} if pods is Pods.OWNED else {}),
    }
    resources = [{"name": name, "weight": weight} for name, weight in FIT_WEIGHTS.items()]
    scoring = {"scoringStrategy": {"type": "LeastAllocated", "resources": resources}}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": scoring}]}],
        "extenders": [extender],
    }
    remarks = [
        _HEAD,
        pods.consequence,
        f"weight: {WEIGHT}",
        _FIT,
        _CERTIFICATE,
        *([_SERVICE] if ".svc" in url else []),
    ]
    lines = chain.from_iterable(wrap(each, _WIDTH - 2, break_on_hyphens=False) for each in remarks)
    return "".join(f"# {line}\n" for line in lines) + yaml.safe_dump(document, sort_keys=False)
