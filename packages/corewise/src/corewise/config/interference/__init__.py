"""Configuration of memory bandwidth and cache: the section ``interference`` of the scheduler's file.

- :mod:`model`: the configuration as values, in base units: bytes/s, bytes, seconds, milli-CPU, shares of one;
- :mod:`metrics`: the table of metrics: units, presets, queries, rankings;
- :mod:`amounts`: amounts with their units, read exactly;
- :mod:`reading`: the text in, the configuration and all problems out (:func:`parse_interference`).

docs/guides/interference-configuration.md describes every key.
"""
