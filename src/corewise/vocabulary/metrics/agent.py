"""Metrics of the agent: containers, quotas, CPU sets, the runtime, the node's topology."""

from __future__ import annotations

from corewise.vocabulary.metrics.table import AGENT, Metric, MetricType, counter, gauge, tally

_OF_A_CONTAINER = ("namespace", "pod", "container")
CONTAINER_CPU_SECONDS = tally(
    "corewise_container_cpu_seconds_total",
    "CPU time of a running container, raw: as this machine's CPUs count it.",
    *_OF_A_CONTAINER,
    by=AGENT,
)
CONTAINER_CPU_REQUEST = gauge(
    "corewise_container_cpu_request_cores",
    "CPU that a running container requests, amplified: as its pod's spec has it.",
    *_OF_A_CONTAINER,
    by=AGENT,
)
CONTAINER_RATIO = gauge(
    "corewise_container_cpu_normalization_ratio",
    "Normalization ratio applied to a running container; 1 if its quota is not divided.",
    *_OF_A_CONTAINER,
    by=AGENT,
)
AGENT_RATIO = gauge(
    "corewise_agent_cpu_normalization_ratio", "Normalization ratio that the agent applies.", by=AGENT
)
RATIO_UNREADABLE = counter(
    "corewise_agent_ratio_unreadable_total",
    "Ratios annotated on the node that could not be read; the last good one stayed.",
    by=AGENT,
)
QUOTAS_HELD = gauge("corewise_quota_cgroups", "Cgroups whose quota is divided.", by=AGENT)
QUOTAS_FAILING = gauge(
    "corewise_quota_failing",
    "Cgroups and pods that the last cycle could not bring to their quotas.",
    by=AGENT,
)
QUOTA_WRITES = tally(
    "corewise_quota_writes_total", "Writes of quotas and bursts that the kernel took.", by=AGENT
)
QUOTA_DRIFTS = tally(
    "corewise_quota_drifts_total", "Quotas that somebody else had changed, and that were put right.", by=AGENT
)
QUOTA_ERRORS = tally(
    "corewise_quota_errors_total",
    "Reads and writes of quotas that failed and were left to the next cycle.",
    by=AGENT,
)
QUOTA_REFUSALS = tally(
    "corewise_quota_refused_total", "Writes that the kernel refused (EINVAL), put right or not.", by=AGENT
)
PODS_LEFT_ALONE = gauge(
    "corewise_pods_left_alone",
    "Pods for which nothing is written, since it is not certain which cgroup is theirs.",
    by=AGENT,
)
PINNING_PODS = gauge("corewise_pinning_pods", "Pods that run on CPUs of their own.", by=AGENT)
PINNING_OWNED = gauge("corewise_pinning_owned_cpus", "CPUs that pods own, raw: threads.", by=AGENT)
PINNING_SHARED = gauge(
    "corewise_pinning_shared_cpus",
    "CPUs online that no pod owns, raw: threads. None while no pod owns any.",
    by=AGENT,
)
PINNING_FAILING = gauge(
    "corewise_pinning_failing",
    "Pods whose claim to CPUs is not fulfilled, and CPU sets that the last cycle could not write.",
    by=AGENT,
)
SETTING_WRITES = tally(
    "corewise_setting_writes_total",
    "Writes of weights, CPU sets and memory limits that the kernel took.",
    by=AGENT,
)
SETTING_DRIFTS = tally(
    "corewise_setting_drifts_total",
    "Weights, CPU sets and memory limits that somebody else had changed, and that were put right.",
    by=AGENT,
)
SETTING_ERRORS = tally(
    "corewise_setting_errors_total",
    "Reads and writes of weights, CPU sets and memory limits that failed and were left to the next cycle.",
    by=AGENT,
)
NRI_CONNECTED = gauge(
    "corewise_nri_connected",
    "1 while the container runtime has the agent registered as NRI plugin.",
    by=AGENT,
)
NRI_REQUESTS = counter(
    "corewise_nri_requests_total",
    "Requests of the container runtime, by method and outcome (answered, late, failed, unknown).",
    "method",
    "outcome",
    by=AGENT,
)
NRI_DIVIDED = counter(
    "corewise_nri_divided_total",
    "Containers that the runtime created or updated with a divided quota, by request.",
    "event",
    by=AGENT,
)
TOPOLOGY_WRITES = counter(
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

ROWS: tuple[Metric, ...] = (
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
    PODS_LEFT_ALONE,
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
)
