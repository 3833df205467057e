"""The contention on this node, measured: memory bandwidth and latency, last-level cache, CPU, memory.

:mod:`collector` reads the kernel's counters, :mod:`latency` probes memory now and then, :mod:`watch` exports
both, and for what is not measured why. Nothing is written to the node. The metrics are described in
docs/guides/interference-metrics.md.
"""
