"""Metrics of the agent: what is offered to offline pods, and what holds them back."""

from __future__ import annotations

from corewise.vocabulary.metrics.table import AGENT, Metric, counter, gauge, tally

OVERSUBSCRIPTION_STATE = gauge(
    "corewise_oversubscription_state",
    "1 for the state that the offer is in (fresh, frozen, withdrawn), 0 for the others; no series while "
    "oversubscription is off.",
    "state",
    by=AGENT,
)
OVERSUBSCRIPTION_ALLOCATABLE_CPU = gauge(
    "corewise_oversubscription_allocatable_cpu_cores",
    "Allocatable CPU that the offer is computed from, raw.",
    by=AGENT,
)
OVERSUBSCRIPTION_USED_CPU = gauge(
    "corewise_oversubscription_used_cpu_cores",
    "CPU that work (online, offline) used in the last sample, raw. Online is everything but the "
    "BestEffort slice.",
    "work",
    by=AGENT,
)
OVERSUBSCRIPTION_PINNED_CPU = gauge(
    "corewise_oversubscription_pinned_cpu_cores",
    "CPU counted as used in the last sample because CPUSet pods own it, beyond what they used; raw.",
    by=AGENT,
)
OVERSUBSCRIPTION_OFFERED_CPU = gauge(
    "corewise_oversubscription_offered_cpu_cores", "CPU offered to offline pods, raw, smoothed.", by=AGENT
)
OVERSUBSCRIPTION_PUBLISHED_CPU = gauge(
    "corewise_oversubscription_published_cpu_cores",
    "CPU that the Node shows as kubernetes.io/batch-cpu, normalized: raw x normalization ratio.",
    by=AGENT,
)
OVERSUBSCRIPTION_USED_MEMORY = gauge(
    "corewise_oversubscription_used_memory_bytes",
    "Working set of work (online, offline) in the last sample.",
    "work",
    by=AGENT,
)
OVERSUBSCRIPTION_OFFERED_MEMORY = gauge(
    "corewise_oversubscription_offered_memory_bytes", "Memory offered to offline pods, smoothed.", by=AGENT
)
OVERSUBSCRIPTION_LAST_SAMPLE = gauge(
    "corewise_oversubscription_last_sample_timestamp_seconds",
    "When the last good sample was taken.",
    by=AGENT,
)
OVERSUBSCRIPTION_SAMPLES_MISSED = tally(
    "corewise_oversubscription_samples_missed_total",
    "Samples that could not be taken or were not believable, by what was wrong (unreadable, clock, stale, "
    "backwards, absurd).",
    "reason",
    by=AGENT,
)
OVERSUBSCRIPTION_WRITES = counter(
    "corewise_oversubscription_writes_total",
    "Writes of the offer to the Node's status, by result (ok, conflict, error).",
    "result",
    by=AGENT,
)
OFFLINE_PODS = gauge(
    "corewise_offline_pods",
    "Pods in the BestEffort slice, by kind (offline: they request batch-cpu; native: they request nothing).",
    "kind",
    by=AGENT,
)
SUPPRESSION_ENABLED = gauge(
    "corewise_suppression_enabled",
    "1 for the mode of suppression in force (besteffort-quota, per-pod-quota); no series while it is off.",
    "mode",
    by=AGENT,
)
SUPPRESSION_QUOTA = gauge(
    "corewise_suppression_quota_cpu_cores",
    "Quota of all offline pods together, raw; no series while they have none.",
    by=AGENT,
)
SUPPRESSION_TARGET = gauge(
    "corewise_suppression_target_cpu_cores",
    "Quota that the steps lead to, raw; no series while there is no target.",
    by=AGENT,
)
SUPPRESSION_ADJUSTMENTS = tally(
    "corewise_suppression_adjustments_total",
    "Changes of a quota by suppression, by direction (down, up).",
    "direction",
    by=AGENT,
)
SUPPRESSION_REPAIRS = tally(
    "corewise_suppression_repairs_total",
    "Quotas of suppression that somebody else had changed, and that were put right.",
    by=AGENT,
)
SUPPRESSION_AT_FLOOR = gauge(
    "corewise_suppression_at_floor",
    "1 while the slice (per-pod-quota: every offline pod) has its smallest quota, else 0.",
    by=AGENT,
)
SUPPRESSION_SLICE_MISSING = gauge(
    "corewise_suppression_slice_missing",
    "1 while suppression is on and kubelet's BestEffort cgroup is not there, else 0.",
    by=AGENT,
)
SUPPRESSION_TASK = gauge(
    "corewise_suppression_task",
    "1 for the task that runs (suppressing, recovering), 0 for the other.",
    "task",
    by=AGENT,
)
SUPPRESSION_UTILIZATION = gauge(
    "corewise_suppression_node_utilization_ratio",
    "CPU used on the node / its raw capacity, over the last interval; 0 to 1.",
    by=AGENT,
)
SUPPRESSION_PODS = gauge(
    "corewise_suppression_suppressed_pods", "Offline pods whose own quota is below their limit.", by=AGENT
)

ROWS: tuple[Metric, ...] = (
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
)
