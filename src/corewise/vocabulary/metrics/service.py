"""Metrics of what several programs do alike: webhooks, certificates, leadership, loops, caches."""

from __future__ import annotations

from corewise.vocabulary.metrics.table import (
    AGENT,
    ALL,
    COMPUTE,
    MANAGER,
    SERVING,
    Metric,
    MetricType,
    counter,
    gauge,
)

EVENTS = counter(
    "corewise_events_total", "Events requested, by reason code, before de-duplication.", "reason", by=SERVING
)
WEBHOOK_REQUESTS = counter(
    "corewise_webhook_requests_total",
    "Admission reviews, by webhook and outcome (allowed, changed, refused, malformed, unavailable, bug).",
    "webhook",
    "outcome",
    by=SERVING,
)
WEBHOOK_SECONDS = Metric(
    "corewise_webhook_duration_seconds",
    MetricType.HISTOGRAM,
    "Time spent in the handler of an admission review.",
    ("webhook",),
    (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1.0),
    SERVING,
)
CONFIG_VALID = gauge(
    "corewise_config_valid",
    "1 if this key of the ConfigMap is without errors or absent, else 0.",
    "key",
    by=f"{MANAGER}, {AGENT}",
)
CERTIFICATE_EXPIRY = gauge(
    "corewise_certificate_expiry_timestamp_seconds",
    "When the webhooks' serving certificate expires.",
    by=SERVING,
)
LEADER = gauge("corewise_leader", "1 on the replica that holds the lease, else 0.", by=SERVING)
LOOP_RESTARTS = counter(
    "corewise_loop_restarts_total",
    "Restarts of a loop after a bug in it.",
    "loop",
    by=f"{ALL}, {COMPUTE}",
)
CACHE_OBJECTS = gauge("corewise_cache_objects", "Objects in a cache.", "resource", by=ALL)
HTTP_REFUSED = counter(
    "corewise_http_refused_total",
    "Connections and requests that an HTTP server refused, by door and cause (connections, handshake, "
    "headers, encoding, unauthenticated, forbidden, unavailable, body-size, all-bodies, body, answer).",
    "door",
    "cause",
    by=f"{ALL}, {COMPUTE}",
)
HTTP_CONNECTIONS = gauge(
    "corewise_http_connections",
    "Open connections of an HTTP server.",
    "door",
    by=f"{ALL}, {COMPUTE}",
)

ROWS: tuple[Metric, ...] = (
    EVENTS,
    WEBHOOK_REQUESTS,
    WEBHOOK_SECONDS,
    CONFIG_VALID,
    CERTIFICATE_EXPIRY,
    LEADER,
    LOOP_RESTARTS,
    CACHE_OBJECTS,
    HTTP_REFUSED,
    HTTP_CONNECTIONS,
)
