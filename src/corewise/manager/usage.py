"""Real CPU usage of nodes, from the resource metrics API where a cluster has it.

Source: https://kubernetes.io/docs/tasks/debug/debug-cluster/resource-metrics-pipeline/
"""

from __future__ import annotations

import logging
from urllib.parse import quote

import msgspec

from corewise.kube.client import Client
from corewise.kube.errors import KubeError
from corewise.quantities import Quantity, QuantityError
from corewise.vocabulary.errors import UNREADABLE

log = logging.getLogger(__name__)

_PATH = "/apis/metrics.k8s.io/v1beta1/nodes/"
_TIMEOUT = 1.0


class _NodeMetrics(msgspec.Struct):
    usage: dict[str, str]


async def cpu_usage_milli(client: Client, node: str) -> int | None:
    """Return the milli-CPU a node really uses; None if that is not known, for whatever reason."""
    try:
        body = await client.request("GET", _PATH + quote(node, safe=""), timeout=_TIMEOUT, repeatable=False)
        return Quantity.parse(msgspec.json.decode(body, type=_NodeMetrics).usage["cpu"]).milli
    except (KubeError, *UNREADABLE, QuantityError, KeyError) as error:
        log.debug("usage of node %s is unknown: %s", node, error)
        return None
