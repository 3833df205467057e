"""Every metric of corewise: one table, from which the programs register them and docs/reference.md is made.

Names follow Prometheus' rules: a base unit in the name, ``_total`` on counters. CPU amounts are in cores and
say whether they are raw or amplified. Ratios are exported as the decimal number they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class MetricType(Enum):
    """How a metric behaves, as Prometheus names it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the reference. ``labels`` are the names of its labels; ``buckets`` those of a histogram.

    ``tallied``: a counter whose totals are kept elsewhere (in the kernel, by a writer) and set as they stand.
    """

    name: str
    type: MetricType
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    exported_by: str = "manager"
    tallied: bool = False


MANAGER, AGENT, SCHEDULER, COMPUTE = "manager", "agent", "scheduler", "compute"
_ALL = f"{MANAGER}, {AGENT}, {SCHEDULER}"
_SERVING = f"{MANAGER}, {SCHEDULER}"


def _counter(name: str, meaning: str, *labels: str, by: str = MANAGER) -> Metric:
    return Metric(name, MetricType.COUNTER, meaning, labels, exported_by=by)


def _tally(name: str, meaning: str, *labels: str, by: str = MANAGER) -> Metric:
    return Metric(name, MetricType.COUNTER, meaning, labels, exported_by=by, tallied=True)


def _gauge(name: str, meaning: str, *labels: str, by: str = MANAGER) -> Metric:
    return Metric(name, MetricType.GAUGE, meaning, labels, exported_by=by)


NODES_ASSESSED = _gauge("corewise_nodes", "Nodes the leader has assessed.")
NODES_PROBLEM = _gauge(
    "corewise_nodes_problem", "Nodes with a warning verdict, by its reason code.", "reason"
)
NODES_PENDING = _gauge(
    "corewise_nodes_amplification_pending",
    "Nodes whose ratio is set and whose status does not show it yet.",
)
NODES_HELD_BACK = _gauge(
    "corewise_nodes_amplification_held_back",
    "Nodes on which an unsafe decrease of the amplification ratio is due and not carried out yet.",
)
NODE_NORMALIZATION_RATIO = _gauge(
    "corewise_node_cpu_normalization_ratio", "Normalization ratio annotated on the node.", "node"
)
NODE_AMPLIFICATION_RATIO = _gauge(
    "corewise_node_amplification_ratio", "Amplification ratio annotated on the node.", "node", "resource"
)
NODE_RAW_CPU = _gauge("corewise_node_raw_cpu_cores", "Raw allocatable CPU of the node.", "node")
NODE_AMPLIFIED_CPU = _gauge(
    "corewise_node_amplified_cpu_cores",
    "Amplified allocatable CPU of the node, as its status shows it.",
    "node",
)
WRITES = _counter(
    "corewise_node_writes_total",
    "Writes to nodes by the manager, by action (PatchNode, TouchNodeStatus, RepairNodeStatus) and result.",
    "action",
    "result",
)
EVENTS = _counter(
    "corewise_events_total", "Events asked for, by reason code, before de-duplication.", "reason", by=_SERVING
)
QUEUE = _gauge("corewise_reconcile_queue_nodes", "Nodes waiting to be assessed.")
WEBHOOK_REQUESTS = _counter(
    "corewise_webhook_requests_total",
    "Admission reviews, by webhook and outcome (allowed, changed, refused, malformed, unavailable, bug).",
    "webhook",
    "outcome",
    by=_SERVING,
)
WEBHOOK_SECONDS = Metric(
    "corewise_webhook_duration_seconds",
    MetricType.HISTOGRAM,
    "Time spent in the handler of an admission review.",
    ("webhook",),
    (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1.0),
    _SERVING,
)
HEARTBEATS_QUIETED = _counter(
    "corewise_webhook_heartbeats_quieted_total",
    "Kubelet status writes that changed nothing but heartbeat times and were therefore not stored.",
)
CHANGES_UNDONE = _counter(
    "corewise_webhook_status_changes_undone_total",
    "Amplified amounts set by a writer other than the node's kubelet, and undone.",
)
CONFIG_VALID = _gauge(
    "corewise_config_valid",
    "1 if this key of the ConfigMap is without errors or absent, else 0.",
    "key",
    by=f"{MANAGER}, {AGENT}",
)
CERTIFICATE_EXPIRY = _gauge(
    "corewise_certificate_expiry_timestamp_seconds",
    "When the webhooks' serving certificate expires.",
    by=_SERVING,
)
LEADER = _gauge("corewise_leader", "1 on the replica that holds the lease, else 0.", by=_SERVING)
LOOP_RESTARTS = _counter(
    "corewise_loop_restarts_total",
    "Restarts of a loop after a bug in it.",
    "loop",
    by=f"{_ALL}, {COMPUTE}",
)
CACHE_OBJECTS = _gauge("corewise_cache_objects", "Objects in a cache.", "resource", by=_ALL)

_OF_A_CONTAINER = ("namespace", "pod", "container")
CONTAINER_CPU_SECONDS = _tally(
    "corewise_container_cpu_seconds_total",
    "CPU time of a running container, raw: as this machine's CPUs count it.",
    *_OF_A_CONTAINER,
    by=AGENT,
)
CONTAINER_CPU_REQUEST = _gauge(
    "corewise_container_cpu_request_cores",
    "CPU that a running container requests, amplified: as its pod's spec has it.",
    *_OF_A_CONTAINER,
    by=AGENT,
)
CONTAINER_RATIO = _gauge(
    "corewise_container_cpu_normalization_ratio",
    "Normalization ratio in force for a running container; 1 if its quota is not divided.",
    *_OF_A_CONTAINER,
    by=AGENT,
)
AGENT_RATIO = _gauge(
    "corewise_agent_cpu_normalization_ratio", "Normalization ratio that the agent has in force.", by=AGENT
)
RATIO_UNREADABLE = _counter(
    "corewise_agent_ratio_unreadable_total",
    "Ratios annotated on the node that could not be read; the last good one stayed.",
    by=AGENT,
)
QUOTAS_HELD = _gauge("corewise_quota_cgroups", "Cgroups whose quota is divided.", by=AGENT)
QUOTAS_FAILING = _gauge(
    "corewise_quota_failing",
    "Cgroups and pods that the last cycle could not bring to their quotas.",
    by=AGENT,
)
QUOTA_WRITES = _tally(
    "corewise_quota_writes_total", "Writes of quotas and bursts that the kernel took.", by=AGENT
)
QUOTA_DRIFTS = _tally(
    "corewise_quota_drifts_total", "Quotas that somebody else had changed, and that were put right.", by=AGENT
)
QUOTA_ERRORS = _tally(
    "corewise_quota_errors_total",
    "Reads and writes of quotas that failed and were left to the next cycle.",
    by=AGENT,
)
QUOTA_REFUSALS = _tally(
    "corewise_quota_refused_total", "Writes that the kernel refused (EINVAL), put right or not.", by=AGENT
)
PINNING_PODS = _gauge("corewise_pinning_pods", "Pods that run on CPUs of their own.", by=AGENT)
PINNING_OWNED = _gauge("corewise_pinning_owned_cpus", "CPUs that pods own, raw: threads.", by=AGENT)
PINNING_SHARED = _gauge(
    "corewise_pinning_shared_cpus",
    "CPUs online that no pod owns, raw: threads. None while no pod owns any.",
    by=AGENT,
)
PINNING_FAILING = _gauge(
    "corewise_pinning_failing",
    "Pods whose claim to CPUs is not fulfilled, and CPU sets that the last cycle could not write.",
    by=AGENT,
)
SETTING_WRITES = _tally(
    "corewise_setting_writes_total",
    "Writes of weights, CPU sets and memory limits that the kernel took.",
    by=AGENT,
)
SETTING_DRIFTS = _tally(
    "corewise_setting_drifts_total",
    "Weights, CPU sets and memory limits that somebody else had changed, and that were put right.",
    by=AGENT,
)
SETTING_ERRORS = _tally(
    "corewise_setting_errors_total",
    "Reads and writes of weights, CPU sets and memory limits that failed and were left to the next cycle.",
    by=AGENT,
)
NRI_CONNECTED = _gauge(
    "corewise_nri_connected",
    "1 while the container runtime has the agent registered as NRI plugin.",
    by=AGENT,
)
NRI_REQUESTS = _counter(
    "corewise_nri_requests_total",
    "Requests of the container runtime, by method and outcome (answered, late, failed, unknown).",
    "method",
    "outcome",
    by=AGENT,
)
NRI_DIVIDED = _counter(
    "corewise_nri_divided_total",
    "Containers that the runtime created or updated with a divided quota, by request.",
    "event",
    by=AGENT,
)
TOPOLOGY_WRITES = _counter(
    "corewise_topology_writes_total",
    "Writes of the node's NodeResourceTopology, by result (ok, conflict, error).",
    "result",
    by=AGENT,
)
AGENT_LOOP_SECONDS = Metric(
    "corewise_agent_loop_duration_seconds",
    MetricType.HISTOGRAM,
    "Time that one round of a loop took (quotas, topology, oversubscription).",
    ("loop",),
    (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0),
    AGENT,
)

OVERSUBSCRIPTION_STATE = _gauge(
    "corewise_oversubscription_state",
    "1 for the state that the offer is in (fresh, frozen, withdrawn), 0 for the others; no series while "
    "oversubscription is off.",
    "state",
    by=AGENT,
)
OVERSUBSCRIPTION_ALLOCATABLE_CPU = _gauge(
    "corewise_oversubscription_allocatable_cpu_cores",
    "Allocatable CPU that the offer is computed from, raw.",
    by=AGENT,
)
OVERSUBSCRIPTION_USED_CPU = _gauge(
    "corewise_oversubscription_used_cpu_cores",
    "CPU that work (online, offline) used in the last sample, raw. Online is everything but the "
    "BestEffort slice.",
    "work",
    by=AGENT,
)
OVERSUBSCRIPTION_PINNED_CPU = _gauge(
    "corewise_oversubscription_pinned_cpu_cores",
    "CPU counted as used in the last sample because CPUSet pods own it, beyond what they used; raw.",
    by=AGENT,
)
OVERSUBSCRIPTION_OFFERED_CPU = _gauge(
    "corewise_oversubscription_offered_cpu_cores", "CPU offered to offline pods, raw, smoothed.", by=AGENT
)
OVERSUBSCRIPTION_PUBLISHED_CPU = _gauge(
    "corewise_oversubscription_published_cpu_cores",
    "CPU that the Node shows as kubernetes.io/batch-cpu, normalized: raw x normalization ratio.",
    by=AGENT,
)
OVERSUBSCRIPTION_USED_MEMORY = _gauge(
    "corewise_oversubscription_used_memory_bytes",
    "Working set of work (online, offline) in the last sample.",
    "work",
    by=AGENT,
)
OVERSUBSCRIPTION_OFFERED_MEMORY = _gauge(
    "corewise_oversubscription_offered_memory_bytes", "Memory offered to offline pods, smoothed.", by=AGENT
)
OVERSUBSCRIPTION_LAST_SAMPLE = _gauge(
    "corewise_oversubscription_last_sample_timestamp_seconds",
    "When the last good sample was taken.",
    by=AGENT,
)
OVERSUBSCRIPTION_SAMPLES_MISSED = _tally(
    "corewise_oversubscription_samples_missed_total",
    "Samples that could not be taken or were not believable, by what was wrong (unreadable, clock, stale, "
    "backwards, absurd).",
    "reason",
    by=AGENT,
)
OVERSUBSCRIPTION_WRITES = _counter(
    "corewise_oversubscription_writes_total",
    "Writes of the offer to the Node's status, by result (ok, conflict, error).",
    "result",
    by=AGENT,
)
OFFLINE_PODS = _gauge(
    "corewise_offline_pods",
    "Pods in the BestEffort slice, by kind (offline: they request batch-cpu; native: they request nothing).",
    "kind",
    by=AGENT,
)
SUPPRESSION_ENABLED = _gauge(
    "corewise_suppression_enabled",
    "1 for the mode of suppression in force (besteffort-quota, per-pod-quota); no series while it is off.",
    "mode",
    by=AGENT,
)
SUPPRESSION_QUOTA = _gauge(
    "corewise_suppression_quota_cpu_cores",
    "Quota of all offline pods together, raw; no series while they have none.",
    by=AGENT,
)
SUPPRESSION_TARGET = _gauge(
    "corewise_suppression_target_cpu_cores",
    "Quota that the steps lead to, raw; no series while there is no target.",
    by=AGENT,
)
SUPPRESSION_ADJUSTMENTS = _tally(
    "corewise_suppression_adjustments_total",
    "Changes of a quota by suppression, by direction (down, up).",
    "direction",
    by=AGENT,
)
SUPPRESSION_REPAIRS = _tally(
    "corewise_suppression_repairs_total",
    "Quotas of suppression that somebody else had changed, and that were put right.",
    by=AGENT,
)
SUPPRESSION_AT_FLOOR = _gauge(
    "corewise_suppression_at_floor",
    "1 while the slice (per-pod-quota: every offline pod) has its smallest quota, else 0.",
    by=AGENT,
)
SUPPRESSION_SLICE_MISSING = _gauge(
    "corewise_suppression_slice_missing",
    "1 while suppression is on and kubelet's BestEffort cgroup is not there, else 0.",
    by=AGENT,
)
SUPPRESSION_TASK = _gauge(
    "corewise_suppression_task",
    "1 for the task that runs (suppressing, recovering), 0 for the other.",
    "task",
    by=AGENT,
)
SUPPRESSION_UTILIZATION = _gauge(
    "corewise_suppression_node_utilization_ratio",
    "CPU used on the node / its raw capacity, over the last interval; 0 to 1.",
    by=AGENT,
)
SUPPRESSION_PODS = _gauge(
    "corewise_suppression_suppressed_pods", "Offline pods whose own quota is below their limit.", by=AGENT
)
EXTENDER_REQUESTS = _counter(
    "corewise_extender_requests_total",
    "Calls of kube-scheduler, by verb (filter, prioritize) and outcome (answered, error, malformed).",
    "verb",
    "outcome",
    by=SCHEDULER,
)
EXTENDER_SECONDS = Metric(
    "corewise_extender_duration_seconds",
    MetricType.HISTOGRAM,
    "Time spent in the handler of a call of kube-scheduler.",
    ("verb",),
    (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.25, 1.0),
    SCHEDULER,
)
GATE_REFUSALS = _counter(
    "corewise_gate_refusals_total", "Bindings refused, by reason code.", "reason", by=SCHEDULER
)
GATE_RESERVATIONS = _gauge(
    "corewise_gate_reservations",
    "Bindings let through whose pods have not been seen bound yet.",
    by=SCHEDULER,
)
GATE_EXPIRED = _counter(
    "corewise_gate_reservations_expired_total",
    "Bindings let through whose pods were not bound: what was reserved for them is free again.",
    by=SCHEDULER,
)
CPU_CONFLICTS = _gauge(
    "corewise_cpu_claim_conflicts",
    "Claims of pods to CPUs that another pod holds, or that their node has not.",
    by=SCHEDULER,
)

# What the agent measures of memory bandwidth and last-level cache; scheduling reads it from Prometheus.
# All have the label node, the Node's own name: how a scrape names its target differs from cluster to cluster.
# Counters, so that whoever reads them chooses the window: rate() of them is the mean over it.
NODE_MEMORY_TRAFFIC = _tally(
    "corewise_node_memory_traffic_bytes_total",
    "Bytes moved between the node's CPUs and its memory; rate() of it is the used memory bandwidth.",
    "node",
    by=AGENT,
)
NODE_MEMORY_BANDWIDTH_CAPACITY = _gauge(
    "corewise_node_memory_bandwidth_capacity_bytes_per_second",
    "What the node's memory could move at most, by how it is known (dimm: worked out from its memory "
    "modules); scheduling counts on seven tenths of it.",
    "node",
    "source",
    by=AGENT,
)
NODE_MEMORY_LATENCY = _gauge(
    "corewise_node_memory_latency_seconds",
    "Time of one read from memory past the caches: median of the last probe, by NUMA node of CPU and memory.",
    "node",
    "numa_node",
    by=AGENT,
)
NODE_LLC_OCCUPANCY = _gauge("corewise_node_llc_occupancy_bytes", "Last-level cache in use.", "node", by=AGENT)
NODE_LLC_CAPACITY = _gauge(
    "corewise_node_llc_capacity_bytes", "Size of all last-level caches of the node.", "node", by=AGENT
)
NODE_INSTRUCTIONS = _tally(
    "corewise_node_instructions_total",
    "Instructions retired on all CPUs of the node while the group with the cache misses was counted, scaled.",
    "node",
    by=AGENT,
)
NODE_LLC_MISSES = _tally(
    "corewise_node_llc_misses_total",
    "Reads that missed the cache named by the label level (LL: last level; L2: second level, where the "
    "processor counts no other), in the same group.",
    "node",
    "level",
    by=AGENT,
)
NODE_CPU_BUSY = _tally(
    "corewise_node_cpu_busy_seconds_total",
    "CPU time that the node's CPUs have used since boot, raw, without what a hypervisor gave to others.",
    "node",
    by=AGENT,
)
NODE_CPUS_ONLINE = _gauge(
    "corewise_node_cpus_online", "CPUs online on the node, raw: threads.", "node", by=AGENT
)
NODE_MEMORY_AVAILABLE = _gauge(
    "corewise_node_memory_available_bytes", "MemAvailable of the node.", "node", by=AGENT
)
NODE_METRIC_SUPPORTED = _gauge(
    "corewise_node_metric_supported",
    "1 if the agent measures this metric (memorybandwidth, memorybandwidth_capacity, memorylatency, "
    "llc_occupancy, llc_capacity, llc_mpki, cpu, memory_available) on the node, with the reason ok; 0 if "
    "not, with the reason code.",
    "node",
    "metric",
    "reason",
    by=AGENT,
)

# What scheduling knows of interference.
INTERFERENCE_CONFIG_VALID = _gauge(
    "corewise_interference_config_valid",
    "1 if the scheduler's configuration file is in force as it stands, 0 if an older state of it is.",
    by=SCHEDULER,
)
INTERFERENCE_NODES = _gauge(
    "corewise_interference_nodes",
    "Nodes that have a usable value of the metric (fresh), and those that have none by what is wrong "
    "(absent, stale, invalid, ambiguous).",
    "metric",
    "state",
    by=SCHEDULER,
)
INTERFERENCE_AGE = _gauge(
    "corewise_interference_metric_age_seconds",
    "Age of the oldest usable value of the metric; no series while there is none.",
    "metric",
    by=SCHEDULER,
)
INTERFERENCE_QUERIES = _counter(
    "corewise_interference_queries_total",
    "Queries to Prometheus, by metric and result (ok, failed).",
    "metric",
    "result",
    by=SCHEDULER,
)
INTERFERENCE_UNMATCHED = _gauge(
    "corewise_interference_unmatched_series",
    "Series that the metric's query returned and that belong to no node of the cluster.",
    "metric",
    by=SCHEDULER,
)
INTERFERENCE_LAST_REFRESH = _gauge(
    "corewise_interference_last_refresh_timestamp_seconds",
    "When at least one query succeeded last.",
    by=SCHEDULER,
)
INTERFERENCE_REFRESH_SECONDS = Metric(
    "corewise_interference_refresh_duration_seconds",
    MetricType.HISTOGRAM,
    "Time that a refresh of all metrics took.",
    (),
    (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
    SCHEDULER,
)
INTERFERENCE_COUNTERWEIGHTS = _gauge(
    "corewise_interference_counterweights",
    "Placed pods whose use the metrics may not show yet, and which are counted by their profile.",
    by=SCHEDULER,
)
_INTERFERENCE = (
    NODE_MEMORY_TRAFFIC,
    NODE_MEMORY_BANDWIDTH_CAPACITY,
    NODE_MEMORY_LATENCY,
    NODE_LLC_OCCUPANCY,
    NODE_LLC_CAPACITY,
    NODE_INSTRUCTIONS,
    NODE_LLC_MISSES,
    NODE_CPU_BUSY,
    NODE_CPUS_ONLINE,
    NODE_MEMORY_AVAILABLE,
    NODE_METRIC_SUPPORTED,
    INTERFERENCE_CONFIG_VALID,
    INTERFERENCE_NODES,
    INTERFERENCE_AGE,
    INTERFERENCE_QUERIES,
    INTERFERENCE_UNMATCHED,
    INTERFERENCE_LAST_REFRESH,
    INTERFERENCE_REFRESH_SECONDS,
    INTERFERENCE_COUNTERWEIGHTS,
)
COMPUTE_PASSES = _counter(
    "corewise_compute_passes_total",
    "Passes of the host agent, by how they ended: done, or a reason code.",
    "result",
    by=COMPUTE,
)
COMPUTE_WRITES = _counter(
    "corewise_compute_writes_total",
    "Writes to Placement: inventories, traits, reshape.",
    "kind",
    by=COMPUTE,
)
COMPUTE_CPUS = _gauge(
    "corewise_compute_cpus",
    "CPUs of the host (raw CPUs), by resource class: VCPU shared, PCPU dedicated.",
    "class",
    by=COMPUTE,
)
COMPUTE_CPUS_HELD = _gauge(
    "corewise_compute_cpus_held",
    "CPUs of the host (raw CPUs) that its guests own.",
    by=COMPUTE,
)
COMPUTE_GUESTS = _gauge("corewise_compute_guests", "Guests of the host.", by=COMPUTE)

METRICS: tuple[Metric, ...] = (
    NODES_ASSESSED,
    NODES_PROBLEM,
    NODES_PENDING,
    NODES_HELD_BACK,
    NODE_NORMALIZATION_RATIO,
    NODE_AMPLIFICATION_RATIO,
    NODE_RAW_CPU,
    NODE_AMPLIFIED_CPU,
    WRITES,
    EVENTS,
    QUEUE,
    WEBHOOK_REQUESTS,
    WEBHOOK_SECONDS,
    HEARTBEATS_QUIETED,
    CHANGES_UNDONE,
    CONFIG_VALID,
    CERTIFICATE_EXPIRY,
    LEADER,
    LOOP_RESTARTS,
    CACHE_OBJECTS,
    CONTAINER_CPU_SECONDS,
    CONTAINER_CPU_REQUEST,
    CONTAINER_RATIO,
    AGENT_RATIO,
    RATIO_UNREADABLE,
    QUOTAS_HELD,
    QUOTAS_FAILING,
    QUOTA_WRITES,
    QUOTA_DRIFTS,
    QUOTA_ERRORS,
    QUOTA_REFUSALS,
    PINNING_PODS,
    PINNING_OWNED,
    PINNING_SHARED,
    PINNING_FAILING,
    SETTING_WRITES,
    SETTING_DRIFTS,
    SETTING_ERRORS,
    NRI_CONNECTED,
    NRI_REQUESTS,
    NRI_DIVIDED,
    TOPOLOGY_WRITES,
    AGENT_LOOP_SECONDS,
    OVERSUBSCRIPTION_STATE,
    OVERSUBSCRIPTION_ALLOCATABLE_CPU,
    OVERSUBSCRIPTION_USED_CPU,
    OVERSUBSCRIPTION_PINNED_CPU,
    OVERSUBSCRIPTION_OFFERED_CPU,
    OVERSUBSCRIPTION_PUBLISHED_CPU,
    OVERSUBSCRIPTION_USED_MEMORY,
    OVERSUBSCRIPTION_OFFERED_MEMORY,
    OVERSUBSCRIPTION_LAST_SAMPLE,
    OVERSUBSCRIPTION_SAMPLES_MISSED,
    OVERSUBSCRIPTION_WRITES,
    OFFLINE_PODS,
    SUPPRESSION_ENABLED,
    SUPPRESSION_QUOTA,
    SUPPRESSION_TARGET,
    SUPPRESSION_ADJUSTMENTS,
    SUPPRESSION_REPAIRS,
    SUPPRESSION_AT_FLOOR,
    SUPPRESSION_SLICE_MISSING,
    SUPPRESSION_TASK,
    SUPPRESSION_UTILIZATION,
    SUPPRESSION_PODS,
    EXTENDER_REQUESTS,
    EXTENDER_SECONDS,
    GATE_REFUSALS,
    GATE_RESERVATIONS,
    GATE_EXPIRED,
    CPU_CONFLICTS,
    *_INTERFERENCE,
    COMPUTE_PASSES,
    COMPUTE_WRITES,
    COMPUTE_CPUS,
    COMPUTE_CPUS_HELD,
    COMPUTE_GUESTS,
)


def exported_by(program: str) -> tuple[Metric, ...]:
    """Return the rows that a program exports."""
    return tuple(metric for metric in METRICS if program in metric.exported_by.split(", "))
