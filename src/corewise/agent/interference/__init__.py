"""What work on this node fights over, measured: memory bandwidth and latency, last-level cache, CPU, memory.

:mod:`collector` looks at the kernel's counters when somebody asks for the metrics, :mod:`latency` probes
memory now and then, :mod:`exposing` says what came of both, and for what is not measured why. Nothing is
written to the node. docs/interference-metrics.md describes the metrics.
"""
