"""All that is known of one node, and of one pod, in one document each.

Amounts, ratios and texts are those of ``corewise nodes``, ``top``, ``explain node``, ``explain suppression``
and ``explain pod``, by the functions that these commands call.

The CPUs of a node are those of its NodeResourceTopology, so offline CPUs are not among them: agents state the
CPUs that are online. A quota is what the agent makes of a limit: ``quotaMicroseconds`` in each period. Of a
CPU of the baseline (ratio 1.00) it is worth ``limitCPUMilli``, whichever node the pod is on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from corewise.agent.kubelet import NO_POLICY, CPUManager
from corewise.agent.objects import QuotaPod
from corewise.agent.quotas import Sharing, sharing_of
from corewise.config.machine_file import machine_document
from corewise.engine import Cluster
from corewise.kube.objects import Event
from corewise.normalization.quota import container_quota
from corewise.quantities import ONE, AmplifiedMilli, Microseconds, QuantityError, Ratio, RatioError, requested
from corewise.topology import Host
from corewise.views.explanation import Explanation
from corewise.views.node_explanation import event_record
from corewise.vocabulary.names import NORMALIZATION_RATIO
from corewise.vocabulary.qos import QoSRules
from corewise.workload.pods import Container

PERIOD = Microseconds(100_000)
"""kubelet's period, unless --cpu-cfs-quota-period says otherwise; only the node knows that."""


def explained(explanation: Explanation, missing: Iterable[str] = ()) -> dict[str, Any]:
    """Return an explanation as a record and as the text for people, and the unreadable objects."""
    return {"record": explanation.record, "text": explanation.text, "missing": list(missing)}


def event_records(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return Events, the latest first."""
    latest = sorted(events, key=lambda event: event.last_timestamp or "", reverse=True)
    return [{**event_record(each), "component": each.source.component} for each in latest]


def topology_record(cluster: Cluster, name: str) -> dict[str, Any] | None:
    """Return a node's CPUs as ``corewise topology -o json`` does, and their owners; None if unknown."""
    ledger = cluster.ledger(name)
    if ledger is None:
        return None
    return {
        **machine_document(Host(ledger.topology)),
        "sharedCPUs": str(ledger.shared),
        "freeCPUs": str(ledger.free),
        "reservedCPUs": str(ledger.reserved),
        "owners": [
            {"pod": owner, "cpus": str(held)} for owner in ledger.claims if (held := ledger.held_by(owner))
        ],
        "conflicts": [
            {"pod": each.owner, "cpus": str(each.cpus), "reason": each.reason, "message": each.message}
            for each in ledger.conflicts
        ],
    }


def quota_record(
    pod: QuotaPod, annotations: Mapping[str, str], rules: QoSRules, *, owns: bool
) -> dict[str, Any]:
    """Return the quota of each container's limit; ``annotations`` are those of the Node the pod is on."""
    ratio, meta = _ratio(annotations), pod.metadata
    qos_class = rules.class_of(meta.labels, meta.namespace)
    manager = CPUManager("static", frozenset({pod.uid})) if owns and not qos_class else NO_POLICY
    sharing = sharing_of(qos_class, pod.uid, pod.status.qos_class, manager, owns=owns)
    divisor = ratio if sharing is Sharing.SHARE else ONE
    level = _limit(pod.spec.resources.limits)

    def container(each: Container) -> dict[str, Any]:
        limit = _limit(each.resources.limits)
        quota = container_quota(limit, period=PERIOD, ratio=divisor, pod_level=level)
        return {
            "name": each.name,
            "limitCPUMilli": limit or level,
            "quotaMicroseconds": None if sharing is Sharing.OWNS else quota,
        }

    return {
        "normalizationRatio": str(ratio),
        "sharing": sharing.value,
        "periodMicroseconds": PERIOD,
        "containers": [container(each) for each in pod.spec.all_containers],
    }


def _ratio(annotations: Mapping[str, str]) -> Ratio:
    try:
        return max(ONE, Ratio.parse(annotations.get(NORMALIZATION_RATIO, str(ONE))))
    except RatioError:
        return ONE


def _limit(amounts: Mapping[str, str]) -> AmplifiedMilli | None:
    try:
        return AmplifiedMilli(requested("cpu", amounts["cpu"]).milli) if "cpu" in amounts else None
    except QuantityError:
        return None
