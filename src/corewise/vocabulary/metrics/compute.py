"""Metrics of the host agent of OpenStack (``corewise compute run``)."""

from __future__ import annotations

from corewise.vocabulary.metrics.table import COMPUTE, Metric, counter, gauge

COMPUTE_PASSES = counter(
    "corewise_compute_passes_total",
    "Passes of the host agent, by how they ended: done, or a reason code.",
    "result",
    by=COMPUTE,
)
COMPUTE_WRITES = counter(
    "corewise_compute_writes_total",
    "Writes to Placement: inventories, traits, reshape.",
    "kind",
    by=COMPUTE,
)
COMPUTE_CPUS = gauge(
    "corewise_compute_cpus",
    "CPUs of the host (raw CPUs), by resource class: VCPU shared, PCPU dedicated.",
    "class",
    by=COMPUTE,
)
COMPUTE_CPUS_HELD = gauge(
    "corewise_compute_cpus_held",
    "CPUs of the host (raw CPUs) that its guests own.",
    by=COMPUTE,
)
COMPUTE_GUESTS = gauge("corewise_compute_guests", "Guests of the host.", by=COMPUTE)

ROWS: tuple[Metric, ...] = (
    COMPUTE_PASSES,
    COMPUTE_WRITES,
    COMPUTE_CPUS,
    COMPUTE_CPUS_HELD,
    COMPUTE_GUESTS,
)
