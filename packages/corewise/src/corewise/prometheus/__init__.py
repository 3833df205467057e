"""Prometheus: :mod:`exposition` exports a program's metrics, :mod:`client` queries a server."""
