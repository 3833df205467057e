"""All that is known of one node, and of one pod, in one document each.

Amounts, ratios and texts are those of ``corewise nodes``, ``top``, ``explain node``, ``explain suppression``
and ``explain pod``, by the functions that these commands call.

The CPUs of a node are those of its NodeResourceTopology, so offline CPUs are not among them: agents state the
CPUs that are online. A quota is what the agent makes of a limit: ``quotaMicroseconds`` in each period. Of a
CPU of the baseline (ratio 1.00) it is worth ``limitCPUMilli``, whichever node the pod is on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from corewise.agent.kubelet import NO_POLICY, CPUManager
from corewise.agent.objects import QuotaPod
from corewise.agent.quotas import Sharing, sharing_of
from corewise.config.key_texts import KEYS
from corewise.config.machine_file import machine_document
from corewise.config.workload_ratios import quota_ratio
from corewise.engine import Cluster
from corewise.engine.reading import key_of
from corewise.kube.errors import NotFound
from corewise.kube.objects import Event
from corewise.kube.resources import PODS
from corewise.manager.busy_nodes import cpu_usages
from corewise.normalization.quota import container_quota
from corewise.pinning.ledger import Ledger
from corewise.quantities import ONE, Microseconds
from corewise.ratios.decision import assess
from corewise.scheduler.listing import decide_about, divided_by
from corewise.topology import Host
from corewise.views.explanation import Explanation
from corewise.views.new_pod import pod_remarks
from corewise.views.node_explanation import event_record, explain_node, shown_events
from corewise.views.node_listing import installed_paths
from corewise.views.node_score import node_score
from corewise.views.offline_table import TOTAL
from corewise.views.page.followed import FollowedCluster, UnknownObject
from corewise.views.page.interference import NOT_ASKED
from corewise.views.page.node_pods import NodeFigures, cpu_amount, pod_records
from corewise.views.page.problems import severity_of
from corewise.views.page.trial import tried
from corewise.views.page.what_if import ChangeRefused
from corewise.views.pod_explanation import explain_pod
from corewise.views.stored_config import errors_for_agents
from corewise.views.suppression_explanation import explain_suppression
from corewise.views.waiting_explanation import WaitSubject, explain_waiting, fresh_report
from corewise.vocabulary.names import CONFIG_NAME, INTERFERENCE_REPORT
from corewise.vocabulary.qos import QoSRules
from corewise.workload.nodes import Node
from corewise.workload.pods import Container, Pod

PERIOD = Microseconds(100_000)
"""kubelet's period, unless --cpu-cfs-quota-period says otherwise; only the node knows that."""


class PageDocuments:
    """The documents of a cluster's nodes, pods and hosts, and changes tried on it."""

    def __init__(self, cluster: FollowedCluster) -> None:
        self._cluster, self._data, self._state = cluster, cluster.data, cluster.state

    async def document(self, kind: str, name: str) -> dict[str, Any]:
        """Return all that is known of an object: kind "nodes" by name, "pods" by NAMESPACE/NAME, "hosts".

        "offline", "*" is the history of all nodes together; "what-if", "" the texts of the configuration.

        Raises:
            UnknownObject: if there is none.
            OperationalError: if the API server or a host does not say what has to be asked for.
        """
        if (kind, name) == ("offline", TOTAL):
            return {"history": self._cluster.history.record()}
        if (kind, name) == ("what-if", ""):
            return {"config": self._config()}
        made = {"nodes": self._node, "pods": self._pod, "hosts": self._host}.get(kind)
        if made is None:
            raise UnknownObject(f"The page shows nothing at {kind}/{name}. Choose a view in its navigation.")
        return await made(name)

    def _config(self) -> dict[str, str]:
        """Return the texts of the ConfigMap's keys that corewise reads; "" where there is none."""
        config = self._cluster.known.config_map
        return {key: config.data.get(key, "") if config else "" for key in KEYS}

    async def what_if(self, body: Mapping[str, Any]) -> dict[str, Any] | msgspec.Raw:
        """Try a change on the cluster's objects, in a process of its own; nothing is written.

        ``{"change": "flavor", "flavor": {...}, "image": {...}, "pack": false}`` asks the compute hosts.

        Raises:
            ChangeRefused: if the body is not a change that can be tried.
            ChangeNotTried: if trying it takes too long.
            ValueError: if it is no flavor that the hosts can be asked for.
        """
        if body.get("change") == "flavor":
            if self._cluster.hosts is None:
                raise ChangeRefused("no compute hosts are shown: start the page with --compute-hosts")
            asked = {key: value for key, value in body.items() if key != "change"}
            return await asyncio.to_thread(self._cluster.hosts.table.try_flavor, asked)
        config_maps = self._cluster.known.config_maps
        if not config_maps.synced.is_set():
            where = f"ConfigMap {self._cluster.config_namespace}/{CONFIG_NAME}"
            raise ChangeRefused(f"no change can be tried: {where} is not read yet: {config_maps.last_error}")
        await self._cluster.read_rules()
        used = await cpu_usages(self._cluster.client)
        return await tried(body, self._cluster.objects(used))

    async def _host(self, name: str) -> dict[str, Any]:
        hosts = self._cluster.hosts
        shown = None if hosts is None else await asyncio.to_thread(hosts.table.document, name)
        if shown is None:
            raise UnknownObject(
                f"The page knows no compute host {name}. Its hosts are those of --compute-hosts DIR."
            )
        return shown

    async def _node(self, name: str) -> dict[str, Any]:
        cluster, known = self._cluster, self._cluster.known
        node = known.nodes.get(name)
        table = self._data.tables["nodes"]
        row = next((each for each in table.rows(cluster.clock.now()) if each.name == name), None)
        if node is None or row is None:
            raise UnknownObject(f"The cluster has no node {name}. List its nodes with: kubectl get nodes")
        missing = self._data.remarks(table, [])
        paths = await installed_paths(cluster.client, known.webhooks.items.values(), missing)
        events = self._events_about("Node", name)
        assessment, pods_known = assess(known.view_of(node), known.context), known.pods.synced.is_set()
        topologies = {str(each): known.stated_of(str(each)) for each in known.nodes.items}
        now = cluster.clock.now()
        explanation = explain_node(
            assessment,
            shown_events(events),
            pods_known=pods_known,
            paths=paths,
            config_namespace=cluster.config_namespace,
            score=await asyncio.to_thread(node_score, name, topologies, now),
            of_agents=errors_for_agents(known.reading),
        )
        before = await cluster.past.of(name) if cluster.past else ()
        cluster.usages.want()
        offline = (each for each in self._data.tables["offline"].rows(now) if each.name == name)
        suppression = explain_suppression(cluster.subject(node), cluster.config_namespace)
        problems = (*explanation.record["problems"], *suppression.record["problems"])
        return {
            "node": row.record,
            "topology": topology_record(self._state.counted.cluster, name),
            "explanation": explained(explanation, missing),
            "suppression": explained(suppression),
            "severities": {each["reason"]: severity_of(each["reason"]).value for each in problems},
            "pods": self._pods_of(node),
            "podsRemark": cluster.usages.remark,
            "offline": next((each.record for each in offline), None),
            "interference": cluster.interference.record(name) if cluster.interference else NOT_ASKED,
            "history": cluster.history.record(name, *before),
            "events": event_records(events),
        }

    async def _pod(self, name: str) -> dict[str, Any]:
        namespace, _, plain = name.partition("/")
        pod = self._state.pods.get(plain, namespace)
        if pod is None:
            raise UnknownObject(_no_pod(name))
        await self._cluster.read_rules()
        rules = self._state.counted.rules
        row = self._data.row_of_pod(name, pod)
        try:
            raw = await self._cluster.client.get(PODS.typed(dict), plain, namespace)
        except NotFound as error:
            raise UnknownObject(_no_pod(name)) from error
        missing = self._data.remarks(self._data.tables["pods"], [row])
        remarks = await pod_remarks(self._cluster.client, raw, missing)
        await self._state.catch_up()
        pod = self._state.pods.get(
            plain, namespace
        )  # as it counts now; it may have changed or gone meanwhile
        if pod is None:
            raise UnknownObject(_no_pod(name))
        ledger = self._state.counted.cluster.ledger(pod.spec.node_name)
        try:
            listed = decide_about(pod, self._state.counted.cluster, rules)
        finally:
            self._count_again(pod, ledger)
        node = self._state.nodes.get(pod.spec.node_name)
        annotations = node.metadata.annotations if node else {}
        listed = replace(
            listed,
            findings=(*listed.findings, *remarks),
            divided_by=divided_by(pod, listed.placement, annotations, rules),
        )
        explanation = explain_pod(listed, "")
        owns = bool(listed.placement and listed.placement.cpus)
        return {
            "pod": row.record,
            "explanation": explained(explanation, missing),
            "quota": quota_record(
                msgspec.convert(raw, QuotaPod), annotations, self._state.counted.rules, owns=owns
            ),
            "waiting": self._waiting(name, pod),
            "usedRawCPUMilli": self._cluster.usages.pods.get(name),
            "events": event_records(self._events_about("Pod", plain, namespace)),
        }

    def _count_again(self, pod: Pod, before: Ledger | None) -> None:
        """Count a pod that was left out; of CPUs that several pods claim, the first keeps its claim."""
        self._state.count(pod)
        key = key_of(pod)
        if before is None or not before.conflicts or key not in before.claims:
            return
        owners = [*before.claims]
        for owner in owners[owners.index(key) + 1 :]:
            namespace, _, name = owner.partition("/")
            later = self._state.pods.get(name, namespace)
            if later is not None:  # else it is no pod's, but of the node's ledger alone
                self._state.counted.cluster.remove_pod(owner)
                self._state.count(later)

    def _pods_of(self, node: Node) -> list[dict[str, Any]]:
        """Return the pods of a node, with what they use, and how long they wait and are throttled."""
        cluster, name = self._cluster, node.metadata.name
        pods = sorted(cluster.known.pods_on(name), key=key_of)
        topology = self._state.topologies.get(name)
        annotations = topology.metadata.annotations if topology is not None else {}
        facts = self._state.counted.cluster.nodes.get(name)
        figures = NodeFigures(
            annotations=node.metadata.annotations,
            owned=(facts.normalization if facts else None) or ONE,
            rules=self._state.counted.rules,
            used=cluster.usages.pods,
            report=fresh_report(annotations.get(INTERFERENCE_REPORT), cluster.clock.now()),
        )
        return pod_records([(pod, self._data.row_of_pod(key_of(pod), pod)) for pod in pods], figures)

    def _waiting(self, name: str, pod: Pod) -> dict[str, Any]:
        """Return the reason that a pod is slow, as ``corewise explain interference`` does."""
        topology = self._state.topologies.get(pod.spec.node_name) if pod.spec.node_name else None
        text = topology.metadata.annotations.get(INTERFERENCE_REPORT) if topology is not None else None
        subject = WaitSubject(name, pod, text, topology is not None)
        return explained(explain_waiting(subject, self._cluster.clock.now()))

    def _events_about(self, kind: str, name: str, namespace: str = "") -> list[Event]:
        about = ((event, event.involved_object) for event in self._cluster.events)
        return [event for event, on in about if (on.kind, on.name, on.namespace) == (kind, name, namespace)]


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
    meta = pod.metadata
    ratio = quota_ratio(meta.labels, annotations)
    qos_class = rules.class_of(meta.labels, meta.namespace)
    manager = CPUManager("static", frozenset({pod.uid})) if owns and not qos_class else NO_POLICY
    sharing = sharing_of(qos_class, pod.uid, pod.status.qos_class, manager, owns=owns)
    if sharing is Sharing.SHARE and pod.has_claimed_cpu:
        sharing = Sharing.EXEMPT
    divisor = ratio.ratio if sharing is Sharing.SHARE else ONE
    level = cpu_amount(pod.spec.resources.limits)

    def container(each: Container) -> dict[str, Any]:
        limit = cpu_amount(each.resources.limits)
        quota = container_quota(limit, period=PERIOD, ratio=divisor, pod_level=level)
        return {
            "name": each.name,
            "limitCPUMilli": limit or level,
            "quotaMicroseconds": None if sharing is Sharing.OWNS else quota,
        }

    return {
        "normalizationRatio": str(ratio.node),
        "sharing": sharing.value,
        "periodMicroseconds": PERIOD,
        "containers": [container(each) for each in pod.spec.all_containers],
    }


def _no_pod(name: str) -> str:
    namespace = name.partition("/")[0] or "default"
    return (
        f"The cluster has no pod {name} that still runs or waits. "
        f"List the pods with: kubectl -n {namespace} get pods"
    )
