"""kube-scheduler's configuration file: it calls the extender, and counts batch resources.

| --pods           | extenders                                                              |
|------------------|------------------------------------------------------------------------|
| `owned`          | one, for pods that own CPUs; it binds them                             |
| `owned,profiled` | that one; and one for pods with a stake in interference, which filters |
|                  | and scores them, and which kube-scheduler may do without               |
| `all`            | one, for every pod; it binds them                                      |
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import chain
from textwrap import wrap
from typing import Any

import yaml

from corewise.config.interference.model import WhileAway
from corewise.engine.kube_plugins import FIT_WEIGHTS
from corewise.vocabulary.names import BATCH_CPU, INTERFERENCE_RESOURCE, OWNED_CPUS_RESOURCE, SYSTEM_NAMESPACE

FORMER_GATE = "corewise-binding-gate"
"""The webhook configuration of older versions, which checked bindings at a gate; the leader removes it."""
SECRET_NAME = "corewise-scheduler-certificates"  # noqa: S105 - the name of a Secret is none
CLIENT_SECRET_NAME = "corewise-scheduler-client"  # noqa: S105
FILTER, PRIORITIZE, PREEMPT, BIND, EXPLAIN = "filter", "prioritize", "preempt", "bind", "explain"
INTERFERENCE = "interference"
"""The path below which pods with a stake in interference are decided about."""
HTTP_TIMEOUT = 2.0
"""Seconds that kube-scheduler waits for an answer, and schedules nothing else meanwhile, except for bind."""
SERVICE_URL = f"https://corewise-scheduler.{SYSTEM_NAMESPACE}.svc:443"
PROFILED_TIMEOUT_MS = 500
"""The same for pods with a stake: for the sake of a preference, a host that is gone must hold up nothing."""
WEIGHT = 1
"""Of the extender that decides about pods that own CPUs, or about all: its best node leads by 100."""
PROFILED_WEIGHT = 4
CERTIFICATES = "/etc/kubernetes/corewise"
"""Where kube-scheduler finds its certificate, unless somebody says otherwise."""
CA_FILE, CERT_FILE, KEY_FILE = "ca.crt", "client.crt", "client.key"
WEIGHTS = (
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
    PROFILED = "owned,profiled"
    ALL = "all"

    def consequence(self, while_away: WhileAway) -> str:
        """Return the consequence for pods, in a sentence or two."""
        return f"{_CONSEQUENCES[self]}{_AWAY[while_away] if self is Pods.PROFILED else ''}"


_AWAY = {
    WhileAway.SCHEDULE: (
        " are scheduled without it (whileAway: schedule). All others never wait for corewise."
    ),
    WhileAway.WAIT: " too (whileAway: wait). All others never wait for corewise.",
}
_PROFILED_WEIGHT = (
    " The score for interference is not stretched over the nodes: one with a third of the best possible "
    "score has 3. For a pod without preferences of its own, kube-scheduler tells nodes apart by resources, "
    "images and spreading, together 5; so with 4 a third of the scale outweighs the usual differences of "
    "those, and not a preferred affinity."
)
_CONSEQUENCES = {
    Pods.OWNED: (
        f"corewise is called only for pods that request {OWNED_CPUS_RESOURCE}, which its policy adds to pods "
        "that own CPUs. While no replica of corewise answers, these pods wait; others are scheduled as ever."
    ),
    Pods.PROFILED: (
        f"corewise is called only for pods that request {OWNED_CPUS_RESOURCE} or {INTERFERENCE_RESOURCE}, "
        "which its policies add to pods that own CPUs, and to pods whose interference profile has something "
        "at stake. While no replica of corewise answers, the former wait, and the latter"
    ),
    Pods.ALL: (
        "corewise is called for every pod: kube-scheduler then schedules less than half as many pods a "
        "second (151 instead of 403, measured on 5,000 nodes). While no replica of corewise answers, NO POD "
        "IS SCHEDULED, since corewise binds all of them."
    ),
}


def scheduler_configuration(
    url: str = SERVICE_URL,
    tls: Mapping[str, str] | None = None,
    pods: Pods = Pods.OWNED,
    *,
    weight: int | None = None,
    while_away: WhileAway = WhileAway.SCHEDULE,
) -> str:
    """Return the KubeSchedulerConfiguration: NodeResourcesFit's scoring, and the extenders, as YAML.

    ``tls`` is the extenders' ``tlsConfig``, by field, over the defaults: ``caFile`` is where kube-scheduler
    finds the authority to trust, ``certFile`` and ``keyFile`` what it shows to the extender, ``serverName``
    the name to verify, if that is not the host of ``url``. Empty texts are left out. ``weight`` and
    ``while_away`` are for pods with a stake in interference; with ``Pods.ALL`` the weight is that of all.
    """
    files = {"caFile": CA_FILE, "certFile": CERT_FILE, "keyFile": KEY_FILE}
    stated = {**{field: f"{CERTIFICATES}/{name}" for field, name in files.items()}, **(tls or {})}
    reached = {
        "nodeCacheCapable": True,
        "enableHTTPS": True,
        "tlsConfig": {field: value for field, value in stated.items() if value},
    }
    binding = {
        "urlPrefix": url.rstrip("/"),
        "filterVerb": FILTER,
        "prioritizeVerb": PRIORITIZE,
        "preemptVerb": PREEMPT,
        "bindVerb": BIND,
        "weight": weight or WEIGHT if pods is Pods.ALL else WEIGHT,
        "ignorable": False,
        "httpTimeout": f"{HTTP_TIMEOUT:.0f}s",
        **reached,
        **({} if pods is Pods.ALL else {"managedResources": _managed(OWNED_CPUS_RESOURCE)}),
    }
    profiled = {
        "urlPrefix": f"{url.rstrip('/')}/{INTERFERENCE}",
        "filterVerb": FILTER,
        "prioritizeVerb": PRIORITIZE,
        "preemptVerb": PREEMPT,
        "weight": weight or PROFILED_WEIGHT,
        "ignorable": while_away is WhileAway.SCHEDULE,
        "httpTimeout": f"{PROFILED_TIMEOUT_MS}ms",
        **reached,
        "managedResources": _managed(INTERFERENCE_RESOURCE),
    }
    resources = [{"name": name, "weight": weight} for name, weight in FIT_WEIGHTS.items()]
    fit: dict[str, Any] = {"scoringStrategy": {"type": "LeastAllocated", "resources": resources}}
    if pods is Pods.ALL:  # else the extender's managedResources say so
        fit["ignoredResources"] = [OWNED_CPUS_RESOURCE]
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": fit}]}],
        "extenders": [binding, profiled] if pods is Pods.PROFILED else [binding],
    }
    remarks = [
        _HEAD,
        pods.consequence(while_away),
        f"weight: {WEIGHTS}{_PROFILED_WEIGHT if pods is Pods.PROFILED else ''}",
        _FIT,
        _CERTIFICATE,
        *([_SERVICE] if ".svc" in url else []),
    ]
    lines = chain.from_iterable(wrap(each, _WIDTH - 2, break_on_hyphens=False) for each in remarks)
    return "".join(f"# {line}\n" for line in lines) + yaml.dump(document, Dumper=_Plain, sort_keys=False)


def _managed(resource: str) -> list[dict[str, Any]]:
    return [{"name": resource, "ignoredByScheduler": True}]


class _Plain(yaml.SafeDumper):
    """Writes what occurs twice twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True
