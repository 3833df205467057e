"""Metrics out, as Prometheus reads them."""
