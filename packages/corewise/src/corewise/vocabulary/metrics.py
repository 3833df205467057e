"""Every metric of corewise: one table, from which the programs register them and docs/reference is made.

Names follow Prometheus' rules: a base unit in the name, ``_total`` on counters. CPU amounts are in cores and
say whether they are raw or amplified. Ratios are exported as the decimal number they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

MANAGER, AGENT, SCHEDULER, COMPUTE, WEB = "manager", "agent", "scheduler", "compute", "web"
ALL = f"{MANAGER}, {AGENT}, {SCHEDULER}"
EVERY = f"{ALL}, {COMPUTE}, {WEB}"
SERVING = f"{MANAGER}, {SCHEDULER}"


class MetricType(Enum):
    """The type of a metric, as Prometheus names it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class ExportedMetric:
    """One row of the reference. ``labels`` are the names of its labels; ``buckets`` those of a histogram.

    ``tallied``: a counter whose totals are kept elsewhere (in the kernel, by a writer) and set as they stand.
    """

    exported_by: str
    name: str
    type: MetricType
    meaning: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()
    tallied: bool = False


def counter(by: str, name: str, meaning: str, *labels: str) -> ExportedMetric:
    """Return a row of a counter that programs count up."""
    return ExportedMetric(by, name, MetricType.COUNTER, meaning, labels)


def tally(by: str, name: str, meaning: str, *labels: str) -> ExportedMetric:
    """Return a row of a counter whose totals are kept elsewhere."""
    return ExportedMetric(by, name, MetricType.COUNTER, meaning, labels, tallied=True)


def gauge(by: str, name: str, meaning: str, *labels: str) -> ExportedMetric:
    """Return a row of a gauge."""
    return ExportedMetric(by, name, MetricType.GAUGE, meaning, labels)


def histogram(by: str, name: str, meaning: str, buckets: tuple[float, ...], *labels: str) -> ExportedMetric:
    """Return a row of a histogram."""
    return ExportedMetric(by, name, MetricType.HISTOGRAM, meaning, labels, buckets)


# The manager.
NODES_ASSESSED = gauge(MANAGER, "corewise_nodes", "Nodes the leader has assessed.")
NODE_PROBLEM = gauge(
    MANAGER,
    "corewise_node_problem",
    "1 for each warning about the node, by its reason code; no series for a node without one.",
    "node",
    "reason",
)
NODES_PENDING = gauge(
    MANAGER,
    "corewise_nodes_amplification_pending",
    "Nodes whose ratio is set and whose status does not show it yet.",
)
NODES_HELD_BACK = gauge(
    MANAGER,
    "corewise_nodes_amplification_held_back",
    "Nodes on which an unsafe decrease of the amplification ratio is due and not carried out yet.",
)
NODE_SPEED = gauge(
    MANAGER,
    "corewise_node_cpu_speed_ratio",
    "Score of the node over the median of its peers'; none without peers.",
    "node",
)
MODEL_RATIO_OFF = gauge(
    MANAGER,
    "corewise_cpu_model_off_ratio",
    "Measured over configured normalization ratio, where more than 5 % off; `entry`: of nodeConfigs, if any.",
    "model",
    "field",
    "entry",
)
AMPLIFICATION_PATH = gauge(
    MANAGER,
    "corewise_amplification_path",
    "1 for each path that amplifies: policy, file or webhook. Only with --manage-webhooks.",
    "path",
)
NODE_NORMALIZATION_RATIO = gauge(
    MANAGER, "corewise_node_cpu_normalization_ratio", "Normalization ratio annotated on the node.", "node"
)
NODE_AMPLIFICATION_RATIO = gauge(
    MANAGER,
    "corewise_node_amplification_ratio",
    "Amplification ratio annotated on the node.",
    "node",
    "resource",
)
NODE_RAW_CPU = gauge(MANAGER, "corewise_node_raw_cpu_cores", "Raw allocatable CPU of the node.", "node")
NODE_AMPLIFIED_CPU = gauge(
    MANAGER,
    "corewise_node_amplified_cpu_cores",
    "Amplified allocatable CPU of the node, as its status shows it.",
    "node",
)
UNTRANSLATED_PODS = gauge(
    MANAGER,
    "corewise_untranslated_offline_pods",
    "Pods that should be offline, by a mark or a profile, and request cpu or memory, by namespace.",
    "namespace",
)
WRITES = counter(
    MANAGER,
    "corewise_node_writes_total",
    "Writes to nodes by the manager, by action (PatchNode, TouchNodeStatus, RepairNodeStatus) and result "
    "(ok, conflict, gone, error).",
    "action",
    "result",
)
QUEUE = gauge(MANAGER, "corewise_reconcile_queue_nodes", "Nodes waiting to be assessed.")
HEARTBEATS_QUIETED = counter(
    MANAGER,
    "corewise_webhook_heartbeats_quieted_total",
    "Kubelet status writes that changed nothing but heartbeat times and were therefore not stored.",
)
CHANGES_UNDONE = counter(
    MANAGER,
    "corewise_webhook_status_changes_undone_total",
    "Amplified amounts set by a writer other than the node's kubelet, and undone.",
)

# What several programs do alike: webhooks, certificates, leadership, loops, caches.
BUILD_INFO = gauge(
    EVERY,
    "corewise_build_info",
    "1; the labels are which program (manager, agent, scheduler, compute) this is and its version.",
    "program",
    "version",
)
START_TIME = gauge(EVERY, "corewise_start_time_seconds", "When the program started.")
EVENTS = counter(
    SERVING, "corewise_events_total", "Events requested, by reason code, before de-duplication.", "reason"
)
WEBHOOK_REQUESTS = counter(
    SERVING,
    "corewise_webhook_requests_total",
    "Admission reviews, by webhook and outcome (allowed, changed, refused, malformed, bug).",
    "webhook",
    "outcome",
)
WEBHOOK_SECONDS = histogram(
    SERVING,
    "corewise_webhook_duration_seconds",
    "Time spent in the handler of an admission review.",
    (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1.0),
    "webhook",
)
CONFIG_VALID = gauge(
    f"{MANAGER}, {AGENT}",
    "corewise_config_valid",
    "1 if this key of the ConfigMap is without errors or absent, else 0.",
    "key",
)
CERTIFICATE_EXPIRY = gauge(
    f"{SERVING}, {COMPUTE}, {WEB}",
    "corewise_certificate_expiry_timestamp_seconds",
    "When the serving certificate expires: the webhooks', that of a host's ledger, or the web page's.",
)
LEADER = gauge(SERVING, "corewise_leader", "1 on the replica that holds the lease, else 0.")
LOOP_RESTARTS = counter(
    EVERY, "corewise_loop_restarts_total", "Restarts of a loop after a bug in it.", "loop"
)
CACHE_OBJECTS = gauge(ALL, "corewise_cache_objects", "Objects in a cache.", "resource")
CACHE_STALE = gauge(
    ALL,
    "corewise_cache_stale",
    "1 while a cache may be behind the cluster (/readyz says why), else 0.",
    "resource",
)
CACHE_SILENCE = gauge(
    ALL,
    "corewise_cache_silence_seconds",
    "Time since the API server last answered a cache, with a list, a change or a bookmark; no series before "
    "the first list.",
    "resource",
)
HTTP_REFUSED = counter(
    EVERY,
    "corewise_http_refused_total",
    "Connections and requests that an HTTP server refused, by server and cause (connections, handshake, "
    "headers, encoding, unauthenticated, forbidden, unavailable, body-size, all-bodies, body, answer).",
    "server",
    "cause",
)
HTTP_CONNECTIONS = gauge(EVERY, "corewise_http_connections", "Open connections of an HTTP server.", "server")
TASKS = gauge(EVERY, "corewise_tasks", "asyncio tasks of the program: its loops, and what they work on now.")

# The agent: containers, quotas, CPU sets, the runtime, the node's topology.
_OF_A_CONTAINER = ("namespace", "pod", "container")
CONTAINER_CPU_SECONDS = tally(
    AGENT,
    "corewise_container_cpu_seconds_total",
    "CPU time of a running container, raw: as this machine's CPUs count it.",
    *_OF_A_CONTAINER,
)
CONTAINER_CPU_REQUEST = gauge(
    AGENT,
    "corewise_container_cpu_request_cores",
    "CPU that a running container requests, amplified: as its pod's spec has it.",
    *_OF_A_CONTAINER,
)
CONTAINER_RATIO = gauge(
    AGENT,
    "corewise_container_cpu_normalization_ratio",
    "Normalization ratio by which CPU time of a running container counts, limited or not; 1 for pods that "
    "are not normalized (they own CPUs without normalize-cpuset or on a node whose kubelet runs the static "
    "CPU manager, or are SYSTEM or BE).",
    *_OF_A_CONTAINER,
)
AGENT_RATIO = gauge(
    AGENT, "corewise_agent_cpu_normalization_ratio", "Normalization ratio that the agent applies."
)
RATIO_UNREADABLE = counter(
    AGENT,
    "corewise_agent_ratio_unreadable_total",
    "Ratios annotated on the node that could not be read; the last good one was kept.",
)
QUOTAS_HELD = gauge(AGENT, "corewise_quota_cgroups", "Cgroups whose quota is divided.")
QUOTAS_FAILING = gauge(
    AGENT, "corewise_quota_failing", "Cgroups and pods that the last cycle could not bring to their quotas."
)
QUOTA_WRITES = tally(
    AGENT, "corewise_quota_writes_total", "Writes of quotas and bursts that the kernel took."
)
QUOTA_DRIFTS = tally(
    AGENT, "corewise_quota_drifts_total", "Quotas that another writer had changed and that were corrected."
)
QUOTA_ERRORS = tally(
    AGENT,
    "corewise_quota_errors_total",
    "Reads and writes of quotas that failed and were left to the next cycle.",
)
QUOTA_REFUSALS = tally(
    AGENT, "corewise_quota_refused_total", "Writes that the kernel refused (EINVAL), corrected or not."
)
PODS_LEFT_ALONE = gauge(
    AGENT,
    "corewise_pods_left_alone",
    "Pods for which nothing is written, since it is not certain which cgroup is theirs.",
)
PINNING_PODS = gauge(AGENT, "corewise_pinning_pods", "Pods that run on CPUs of their own.")
PINNING_OWNED = gauge(AGENT, "corewise_pinning_owned_cpus", "CPUs that pods own, raw: threads.")
PINNING_SHARED = gauge(
    AGENT,
    "corewise_pinning_shared_cpus",
    "CPUs online that no pod owns, raw: threads. None while no pod owns any.",
)
PINNING_FAILING = gauge(
    AGENT,
    "corewise_pinning_failing",
    "Pods whose claim to CPUs is not fulfilled, and CPU sets that the last cycle could not write.",
)
SETTING_WRITES = tally(
    AGENT,
    "corewise_setting_writes_total",
    "Writes of weights, CPU sets and memory limits that the kernel took.",
)
SETTING_DRIFTS = tally(
    AGENT,
    "corewise_setting_drifts_total",
    "Weights, CPU sets and memory limits that another writer had changed and that were corrected.",
)
SETTING_ERRORS = tally(
    AGENT,
    "corewise_setting_errors_total",
    "Reads and writes of weights, CPU sets and memory limits that failed and were left to the next cycle.",
)
NRI_CONNECTED = gauge(
    AGENT, "corewise_nri_connected", "1 while the container runtime has the agent registered as NRI plugin."
)
NRI_REQUESTS = counter(
    AGENT,
    "corewise_nri_requests_total",
    "Requests of the container runtime, by method and outcome (answered, late, failed, unknown).",
    "method",
    "outcome",
)
NRI_DIVIDED = counter(
    AGENT,
    "corewise_nri_divided_total",
    "Containers that the runtime created or updated with a divided quota, by request.",
    "event",
)
TOPOLOGY_WRITES = counter(
    AGENT,
    "corewise_topology_writes_total",
    "Writes of the node's NodeResourceTopology, by result (ok, conflict, error).",
    "result",
)
AGENT_LOOP_SECONDS = histogram(
    AGENT,
    "corewise_agent_loop_duration_seconds",
    "Time that one round of a loop took (quotas, topology, oversubscription).",
    (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0),
    "loop",
)

# The agent: what is offered to offline pods, and what holds them back.
OVERSUBSCRIPTION_STATE = gauge(
    AGENT,
    "corewise_oversubscription_state",
    "1 for the state that the offer is in (fresh, frozen, withdrawn), 0 for the others; no series while "
    "oversubscription is off.",
    "state",
)
OVERSUBSCRIPTION_ALLOCATABLE_CPU = gauge(
    AGENT,
    "corewise_oversubscription_allocatable_cpu_cores",
    "Allocatable CPU that the offer is computed from, raw.",
)
OVERSUBSCRIPTION_USED_CPU = gauge(
    AGENT,
    "corewise_oversubscription_used_cpu_cores",
    "CPU that work (online, offline) used in the last sample, raw. Online is everything but the "
    "BestEffort slice.",
    "work",
)
OVERSUBSCRIPTION_PINNED_CPU = gauge(
    AGENT,
    "corewise_oversubscription_pinned_cpu_cores",
    "CPU counted as used in the last sample because CPUSet pods own it, beyond what they used; raw.",
)
OVERSUBSCRIPTION_OFFERED_CPU = gauge(
    AGENT, "corewise_oversubscription_offered_cpu_cores", "CPU offered to offline pods, raw, smoothed."
)
OVERSUBSCRIPTION_PUBLISHED_CPU = gauge(
    AGENT,
    "corewise_oversubscription_published_cpu_cores",
    "CPU that the Node shows as kubernetes.io/batch-cpu, normalized: raw x normalization ratio.",
)
OVERSUBSCRIPTION_USED_MEMORY = gauge(
    AGENT,
    "corewise_oversubscription_used_memory_bytes",
    "Working set of work (online, offline) in the last sample.",
    "work",
)
OVERSUBSCRIPTION_OFFERED_MEMORY = gauge(
    AGENT, "corewise_oversubscription_offered_memory_bytes", "Memory offered to offline pods, smoothed."
)
OVERSUBSCRIPTION_LAST_SAMPLE = gauge(
    AGENT, "corewise_oversubscription_last_sample_timestamp_seconds", "When the last good sample was taken."
)
OVERSUBSCRIPTION_SAMPLES_MISSED = tally(
    AGENT,
    "corewise_oversubscription_samples_missed_total",
    "Samples that could not be taken or were not believable, by what was wrong (unreadable, clock, stale, "
    "backwards, absurd).",
    "reason",
)
OVERSUBSCRIPTION_WRITES = counter(
    AGENT,
    "corewise_oversubscription_writes_total",
    "Writes of the offer to the Node's status, by result (ok, conflict, error).",
    "result",
)
OFFLINE_PODS = gauge(
    AGENT,
    "corewise_offline_pods",
    "Pods in the BestEffort slice, by kind (offline: with a mark, such as batch-cpu; native: without).",
    "kind",
)
OFFLINE_EVICTIONS = counter(
    AGENT,
    "corewise_offline_evictions_total",
    "Evictions of offline pods, by what was short (memory, cpu) and result (evicted, blocked by a "
    "PodDisruptionBudget, gone already, unknown, failed, unavailable, dry-run).",
    "shortage",
    "result",
)
OFFLINE_EVICTION_SHORTAGE = gauge(
    AGENT,
    "corewise_offline_eviction_shortage",
    "1 while memory or the CPU of offline pods is short by the thresholds of eviction, by what is short "
    "(memory, cpu), else 0; no series while eviction is off.",
    "shortage",
)
SUPPRESSION_ENABLED = gauge(
    AGENT,
    "corewise_suppression_enabled",
    "1 for the active mode of suppression (besteffort-quota, per-pod-quota); no series while it is off.",
    "mode",
)
SUPPRESSION_QUOTA = gauge(
    AGENT,
    "corewise_suppression_quota_cpu_cores",
    "Quota of all offline pods together, raw; no series while they have none.",
)
SUPPRESSION_TARGET = gauge(
    AGENT,
    "corewise_suppression_target_cpu_cores",
    "Quota that the steps lead to, raw; no series while there is no target.",
)
SUPPRESSION_ADJUSTMENTS = tally(
    AGENT,
    "corewise_suppression_adjustments_total",
    "Changes of a quota by suppression, by direction (down, up).",
    "direction",
)
SUPPRESSION_REPAIRS = tally(
    AGENT,
    "corewise_suppression_repairs_total",
    "Quotas of suppression that another writer had changed and that were corrected.",
)
SUPPRESSION_AT_FLOOR = gauge(
    AGENT,
    "corewise_suppression_at_floor",
    "1 while the slice (per-pod-quota: every offline pod) has its smallest quota, else 0.",
)
SUPPRESSION_SLICE_MISSING = gauge(
    AGENT,
    "corewise_suppression_slice_missing",
    "1 while suppression is on and kubelet's BestEffort cgroup is not there, else 0.",
)
SUPPRESSION_TASK = gauge(
    AGENT,
    "corewise_suppression_task",
    "1 for the task that runs (suppressing, recovering), 0 for the other.",
    "task",
)
SUPPRESSION_UTILIZATION = gauge(
    AGENT,
    "corewise_suppression_node_utilization_ratio",
    "The used part of the CPUs that no CPUSet pod owns, over the last interval; 0 to 1.",
)
SUPPRESSION_PODS = gauge(
    AGENT, "corewise_suppression_suppressed_pods", "Offline pods whose own quota is below their limit."
)

SUPPRESSION_IDLE_PODS = gauge(
    AGENT,
    "corewise_suppression_idle_pods",
    "Offline pods with cpu.idle: they give way to online work that wakes up.",
)

# The scheduler: extender, binding, ledgers of owned CPUs, CPUs claimed twice.
CLIENT_CERTIFICATE_EXPIRY = gauge(
    SCHEDULER,
    "corewise_extender_client_certificate_expiry_timestamp_seconds",
    "When the client certificate of the last caller of the extender, kube-scheduler, expires.",
)
OWNED_CPUS_PATH = gauge(
    SCHEDULER,
    "corewise_owned_cpus_path",
    "1 for what adds corewise.io/owned-cpus to pods: the policy in the API server, or the webhook; both "
    "during a switch-over.",
    "path",
)
INTERFERENCE_PATH = gauge(
    SCHEDULER,
    "corewise_interference_path",
    "1 for what adds corewise.io/interference to pods: the policy in the API server, or the webhook; both "
    "during a switch-over, none while no profile has anything at stake.",
    "path",
)
INTERFERENCE_MISSED = counter(
    SCHEDULER,
    "corewise_interference_missed_pods_total",
    "Pods that were placed as plain ones although their profile has something at stake: created before the "
    "policy followed the configuration, or by hand. Each replica counts those that it sees bound.",
)
EXTENDER_REQUESTS = counter(
    SCHEDULER,
    "corewise_extender_requests_total",
    "Calls of kube-scheduler, by verb (filter, prioritize, preempt, bind; for pods with a stake in "
    "interference: interference/filter and so on) and outcome (answered, refused, error, malformed).",
    "verb",
    "outcome",
)
EXTENDER_SECONDS = histogram(
    SCHEDULER,
    "corewise_extender_duration_seconds",
    "Time spent in the handler of a call of kube-scheduler.",
    (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.25, 1.0),
    "verb",
)
BIND_REFUSALS = counter(
    SCHEDULER, "corewise_bind_refusals_total", "Pods that were not bound, by reason code.", "reason"
)
BIND_CONFLICTS = counter(
    SCHEDULER,
    "corewise_bind_conflicts_total",
    "Writes of a Node's ledger of owned CPUs that were repeated, because the Node had changed.",
)
LEDGER_ENTRIES = gauge(
    SCHEDULER,
    "corewise_ledger_entries",
    "Pods in the Nodes' ledgers of owned CPUs, by whether they are bound (true, false).",
    "bound",
)
LEDGER_REMOVED = counter(
    SCHEDULER,
    "corewise_ledger_removed_total",
    "Entries removed from ledgers, by cause: the pod is gone, or was not bound in time (expired).",
    "cause",
)
LEDGER_LATE = counter(
    SCHEDULER,
    "corewise_ledger_late_total",
    "Pods that own CPUs and were bound by others, by reason code: entered late, or why they cannot be.",
    "reason",
)
LEDGER_REPAIRS = counter(SCHEDULER, "corewise_ledger_repairs_total", "Damaged ledgers that were repaired.")
CPU_CONFLICTS = gauge(
    SCHEDULER,
    "corewise_cpu_claim_conflicts",
    "Claims of pods to CPUs that another pod holds, or that their node does not have.",
)

# Memory bandwidth and cache: what the agent measures, and what the scheduler knows of it.
NODE_MEMORY_TRAFFIC = tally(
    AGENT,
    "corewise_node_memory_traffic_bytes_total",
    "Bytes moved between the node's CPUs and its memory; rate() of it is the used memory bandwidth.",
    "node",
)
NODE_MEMORY_BANDWIDTH_CAPACITY = gauge(
    AGENT,
    "corewise_node_memory_bandwidth_capacity_bytes_per_second",
    "What the node's memory can move at most, by source (dimm: computed from its memory "
    "modules); scheduling counts on seven tenths of it.",
    "node",
    "source",
)
NODE_MEMORY_LATENCY = gauge(
    AGENT,
    "corewise_node_memory_latency_seconds",
    "Time of one read from memory past the caches: median of the last probe, by NUMA node of CPU and memory.",
    "node",
    "numa_node",
)
NODE_LLC_OCCUPANCY = gauge(AGENT, "corewise_node_llc_occupancy_bytes", "Last-level cache in use.", "node")
NODE_LLC_CAPACITY = gauge(
    AGENT, "corewise_node_llc_capacity_bytes", "Size of all last-level caches of the node.", "node"
)
NODE_INSTRUCTIONS = tally(
    AGENT,
    "corewise_node_instructions_total",
    "Instructions retired on all CPUs of the node while the group with the cache misses was counted, scaled.",
    "node",
)
NODE_LLC_MISSES = tally(
    AGENT,
    "corewise_node_llc_misses_total",
    "Reads that missed the cache named by the label level (LL: last level; L2: second level, where the "
    "processor counts no other), in the same group.",
    "node",
    "level",
)
NODE_CPU_BUSY = tally(
    AGENT,
    "corewise_node_cpu_busy_seconds_total",
    "CPU time that the node's CPUs have used since boot, raw, without what a hypervisor gave to others.",
    "node",
)
NODE_CPUS_ONLINE = gauge(AGENT, "corewise_node_cpus_online", "CPUs online on the node, raw: threads.", "node")
NODE_MEMORY_AVAILABLE = gauge(
    AGENT, "corewise_node_memory_available_bytes", "MemAvailable of the node.", "node"
)
NODE_METRIC_SUPPORTED = gauge(
    AGENT,
    "corewise_node_metric_supported",
    "1 if the agent measures this metric (memorybandwidth, memorybandwidth_capacity, memorylatency, "
    "llc_occupancy, llc_capacity, llc_mpki, cpu, memory_available) of the node, with the reason ok; 0 if "
    "not, with the reason code.",
    "node",
    "metric",
    "reason",
)
WAITING_PODS = gauge(
    AGENT,
    "corewise_waiting_pods",
    "Pods that wait for CPUs, by the verdict's reason code.",
    "reason",
)
WAIT_UNKNOWN_PODS = gauge(
    AGENT,
    "corewise_pods_with_unknown_wait",
    "Pods whose wait for CPUs is unknown.",
)
EVALUATION_RUNS = counter(
    AGENT,
    "corewise_evaluation_runs_total",
    "Slots in which the node could measure its own CPUs, by outcome: measured, or the reason code.",
    "outcome",
)
EVALUATION_SCORE = gauge(
    AGENT,
    "corewise_evaluation_score",
    "Score of one CPU of the node, with its model: the median of the newest runs. Only its ratio to another "
    "node's means anything. No series before the first run.",
    "model",
)
INTERFERENCE_CONFIG_VALID = gauge(
    SCHEDULER,
    "corewise_interference_config_valid",
    "1 if the scheduler uses its configuration file as it is, 0 if it keeps an older state of it.",
)
INTERFERENCE_NODES = gauge(
    SCHEDULER,
    "corewise_interference_nodes",
    "Nodes that have a usable value of the metric (fresh), and those that have none by what is wrong "
    "(absent, stale, invalid, ambiguous).",
    "metric",
    "state",
)
INTERFERENCE_AGE = gauge(
    SCHEDULER,
    "corewise_interference_metric_age_seconds",
    "Age of the oldest usable value of the metric; no series while there is none.",
    "metric",
)
INTERFERENCE_QUERIES = counter(
    SCHEDULER,
    "corewise_interference_queries_total",
    "Queries to Prometheus, by metric and result (ok, failed).",
    "metric",
    "result",
)
INTERFERENCE_UNMATCHED = gauge(
    SCHEDULER,
    "corewise_interference_unmatched_series",
    "Series that the metric's query returned and that belong to no node of the cluster.",
    "metric",
)
INTERFERENCE_LAST_REFRESH = gauge(
    SCHEDULER,
    "corewise_interference_last_refresh_timestamp_seconds",
    "When at least one query succeeded last.",
)
INTERFERENCE_REFRESH_SECONDS = histogram(
    SCHEDULER,
    "corewise_interference_refresh_duration_seconds",
    "Time that a refresh of all metrics took.",
    (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
)
INTERFERENCE_COUNTERWEIGHTS = gauge(
    SCHEDULER,
    "corewise_interference_counterweights",
    "Placed pods whose use the metrics may not show yet: each counts by its profile.",
)

# The host agent of OpenStack (``corewise compute run``).
COMPUTE_PASSES = counter(
    COMPUTE,
    "corewise_compute_passes_total",
    "Passes of the host agent, by how they ended: done, or a reason code.",
    "result",
)
COMPUTE_WRITES = counter(
    COMPUTE, "corewise_compute_writes_total", "Writes to Placement: inventories, traits, reshape.", "kind"
)
COMPUTE_CPUS = gauge(
    COMPUTE,
    "corewise_compute_cpus",
    "CPUs of the host (raw CPUs), by resource class: VCPU shared, PCPU dedicated.",
    "class",
)
COMPUTE_CPUS_HELD = gauge(
    COMPUTE, "corewise_compute_cpus_held", "CPUs of the host (raw CPUs) that its guests own."
)
COMPUTE_GUESTS = gauge(COMPUTE, "corewise_compute_guests", "Guests of the host.")
COMPUTE_CPUS_TWICE = gauge(
    COMPUTE,
    "corewise_compute_cpus_promised_twice",
    "CPUs of the host (raw CPUs) that more than one guest owns.",
)
COMPUTE_GUESTS_UNAPPLIED = gauge(
    COMPUTE,
    "corewise_compute_guests_unapplied",
    "Guests whose domains are not pinned to the CPUs that the ledger has for them.",
)
COMPUTE_LEDGER_CHANGES = counter(
    COMPUTE,
    "corewise_compute_ledger_changes_total",
    "Guests whose domains and ledger were brought together: adopted, applied, repinned, unpinned, gone.",
    "change",
)
COMPUTE_CLAIMS = counter(
    COMPUTE,
    "corewise_compute_claims_total",
    "Requests of schedulers for the host's CPUs over HTTPS, by how they ended: claimed, repeated (it was "
    "claimed already), released, step (of a move), or a reason code.",
    "result",
)


METRICS = tuple(row for row in globals().values() if isinstance(row, ExportedMetric))


def exported_by(program: str) -> tuple[ExportedMetric, ...]:
    """Return the rows that a program exports."""
    return tuple(metric for metric in METRICS if program in metric.exported_by.split(", "))
