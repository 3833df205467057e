"""Metrics of the manager."""

from __future__ import annotations

from corewise.vocabulary.metrics.table import Metric, counter, gauge

NODES_ASSESSED = gauge("corewise_nodes", "Nodes the leader has assessed.")
NODES_PROBLEM = gauge("corewise_nodes_problem", "Nodes with a warning verdict, by its reason code.", "reason")
NODES_PENDING = gauge(
    "corewise_nodes_amplification_pending",
    "Nodes whose ratio is set and whose status does not show it yet.",
)
NODES_HELD_BACK = gauge(
    "corewise_nodes_amplification_held_back",
    "Nodes on which an unsafe decrease of the amplification ratio is due and not carried out yet.",
)
NODE_NORMALIZATION_RATIO = gauge(
    "corewise_node_cpu_normalization_ratio", "Normalization ratio annotated on the node.", "node"
)
NODE_AMPLIFICATION_RATIO = gauge(
    "corewise_node_amplification_ratio", "Amplification ratio annotated on the node.", "node", "resource"
)
NODE_RAW_CPU = gauge("corewise_node_raw_cpu_cores", "Raw allocatable CPU of the node.", "node")
NODE_AMPLIFIED_CPU = gauge(
    "corewise_node_amplified_cpu_cores",
    "Amplified allocatable CPU of the node, as its status shows it.",
    "node",
)
WRITES = counter(
    "corewise_node_writes_total",
    "Writes to nodes by the manager, by action (PatchNode, TouchNodeStatus, RepairNodeStatus) and result.",
    "action",
    "result",
)
QUEUE = gauge("corewise_reconcile_queue_nodes", "Nodes waiting to be assessed.")
HEARTBEATS_QUIETED = counter(
    "corewise_webhook_heartbeats_quieted_total",
    "Kubelet status writes that changed nothing but heartbeat times and were therefore not stored.",
)
CHANGES_UNDONE = counter(
    "corewise_webhook_status_changes_undone_total",
    "Amplified amounts set by a writer other than the node's kubelet, and undone.",
)

ROWS: tuple[Metric, ...] = (
    NODES_ASSESSED,
    NODES_PROBLEM,
    NODES_PENDING,
    NODES_HELD_BACK,
    NODE_NORMALIZATION_RATIO,
    NODE_AMPLIFICATION_RATIO,
    NODE_RAW_CPU,
    NODE_AMPLIFIED_CPU,
    WRITES,
    QUEUE,
    HEARTBEATS_QUIETED,
    CHANGES_UNDONE,
)
