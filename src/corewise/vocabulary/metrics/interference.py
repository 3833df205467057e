"""Metrics of memory bandwidth and cache: what the agent measures, and what the scheduler knows of it."""

from __future__ import annotations

from corewise.vocabulary.metrics.table import AGENT, SCHEDULER, Metric, MetricType, counter, gauge, tally

NODE_MEMORY_TRAFFIC = tally(
    "corewise_node_memory_traffic_bytes_total",
    "Bytes moved between the node's CPUs and its memory; rate() of it is the used memory bandwidth.",
    "node",
    by=AGENT,
)
NODE_MEMORY_BANDWIDTH_CAPACITY = gauge(
    "corewise_node_memory_bandwidth_capacity_bytes_per_second",
    "What the node's memory can move at most, by source (dimm: computed from its memory "
    "modules); scheduling counts on seven tenths of it.",
    "node",
    "source",
    by=AGENT,
)
NODE_MEMORY_LATENCY = gauge(
    "corewise_node_memory_latency_seconds",
    "Time of one read from memory past the caches: median of the last probe, by NUMA node of CPU and memory.",
    "node",
    "numa_node",
    by=AGENT,
)
NODE_LLC_OCCUPANCY = gauge("corewise_node_llc_occupancy_bytes", "Last-level cache in use.", "node", by=AGENT)
NODE_LLC_CAPACITY = gauge(
    "corewise_node_llc_capacity_bytes", "Size of all last-level caches of the node.", "node", by=AGENT
)
NODE_INSTRUCTIONS = tally(
    "corewise_node_instructions_total",
    "Instructions retired on all CPUs of the node while the group with the cache misses was counted, scaled.",
    "node",
    by=AGENT,
)
NODE_LLC_MISSES = tally(
    "corewise_node_llc_misses_total",
    "Reads that missed the cache named by the label level (LL: last level; L2: second level, where the "
    "processor counts no other), in the same group.",
    "node",
    "level",
    by=AGENT,
)
NODE_CPU_BUSY = tally(
    "corewise_node_cpu_busy_seconds_total",
    "CPU time that the node's CPUs have used since boot, raw, without what a hypervisor gave to others.",
    "node",
    by=AGENT,
)
NODE_CPUS_ONLINE = gauge(
    "corewise_node_cpus_online", "CPUs online on the node, raw: threads.", "node", by=AGENT
)
NODE_MEMORY_AVAILABLE = gauge(
    "corewise_node_memory_available_bytes", "MemAvailable of the node.", "node", by=AGENT
)
NODE_METRIC_SUPPORTED = gauge(
    "corewise_node_metric_supported",
    "1 if the agent measures this metric (memorybandwidth, memorybandwidth_capacity, memorylatency, "
    "llc_occupancy, llc_capacity, llc_mpki, cpu, memory_available) of the node, with the reason ok; 0 if "
    "not, with the reason code.",
    "node",
    "metric",
    "reason",
    by=AGENT,
)
INTERFERENCE_CONFIG_VALID = gauge(
    "corewise_interference_config_valid",
    "1 if the scheduler uses its configuration file as it is, 0 if it keeps an older state of it.",
    by=SCHEDULER,
)
INTERFERENCE_NODES = gauge(
    "corewise_interference_nodes",
    "Nodes that have a usable value of the metric (fresh), and those that have none by what is wrong "
    "(absent, stale, invalid, ambiguous).",
    "metric",
    "state",
    by=SCHEDULER,
)
INTERFERENCE_AGE = gauge(
    "corewise_interference_metric_age_seconds",
    "Age of the oldest usable value of the metric; no series while there is none.",
    "metric",
    by=SCHEDULER,
)
INTERFERENCE_QUERIES = counter(
    "corewise_interference_queries_total",
    "Queries to Prometheus, by metric and result (ok, failed).",
    "metric",
    "result",
    by=SCHEDULER,
)
INTERFERENCE_UNMATCHED = gauge(
    "corewise_interference_unmatched_series",
    "Series that the metric's query returned and that belong to no node of the cluster.",
    "metric",
    by=SCHEDULER,
)
INTERFERENCE_LAST_REFRESH = gauge(
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
INTERFERENCE_COUNTERWEIGHTS = gauge(
    "corewise_interference_counterweights",
    "Placed pods whose use the metrics may not show yet, and which are counted by their profile.",
    by=SCHEDULER,
)

ROWS: tuple[Metric, ...] = (
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
