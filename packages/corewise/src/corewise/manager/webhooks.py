"""The manager's webhooks: where they are served, what is installed for them, and the one on ConfigMaps.

Those that validate have failurePolicy Ignore: while no replica answers, the cluster goes on. The one on
nodes/status has Fail, unless an option says otherwise: while no replica answers, the API server refuses a
kubelet's write of raw amounts, and the node keeps its amplified ones. Its matchConditions spare every other
write: those of nodes that nothing amplifies, and those of others than kubelets that leave amounts and
annotations as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from corewise.amplification.status import CONCERNED
from corewise.colocation.offline import is_offered
from corewise.config.decoding import Problem, Severity
from corewise.kube.admission import AdmissionRequest, OperationType
from corewise.kube.client import Client
from corewise.kube.decoding import decode_object
from corewise.kube.objects import ConfigMap
from corewise.kube.resources import COLOCATION_PROFILES, CONFIG_MAPS
from corewise.manager.busy_nodes import ReadUsages, cpu_usage_milli, cpu_usages, raised_on_busy_nodes
from corewise.manager.node_status_webhook import NodeStatusWebhook
from corewise.manager.node_webhook import NodeWebhook
from corewise.manager.options import (
    KUBELET_USER,
    MUTATING_NAME,
    VALIDATING_NAME,
    FailurePolicy,
    ManagerOptions,
)
from corewise.manager.pod_owners import PodOwners
from corewise.manager.pod_webhooks import OFFLINE_PATH, PROFILE_PATH, PodWebhooks
from corewise.manager.profiles import Profiles
from corewise.manager.snapshot import Snapshot
from corewise.prometheus.exposition import Exposition
from corewise.ratios.cluster import (
    KEYS,
    ClusterContext,
    ConfigurationReading,
    config_map_text,
    conflicts,
    read_configuration,
)
from corewise.ratios.nodes import NodeView
from corewise.service.installation import ClientConfig
from corewise.service.reader import off_loop
from corewise.service.webhooks import Answer, Webhook, allowed, refused, rule, webhook
from corewise.vocabulary.names import AMPLIFICATION_PROBE

SECRET_NAME = "corewise-webhook-certificates"  # noqa: S105 - the name of a Secret

NODE_STATUS = "node-status"
NODE = "node"
CONFIG_MAP = "config-map"
PROFILE = "profile"
APPLY_PROFILE = "apply-profile"
OFFLINE_PODS = "offline-pods"
PATHS = {
    NODE_STATUS: "/mutate-node-status",
    NODE: "/validate-node",
    CONFIG_MAP: "/validate-config",
    PROFILE: "/validate-profile",
    APPLY_PROFILE: PROFILE_PATH,
    OFFLINE_PODS: OFFLINE_PATH,
}


def webhooks(
    options: ManagerOptions, snapshot: Snapshot, profiles: Profiles, client: Client, metrics: Exposition
) -> list[Webhook]:
    """Return the webhooks that the options ask for."""
    status = NodeStatusWebhook(
        context=lambda: snapshot.context,
        kubelet_users=options.kubelet_users,
        quiet_heartbeats=options.quiet_heartbeats,
        metrics=metrics,
    )
    node = NodeWebhook(
        context=lambda: snapshot.context,
        view=snapshot.view_of,
        ready=lambda: not snapshot.caches.unlisted,
        usage=lambda name: cpu_usage_milli(client, name),
    )
    config_map = ConfigMapWebhook(
        options.config_namespace,
        options.config_name,
        context=lambda: snapshot.context,
        nodes=lambda: map(snapshot.view_of, snapshot.nodes.items.values()),
        usages=lambda: cpu_usages(client),
    )
    pods = PodWebhooks(
        profiles,
        snapshot.synced,
        options.offline_pods,
        is_offered=lambda: is_offered([each.status.allocatable for each in snapshot.nodes.items.values()]),
        are_installed=bool(options.manage_webhooks or options.webhook_service or options.webhook_url),
        selected_by=PodOwners(client).selected_by,
    )
    reviews = {
        NODE_STATUS: status.review,
        NODE: node.review,
        CONFIG_MAP: config_map.review,
        PROFILE: pods.validate_profile,
        APPLY_PROFILE: pods.apply_profile,
        OFFLINE_PODS: pods.require_batch_resources,
    }
    return [Webhook(name, PATHS[name], review) for name, review in reviews.items()]


def mutating_configuration(
    config: ClientConfig,
    *,
    kubelet_users: Iterable[str] = (KUBELET_USER,),
    failure_policy: FailurePolicy = FailurePolicy.FAIL,
) -> dict[str, Any]:
    """Return the MutatingWebhookConfiguration."""
    status = webhook(
        "node-status.corewise.io",
        config(PATHS[NODE_STATUS]),
        rule("nodes/status", "UPDATE", scope="Cluster"),
        failure_policy=failure_policy,
    )
    conditions = [
        {"name": name, "expression": text} for name, text in match_conditions(kubelet_users).items()
    ]
    status |= {"matchConditions": conditions, "reinvocationPolicy": "Never"}
    return {"metadata": {"name": MUTATING_NAME}, "webhooks": [status]}


def match_conditions(kubelet_users: Iterable[str]) -> dict[str, str]:
    """Return name -> CEL expression: which writes of nodes/status need the webhook.

    A write that changes nothing at all is let in: by an empty patch the manager has a ratio applied at once.
    A dry run that carries the probe is left out, so that it shows what the policy does alone.
    """
    users = ", ".join(f"{_literal(user)}, {_literal(user)} + object.metadata.name" for user in kubelet_users)
    changes = [
        f"{_field('object', field)} != {_field('oldObject', field)}"
        for field in ("metadata.annotations", "status.capacity", "status.allocatable")
    ]
    writes = [
        f"request.userInfo.username in [{users}]",
        *changes,
        f"{_field('object', 'status')} == {_field('oldObject', 'status')}",
    ]
    names, probe = ", ".join(map(_literal, CONCERNED)), _literal(AMPLIFICATION_PROBE)
    annotations = "object.metadata.annotations"
    return {
        "amplified": f"has({annotations}) && [{names}].exists(name, name in {annotations})",
        "states-or-changes-amounts": " || ".join(writes),
        "no-probe": f"!(request.dryRun && has({annotations}) && {probe} in {annotations})",
    }


def _field(of: str, field: str) -> str:
    """Return the expression of a map in an object: empty where it is absent."""
    outer, _, _ = field.rpartition(".")
    present = f"has({of}.{outer}) && has({of}.{field})" if outer else f"has({of}.{field})"
    return f"({present} ? {of}.{field} : {{}})"


def _literal(text: str) -> str:
    """Return a text as CEL writes it; JSON's escapes are CEL's too."""
    return json.dumps(text)


def validating_configuration(config: ClientConfig, config_namespace: str) -> dict[str, Any]:
    """Return the ValidatingWebhookConfiguration; of ConfigMaps only those of one namespace are reviewed."""
    node = webhook("node.corewise.io", config(PATHS[NODE]), rule("nodes", "UPDATE", scope="Cluster"))
    config_map = webhook(
        "config-map.corewise.io",
        config(PATHS[CONFIG_MAP]),
        rule("configmaps", "CREATE", "UPDATE", scope="Namespaced"),
    )
    selector = {"matchLabels": {"kubernetes.io/metadata.name": config_namespace}}
    profile = webhook(
        "profile.corewise.io",
        config(PATHS[PROFILE]),
        rule(
            COLOCATION_PROFILES.plural,
            "CREATE",
            "UPDATE",
            scope="Cluster",
            group=COLOCATION_PROFILES.group,
            version=COLOCATION_PROFILES.version,
        ),
    )
    webhooks = [node, {**config_map, "namespaceSelector": selector}, profile]
    return {"metadata": {"name": VALIDATING_NAME}, "webhooks": webhooks}


@dataclass(frozen=True, slots=True)
class ConfigMapWebhook:
    """Answers reviews of the one ConfigMap that configures corewise; others are allowed unread.

    Bad configuration is refused, with every error and its place. The ConfigMap is shared with Koordinator's
    other settings, so a key of ours that was bad before and has not changed does not stop a change of another
    key: it gets a warning. So does a configuration that raises the cpu ratio of busy nodes.
    """

    namespace: str
    name: str
    context: Callable[[], ClusterContext]
    nodes: Callable[[], Iterable[NodeView]]
    usages: ReadUsages

    async def review(self, request: AdmissionRequest) -> Answer:
        """Answer one review.

        Raises:
            DecodeError: if the objects are not ConfigMaps.
        """
        if (request.namespace, request.name) != (self.namespace, self.name):
            return allowed(request)
        if request.operation not in {OperationType.CREATE, OperationType.UPDATE}:
            return allowed(request)
        new = decode_object(CONFIG_MAPS, request.object, "object")
        old = ConfigMap()
        if request.operation is OperationType.UPDATE:
            old = decode_object(CONFIG_MAPS, request.old_object, "oldObject")
        context, nodes = self.context(), tuple(self.nodes())
        labels = tuple((node.name, node.labels) for node in nodes)

        def read() -> tuple[ConfigurationReading, Mapping[str, tuple[Problem, ...]]]:
            reading = read_configuration(new, largest=context.largest)
            return reading, conflicts(reading.configuration, labels)

        reading, clashes = await off_loop(sum(map(len, new.data.values())), read)
        errors: list[str] = []
        warnings: list[str] = []
        for key in KEYS:
            changed = config_map_text(new, key) != config_map_text(old, key)
            for problem in (*reading.problems.get(key, ()), *clashes.get(key, ())):
                fatal = changed and problem.severity is Severity.ERROR
                (errors if fatal else warnings).append(f"{key}: {problem}")
        if errors:
            return refused(request, "\n".join(errors), code=422, reason="Invalid")
        if any(config_map_text(new, key) != config_map_text(old, key) for key in KEYS):
            planned = replace(context, configuration=reading.configuration)
            warnings += await raised_on_busy_nodes(nodes, planned, self.usages)
        return allowed(request, warnings=warnings)
