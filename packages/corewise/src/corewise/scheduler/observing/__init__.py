"""Prometheus' values of the nodes, asked for in the background: decisions read the last answers.

- :mod:`sources`: which queries a configuration asks;
- :mod:`readings`: one refresh: from the answers to one value for each node, and why others have none;
- :mod:`observer`: refreshes again and again, and learns each node's latency curve;
- :mod:`diagnosis`: what is wrong with the series, for ``corewise check metrics``.
"""
