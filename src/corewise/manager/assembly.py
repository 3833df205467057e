"""What the options make of the webhooks."""

from __future__ import annotations

from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.manager.installation import CONFIG_MAP, NODE, NODE_STATUS, PATHS
from corewise.manager.options import ManagerOptions
from corewise.manager.snapshot import Snapshot
from corewise.manager.usage import cpu_usage_milli
from corewise.manager.webhooks.config_map import ConfigMapWebhook
from corewise.manager.webhooks.node import NodeWebhook
from corewise.manager.webhooks.node_status import NodeStatusWebhook
from corewise.prometheus.exposition import Exposition
from corewise.service.webhooks.server import Webhook


def webhooks(
    options: ManagerOptions, snapshot: Snapshot, client: Client, metrics: Exposition, clock: Clock
) -> list[Webhook]:
    """Return the webhooks."""
    status = NodeStatusWebhook(
        context=lambda: snapshot.context,
        kubelet_users=options.kubelet_users,
        quiet_heartbeats=options.quiet_heartbeats,
        metrics=metrics,
        clock=clock,
    )
    node = NodeWebhook(
        context=lambda: snapshot.context,
        view=snapshot.view_of,
        ready=lambda: not snapshot.caches.unlisted,
        usage=lambda name: cpu_usage_milli(client, name),
    )
    config_map = ConfigMapWebhook(
        options.config_namespace, options.config_name, options.largest_amplification, snapshot.node_labels
    )
    reviews = {NODE_STATUS: status.review, NODE: node.review, CONFIG_MAP: config_map.review}
    return [Webhook(name, PATHS[name], review) for name, review in reviews.items()]
