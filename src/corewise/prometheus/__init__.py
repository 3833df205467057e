"""Metrics out, as Prometheus reads them; and questions to a Prometheus server, with typed answers and errors.

- :mod:`exposition`: what a program exports;
- :mod:`client`: instant queries; :mod:`errors`: everything that can go wrong with one.
"""
