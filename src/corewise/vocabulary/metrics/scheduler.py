"""Metrics of the scheduler: extender, binding gate, CPUs claimed twice."""

from __future__ import annotations

from corewise.vocabulary.metrics.table import SCHEDULER, Metric, MetricType, counter, gauge

EXTENDER_REQUESTS = counter(
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
GATE_REFUSALS = counter(
    "corewise_gate_refusals_total", "Bindings refused, by reason code.", "reason", by=SCHEDULER
)
GATE_RESERVATIONS = gauge(
    "corewise_gate_reservations",
    "Bindings let through whose pods have not been seen bound yet.",
    by=SCHEDULER,
)
GATE_EXPIRED = counter(
    "corewise_gate_reservations_expired_total",
    "Bindings let through whose pods were not bound: what was reserved for them is free again.",
    by=SCHEDULER,
)
CPU_CONFLICTS = gauge(
    "corewise_cpu_claim_conflicts",
    "Claims of pods to CPUs that another pod holds, or that their node does not have.",
    by=SCHEDULER,
)

ROWS: tuple[Metric, ...] = (
    EXTENDER_REQUESTS,
    EXTENDER_SECONDS,
    GATE_REFUSALS,
    GATE_RESERVATIONS,
    GATE_EXPIRED,
    CPU_CONFLICTS,
)
